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

BOOST_AUTO_TEST_CASE(a_router_gives_an_address_that_stays_the_same_at_the_next_start) { // --slaac
    std::vector<ipv6> made;
    for (int start = 0; start < 2; ++start) {
        fake::nic_options near = nic_of("fake0", 1), far = nic_of("fake1", 2);
        near.mtu = far.mtu = 2200;
        fake::nic nic(near), nic_of_router(far);
        virtual_clock clock;
        reactor ours({.clock = &clock}), theirs({.clock = &clock});
        network_options automatic = options_of("fake0", 1), routing = options_of("fake1", 2);
        automatic.slaac = true;
        routing.address6 = ipv6_prefix(*ipv6::parse("2001:db8:1::1"), 64);
        {
            const auto on = [](reactor& loop, auto what) {
                const reactor::scope here(loop);
                what();
            };
            std::optional<network_setup> before, setup, router;
            network_plan same_machine = plan_for(1);
            same_machine.secret = siphash_key{1, 2};
            if (start == 1) on(ours, [&] { before.emplace(options_of("fake0", 9), plan_for(1)); }); // another queue pair, thus another MAC
            setup.emplace(automatic, same_machine), router.emplace(routing, plan_for(1));
            on(ours, [&] { setup->set_up(0); });
            on(theirs, [&] { router->set_up(0); });
            const auto pass = [&](std::chrono::milliseconds time) {
                for (const time_point until = clock.now() + time; clock.now() < until;) {
                    clock.advance(std::chrono::milliseconds{20});
                    for (reactor* each : {&ours, &theirs}) on(*each, [&] { each->poll_once(); });
                }
            };
            pass(std::chrono::seconds{3});
            // As a router of the fabric would say it: its link address in 24 bytes, which the stack sees as a MAC.
            const ipv6 all = ipv6::all_nodes(), says = wire::link_local_address(mac_address(2, 0, 0, 0, 0, 0x99));
            std::vector<std::byte> options(40), message(16 + 40);
            options[0] = std::byte{3}, options[1] = std::byte{4}, options[2] = std::byte{64}, options[3] = std::byte{0xc0};
            store_be32(options.data() + 4, 600);
            store_be32(options.data() + 8, 600);
            ipv6::parse("2001:db8:1::")->store(options.data() + 16);
            options[32] = std::byte{1}, options[33] = std::byte{1};
            router->device(0)->mac().store(options.data() + 34);
            wire::router_advertisement{.lifetime = 1800, .options = options}.emit(message, says, all);
            on(theirs, [&] {
                packet p;
                p.head = router->device(0)->pool().allocate_buffer();
                const wire::ethernet_header link{wire::multicast_mac(all), router->device(0)->mac(), wire::ether_type::ipv6};
                link.emit({p.head.append(14), 14});
                wire::ipv6_header{.payload_length = static_cast<std::uint16_t>(message.size()), .next_header = wire::ip_protocol::icmpv6,
                                  .hop_limit = 255, .source = says, .destination = all}
                    .emit({p.head.append(40), 40});
                std::memcpy(p.head.append(static_cast<std::uint32_t>(message.size())), message.data(), message.size());
                router->device(0)->transmit({&p, 1});
            });
            pass(std::chrono::seconds{3});
            ipv6_output& six = *setup->stack(0)->ip().six();
            BOOST_TEST((six.route(*ipv6::parse("2001:db8:ffff::1")).address == says));
            const neighbor* const known = six.neighbors().find(says);
            BOOST_REQUIRE(known != nullptr);
            BOOST_TEST((known->mac() == router->device(0)->mac()));
            BOOST_REQUIRE(six.addresses().all().size() == 2u);
            for (const own_ipv6_address& each : six.addresses().all()) {
                BOOST_TEST(each.usable());
                made.push_back(each.address);
            }
            // And the router reaches it: it asks for its link address, and a datagram to nobody's port is answered.
            on(theirs, [&] {
                packet p;
                p.head = router->device(0)->pool().allocate_buffer();
                std::byte* const ip = p.head.append(48);
                const ipv6 from = routing.address6->address(), to = made.back();
                wire::icmpv6_header::echo_request(1, 1).emit({ip + 40, 8}, from, to, {});
                const wire::ipv6_header header{
                    .payload_length = 8, .next_header = wire::ip_protocol::icmpv6, .source = from, .destination = to};
                header.emit({ip, 40});
                static_cast<void>(router->stack(0)->ip().six()->send(theirs.now(), std::move(p), to));
            });
            pass(std::chrono::milliseconds{100});
            BOOST_TEST(setup->stack(0)->six()->icmp().statistics().echo_requests == 1u);
            on(ours, [&] { setup->tear_down(0); });
            on(theirs, [&] { router->tear_down(0); });
        }
        BOOST_TEST(nic.violations().empty());
        BOOST_TEST(nic_of_router.violations().empty());
    }
    BOOST_REQUIRE(made.size() == 4u);
    BOOST_TEST((made[0] == made[2] && made[1] == made[3]));
    BOOST_TEST((made[0].is_link_local() && !made[1].is_link_local()));
}

BOOST_AUTO_TEST_CASE(where_nothing_says_which_network_it_is_a_router_cannot_either) { // RoCE: the group is the network's
    fake::nic nic(nic_of("fake0", 1));
    network_options o = options_of("fake0", 1);
    o.address.reset();
    o.slaac = true;
    check_network_options(o, false); // InfiniBand has a group of its own
    const auto said = [&] {
        try {
            network_setup setup(o, plan_for(1));
        } catch (const setup_error& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    BOOST_TEST(test::mentions(said(), "--slaac: over RoCE"));
    o.address = ip_prefix(ipv4(10, 0, 0, 1), 24);
    BOOST_TEST(test::mentions(said(), "1280 bytes")); // its MTU is 1500
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
