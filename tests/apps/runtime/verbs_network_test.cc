// --net=verbs: what a program makes of a fake NIC, on one shard and on two.
#include <corewire/apps/runtime/network_setup.hh>
#include <corewire/apps/runtime/setup_error.hh>
#include <corewire/apps/runtime/verbs_network.hh>
#include <corewire/net/port/rss.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/net/stack/shard_steering.hh>
#include <corewire/rdma/fake/nic.hh>
#include <corewire/rdma/raw/verbs_port.hh>

#include "tests/rdma/support.hh"
#include "tests/support/virtual_clock.hh"

using namespace corewire;

namespace {

network_options verbs_options() {
    network_options o;
    o.net = network_kind::verbs;
    o.device = "fake0";
    o.address = ip_prefix(ipv4(10, 0, 0, 1), 24);
    return o;
}

network_plan plan_for(unsigned shards, bool ports_only = false) {
    network_plan plan{.kind = network_kind::verbs, .shards = shards, .ports_only = ports_only};
    plan.verbs = &fake::api();
    return plan;
}

} // namespace

BOOST_AUTO_TEST_SUITE(verbs_network)

BOOST_AUTO_TEST_CASE(one_shard_gets_a_stack_on_a_verbs_port_and_leaves_nothing) {
    fake::nic nic;
    virtual_clock clock;
    reactor loop({.clock = &clock});
    {
        const reactor::scope here(loop);
        network_setup setup(verbs_options(), plan_for(1));
        setup.set_up(0);
        BOOST_TEST(setup.device(0)->name() == "verbs:fake0/0");
        BOOST_TEST(setup.stack(0) != nullptr);
        loop.poll_once();
        BOOST_TEST(nic.statistics().frames_sent != 0u); // it announces its address
        nic.remove();
        clock.advance(std::chrono::milliseconds{2});
        loop.poll_once();
        loop.poll_once();
        BOOST_TEST(!dynamic_cast<verbs_port&>(*setup.device(0)).usable());
        setup.tear_down(0);
    }
    BOOST_TEST(nic.live_objects() == 0u);
    BOOST_TEST(nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(two_shards_receive_the_flows_that_they_own) {
    fake::nic nic;
    virtual_clock clock;
    reactor loops[2]{reactor({.clock = &clock, .shard = 0}), reactor({.clock = &clock, .shard = 1})};
    network_setup setup(verbs_options(), plan_for(2, true));
    for (unsigned i = 0; i < 2; ++i) {
        const reactor::scope here(loops[i]);
        setup.set_up(i);
    }
    const auto steering = shard_steering::make(2, 16);
    unsigned counts[2] = {};
    for (std::uint16_t port = 1; port <= 200; ++port) {
        const ipv4 peer(10, 0, 0, 2), host(10, 0, 0, 1);
        nic.deliver(test::udp_frame(setup.device(0)->mac(), peer, port, host, 7));
        const unsigned owner = steering[0]->owner(
            {.local_address = host.value(), .remote_address = peer.value(), .local_port = 7, .remote_port = port});
        std::array<packet, 4> in;
        BOOST_REQUIRE(setup.device(owner)->receive(in) == 1u);
        BOOST_REQUIRE(setup.device(1 - owner)->receive(in) == 0u);
        ++counts[owner];
    }
    BOOST_TEST(counts[0] > 50u);
    BOOST_TEST(counts[1] > 50u);
    std::vector<std::byte> request(60, std::byte{0xff});
    store_be16(request.data() + 12, 0x0806);
    nic.deliver(request);
    {
        std::array<packet, 4> in;                       // goes before the pools that its frames are of
        BOOST_TEST(setup.device(0)->receive(in) == 1u); // ARP is shard 0's to share
        BOOST_TEST(nic.statistics().to_kernel == 1u);   // and the kernel's too
    }
    for (unsigned i = 0; i < 2; ++i) {
        const reactor::scope here(loops[i]);
        setup.tear_down(i);
    }
    BOOST_TEST(nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(what_a_device_lacks_is_said) {
    fake::nic single({.name = "fake0", .spreading = false});
    BOOST_CHECK_EXCEPTION(network_setup(verbs_options(), plan_for(2)), setup_error,
                          [](const setup_error& e) { return std::string(e.what()).find("--cores=1") != std::string::npos; });
    network_options shared = verbs_options();
    shared.shared = true;
    BOOST_CHECK_THROW(network_setup(shared, plan_for(1)), setup_error);
    fake::nic forbidden({.name = "fake1", .may_send_raw = false});
    network_options o = verbs_options();
    o.device = "fake1";
    BOOST_TEST(test::mentions(test::sentence_of([&] { network_setup(o, plan_for(1)); }), "CAP_NET_RAW"));
}

BOOST_AUTO_TEST_CASE(a_host_without_devices_is_told_what_to_do) {
    const std::string said = test::sentence_of([] { network_setup(verbs_options(), {.kind = network_kind::verbs}); });
    BOOST_TEST(test::mentions(said, "RDMA device"));
}

BOOST_AUTO_TEST_SUITE_END()
