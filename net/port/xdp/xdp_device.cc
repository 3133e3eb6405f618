#include <corewire/net/port/xdp/xdp_device.hh>

#include <corewire/net/port/xdp/steer_maps.h>
#include <corewire/net/port/xdp/xdp_queue.hh>
#include <corewire/reactor/base/unique_fd.hh>

#include <steer.skel.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <cstring>
#include <linux/if_link.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

namespace corewire {

namespace {

[[noreturn]] void fail(int error, const std::string& what) { throw std::system_error(error, std::generic_category(), what); }

/// Memory registered with a socket counts against RLIMIT_MEMLOCK, 8 MiB by default: as far up as we are allowed.
void raise_memory_lock_limit() {
    rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_MEMLOCK, &limit) == 0) return;
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_MEMLOCK, &limit);
}

/// Sockets of Linux 6.6 and later take frames in pieces. A kernel looks at the flags before it looks for the interface, and
/// there is none with index 0.
bool kernel_takes_pieces() {
    const unique_fd probe(::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
    if (!probe) return true; // the port will say why
    sockaddr_xdp at{};
    at.sxdp_family = AF_XDP;
    at.sxdp_flags = XDP_USE_SG;
    return ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0 || errno != EINVAL;
}

int quiet(libbpf_print_level, const char*, va_list) { return 0; }

cw_flow_key key_of(const steered_flow& flow) {
    cw_flow_key key{};
    const auto set = [](cw_ipv6_key& to, const net_address& address) {
        if (address.is_any()) return;
        store_be64(reinterpret_cast<std::byte*>(to.octets), address.high());
        store_be64(reinterpret_cast<std::byte*>(to.octets) + 8, address.low());
    };
    set(key.local_address, flow.local);
    set(key.remote_address, flow.remote);
    key.local_port = host_to_be(flow.local_port);
    key.remote_port = host_to_be(flow.remote_port);
    key.protocol = flow.protocol;
    return key;
}

constexpr std::uint8_t present = 1;

} // namespace

xdp_device::xdp_device(xdp_device_options options)
    : options_(std::move(options)), info_(query_interface(options_.interface)), program_(nullptr, steer::destroy),
      pieces_(options_.pieces) {
    if (!info_.up) {
        fail(ENETDOWN, "the interface '" + options_.interface + "' is down (`ip link set " + options_.interface + " up`)");
    }
    // On veth that setting says nothing: there the sender's end decides.
    if (options_.vlan != 0 && info_.strips_vlan_tags && !on_veth()) {
        fail(ENOTSUP, "the interface '" + options_.interface + "' takes VLAN tags off before they can be seen (`ethtool -K " +
                          options_.interface + " rxvlan off`)");
    }
    if (pieces() && !kernel_takes_pieces()) {
        if (pieces_ == xdp_pieces::on) {
            fail(ENOTSUP, "this kernel hands over no frames in pieces (it needs Linux 6.6 or later): leave --xdp-pieces out, and have "
                          "local senders send none (`ethtool -K THEIR_END tso off gso off`)");
        }
        pieces_ = xdp_pieces::off;
        pieces_missing_ = true;
    }
    libbpf_set_print(quiet);
    raise_memory_lock_limit();
    load();
    attach();
}

xdp_device::~xdp_device() {
    if (link_ >= 0) ::close(link_);
}

void xdp_device::load() {
    program_.reset(steer::open());
    if (!program_) fail(errno, "cannot open the XDP program");
    program_->rodata->steering = static_cast<__u32>(options_.steering);
    program_->rodata->vlan = options_.vlan;
    int error = pieces() ? steer::load(program_.get()) : -EINVAL;
    if (error == 0) return;
    // The kernel may know no programs for frames in pieces (before 5.18).
    program_.reset(steer::open());
    if (!program_) fail(errno, "cannot open the XDP program");
    program_->rodata->steering = static_cast<__u32>(options_.steering);
    program_->rodata->vlan = options_.vlan;
    bpf_program__set_autoload(program_->progs.steer_pieces, false);
    pieces_ = xdp_pieces::off;
    error = steer::load(program_.get());
    if (error == 0) return;
    if (error == -EPERM || error == -EACCES) {
        fail(-error, "loading an XDP program needs CAP_BPF and CAP_NET_ADMIN: run as root, or choose --net=kernel");
    }
    fail(-error, "the kernel refused the XDP program (it needs Linux 5.9 or later with CONFIG_BPF_SYSCALL and "
                 "CONFIG_XDP_SOCKETS)");
}

