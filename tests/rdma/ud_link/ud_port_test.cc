// The verbs-ud port on two fake NICs: what crosses, how addresses are told, and what happens when something breaks.
#include "tests/rdma/datagram_end.hh"
#include "tests/rdma/in_real_time.hh"
#include "tests/rdma/ud_link/ud_world.hh"
#include "tests/support/virtual_clock.hh"

using namespace corewire;
using namespace corewire::test;

BOOST_AUTO_TEST_SUITE(ud_port)

BOOST_AUTO_TEST_CASE(arp_tells_link_addresses_and_the_stack_sees_macs) {
    ud_world w;
    BOOST_TEST(w.a.sends(w.a.arp(wire::arp_operation::request, mac_address::broadcast(), {}, w.first, w.second)));
    auto heard = receive_all(*w.b.port);
    BOOST_REQUIRE(heard.size() == 1u);
    BOOST_REQUIRE(heard[0].size() == 42u);
    BOOST_TEST((mac_address::load(heard[0].data()) == mac_address::broadcast()));
    wire::arp_view question;
    BOOST_TEST((wire::arp_view::parse(byte_span(heard[0]).subspan(14), question) == wire::parse_error::none));
    BOOST_TEST((question.sender_mac() == w.a.port->mac()));
    BOOST_TEST((question.sender_ip() == w.first));
    BOOST_TEST((question.target_ip() == w.second));
    BOOST_TEST(question.target_mac().is_zero());
    BOOST_TEST(w.b.device->peers().find(w.a.port->mac()).has_value());

    BOOST_TEST(w.b.sends(w.b.arp(wire::arp_operation::reply, w.a.port->mac(), w.a.port->mac(), w.second, w.first)));
    heard = receive_all(*w.a.port);
    BOOST_REQUIRE(heard.size() == 1u); // its own question came back, and was not for the stack
    BOOST_TEST(w.a.port->ud_statistics().own_echoes == 1u);
    wire::arp_view answer;
    BOOST_TEST((wire::arp_view::parse(byte_span(heard[0]).subspan(14), answer) == wire::parse_error::none));
    BOOST_TEST((answer.sender_mac() == w.b.port->mac()));
    BOOST_TEST((answer.target_mac() == w.a.port->mac()));
    BOOST_TEST((mac_address::load(heard[0].data()) == w.a.port->mac()));
    for (ud_host* h : {&w.a, &w.b}) {
        BOOST_TEST(h->all_home());
        BOOST_TEST(h->nic.violations().empty());
    }
}

