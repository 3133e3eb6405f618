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

BOOST_AUTO_TEST_CASE(over_ipv6_two_shards_receive_the_flows_that_they_own_and_all_hear_neighbour_discovery) {
    fake::nic nic;
    virtual_clock clock;
    reactor loops[2]{reactor({.clock = &clock, .shard = 0}), reactor({.clock = &clock, .shard = 1})};
    network_options options = verbs_options();
    options.address6 = *ipv6_prefix::parse("2001:db8::1/64");
    network_setup setup(options, plan_for(2));
    for (unsigned i = 0; i < 2; ++i) {
        const reactor::scope here(loops[i]);
        setup.set_up(i);
    }
    const ipv6 host = options.address6->address();
    const auto steering = shard_steering::make(2, 16);
    const auto frames = [&](unsigned shard) { return setup.device(shard)->statistics().received_packets; };
    const auto turn = [&] {
        for (reactor& loop : loops) loop.poll_once();
    };
    unsigned counts[2] = {};
    turn();
    for (std::uint16_t port = 1; port <= 200; ++port) {
        const ipv6 peer = wire::with_identifier(host, 0x100u + port % 7);
        const std::uint64_t before[2] = {frames(0), frames(1)};
        nic.deliver(test::udp_frame(setup.device(0)->mac(), peer, port, host, 7));
        turn();
        const unsigned owner = steering[0]->owner(flow_name(host, peer, 7, port));
        BOOST_REQUIRE(frames(owner) == before[owner] + 1);
        BOOST_REQUIRE(frames(1 - owner) == before[1 - owner]);
        ++counts[owner];
    }
    BOOST_TEST(counts[0] > 50u);
    BOOST_TEST(counts[1] > 50u);
    const std::uint64_t kernels = nic.statistics().to_kernel;
    nic.deliver(test::udp_frame(setup.device(0)->mac(), host, 7, *ipv6::parse("2001:db8::55"), 7));
    BOOST_TEST(nic.statistics().to_kernel == kernels + 1); // another's address
    const std::uint64_t heard = frames(0) + frames(1);
    for (const ipv6& group : {host.solicited_node(), ipv6::all_nodes()})
        nic.deliver(test::udp_frame(wire::multicast_mac(group), *ipv6::parse("fe80::9"), 7, group, 7));
    turn();
    BOOST_TEST(frames(0) + frames(1) == heard + 2);
    BOOST_TEST(nic.statistics().to_kernel == kernels + 3); // copies
    for (unsigned i = 0; i < 2; ++i) {
        const reactor::scope here(loops[i]);
        setup.tear_down(i);
    }
    BOOST_TEST(nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(in_a_vlan_two_shards_receive_the_flows_that_they_own) { // --vlan
    fake::nic nic;
    virtual_clock clock;
    reactor loops[2]{reactor({.clock = &clock, .shard = 0}), reactor({.clock = &clock, .shard = 1})};
    network_options options = verbs_options();
    options.vlan = 7;
    network_setup setup(options, plan_for(2));
    for (unsigned i = 0; i < 2; ++i) {
        const reactor::scope here(loops[i]);
        setup.set_up(i);
    }
    const auto tagged = [](std::vector<std::byte> frame, std::uint16_t vlan) {
        const std::byte tag[4] = {std::byte{0x81}, std::byte{0}, static_cast<std::byte>(vlan >> 8), static_cast<std::byte>(vlan)};
        frame.insert(frame.begin() + 12, tag, tag + 4);
        return frame;
    };
    const auto frames = [&](unsigned shard) { return setup.device(shard)->statistics().received_packets; };
    const auto turn = [&] {
        for (reactor& loop : loops) loop.poll_once();
    };
    turn();
    const auto steering = shard_steering::make(2, 16);
    const ipv4 peer(10, 0, 0, 2), host(10, 0, 0, 1);
    unsigned counts[2] = {};
    for (std::uint16_t port = 1; port <= 100; ++port) {
        const std::uint64_t before[2] = {frames(0), frames(1)};
        nic.deliver(tagged(test::udp_frame(setup.device(0)->mac(), peer, port, host, 7), 7));
        turn();
        const unsigned owner = steering[0]->owner(
            {.local_address = host.value(), .remote_address = peer.value(), .local_port = 7, .remote_port = port});
        BOOST_REQUIRE(frames(owner) == before[owner] + 1);
        BOOST_REQUIRE(frames(1 - owner) == before[1 - owner]);
        ++counts[owner];
    }
    BOOST_TEST((counts[0] > 20u && counts[1] > 20u));
    const std::uint64_t heard = frames(0) + frames(1), kernels = nic.statistics().to_kernel;
    nic.deliver(test::udp_frame(setup.device(0)->mac(), peer, 1, host, 7));
    nic.deliver(tagged(test::udp_frame(setup.device(0)->mac(), peer, 1, host, 7), 8));
    std::vector<std::byte> request(60, std::byte{0xff});
    store_be16(request.data() + 12, 0x0806);
    nic.deliver(request); // another network's
    turn();
    BOOST_TEST(frames(0) + frames(1) == heard);
    BOOST_TEST(nic.statistics().to_kernel == kernels + 3);
    nic.deliver(tagged(request, 7));
    turn();
    BOOST_TEST(frames(0) == heard - frames(1) + 1);
    BOOST_TEST(nic.statistics().to_kernel == kernels + 4); // a copy
    for (unsigned i = 0; i < 2; ++i) {
        const reactor::scope here(loops[i]);
        setup.tear_down(i);
    }
    BOOST_TEST(nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(a_sleeping_core_is_woken_by_so_many_frames_at_a_time_if_that_is_wanted) { // --moderation-us
    fake::nic nic;
    virtual_clock clock;
    reactor loop({.clock = &clock});
    network_options options = verbs_options();
    options.moderation_us = 20;
    {
        const reactor::scope here(loop);
        {
            network_setup setup(options, plan_for(1));
            setup.set_up(0);
            BOOST_TEST(nic.statistics().moderated_us == 20u);
            setup.tear_down(0);
        }
        nic.fail_calls("modify_cq", EOPNOTSUPP);
        network_setup refused(options, plan_for(1));
        BOOST_TEST(test::mentions(test::sentence_of([&] { refused.set_up(0); }), "leave --moderation-us out"));
        refused.tear_down(0);
    }
    BOOST_TEST(nic.live_objects() == 0u);
}

BOOST_AUTO_TEST_CASE(an_address_that_a_router_says_is_steered_to_us_while_it_lives) { // --slaac
    fake::nic nic;
    virtual_clock clock;
    reactor loop({.clock = &clock});
    network_options options = verbs_options();
    options.address.reset();
    options.slaac = true;
    {
        const reactor::scope here(loop);
        network_setup setup(options, plan_for(1));
        setup.set_up(0);
        const auto pass = [&](std::chrono::seconds time) {
            const time_point until = clock.now() + time;
            for (; clock.now() < until; loop.poll_once()) clock.advance(std::chrono::milliseconds{50});
        };
        ipv6_output& six = *setup.stack(0)->ip().six();
        BOOST_REQUIRE(six.addresses().all().size() == 1u); // the link-local one, which is not the kernel's
        BOOST_TEST((six.addresses().all()[0].address != wire::link_local_address(setup.device(0)->mac())));
        pass(std::chrono::seconds{3});
        BOOST_REQUIRE(six.addresses().all()[0].usable());

        const ipv6 router = *ipv6::parse("fe80::99"), prefix = *ipv6::parse("2001:db8:1::");
        std::vector<std::byte> option(32), message(16 + 32);
        option[0] = std::byte{3};
        option[1] = std::byte{4};
        option[2] = std::byte{64};
        option[3] = std::byte{0xc0};
        store_be32(option.data() + 4, 20); // valid for seconds: an address that is new takes any
        store_be32(option.data() + 8, 10);
        prefix.store(option.data() + 16);
        wire::router_advertisement{.lifetime = 1800, .options = option}.emit(message, router, ipv6::all_nodes());
        auto frame = test::udp_frame(wire::multicast_mac(ipv6::all_nodes()), router, 0, ipv6::all_nodes(), 0, 40);
        frame[14 + 6] = std::byte{58};
        frame[14 + 7] = std::byte{255};
        std::memcpy(frame.data() + 54, message.data(), message.size());
        nic.deliver(frame);
        pass(std::chrono::seconds{3});
        BOOST_REQUIRE(six.addresses().all().size() == 2u);
        const ipv6 made = six.addresses().all()[1].address;
        BOOST_TEST(six.addresses().all()[1].usable());
        const auto reaches_us = [&] {
            const std::uint64_t before = nic.statistics().to_kernel;
            nic.deliver(test::udp_frame(setup.device(0)->mac(), router, 7, made, 7));
            return nic.statistics().to_kernel == before;
        };
        BOOST_TEST(reaches_us());
        pass(std::chrono::seconds{20});
        BOOST_TEST(six.addresses().all().size() == 1u);
        BOOST_TEST(!reaches_us()); // the rule has gone with the address
        setup.tear_down(0);
    }
    BOOST_TEST(nic.live_objects() == 0u);
    BOOST_TEST(nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(an_ipv6_address_is_steered_to_a_program_without_a_stack_too) {
    fake::nic nic;
    virtual_clock clock;
    reactor loop({.clock = &clock});
    network_options options = verbs_options();
    const ipv6 us = *ipv6::parse("2001:db8::7"), peer = *ipv6::parse("2001:db8::9");
    options.address6 = ipv6_prefix(us, 64);
    {
        const reactor::scope here(loop);
        network_setup setup(options, plan_for(1, true));
        setup.set_up(0);
        BOOST_TEST(setup.stack(0) == nullptr);
        const auto reaches_us = [&](mac_address mac, const ipv6& to) {
            packet got;
            nic.deliver(test::udp_frame(mac, peer, 7, to, 7));
            return setup.device(0)->receive({&got, 1}) == 1;
        };
        const mac_address mac = setup.device(0)->mac();
        BOOST_TEST(reaches_us(mac, us));
        BOOST_TEST(reaches_us(wire::multicast_mac(us.solicited_node()), us.solicited_node())); // or nobody finds it
        BOOST_TEST(!reaches_us(mac, *ipv6::parse("2001:db8::8")));
        setup.tear_down(0);
    }
    BOOST_TEST(nic.live_objects() == 0u);
    BOOST_TEST(nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(what_a_device_lacks_is_said) {
    fake::nic single({.name = "fake0", .spreading = false});
    BOOST_CHECK_EXCEPTION(network_setup(verbs_options(), plan_for(2)), setup_error,
                          [](const setup_error& e) { return std::string(e.what()).find("--cores=1") != std::string::npos; });
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