bool xdp_device::try_attach(bool generic, bool pieces) {
    const bpf_program* program = pieces ? program_->progs.steer_pieces : program_->progs.steer;
    bpf_link_create_opts how{};
    how.sz = sizeof how;
    how.flags = generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE;
    const int link = ::bpf_link_create(bpf_program__fd(program), static_cast<int>(info_.index), BPF_XDP, &how);
    if (link < 0) return false;
    link_ = link;
    generic_ = generic;
    attached_for_pieces_ = pieces;
    return true;
}

void xdp_device::expect_pieces() noexcept {
    if (pieces_ != xdp_pieces::automatic || attached_for_pieces_.exchange(true)) return;
    const int program = bpf_program__fd(program_->progs.steer_pieces);
    // Refused: things stay as they are. In generic mode the kernel then makes such frames whole first, and cuts them again.
    static_cast<void>(::bpf_link_update(link_, program, nullptr));
}

void xdp_device::attach() {
    const bool prefer_generic =
        options_.mode == xdp_mode::generic || (options_.mode == xdp_mode::automatic && on_veth());
    const bool may_fall_back = options_.mode == xdp_mode::automatic;
    // A driver may refuse the one program at an MTU at which it takes the other.
    const bool pieces_first = pieces_ == xdp_pieces::on;
    for (const bool pieces : {pieces_first, !pieces_first}) {
        if (pieces && !this->pieces()) continue;
        if (try_attach(prefer_generic, pieces)) return;
        if (errno == EBUSY || errno == EEXIST || errno == EPERM) break;
        if (may_fall_back && try_attach(!prefer_generic, pieces)) return;
        if (errno == EBUSY || errno == EEXIST || errno == EPERM) break;
    }
    const int error = errno;
    const std::string& name = options_.interface;
    if (error == EBUSY || error == EEXIST) {
        fail(EBUSY, "another XDP program is attached to '" + name + "': end the program that put it there, or `ip link "
                    "set " + name + " xdp off`");
    }
    if (error == EPERM) fail(error, "attaching an XDP program needs CAP_NET_ADMIN: run as root, or choose --net=kernel");
    if (options_.mode == xdp_mode::native) {
        fail(error, "the driver of '" + name + "' takes no XDP program here (its MTU is " + std::to_string(info_.mtu) +
                    "): choose the generic mode, or lower the MTU");
    }
    fail(error, "cannot attach an XDP program to '" + name + "'");
}

void xdp_device::own(ipv4 address) {
    const std::uint32_t key = host_to_be(address.value());
    if (::bpf_map_update_elem(bpf_map__fd(program_->maps.addresses_v4), &key, &present, BPF_ANY) != 0) {
        fail(errno, "cannot steer " + to_string(address) + " to us (at most 256 addresses)");
    }
}

void xdp_device::own(const ipv6& address) {
    if (::bpf_map_update_elem(bpf_map__fd(program_->maps.addresses_v6), address.octets().data(), &present, BPF_ANY) != 0) {
        fail(errno, "cannot steer " + to_string(address) + " to us (at most 256 addresses)");
    }
}

int xdp_device::own_flow(const steered_flow& flow) noexcept {
    const cw_flow_key key = key_of(flow);
    if (::bpf_map_update_elem(bpf_map__fd(program_->maps.flows), &key, &present, BPF_ANY) == 0) return 0;
    return errno == E2BIG || errno == ENOMEM ? ENOBUFS : errno;
}

namespace {

/// As steer.bpf.c looks for it: in the place of the local address stands the number.
steered_flow dhcp_answers(std::uint32_t transaction) noexcept {
    return {.protocol = 17, .local = ipv4(transaction), .local_port = 68, .remote_port = 67};
}

} // namespace

bool xdp_device::own_dhcp(std::uint32_t transaction) noexcept { return own_flow(dhcp_answers(transaction)) == 0; }
void xdp_device::disown_dhcp(std::uint32_t transaction) noexcept { disown_flow(dhcp_answers(transaction)); }

void xdp_device::disown(ipv4 address) noexcept {
    const std::uint32_t key = host_to_be(address.value());
    ::bpf_map_delete_elem(bpf_map__fd(program_->maps.addresses_v4), &key);
}

void xdp_device::disown(const ipv6& address) noexcept {
    ::bpf_map_delete_elem(bpf_map__fd(program_->maps.addresses_v6), address.octets().data());
}

void xdp_device::disown_flow(const steered_flow& flow) noexcept {
    const cw_flow_key key = key_of(flow);
    ::bpf_map_delete_elem(bpf_map__fd(program_->maps.flows), &key);
}

} // namespace corewire
