// Who follows the kernel's routes and neighbours in a namespace of a test's own, and has it change them.
#pragma once

#include <corewire/net/netlink/kernel_mirror.hh>
#include <corewire/net/port/xdp/interface.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <tests/support/netns.hh>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <new>
#include <span>
#include <string>
#include <vector>

namespace mirror_test {

using namespace corewire;
using namespace corewire::netlink;
using corewire::test::have_ipv6;
using corewire::test::network_namespace;
using corewire::test::veth_pair;

struct notes final : kernel_follower {
    void on_routes(std::span<const route_change> now) override {
        if (routes_refused != 0 && routes_refused-- != 0) throw std::bad_alloc();
        routes.assign(now.begin(), now.end());
        ++times;
        fewest = std::min(fewest, routes.size());
    }
    void on_route_refused(const route_change&) override { ++left_out; }
    void on_neighbor(const neighbor_change& n) override {
        if (refuse_during_resync && *refuse_during_resync != 0) refuse_during_resync = nullptr, throw std::bad_alloc();
        neighbors[to_string(n.address)] = n;
    }
    void on_address_gone(const net_address& address) override { gone += address.is_v4() ? 1 : 100; }
    void on_link_mtu(std::uint32_t bytes) override { link_mtu = bytes; }
    std::uint32_t link_mtu = 0;
    std::vector<route_change> routes;
    std::map<std::string, neighbor_change> neighbors;
    int gone = 0, left_out = 0;
    int times = 0;             ///< that routes were told
    std::size_t fewest = 1000; ///< routes that were ever told
    int routes_refused = 0;    ///< so often there is no memory for them
    const std::uint64_t* refuse_during_resync = nullptr;

    const route_change* to(const prefix& destination) const {
        const auto found = std::ranges::find(routes, destination, &route_change::destination);
        return found == routes.end() ? nullptr : &*found;
    }
    std::ptrdiff_t of_ipv4() const {
        return std::ranges::count_if(routes, [](const route_change& r) { return r.destination.is_v4(); });
    }
    neighbor_word word(const net_address& a) const {
        const auto found = neighbors.find(to_string(a));
        return found == neighbors.end() ? neighbor_word::unknown : found->second.word;
    }
};

inline bool kernel_has_ipv6() { return std::filesystem::exists("/proc/sys/net/ipv6"); }

/// Where such namespaces have none.
inline void with_ipv6(const network_namespace& at, const std::string& device, const std::string& address) {
    if (!kernel_has_ipv6()) return;
    at.check("echo 0 >/proc/sys/net/ipv6/conf/" + device + "/disable_ipv6");
    at.check("ip address add " + address + " dev " + device + " nodad");
}

struct followed {
    explicit followed(const io_options& by = {}) : io(by) {}

    const io_options io;
    network_namespace ours, peer;
    veth_pair link{ours, "10.9.0.1/24", peer, "10.9.0.2/24"};
    network_namespace::scope inside{ours};
    reactor loop{{.io = io}};
    reactor::scope here{loop};
    notes told;
    unsigned interface = (with_ipv6(ours, link.first(), "2001:db8::1/64"), query_interface(link.first()).index);
    const std::vector<net_address> addresses = kernel_has_ipv6() ? std::vector<net_address>{us, us6()} : std::vector<net_address>{us};
    corewire::kernel_mirror mirror{loop, interface, addresses, told};

    static constexpr ipv4 us{10, 9, 0, 1}, them{10, 9, 0, 2}, nobody{10, 9, 0, 99};

    static ipv6 us6() { return *ipv6::parse("2001:db8::1"); }

    template <typename Condition>
    bool eventually(Condition condition) {
        const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (!condition() && std::chrono::steady_clock::now() < give_up) loop.poll_once();
        return condition();
    }
    void ip(const std::string& what) { ours.check("ip " + what); }
    /// Routes to 198.51.0.0/16 that lead on.
    std::ptrdiff_t led() const {
        return std::ranges::count_if(told.routes, [](const route_change& r) {
            return r.destination.is_v4() && ip_prefix(ipv4(198, 51, 0, 0), 16).contains(r.destination.address.v4()) && !r.refuses;
        });
    }
};

/// With an interface that is not ours; what goes to 198.51.100.0/24 is looked at.
struct two_links : followed {
    two_links() {
        ip("link add other0 type veth peer name other1");
        ip("address add 10.8.0.1/24 dev other0");
        ip("link set other1 up");
        ip("link set other0 up");
    }
    /// Last octets of the gateways.
    std::string ways() const {
        std::string out;
        for (const route_change& r : told.routes)
            if (r.destination == prefix(ip_prefix(ipv4(198, 51, 100, 0), 24)))
                out += (out.empty() ? "" : " ") + std::to_string(r.gateway.v4().value() & 255);
        return out;
    }
    /// What the kernel has said before has been heard, too.
    bool become(const std::string& wanted) {
        const prefix mark(ip_prefix(ipv4(203, 0, 113, 0), 24));
        ip("route add 203.0.113.0/24 via 10.9.0.2");
        const bool heard = eventually([&] { return told.to(mark) != nullptr; });
        ip("route del 203.0.113.0/24");
        return heard && eventually([&] { return told.to(mark) == nullptr && ways() == wanted; });
    }
};

} // namespace mirror_test