BOOST_AUTO_TEST_CASE(an_ip_packet_crosses_as_four_bytes_and_itself) {
    ud_world w;
    w.meet();
    for (const std::uint32_t size : {20u, 124u, 125u, 1020u}) { // inline up to 124, with the four bytes
        BOOST_TEST(w.a.sends(w.a.datagram(w.b.port->mac(), size, size)));
        const auto got = receive_all(*w.b.port);
        BOOST_REQUIRE(got.size() == 1u);
        BOOST_TEST(got[0].size() == size + 14);
        BOOST_TEST(number_of(got[0]) == size);
        BOOST_TEST((mac_address::load(got[0].data()) == w.b.port->mac()));
        BOOST_TEST((mac_address::load(got[0].data() + 6) == w.a.port->mac()));
        BOOST_TEST(load_be16(got[0].data() + 12) == 0x0800);
    }
    BOOST_TEST(w.a.port->handles().count() == 1u);
    BOOST_TEST(w.a.port->ud_statistics().copied == 0u);
    BOOST_TEST(w.a.all_home());
    BOOST_TEST(w.a.nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(a_frame_in_two_pieces_is_gathered_and_one_of_foreign_memory_is_copied) {
    ud_world w;
    w.meet();
    packet p = w.a.datagram(w.b.port->mac(), 100, 7);
    p.body = w.a.port->pool().allocate_buffer();
    std::memset(p.body.append(500), 'b', 500);
    BOOST_TEST(w.a.sends(std::move(p)));
    auto got = receive_all(*w.b.port);
    BOOST_REQUIRE(got.size() == 1u);
    BOOST_TEST(got[0].size() == 614u);
    BOOST_TEST((got[0].back() == std::byte{'b'}));

    frame_pool elsewhere(4);
    packet q = w.a.datagram(w.b.port->mac(), 100, 8);
    q.body = elsewhere.allocate_buffer();
    std::memset(q.body.append(500), 'c', 500);
    BOOST_TEST(w.a.sends(std::move(q)));
    got = receive_all(*w.b.port);
    BOOST_REQUIRE(got.size() == 1u);
    BOOST_TEST((got[0].back() == std::byte{'c'}));
    BOOST_TEST(w.a.port->ud_statistics().copied == 1u);
    BOOST_TEST(elsewhere.free_count == 4u);
}

BOOST_AUTO_TEST_CASE(a_burst_goes_with_one_doorbell_and_one_completion) {
    ud_world w;
    w.meet();
    const auto before = w.a.nic.statistics();
    std::vector<packet> burst;
    for (std::uint32_t i = 0; i < 32; ++i) burst.push_back(w.a.datagram(w.b.port->mac(), 200, i));
    BOOST_TEST(w.a.port->transmit(burst) == 32u);
    BOOST_TEST(w.a.nic.statistics().doorbells == before.doorbells + 1);
    BOOST_TEST(w.a.nic.statistics().signalled == before.signalled + 1);
    const auto numbers = receive_numbers(*w.b.port);
    BOOST_REQUIRE(numbers.size() == 32u);
    for (std::uint32_t i = 0; i < 32; ++i) BOOST_TEST(numbers[i] == i);
    BOOST_TEST(w.a.all_home());
}

BOOST_AUTO_TEST_CASE(more_than_the_send_queue_holds_stays_with_the_caller) {
    ud_world w;
    w.meet();
    BOOST_TEST(w.a.all_home());
    w.a.nic.hold_completions();
    std::vector<packet> burst;
    for (std::uint32_t i = 0; i < 150; ++i) burst.push_back(w.a.datagram(w.b.port->mac(), 200, i));
    const std::size_t taken = w.a.port->transmit(burst);
    BOOST_TEST(taken == 128u);
    BOOST_TEST(burst[128].size() == 214u);
    BOOST_TEST(w.a.port->statistics().transmit_full == 1u);
    w.a.nic.release_completions();
    BOOST_TEST(w.a.port->transmit(std::span(burst).subspan(taken)) == 22u);
    burst.clear();
    BOOST_TEST(w.a.all_home());
}

BOOST_AUTO_TEST_CASE(what_is_longer_than_the_mtu_is_dropped_and_counted) {
    ud_world w;
    w.meet();
    BOOST_TEST(w.a.port->mtu() == 1020u);
    BOOST_TEST(w.a.sends(w.a.datagram(w.b.port->mac(), 1021)));
    BOOST_TEST(receive_all(*w.b.port).empty());
    BOOST_TEST(w.a.port->ud_statistics().too_long == 1u);
    BOOST_TEST(w.a.port->statistics().transmit_dropped == 1u);
    BOOST_TEST(w.a.all_home());
}

BOOST_AUTO_TEST_CASE(a_mac_that_nobody_has_told_of_and_what_is_not_ip_are_dropped_and_the_rest_of_the_burst_goes) {
    ud_world w;
    w.meet();
    std::vector<packet> burst;
    burst.push_back(w.a.datagram(mac_address(0x02'00'00'00'00'99), 100, 1));
    burst.push_back(w.a.datagram(w.b.port->mac(), 100, 2));
    burst.push_back(numbered_frame(*w.a.port, w.b.port->mac(), 3));
    burst.push_back(w.a.datagram(w.b.port->mac(), 100, 4));
    BOOST_TEST(w.a.port->transmit(burst) == 4u);
    BOOST_TEST((receive_numbers(*w.b.port) == std::vector<std::uint32_t>{2, 4}));
    BOOST_TEST(w.a.port->handles().statistics().unknown_peer == 1u);
    BOOST_TEST(w.a.port->statistics().transmit_dropped == 2u);
    BOOST_TEST(w.a.all_home());
}

BOOST_AUTO_TEST_CASE(a_peer_for_which_no_handle_can_be_made_is_left_alone_for_a_while) {
    ud_world w;
    w.meet();
    w.a.nic.fail_calls("create_ah", ETIMEDOUT, 1);
    for (int i = 0; i < 3; ++i) BOOST_TEST(w.a.sends(w.a.datagram(w.b.port->mac(), 100)));
    BOOST_TEST(w.a.port->handles().statistics().unreachable == 3u); // asked once
    BOOST_TEST(receive_all(*w.b.port).empty());
    BOOST_TEST(w.a.all_home());
}

BOOST_AUTO_TEST_CASE(after_that_while_it_is_tried_again) {
    ud_world w({}, {}, {.retry_after = {}});
    w.meet();
    w.a.nic.fail_calls("create_ah", ETIMEDOUT, 1);
    for (std::uint32_t i = 0; i < 2; ++i) BOOST_TEST(w.a.sends(w.a.datagram(w.b.port->mac(), 100, i)));
    BOOST_TEST((receive_numbers(*w.b.port) == std::vector<std::uint32_t>{1}));
}

BOOST_AUTO_TEST_CASE(addresses_of_nobody_hold_up_no_other_peer_and_are_asked_for_by_few_at_a_time) {
    ud_world w;
    const ways_let_go at_last{w.a.nic};
    w.meet();
    std::vector<mac_address> nobodies;
    for (std::uint8_t i = 0; i < 6; ++i) { // as their ARP requests would have it
        const link_address nobody{0x100u + i, mapped(ipv4(192, 0, 2, static_cast<std::uint8_t>(100 + i)))};
        w.a.nic.hold_way_to(nobody.gid);
        w.a.device->peers().learn({.address = nobody});
        nobodies.push_back(nobody.mac());
    }
    for (const mac_address to : nobodies) BOOST_TEST(w.a.sends(w.a.datagram(to, 100)));
    BOOST_TEST(w.a.port->handles().statistics().held == handle_cache::most_making);
    BOOST_TEST(w.a.port->handles().statistics().unreachable == nobodies.size() - handle_cache::most_making);
    for (std::uint32_t i = 0; i < 20; ++i) { // each within its turn
        BOOST_TEST(w.a.sends(w.a.datagram(w.b.port->mac(), 100, i)));
        BOOST_TEST((receive_numbers(*w.b.port) == std::vector{i}));
        BOOST_TEST(receive_all(*w.a.port).empty());
    }
    in_real_time([] {}, [&] { return w.a.nic.ways_awaited() == handle_cache::most_making; });
    w.a.nic.release_ways(ETIMEDOUT);
    in_real_time([&] { static_cast<void>(receive_all(*w.a.port)); }, [&] { return !w.a.port->handles().any_being_made(); });
    const auto unreachable = w.a.port->handles().statistics().unreachable;
    BOOST_TEST(unreachable == nobodies.size()); // those that have waited, too
    w.a.nic.hold_way_to(mapped(ipv4(192, 0, 2, 100)));
    BOOST_TEST(w.a.sends(w.a.datagram(nobodies[0], 100))); // not asked for again so soon
    BOOST_TEST(w.a.port->handles().statistics().unreachable == unreachable + 1);
    BOOST_TEST(!w.a.port->handles().any_being_made());
    BOOST_TEST(w.a.all_home());
}

BOOST_AUTO_TEST_CASE(the_first_packets_wait_for_their_handle_in_order_and_an_old_one_serves_until_the_new_one_is_there) {
    ud_world w({}, {}, {.retry_after = {}});
    const ways_let_go at_last{w.a.nic};
    w.meet();
    const link_address there = w.b.device->address();
    w.a.nic.hold_way_to(there.gid);
    for (std::uint32_t i = 0; i < 6; ++i) BOOST_TEST(w.a.sends(w.a.datagram(w.b.port->mac(), 100, i)));
    BOOST_TEST(w.a.port->handles().statistics().held == 4u);
    BOOST_TEST(w.a.port->handles().statistics().held_lost == 2u);
    in_real_time([] {}, [&] { return w.a.nic.ways_awaited() == 1; });
    w.a.nic.release_ways(0);
    in_real_time([&] { static_cast<void>(receive_all(*w.a.port)); }, [&] { return !w.a.port->handles().any_being_made(); });
    BOOST_TEST((receive_numbers(*w.b.port) == std::vector<std::uint32_t>{0, 1, 2, 3}));
    BOOST_TEST(w.a.port->handles().statistics().made == 1u);

    w.a.device->peers().learn({.address = there}); // heard of again
    w.a.nic.hold_way_to(there.gid);
    for (std::uint32_t i = 7; i < 10; ++i) {
        BOOST_TEST(w.a.sends(w.a.datagram(w.b.port->mac(), 100, i)));
        BOOST_TEST((receive_numbers(*w.b.port) == std::vector{i}));
    }
    BOOST_TEST(w.a.port->handles().any_being_made());
    w.a.nic.release_ways(0);
    in_real_time([&] { static_cast<void>(receive_all(*w.a.port)); }, [&] { return !w.a.port->handles().any_being_made(); });
    BOOST_TEST(w.a.port->handles().statistics().refreshed == 1u);
    BOOST_TEST(w.a.sends(w.a.datagram(w.b.port->mac(), 100, 10)));
    BOOST_TEST((receive_numbers(*w.b.port) == std::vector<std::uint32_t>{10}));
    BOOST_TEST(w.a.all_home());
}

BOOST_AUTO_TEST_CASE(a_port_may_go_while_a_handle_is_being_made) {
    ud_world w;
    const ways_let_go at_last{w.a.nic};
    w.meet();
    w.a.nic.hold_way_to(w.b.device->address().gid);
    BOOST_TEST(w.a.sends(w.a.datagram(w.b.port->mac(), 100)));
    in_real_time([] {}, [&] { return w.a.nic.ways_awaited() == 1; });
    w.a.nic.release_ways(0);
    w.a.port.reset();
    w.a.device.reset();
    BOOST_TEST(w.a.nic.live_objects() == 0u);
}

BOOST_AUTO_TEST_CASE(arp_of_another_link_or_of_no_host_is_not_believed) {
    ud_world w;
    datagram_end stranger("stranger", ipv4(192, 0, 2, 66));
    const auto way = stranger.way_to(w.b.device->address().gid);
    const auto sends = [&](const link_address& who, std::uint32_t kind, std::uint32_t size) {
        store_be32(stranger.memory.data(), 0x0806'0000);
        const link_arp arp{wire::arp_operation::request, who, ipv4(10, 0, 0, 66), {}, w.second};
        arp.emit(stranger.memory.data() + 4);
        store_be32(stranger.memory.data() + 4, kind);
        stranger.send_as_it_is(way.get(), w.b.device->address().queue_pair, size);
        stranger.poll();
        return receive_all(*w.b.port).size();
    };
    const link_address good{stranger.pair.number(), stranger.address.gid};
    BOOST_TEST(sends(good, 0x0020'0800, 60) == 1u);
    BOOST_TEST(sends(good, 0x0001'0800, 60) == 0u); // Ethernet's
    BOOST_TEST(sends(good, 0x0020'0800, 59) == 0u); // cut off
    BOOST_TEST(sends({link_address::group_pair, good.gid}, 0x0020'0800, 60) == 0u);
    BOOST_TEST(sends({good.queue_pair, w.b.device->group()}, 0x0020'0800, 60) == 0u);
    BOOST_TEST(sends({good.queue_pair, {}}, 0x0020'0800, 60) == 0u);
    BOOST_TEST(sends({1, good.gid}, 0x0020'0800, 60) == 0u);
    BOOST_TEST(w.b.port->ud_statistics().bad_arp == 6u);
    stranger.send_as_it_is(way.get(), w.b.device->address().queue_pair, 3);
    BOOST_TEST(receive_all(*w.b.port).empty());
    BOOST_TEST(w.b.port->statistics().receive_malformed == 1u);
    BOOST_TEST(w.b.all_home());
}

BOOST_AUTO_TEST_CASE(a_group_reaches_all_and_comes_as_a_broadcast) {
    ud_world w;
    BOOST_TEST(w.a.sends(w.a.datagram(mac_address::of_multicast(ipv4(239, 9, 9, 9)), 100, 5)));
    packet got;
    BOOST_REQUIRE(w.b.port->receive({&got, 1}) == 1u);
    BOOST_TEST((mac_address::load(got.head.data()) == mac_address::broadcast()));
    got = {};
    BOOST_TEST(receive_all(*w.a.port).empty());
    BOOST_TEST(w.a.port->ud_statistics().to_group == 1u);
    BOOST_TEST(w.b.port->ud_statistics().from_group == 1u);
}

BOOST_AUTO_TEST_CASE(a_queue_pair_in_error_is_started_again_and_no_frame_is_lost) {
    ud_world w;
    w.meet();
    w.a.nic.break_queue_pairs();
    w.a.hear_events();
    BOOST_TEST(receive_all(*w.a.port).empty());
    BOOST_TEST(w.a.port->ud_statistics().restarts >= 1u);
    BOOST_TEST(w.a.port->usable());
    w.a.nic.fail_sends(IBV_WC_LOC_QP_OP_ERR);
    BOOST_TEST(w.a.sends(w.a.datagram(w.b.port->mac(), 500)));
    static_cast<void>(receive_all(*w.a.port));
    static_cast<void>(receive_all(*w.a.port));
    BOOST_TEST(w.a.sends(w.a.datagram(w.b.port->mac(), 500, 9)));
    BOOST_TEST((receive_numbers(*w.b.port) == std::vector<std::uint32_t>{9}));
    BOOST_TEST(w.b.sends(w.b.datagram(w.a.port->mac(), 500, 10)));
    BOOST_TEST((receive_numbers(*w.a.port) == std::vector<std::uint32_t>{10}));
    BOOST_TEST(w.a.all_home());
    BOOST_TEST(w.a.nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(a_link_that_is_down_costs_packets_until_it_is_up) {
    ud_world w;
    w.meet();
    w.a.nic.set_link(false);
    w.a.hear_events();
    BOOST_TEST(w.a.sends(w.a.datagram(w.b.port->mac(), 100)));
    BOOST_TEST(w.a.port->statistics().transmit_dropped == 1u);
    w.a.nic.set_link(true);
    w.a.hear_events();
    BOOST_TEST(w.a.sends(w.a.datagram(w.b.port->mac(), 100, 3)));
    BOOST_TEST((receive_numbers(*w.b.port) == std::vector<std::uint32_t>{3}));
    BOOST_TEST(w.a.port->ud_statistics().link_changes >= 1u);
}

BOOST_AUTO_TEST_CASE(a_device_that_is_gone_leaves_a_port_that_drops_and_counts) {
    ud_world w;
    w.meet();
    w.a.nic.remove();
    w.a.hear_events();
    BOOST_TEST(receive_all(*w.a.port).empty());
    BOOST_TEST(!w.a.port->usable());
    BOOST_TEST(w.a.port->wake_fd() == -1);
    BOOST_TEST(w.a.sends(w.a.datagram(w.b.port->mac(), 100)));
    BOOST_TEST(w.a.port->statistics().transmit_dropped == 1u);
    BOOST_TEST(w.a.port->prepare_sleep());
    BOOST_TEST(w.a.port->posted() == 0u);
    BOOST_TEST(w.a.all_home());
}

BOOST_AUTO_TEST_CASE(who_is_about_to_sleep_is_told_of_what_came_and_woken_by_what_comes) {
    ud_world w;
    w.meet();
    BOOST_TEST(w.a.sends(w.a.datagram(w.b.port->mac(), 100, 1)));
    BOOST_TEST(!w.b.port->prepare_sleep());
    BOOST_TEST((receive_numbers(*w.b.port) == std::vector<std::uint32_t>{1}));
    BOOST_TEST(w.b.port->prepare_sleep());
    const std::uint64_t events = w.b.nic.statistics().events;
    BOOST_TEST(w.a.sends(w.a.datagram(w.b.port->mac(), 100, 2)));
    BOOST_TEST(w.b.nic.statistics().events == events + 1);
    w.b.port->finish_sleep();
    BOOST_TEST((receive_numbers(*w.b.port) == std::vector<std::uint32_t>{2}));
}

BOOST_AUTO_TEST_CASE(on_infiniband_the_group_is_that_of_the_rfc_and_a_datagram_may_come_without_a_header) {
    ud_world w({.ethernet = false});
    BOOST_TEST(verbs::to_string(w.a.device->group()) == "ff12:401b:ffff::ffff:ffff");
    w.meet();
    BOOST_TEST(w.a.sends(w.a.datagram(w.b.port->mac(), 100, 4)));
    BOOST_TEST((receive_numbers(*w.b.port) == std::vector<std::uint32_t>{4}));
    BOOST_TEST(w.a.nic.violations().empty());

    datagram_end neighbour("neighbour", ipv4(192, 0, 2, 9), key, false);
    ibv_ah_attr local{};
    local.dlid = w.b.device->device().port().lid;
    local.port_num = 1;
    ibv_ah* const way = fake::api().create_ah(neighbour.domain.plain(), &local);
    store_be32(neighbour.memory.data(), 0x0800'0000);
    store_be32(neighbour.memory.data() + 4, 99);
    neighbour.send_as_it_is(way, w.b.device->address().queue_pair, 44);
    const auto got = receive_all(*w.b.port);
    BOOST_REQUIRE(got.size() == 1u);
    BOOST_TEST(number_of(got[0]) == 99u);
    BOOST_TEST((mac_address::load(got[0].data()) == w.b.port->mac()));
    fake::api().destroy_ah(way);
}

BOOST_AUTO_TEST_CASE(handles_are_made_anew_when_the_device_says_that_addresses_have_changed) {
    ud_world w({}, {}, {.retry_after = {}});
    w.meet();
    const auto sends = [&](std::uint32_t number) {
        BOOST_TEST(w.a.sends(w.a.datagram(w.b.port->mac(), 100, number)));
        BOOST_TEST((receive_numbers(*w.b.port) == std::vector{number}));
        BOOST_TEST(w.a.all_home()); // so that no send names a handle any more
        return w.a.port->handles().statistics().refreshed;
    };
    BOOST_TEST(sends(1) == 0u);
    BOOST_TEST(sends(2) == 0u);
    std::uint64_t refreshed = 0;
    for (const ibv_event_type what : {IBV_EVENT_GID_CHANGE, IBV_EVENT_LID_CHANGE, IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_SM_CHANGE}) {
        verbs::device_event event;
        event.what = what;
        event.port = 1;
        w.a.device->handle(event);
        BOOST_TEST(sends(3) == ++refreshed);
        BOOST_TEST(sends(4) == refreshed);
    }
    w.meet(); // the peer is heard of again
    BOOST_TEST(sends(5) > refreshed);
    BOOST_TEST(w.a.port->ud_statistics().link_changes == 0u);
    BOOST_TEST(w.a.all_home());
}

BOOST_AUTO_TEST_CASE(a_port_may_be_the_last_owner_of_its_device) {
    ud_host a("fake_a", 1);
    a.device.reset();
    a.port.reset();
    BOOST_TEST(a.nic.live_objects() == 0u);
}

BOOST_AUTO_TEST_CASE(on_infiniband_the_group_is_joined_and_what_the_fabric_says_of_it_is_used) {
    const fake::nic_options other_fabric{.ethernet = false, .fabric = {.key = 0x4711, .lid = 0xc123, .service_level = 3}};
    virtual_clock clock;
    reactor loop({.clock = &clock});
    const reactor::scope here(loop);
    ud_world w(other_fabric);
    w.b.follow_fabric(loop);
    BOOST_TEST(w.a.device->options().key == 0x4711u);
    BOOST_TEST(w.a.device->options().group_lid == 0xc123u);
    BOOST_TEST(w.a.device->options().service_level == 3u);
    w.meet();
    const auto arrives = [&](std::uint32_t number) {
        BOOST_TEST(w.a.sends(w.a.datagram(mac_address::broadcast(), 100, number)));
        return receive_numbers(*w.b.port) == std::vector{number};
    };
    BOOST_TEST(arrives(1));
    w.b.nic.forget_groups(); // a subnet manager that has begun anew
    BOOST_TEST(!arrives(2));
    w.b.hear_events();
    BOOST_TEST(arrives(3));
    w.b.nic.forget_groups();
    w.b.hear_events(); // what was heard of the join before is taken out of the way
    BOOST_TEST(arrives(4));

    // Known by hand: nothing is asked, nor joined.
    const ud_host told("fake_c", 3, other_fabric, {.group_lid = 0xc123, .key = 0x4711});
    BOOST_TEST(told.device->options().group_lid == 0xc123u);
    BOOST_TEST(w.a.sends(w.a.datagram(mac_address::broadcast(), 100, 5)));
    BOOST_TEST(receive_numbers(*told.port).empty());
}

BOOST_AUTO_TEST_CASE(another_subnet_manager_may_say_other_things_of_the_group_and_refuse_at_first) {
    virtual_clock clock;
    reactor loop({.clock = &clock});
    const reactor::scope here(loop);
    ud_world w({.ethernet = false, .fabric = {.key = 0x4711, .lid = 0xc123, .service_level = 3}});
    const auto both = [&](auto what) {
        for (ud_host* each : {&w.a, &w.b}) what(*each);
    };
    both([&](ud_host& h) { h.follow_fabric(loop); });
    w.meet();
    std::uint32_t number = 0;
    const auto arrives = [&](mac_address to) {
        both([](ud_host& h) { receive_all(*h.port); }); // what they have been told they do in their turn
        BOOST_TEST(w.a.sends(w.a.datagram(to, 100, ++number)));
        return receive_numbers(*w.b.port) == std::vector{number};
    };
    const auto all_arrive = [&] { return arrives(mac_address::broadcast()) && arrives(w.b.port->mac()); };
    const auto begin_anew = [&](const fake::fabric_options& said) {
        both([&](ud_host& h) { h.nic.set_fabric(said); });
        both([&](ud_host& h) { h.nic.forget_groups(); });
        both([](ud_host& h) { h.hear_events(); });
    };
    const auto wait = [&](int milliseconds) {
        clock.advance(std::chrono::milliseconds{milliseconds});
        loop.poll_once();
    };
    BOOST_TEST(all_arrive());
    w.a.nic.hold_completions();
    BOOST_TEST(arrives(mac_address::broadcast())); // names the handle of before
    begin_anew({.key = 0x4712, .lid = 0xc124, .service_level = 5});
    BOOST_TEST(all_arrive());
    w.a.nic.release_completions();
    begin_anew({.key = 0x4712, .lid = 0xc124, .service_level = 6});
    BOOST_TEST(all_arrive());
    BOOST_TEST(w.a.all_home());
    BOOST_TEST(w.a.port->ud_statistics().restarts == 0u);
    w.a.device->handle({}); // of nothing: a restart has the same key
    w.a.nic.break_queue_pairs();
    w.a.hear_events();
    receive_all(*w.a.port);
    BOOST_TEST(all_arrive());
    BOOST_TEST(w.a.port->ud_statistics().restarts == 1u);

    // Refused twice: asked again after one second, then after two.
    w.b.nic.fail_calls("join_multicast", EPERM, 2);
    begin_anew({.key = 0x4713, .lid = 0xc124, .service_level = 6});
    BOOST_TEST(w.b.device->joins_refused() == 1u);
    BOOST_TEST(!arrives(mac_address::broadcast()));
    wait(999);
    BOOST_TEST(w.b.device->joins_refused() == 1u);
    wait(2);
    BOOST_TEST(w.b.device->joins_refused() == 2u);
    wait(2001);
    BOOST_TEST(all_arrive());
    BOOST_TEST(w.b.device->joins_refused() == 2u);
    BOOST_REQUIRE(w.b.told.size() == 2u);
    BOOST_TEST(mentions(w.b.told[0], "not a member of the InfiniBand group ff12:401b:ffff::ffff:ffff any more"));
    BOOST_TEST(mentions(w.b.told[1], "again"));

    // Nobody answers: the same after five seconds.
    begin_anew({.key = 0x4713, .lid = 0xc124, .service_level = 6, .answers = false});
    for (int i = 0; i < 49; ++i) wait(100);
    BOOST_TEST(w.b.device->joins_refused() == 2u);
    for (int i = 0; i < 2; ++i) wait(100);
    BOOST_TEST(w.b.device->joins_refused() == 3u);
    both([&](ud_host& h) { h.nic.set_fabric({.key = 0x4714, .lid = 0xc125}); });
    wait(1001);
    BOOST_TEST(all_arrive());
    BOOST_TEST(w.b.nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(a_fabric_that_refuses_or_does_not_answer_is_an_error_with_a_sentence) {
    const auto sentence = [](const fake::nic_options& o, std::string_view failing, ipv4 beside) {
        fake::nic nic(o);
        if (!failing.empty()) nic.fail_calls(failing, EINVAL);
        ud_device_options d{.device = "fake_c", .beside = beside, .api = &fake::api(), .cm = &fake::cm()};
        std::string said = sentence_of([&] { ud_device{d}; });
        BOOST_TEST(nic.live_objects() == 0u);
        return said;
    };
    const ipv4 ours(192, 0, 2, 3);
    fake::nic_options o{.name = "fake_c", .addresses = {ours}, .ethernet = false};
    BOOST_TEST(mentions(sentence(o, "join_multicast", ours), "join the InfiniBand group ff12:401b:ffff::ffff:ffff"));
    BOOST_TEST(mentions(sentence(o, {}, ipv4(192, 0, 2, 77)), "no interface of this host has the address"));
    const std::string no_interface = sentence(o, {}, {});
    BOOST_TEST(mentions(no_interface, "the kernel's IPoIB interface on port 1 of fake_c"));
    BOOST_TEST(mentions(no_interface, "modprobe ib_ipoib"));
    BOOST_TEST(!mentions(no_interface, "dmesg"));
    o.fabric.answers = false;
    const std::string nobody = sentence_of([&] {
        const fake::nic nic(o);
        verbs::fabric_membership(ours, {}, std::chrono::milliseconds{1}, fake::cm());
    });
    BOOST_TEST(mentions(nobody, "does a subnet manager (opensm) run?"));
}

BOOST_AUTO_TEST_CASE(networks_have_groups_of_their_own) {
    ud_host a("fake_a", 1);
    ud_device_options other{.device = "fake_a", .network = ip_prefix(ipv4(10, 0, 1, 0), 24), .receive_depth = 64, .api = &fake::api()};
    const ud_device b(other);
    BOOST_TEST(verbs::to_string(a.device->group()) != verbs::to_string(b.group()));
    BOOST_TEST(is_group(a.device->group()));
    other.gid_index = 7;
    BOOST_TEST(mentions(sentence_of([&] { ud_device{other}; }), "GID index 7"));
}

BOOST_AUTO_TEST_SUITE_END()
