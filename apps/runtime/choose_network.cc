#include <corewire/apps/runtime/choose_network.hh>

#include <corewire/apps/runtime/setup_error.hh>
#include <corewire/reactor/base/unique_fd.hh>

#include <cstdint>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <linux/capability.h>
#include <net/if.h>

namespace corewire {

namespace {

/// The process's effective capabilities, from /proc; none if it cannot be read.
std::uint64_t effective_capabilities() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("CapEff:")) return std::stoull(line.substr(7), nullptr, 16);
    return 0;
}

network_choice best_of(const network_options& o, const host_facts& facts) {
    using enum network_kind;
    const bool wants_stack = o.has_address() || o.shared;
    if (facts.interface_exists && wants_stack)
        return facts.may_administer
                   ? network_choice{xdp, fmt::format("{} is a network interface, and this process may attach to it", o.interface)}
                   : network_choice{kernel, fmt::format("attaching to {} needs root (CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF)",
                                                        o.interface)};
    if (facts.interface_exists)
        return {kernel, fmt::format("using {} needs --address A.B.C.D/LENGTH (or --shared) as well", o.interface)};
    if (o.shared && !o.interface.empty()) // a mistyped one: a new device would have an address that the kernel has elsewhere
        throw setup_error(fmt::format("--interface {}: there is none of that name, and --shared needs one of the kernel's (`ip link`)",
                                      o.interface));
    if (o.shared) return {kernel, "--shared needs an --interface of the kernel's as well"};
    if (o.has_address() && facts.may_make_taps)
        return {tap, o.interface.empty() ? "there is an --address and no --interface"
                                         : fmt::format("there is no interface {} yet", o.interface)};
    if (o.has_address()) return {kernel, "making a tap interface needs root (CAP_NET_ADMIN) and /dev/net/tun"};
    return {kernel, "there is no --interface and no --address"};
}

} // namespace

host_facts host_facts::detect(const network_options& options) {
    const std::uint64_t capabilities = effective_capabilities();
    const auto has = [&](unsigned capability) { return (capabilities >> capability & 1) != 0; };
    const bool admin = has(CAP_NET_ADMIN);
    return {.may_administer = admin && has(CAP_NET_RAW) && (has(CAP_BPF) || has(CAP_SYS_ADMIN)),
            .may_make_taps = admin && unique_fd(::open("/dev/net/tun", O_RDWR | O_CLOEXEC)),
            .interface_exists = !options.interface.empty() && ::if_nametoindex(options.interface.c_str()) != 0};
}

network_choice choose_network(const network_options& o, const host_facts& facts) {
    if (o.net != network_kind::automatic) return {o.net, {}};
    return best_of(o, facts);
}

} // namespace corewire
