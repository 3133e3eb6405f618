// Router advertisements that the kernel hands over copies of, in a namespace of the test's own.
// ctest: root=yes resource_lock=network_namespaces timeout=60
#include <corewire/apps/runtime/advertisement_listener.hh>
#include <corewire/net/port/xdp/interface.hh>
#include <corewire/reactor/metrics/registry.hh>

#include "tests/net/stack/ipv6_link.hh"
#include "tests/support/netns.hh"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <linux/if_packet.h>
#include <map>
#include <optional>
#include <sys/socket.h>

using namespace corewire;
using namespace corewire::test;

namespace {

stack_config autoconfigured() {
    stack_config config;
    config.ipv6.emplace().autoconfigure = true;
    return config;
}

/// A stack that hears, beside its own port, what the kernel's interface gets from the other end of a cable.
struct listening {
    explicit listening(const io_options& io = {}) : ears({.clock = &host.clock, .io = io}) {}

    network_namespace ours, router;
    veth_pair link{ours, "", router, ""};
    network_namespace::scope inside{ours};
    ipv6_link host{0, autoconfigured()};
    reactor ears;
    std::optional<advertisement_listener> listener{std::in_place, ears, query_interface(link.first()).index, std::uint16_t{0},
                                                   *host.stack};

    void send(std::uint8_t icmp_type = 134) {
        const ipv6 from = ipv6_link::a6("fe80::99"), to = ipv6::all_nodes();
        std::vector<std::byte> frame(14 + 40 + 16);
        const mac_address group = wire::multicast_mac(to), mac(2, 0, 0, 0, 0, 9);
        wire::ethernet_header{.destination = group, .source = mac, .type = wire::ether_type::ipv6}.emit({frame.data(), 14});
        wire::ipv6_header{.payload_length = 16, .next_header = wire::ip_protocol::icmpv6, .hop_limit = 255, .source = from,
                          .destination = to}
            .emit({frame.data() + 14, 40});
        wire::router_advertisement{.lifetime = 1800, .options = {}}.emit({frame.data() + 54, 16}, from, to);
        frame[54] = std::byte{icmp_type};
        const network_namespace::scope there(router);
        const unique_fd fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
        sockaddr_ll at{};
        at.sll_family = AF_PACKET;
        at.sll_ifindex = static_cast<int>(query_interface(link.second()).index);
        BOOST_REQUIRE(::sendto(fd.get(), frame.data(), frame.size(), 0, reinterpret_cast<const sockaddr*>(&at), sizeof at) ==
                      static_cast<ssize_t>(frame.size()));
    }
    template <typename Condition, typename Step>
    bool eventually(Condition condition, Step step) {
        const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (!condition() && std::chrono::steady_clock::now() < give_up) step();
        return condition();
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(advertisement_listener)

BOOST_AUTO_TEST_CASE(advertisements_reach_the_stack_and_are_counted) {
    if (!have_root()) return;
    listening l;
    metrics_page page{"test", "xdp", 1, ""};
    metric_registry registry{page, 0, ""};
    metric_group group{&registry};
    l.listener->register_metrics(group);
    l.send(133); // a host's question: the kernel's alone
    l.send();
    BOOST_TEST(l.eventually([&] { return l.listener->statistics().heard == 1; }, [&] { l.ears.poll_once(); }));
    l.host.pass(std::chrono::milliseconds{1});
    BOOST_TEST(l.host.stack->ip().six()->automatic()->statistics().advertisements == 1u);
    registry.publish(0, page::series_capacity);
    std::vector<catalog_entry> all;
    registry.catalog(0, page::series_capacity, all);
    std::map<std::string, std::uint64_t> values;
    for (std::uint32_t id = 0; id < all.size(); ++id) values[all[id].name] = registry.value(id);
    BOOST_TEST(values.size() == 2u);
    BOOST_TEST(values["corewire_router_advertisements_heard_total"] == 1u);
    BOOST_TEST(values["corewire_router_advertisements_dropped_total"] == 0u);
}

BOOST_AUTO_TEST_CASE(it_ends_though_an_advertisement_has_come_that_nobody_has_looked_at) {
    if (!have_root()) return;
    listening l;
    l.ears.poll_once(); // the kernel has the request
    l.send();
    io_uring& ring = l.ears.io().native();
    BOOST_TEST(l.eventually([&] { return io_uring_cq_ready(&ring) != 0; }, [&] { io_uring_get_events(&ring); }));
    l.listener.reset(); // too late to be cancelled; it waits for what is in the kernel
    BOOST_TEST(l.ears.io().in_kernel() == 0u);
}

BOOST_AUTO_TEST_CASE(without_io_uring_it_hears_all_the_same) {
    if (!have_root()) return;
    listening l({.allow_uring = false});
    for (unsigned i = 1; i <= 20; ++i) {
        l.send();
        BOOST_TEST(l.eventually([&] { return l.listener->statistics().heard == i; }, [&] { l.ears.poll_once(); }));
    }
    l.host.pass(std::chrono::milliseconds{1});
    BOOST_TEST(l.host.stack->ip().six()->automatic()->statistics().advertisements == 20u);
    l.send(); // which nobody has looked at
    l.listener.reset();
    BOOST_TEST(l.ears.io().in_kernel() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
