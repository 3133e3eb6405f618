// --net=verbs-ud: what a program makes of a fake device, on one shard and on two.
#include <corewire/apps/runtime/network_setup.hh>
#include <corewire/apps/runtime/setup_error.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/rdma/fake/nic.hh>
#include <corewire/rdma/ud_link/ud_port.hh>

#include "tests/rdma/support.hh"
#include "tests/support/virtual_clock.hh"

using namespace corewire;

namespace {

network_options options_of(const std::string& device, std::uint8_t host) {
    network_options o;
    o.net = network_kind::verbs_ud;
    o.interface = device; // a device's name will do
    o.address = ip_prefix(ipv4(10, 0, 0, host), 24);
    return o;
}

network_plan plan_for(unsigned shards) {
    network_plan plan{.kind = network_kind::verbs_ud, .shards = shards};
    plan.verbs = &fake::api();
    return plan;
}

fake::nic_options nic_of(const std::string& name, std::uint8_t number) {
    return {.name = name, .mac = mac_address(0x02'00'00'00'02'00 | number), .addresses = {ipv4(192, 0, 2, number)}};
}

} // namespace

BOOST_AUTO_TEST_SUITE(ud_network)

BOOST_AUTO_TEST_CASE(one_shard_gets_a_stack_on_a_verbs_ud_port_and_leaves_nothing) {
    fake::nic nic(nic_of("fake0", 1));
    virtual_clock clock;
    reactor loop({.clock = &clock});
    {
        const reactor::scope here(loop);
        network_setup setup(options_of("fake0", 1), plan_for(1));
        setup.set_up(0);
        BOOST_TEST(setup.device(0)->name() == "verbs-ud:fake0/0");
        BOOST_TEST(setup.device(0)->mtu() == 1020u);
        loop.poll_once();
        BOOST_TEST(nic.statistics().datagrams_sent != 0u); // it asks for its address
        nic.remove();
        clock.advance(std::chrono::milliseconds{2});
        loop.poll_once();
        loop.poll_once();
        BOOST_TEST(!dynamic_cast<ud_port&>(*setup.device(0)).usable());
        setup.tear_down(0);
    }
    BOOST_TEST(nic.live_objects() == 0u);
    BOOST_TEST(nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(each_shard_of_two_reaches_a_host_that_only_the_first_has_heard_of) {
    fake::nic near(nic_of("fake0", 1)), far(nic_of("fake1", 2));
    virtual_clock clock;
    reactor first({.clock = &clock}), second({.clock = &clock}), other({.clock = &clock});
    {
        network_setup setup(options_of("fake0", 1), plan_for(2)), peer(options_of("fake1", 2), plan_for(1));
        const auto on = [](reactor& loop, auto what) {
            const reactor::scope here(loop);
            what();
        };
        on(first, [&] { setup.set_up(0); });
        on(second, [&] { setup.set_up(1); });
        on(other, [&] { peer.set_up(0); });
        BOOST_TEST((setup.device(0)->mac() == setup.device(1)->mac()));
        const auto turn = [&] {
            for (int i = 0; i < 20; ++i) {
                clock.advance(std::chrono::milliseconds{200});
                for (reactor* each : {&first, &second, &other}) on(*each, [&] { each->poll_once(); });
            }
        };
        turn();
        for (unsigned shard : {1u, 0u}) { // an echo request of each shard's; answers to what is nobody's flow meet on shard 0
            reactor& loop = shard == 0 ? first : second;
            const std::uint64_t before = peer.stack(0)->icmp().statistics().echo_requests;
            on(loop, [&] {
                packet p;
                p.head = setup.device(shard)->pool().allocate_buffer();
                std::byte* const ip = p.head.append(28);
                const wire::ipv4_header header{.total_length = 28, .protocol = wire::ip_protocol::icmp, .source = ipv4(10, 0, 0, 1),
                                               .destination = ipv4(10, 0, 0, 2)};
                header.emit({ip, 28});
                store_be32(ip + 20, 0x0800'f7ff);
                store_be32(ip + 24, 0);
                setup.stack(shard)->ip().send(loop.now(), std::move(p), ipv4(10, 0, 0, 2));
            });
            turn();
            BOOST_TEST(peer.stack(0)->icmp().statistics().echo_requests == before + 1);
        }
        on(first, [&] { setup.tear_down(0); });
        on(second, [&] { setup.tear_down(1); });
        on(other, [&] { peer.tear_down(0); });
    }
    BOOST_TEST(near.live_objects() == 0u);
    BOOST_TEST(near.violations().empty());
    BOOST_TEST(far.violations().empty());
}

BOOST_AUTO_TEST_CASE(options_that_cannot_work_are_refused_in_a_sentence) {
    network_options o = options_of("fake0", 1);
    o.interface.clear();
    const auto said = [&](bool ports_only) {
        try {
            check_network_options(o, ports_only);
        } catch (const setup_error& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    BOOST_TEST(test::mentions(said(false), "--device"));
    o.device = "fake0";
    BOOST_TEST(said(false).empty());
    BOOST_TEST(test::mentions(said(true), "bare frames"));
    o.address.reset();
    BOOST_TEST(test::mentions(said(false), "--address"));
    o.vlan = 7;
    BOOST_TEST(test::mentions(said(false), "--vlan"));
    const std::string nobody = test::sentence_of([] { network_setup(options_of("fake9", 1), plan_for(1)); });
    BOOST_TEST(test::mentions(nobody, "fake9"));
}

BOOST_AUTO_TEST_SUITE_END()
