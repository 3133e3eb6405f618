// The ARP cache: states and their timers, what it answers and whom it believes.
#include <corewire/net/frame/frame_pool.hh>
#include <corewire/net/link/neighbors.hh>
#include <corewire/net/wire/ethernet.hh>

#include "tests/support/test_seed.hh"

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

const mac_address our_mac(0x02'00'00'00'00'01);
const mac_address peer_mac(0x02'00'00'00'00'02);
const mac_address other_mac(0x02'00'00'00'00'03);
const ipv4 our_ip(10, 0, 0, 1);
const ipv4 peer_ip(10, 0, 0, 2);

time_point at(duration d) { return from_ns(1'000'000'000'000) + d; }

struct world {
    frame_pool pool{256};
    neighbor_options options;
    neighbor_cache cache;
    explicit world(neighbor_options o = {}) : options(o), cache(our_mac, {our_ip, 24}, o, 7) {}

    packet make(std::uint32_t payload = 50) {
        packet p;
        p.head = pool.allocate_buffer();
        wire::ethernet_header{mac_address{}, our_mac, wire::ether_type::ipv4}.emit({p.head.append(14), 14});
        if (payload != 0) p.head.append(payload);
        return p;
    }
    resolution send(duration now, ipv4 to, std::uint32_t payload = 50, on_behalf who = on_behalf::ourselves) {
        packet p = make(payload);
        const resolution r = cache.resolve(at(now), to, p, who);
        cache.check_invariants();
        return r;
    }
    resolution answer(duration now, ipv4 to) { return send(now, to, 50, on_behalf::stranger); }
    void arrives(duration now, const wire::arp_packet& arp, arp_arrival how = {}) {
        cache.on_arp(at(now), arp, how);
        cache.check_invariants();
    }
    void reply(duration now, ipv4 from, mac_address mac) {
        arrives(now, {wire::arp_operation::reply, mac, from, our_mac, our_ip});
    }
    void request(duration now, ipv4 from, mac_address mac, ipv4 wanted) {
        arrives(now, wire::arp_packet::request(mac, from, wanted));
    }
    std::vector<arp_message> said() {
        std::vector<arp_message> out;
        for (arp_message m; cache.poll_transmit(m);) out.push_back(m);
        return out;
    }
    std::vector<packet> released() {
        std::vector<packet> out;
        for (packet p; cache.poll_released(p);) out.push_back(std::move(p));
        return out;
    }
    std::vector<packet> unreachable() {
        std::vector<packet> out;
        for (packet p; cache.poll_unreachable(p);) out.push_back(std::move(p));
        cache.check_invariants();
        return out;
    }
    /// Lets time pass; returns what was said meanwhile.
    std::vector<arp_message> until(duration end) {
        std::vector<arp_message> out;
        while (cache.next_timeout() <= at(end)) {
            cache.on_timer(cache.next_timeout());
            cache.check_invariants();
            for (const arp_message& m : said()) out.push_back(m);
        }
        return out;
    }
    neighbor_state state(ipv4 a) {
        neighbor* n = cache.find(a);
        return n == nullptr ? neighbor_state::unused : n->state();
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(neighbors)

BOOST_AUTO_TEST_CASE(the_first_packet_asks_by_broadcast_and_leaves_when_the_answer_comes) {
    world w;
    BOOST_TEST((w.send(0s, peer_ip) == resolution::queued));
    const auto asked = w.said();
    BOOST_REQUIRE_EQUAL(asked.size(), 1u);
    BOOST_TEST((asked[0].destination == mac_address::broadcast()));
    BOOST_TEST((asked[0].arp == wire::arp_packet::request(our_mac, our_ip, peer_ip)));
    BOOST_TEST((w.state(peer_ip) == neighbor_state::incomplete));

    w.reply(10ms, peer_ip, peer_mac);
    BOOST_TEST((w.state(peer_ip) == neighbor_state::reachable));
    const auto out = w.released();
    BOOST_REQUIRE_EQUAL(out.size(), 1u);
    wire::ethernet_view ethernet;
    BOOST_REQUIRE((wire::ethernet_view::parse(out[0].head.bytes(), ethernet) == wire::parse_error::none));
    BOOST_TEST((ethernet.destination() == peer_mac));
    BOOST_TEST((ethernet.source() == our_mac));
    BOOST_TEST(w.cache.waiting_packets() == 0u);
}

BOOST_AUTO_TEST_CASE(a_packet_to_a_known_neighbour_is_ready_at_once) {
    world w;
    w.send(0s, peer_ip);
    w.reply(1ms, peer_ip, peer_mac);
    packet p = w.make();
    BOOST_TEST((w.cache.resolve(at(2ms), peer_ip, p) == resolution::ready));
    BOOST_TEST((mac_address::load(p.head.data()) == peer_mac));
    BOOST_TEST(w.said().size() == 1u); // only the first request
}

BOOST_AUTO_TEST_CASE(packets_wait_in_order_and_the_oldest_gives_way_to_a_fifth) {
    world w;
    for (std::uint32_t i = 0; i < 5; ++i) BOOST_TEST((w.send(0s, peer_ip, 10 + i) == resolution::queued));
    BOOST_TEST(w.cache.statistics().queue_dropped == 1u);
    w.reply(1ms, peer_ip, peer_mac);
    const auto out = w.released();
    BOOST_REQUIRE_EQUAL(out.size(), 4u);
    for (std::uint32_t i = 0; i < 4; ++i) BOOST_TEST(out[i].size() == 14 + 11 + i);
}

BOOST_AUTO_TEST_CASE(bytes_behind_one_neighbour_are_bounded) {
    world w({.max_waiting_bytes = 1000});
    w.send(0s, peer_ip, 600);
    w.send(0s, peer_ip, 600);
    BOOST_TEST(w.cache.waiting_packets() == 1u);
    w.send(0s, peer_ip, 1200); // more than may ever wait: it goes, the other stays
    BOOST_TEST(w.cache.waiting_packets() == 1u);
    BOOST_TEST(w.cache.statistics().queue_dropped == 2u);
}

BOOST_AUTO_TEST_CASE(packets_behind_all_neighbours_are_bounded_and_their_frames_come_home) {
    world w({.max_waiting_total = 6});
    for (std::uint8_t i = 0; i < 10; ++i) w.send(0s, ipv4(10, 0, 0, static_cast<std::uint8_t>(10 + i)));
    BOOST_TEST(w.cache.waiting_packets() == 6u);
    BOOST_TEST(w.cache.statistics().queue_dropped == 4u);
    BOOST_TEST(w.pool.free_count == 256u - 6u);
    w.until(10s);
    BOOST_TEST(w.unreachable().size() == 6u);
    BOOST_TEST(w.cache.waiting_packets() == 0u);
    BOOST_TEST(w.pool.free_count == 256u);
    BOOST_TEST(w.cache.statistics().unreachable_dropped == 6u);
}

BOOST_AUTO_TEST_CASE(packets_that_nobody_answers_for_come_back_in_order) { // RFC 4861 7.2.2
    world w({.max_waiting_total = 4});
    for (std::uint32_t i = 0; i < 3; ++i) w.send(0s, peer_ip, 10 + i);
    w.until(2500ms);
    BOOST_TEST(w.unreachable().empty());
    w.until(3s);
    BOOST_TEST(w.cache.has_failed(peer_ip));
    BOOST_TEST(w.released().empty());
    for (std::uint32_t i = 3; i < 6; ++i) { // refused; there is room for one more
        packet p = w.make(10 + i);
        BOOST_TEST((w.cache.resolve(at(3s), peer_ip, p) == resolution::failed));
        w.cache.keep_refused(std::move(p));
        w.cache.check_invariants();
    }
    const auto back = w.unreachable();
    BOOST_REQUIRE_EQUAL(back.size(), 4u);
    for (std::uint32_t i = 0; i < 4; ++i) BOOST_TEST(back[i].size() == 14 + 10 + i);
    BOOST_TEST(w.cache.waiting_packets() == 0u);
    w.until(10s);
    BOOST_TEST(!w.cache.has_failed(peer_ip));
}

BOOST_AUTO_TEST_CASE(a_silent_neighbour_is_asked_three_times_a_second_apart_and_then_refused_for_a_while) {
    world w;
    w.send(0s, peer_ip);
    BOOST_TEST(w.said().size() == 1u);
    BOOST_TEST(w.until(999ms).size() == 0u);
    BOOST_TEST(w.until(1s).size() == 1u);
    w.send(1500ms, peer_ip); // more packets make no more requests
    BOOST_TEST(w.said().size() == 0u);
    BOOST_TEST(w.until(2s).size() == 1u);
    BOOST_TEST(w.until(3s).size() == 0u);
    BOOST_TEST((w.state(peer_ip) == neighbor_state::failed));
    BOOST_TEST(w.cache.statistics().unreachable_dropped == 2u);

    packet p = w.make();
    BOOST_TEST((w.cache.resolve(at(4s), peer_ip, p) == resolution::failed));
    BOOST_TEST(!p.head.empty()); // untouched
    w.until(6s);
    BOOST_TEST((w.state(peer_ip) == neighbor_state::unused));
    BOOST_TEST((w.send(7s, peer_ip) == resolution::queued)); // asked anew
    BOOST_TEST(w.said().size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_failed_neighbour_is_asked_anew_when_its_time_is_over_even_if_no_timer_ran) {
    world w;
    w.send(0s, peer_ip);
    w.until(3s);
    BOOST_TEST((w.send(5999ms, peer_ip) == resolution::failed));
    BOOST_TEST((w.send(6s, peer_ip) == resolution::queued));
}

BOOST_AUTO_TEST_CASE(reachable_turns_stale_and_use_leads_over_delay_and_probe_to_reachable_again) {
    world w;
    w.send(0s, peer_ip);
    w.reply(0s, peer_ip, peer_mac);
    w.released();
    w.said();
    const std::uint32_t fresh = w.cache.find(peer_ip)->generation();
    w.until(30s - 1ns);
    BOOST_TEST((w.state(peer_ip) == neighbor_state::reachable));
    w.until(30s);
    BOOST_TEST((w.state(peer_ip) == neighbor_state::stale));
    BOOST_TEST(w.cache.find(peer_ip)->generation() != fresh); // who kept a header asks again
    BOOST_TEST((w.send(40s, peer_ip) == resolution::ready));
    BOOST_TEST((w.state(peer_ip) == neighbor_state::delay));
    BOOST_TEST(w.until(45s - 1ns).size() == 0u);
    const auto probes = w.until(45s);
    BOOST_REQUIRE_EQUAL(probes.size(), 1u);
    BOOST_TEST((probes[0].destination == peer_mac)); // by unicast
    BOOST_TEST((w.state(peer_ip) == neighbor_state::probe));
    BOOST_TEST((w.send(45s, peer_ip) == resolution::ready)); // still used
    w.reply(45s + 1ms, peer_ip, peer_mac);
    BOOST_TEST((w.state(peer_ip) == neighbor_state::reachable));
}

BOOST_AUTO_TEST_CASE(an_unanswered_probe_fails_the_neighbour_and_every_reference_to_it) {
    world w;
    w.send(0s, peer_ip);
    w.reply(0s, peer_ip, peer_mac);
    w.until(30s);
    neighbor_ref ref(*w.cache.use(at(31s), peer_ip));
    BOOST_TEST(ref.current());
    BOOST_TEST(w.until(36s).size() == 1u);
    BOOST_TEST(ref.current());
    BOOST_TEST(w.until(39s).size() == 2u);
    BOOST_TEST((w.state(peer_ip) == neighbor_state::failed));
    BOOST_TEST(!ref.current());
    BOOST_TEST(w.cache.use(at(39s), peer_ip) == nullptr);
}

BOOST_AUTO_TEST_CASE(confirmation_by_the_upper_layer_keeps_a_neighbour_reachable_without_any_request) {
    world w;
    w.send(0s, peer_ip);
    w.reply(0s, peer_ip, peer_mac);
    w.said();
    neighbor_ref ref(*w.cache.find(peer_ip));
    for (int t = 10; t <= 300; t += 10) {
        BOOST_TEST(w.until(std::chrono::seconds{t}).size() == 0u);
        ref.confirm(at(std::chrono::seconds{t}));
    }
    BOOST_TEST((w.state(peer_ip) == neighbor_state::reachable));
    BOOST_TEST(ref.current());
}

BOOST_AUTO_TEST_CASE(a_neighbour_counts_as_reachable_from_the_last_confirmation_on) { // RFC 4861 7.3.3
    world w;
    const ipv4 other(10, 0, 0, 77);
    for (const ipv4 each : {peer_ip, other}) {
        w.send(0s, each);
        w.reply(0s, each, peer_mac);
    }
    w.cache.confirm(at(10s), other);
    w.cache.confirm(at(1s), peer_ip);
    w.until(30'900ms);
    BOOST_TEST((w.state(peer_ip) == neighbor_state::reachable));
    w.until(31s);
    BOOST_TEST((w.state(peer_ip) == neighbor_state::stale));
    BOOST_TEST((w.state(other) == neighbor_state::reachable));
    w.until(39'900ms);
    BOOST_TEST((w.state(other) == neighbor_state::reachable));
    w.until(40s);
    BOOST_TEST((w.state(other) == neighbor_state::stale));
    w.cache.check_invariants();
}

BOOST_AUTO_TEST_CASE(a_neighbour_that_is_doubted_is_asked_at_once) { // RFC 1122 2.3.2.1, 3.3.1.4
    world w;
    w.send(0s, peer_ip);
    w.reply(0s, peer_ip, peer_mac);
    w.said();
    const neighbor_ref ref(*w.cache.find(peer_ip));
    w.cache.doubt(at(500ms), ref); // confirmed a moment ago
    BOOST_TEST(w.said().empty());
    w.cache.doubt(at(5s), ref);
    BOOST_TEST(w.said().size() == 1u);
    BOOST_TEST((w.state(peer_ip) == neighbor_state::probe));
    w.cache.doubt(at(5s), ref); // is asked already
    BOOST_TEST(w.said().empty());
    w.reply(5s, peer_ip, peer_mac);
    BOOST_TEST((w.state(peer_ip) == neighbor_state::reachable));
    w.cache.doubt(at(7s), ref);
    w.until(11s);
    BOOST_TEST((w.state(peer_ip) == neighbor_state::failed));
}

BOOST_AUTO_TEST_CASE(confirmation_in_delay_saves_the_probe) {
    world w;
    w.send(0s, peer_ip);
    w.reply(0s, peer_ip, peer_mac);
    w.until(30s);
    w.said();
    w.send(31s, peer_ip);
    w.cache.confirm(at(32s), peer_ip);
    BOOST_TEST(w.until(36s).size() == 0u);
    BOOST_TEST((w.state(peer_ip) == neighbor_state::reachable));
}

BOOST_AUTO_TEST_CASE(confirmation_while_probed_is_an_answer) { // RFC 4861 7.3.3, appendix C
    world w;
    w.send(0s, peer_ip);
    w.reply(0s, peer_ip, peer_mac);
    w.until(30s);
    w.send(31s, peer_ip);
    BOOST_TEST(w.until(36s).size() == 1u);
    BOOST_TEST((w.state(peer_ip) == neighbor_state::probe));
    w.cache.confirm(at(36'500ms), peer_ip);
    BOOST_TEST(w.until(50s).size() == 0u);
    BOOST_TEST((w.state(peer_ip) == neighbor_state::reachable));
}

BOOST_AUTO_TEST_CASE(a_question_for_us_is_answered_to_the_asker_who_is_known_from_then_on) {
    world w;
    w.request(0s, peer_ip, peer_mac, our_ip);
    const auto out = w.said();
    BOOST_REQUIRE_EQUAL(out.size(), 1u);
    BOOST_TEST((out[0].destination == peer_mac));
    BOOST_TEST((out[0].arp == wire::arp_packet{wire::arp_operation::reply, our_mac, our_ip, peer_mac, peer_ip}));
    BOOST_TEST((w.state(peer_ip) == neighbor_state::stale));
    BOOST_TEST((w.send(1s, peer_ip) == resolution::ready));
}

BOOST_AUTO_TEST_CASE(a_question_for_somebody_else_is_neither_answered_nor_learnt_from) {
    world w;
    w.request(0s, peer_ip, peer_mac, ipv4(10, 0, 0, 9));
    BOOST_TEST(w.said().size() == 0u);
    BOOST_TEST(w.cache.size() == 0u);
}

BOOST_AUTO_TEST_CASE(an_address_probe_is_answered_and_nothing_is_learnt_from_it) {
    world w;
    w.request(0s, ipv4::any(), peer_mac, our_ip);
    BOOST_TEST(w.said().size() == 1u);
    BOOST_TEST(w.cache.size() == 0u);
}

BOOST_AUTO_TEST_CASE(unsolicited_replies_and_announcements_never_make_an_entry) {
    world w;
    for (std::uint8_t i = 2; i < 200; ++i) {
        w.reply(0s, ipv4(10, 0, 0, i), peer_mac);
        w.arrives(0s, wire::arp_packet::announcement(peer_mac, ipv4(10, 0, 0, i)));
    }
    BOOST_TEST(w.cache.size() == 0u);
    BOOST_TEST(w.cache.statistics().ignored_unsolicited == 2u * 198u);
}

BOOST_AUTO_TEST_CASE(senders_that_cannot_be_one_host_of_this_network_are_not_believed) {
    world w;
    const wire::arp_packet hostile[] = {
        {wire::arp_operation::request, mac_address::broadcast(), peer_ip, {}, our_ip},
        {wire::arp_operation::request, mac_address(0x01005e000001), peer_ip, {}, our_ip},
        {wire::arp_operation::request, mac_address{}, peer_ip, {}, our_ip},
        {wire::arp_operation::request, peer_mac, ipv4(192, 168, 0, 1), {}, ipv4(10, 0, 0, 9)}, // another network
        {wire::arp_operation::reply, peer_mac, ipv4(192, 168, 0, 1), our_mac, our_ip},
        {wire::arp_operation::request, peer_mac, ipv4::loopback(), {}, our_ip},
        {wire::arp_operation::request, peer_mac, ipv4(10, 0, 0, 255), {}, our_ip},  // our broadcast address
        {wire::arp_operation::request, peer_mac, ipv4(10, 0, 0, 0), {}, our_ip},
        {wire::arp_operation::request, peer_mac, ipv4(224, 0, 0, 1), {}, our_ip},
        {wire::arp_operation::request, peer_mac, ipv4::broadcast(), {}, our_ip},
        {wire::arp_operation::reply, peer_mac, ipv4::any(), our_mac, our_ip},
        {static_cast<wire::arp_operation>(3), peer_mac, peer_ip, {}, our_ip}, // RARP
    };
    for (const auto& arp : hostile) w.arrives(0s, arp);
    BOOST_TEST(w.cache.size() == 0u);
    BOOST_TEST(w.said().size() == 0u);
    BOOST_TEST(w.cache.statistics().ignored_malformed == std::size(hostile));
}

BOOST_AUTO_TEST_CASE(whoever_asks_for_us_is_answered_but_one_of_another_network_is_not_known_by_it) { // RFC 826
    world w;
    const ipv4 stranger(192, 168, 0, 1);
    w.request(0s, stranger, peer_mac, our_ip);
    const auto out = w.said();
    BOOST_REQUIRE_EQUAL(out.size(), 1u);
    BOOST_TEST((out[0].arp == wire::arp_packet{wire::arp_operation::reply, our_mac, our_ip, peer_mac, stranger}));
    BOOST_TEST(w.cache.size() == 0u);
}

BOOST_AUTO_TEST_CASE(a_sender_whom_a_route_puts_on_the_link_is_believed) {
    world w;
    const ipv4 gateway(192, 168, 0, 1);
    w.arrives(0s, wire::arp_packet::request(peer_mac, gateway, our_ip), {.on_link = true});
    BOOST_TEST(w.said().size() == 1u);
    BOOST_TEST((w.state(gateway) == neighbor_state::stale));
    w.arrives(2s, wire::arp_packet::announcement(other_mac, gateway), {.on_link = true});
    BOOST_TEST((w.cache.find(gateway)->mac() == other_mac));
    w.arrives(4s, wire::arp_packet::announcement(peer_mac, gateway)); // the route is gone
    BOOST_TEST((w.cache.find(gateway)->mac() == other_mac));
}

BOOST_AUTO_TEST_CASE(an_answer_to_a_question_that_is_out_counts_from_whatever_network) {
    world w;
    const ipv4 gateway(192, 168, 0, 1);
    w.send(0s, gateway);
    w.arrives(1ms, wire::arp_packet::announcement(other_mac, gateway)); // answers nothing
    BOOST_TEST((w.state(gateway) == neighbor_state::incomplete));
    w.reply(2ms, gateway, peer_mac);
    BOOST_TEST((w.state(gateway) == neighbor_state::reachable));
    BOOST_TEST(w.released().size() == 1u);
    w.reply(5s, gateway, other_mac); // nobody has asked
    BOOST_TEST((w.cache.find(gateway)->mac() == peer_mac));
}

BOOST_AUTO_TEST_CASE(what_another_shard_answers_is_learnt_from_and_not_answered) {
    world w;
    w.arrives(0s, wire::arp_packet::request(peer_mac, peer_ip, our_ip), {.answer = false});
    BOOST_TEST(w.said().empty());
    BOOST_TEST((w.state(peer_ip) == neighbor_state::stale));
}

BOOST_AUTO_TEST_CASE(a_new_mac_is_taken_over_but_not_twice_within_the_lock_time) {
    world w;
    w.send(0s, peer_ip);
    w.reply(0s, peer_ip, peer_mac);
    neighbor_ref ref(*w.cache.find(peer_ip));
    w.reply(500ms, peer_ip, other_mac); // two machines answer: the first keeps it
    BOOST_TEST((w.cache.find(peer_ip)->mac() == peer_mac));
    BOOST_TEST(ref.current());
    BOOST_TEST(w.cache.statistics().mac_change_refused == 1u);
    w.arrives(2s, wire::arp_packet::announcement(other_mac, peer_ip)); // a fail-over
    BOOST_TEST((w.cache.find(peer_ip)->mac() == other_mac));
    BOOST_TEST(!ref.current());
    BOOST_TEST((w.state(peer_ip) == neighbor_state::stale)); // believed, and soon checked
    BOOST_TEST(w.cache.statistics().mac_changed == 1u);
}

BOOST_AUTO_TEST_CASE(a_storm_of_questions_from_strangers_does_not_push_out_neighbours_in_use) {
    world w({.max_entries = 16});
    for (std::uint8_t i = 0; i < 8; ++i) {
        const ipv4 friend_ip(10, 0, 0, static_cast<std::uint8_t>(10 + i));
        w.send(0s, friend_ip);
        w.reply(0s, friend_ip, peer_mac);
    }
    w.said();
    for (std::uint8_t i = 100; i < 250; ++i) {
        w.request(1ms, ipv4(10, 0, 0, i), other_mac, our_ip);
        BOOST_TEST(w.said().size() == 1u); // answered nevertheless
    }
    BOOST_TEST(w.cache.size() == 16u);
    BOOST_TEST(w.cache.statistics().evicted == 150u - 8u);
    for (std::uint8_t i = 0; i < 8; ++i) {
        BOOST_TEST((w.state(ipv4(10, 0, 0, static_cast<std::uint8_t>(10 + i))) == neighbor_state::reachable));
    }
}

BOOST_AUTO_TEST_CASE(a_stranger_finds_no_room_among_neighbours_in_use_and_is_answered_nevertheless) {
    world w({.max_entries = 2});
    for (std::uint8_t i = 10; i < 12; ++i) {
        w.send(0s, ipv4(10, 0, 0, i));
        w.reply(0s, ipv4(10, 0, 0, i), peer_mac);
    }
    w.said();
    w.request(1ms, ipv4(10, 0, 0, 99), other_mac, our_ip);
    BOOST_TEST(w.said().size() == 1u);
    BOOST_TEST((w.state(ipv4(10, 0, 0, 99)) == neighbor_state::unused));
    BOOST_TEST(w.cache.statistics().table_full == 1u);
}

BOOST_AUTO_TEST_CASE(answers_to_strangers_have_a_share_of_entries_and_slots) { // RFC 6583 7.1
    world w({.max_entries = 64, .max_waiting_total = 12});
    const auto stranger = [](int i) { return ipv4(10, 0, 0, static_cast<std::uint8_t>(100 + i)); };
    BOOST_TEST((w.answer(0s, peer_ip) == resolution::queued));
    for (int i = 0; i < 100; ++i) BOOST_TEST((w.answer(1ms, stranger(i)) == (i < 7 ? resolution::queued : resolution::failed)));
    BOOST_TEST(w.said().size() == 8u);
    BOOST_TEST(w.cache.statistics().strangers_refused == 93u);
    BOOST_TEST(w.cache.waiting_packets() == 6u);
    for (std::uint8_t i = 10; i < 16; ++i) BOOST_TEST((w.send(2ms, ipv4(10, 0, 0, i)) == resolution::queued));
    BOOST_TEST(w.said().size() == 6u);
    BOOST_TEST(w.cache.waiting_packets() == 12u);
    BOOST_TEST((w.state(peer_ip) == neighbor_state::incomplete)); // nobody has pushed it out
    w.reply(3ms, peer_ip, peer_mac);
    BOOST_TEST(w.released().size() == 1u);
    w.send(4ms, stranger(0)); // we want something of it ourselves now
    for (int i : {8, 9}) BOOST_TEST((w.answer(5ms, stranger(i)) == resolution::queued)); // so that there is room for two
    BOOST_TEST((w.answer(5ms, stranger(10)) == resolution::failed));
    BOOST_TEST(w.said().size() == 2u);
    BOOST_TEST(w.until(2500ms).size() == 2u * (8 + 1 + 6)); // each once a second
    w.until(3002ms);
    for (int i = 20; i < 26; ++i) BOOST_TEST((w.answer(3002ms, stranger(i)) == resolution::queued)); // in the place of the silent
    BOOST_TEST((w.answer(3002ms, stranger(26)) == resolution::failed));
}

BOOST_AUTO_TEST_CASE(who_is_being_asked_for_makes_no_room) { // RFC 1122 2.3.2.1 (MUST): or he would be asked again at once
    world w({.max_entries = 4});
    for (std::uint8_t i = 10; i < 30; ++i) w.send(0s, ipv4(10, 0, 0, i));
    for (std::uint8_t i = 10; i < 30; ++i) w.send(1ms, ipv4(10, 0, 0, i));
    BOOST_TEST(w.said().size() == 4u);
    BOOST_TEST(w.cache.statistics().table_full == 32u);
    BOOST_TEST(w.cache.set_permanent(ipv4(10, 0, 0, 20), peer_mac)); // whoever says so knows why
    w.cache.check_invariants();
}

BOOST_AUTO_TEST_CASE(a_gateway_makes_no_room_and_is_no_stranger) {
    world w({.max_entries = 3});
    const net_address gateways[] = {ipv4(10, 0, 0, 3), ipv4(10, 0, 0, 4)};
    w.cache.spare_gateways(
        [](const void* all, const net_address& a) noexcept {
            const auto* const each = static_cast<const net_address*>(all);
            return a == each[0] || a == each[1];
        },
        gateways);
    w.request(0s, gateways[0].v4(), peer_mac, our_ip);
    BOOST_TEST((w.answer(0s, ipv4(10, 0, 0, 99)) == resolution::queued));
    BOOST_TEST((w.answer(0s, gateways[1].v4()) == resolution::queued));
    w.until(10s);
    for (std::uint8_t i = 100; i < 110; ++i) w.request(10s, ipv4(10, 0, 0, i), other_mac, our_ip);
    for (std::uint8_t i = 110; i < 120; ++i) w.send(10s, ipv4(10, 0, 0, i));
    BOOST_TEST((w.state(gateways[0].v4()) == neighbor_state::stale));
}

BOOST_AUTO_TEST_CASE(what_the_neighbour_says_unasked_releases_its_packets_and_is_checked_soon) {
    world w;
    w.send(0s, peer_ip);
    w.said();
    w.arrives(1ms, wire::arp_packet::announcement(peer_mac, peer_ip));
    BOOST_TEST(w.released().size() == 1u);
    BOOST_TEST((w.state(peer_ip) == neighbor_state::delay)); // not reachable: it did not answer us
    const auto probes = w.until(5s + 1ms);
    BOOST_REQUIRE_EQUAL(probes.size(), 1u);
    BOOST_TEST((probes[0].destination == peer_mac));
}

BOOST_AUTO_TEST_CASE(a_full_table_gives_up_what_was_confirmed_longest_ago_and_never_a_pinned_entry) {
    world w({.max_entries = 3});
    for (std::uint8_t i = 10; i < 13; ++i) {
        w.send(i * 1ms, ipv4(10, 0, 0, i));
        w.reply(i * 1ms, ipv4(10, 0, 0, i), peer_mac);
    }
    neighbor* pinned = w.cache.find(ipv4(10, 0, 0, 10));
    pinned->pin();
    neighbor_ref evicted(*w.cache.find(ipv4(10, 0, 0, 11)));
    BOOST_TEST((w.send(20ms, ipv4(10, 0, 0, 20)) == resolution::queued));
    BOOST_TEST((w.state(ipv4(10, 0, 0, 10)) == neighbor_state::reachable));
    BOOST_TEST((w.state(ipv4(10, 0, 0, 11)) == neighbor_state::unused));
    BOOST_TEST(!evicted.current());
    BOOST_TEST((w.state(ipv4(10, 0, 0, 12)) == neighbor_state::reachable));

    for (std::uint8_t i : {12, 20}) w.cache.find(ipv4(10, 0, 0, i))->pin();
    BOOST_TEST((w.send(21ms, ipv4(10, 0, 0, 21)) == resolution::failed));
    BOOST_TEST(w.cache.statistics().table_full == 1u);
}

BOOST_AUTO_TEST_CASE(a_reference_to_an_object_that_was_given_to_another_address_is_not_current) {
    world w({.max_entries = 1});
    w.send(0s, peer_ip);
    w.reply(0s, peer_ip, peer_mac);
    neighbor_ref ref(*w.cache.find(peer_ip));
    const ipv4 other_ip(10, 0, 0, 3);
    w.send(1s, other_ip);
    w.reply(1s, other_ip, other_mac);
    BOOST_TEST(ref.get() == w.cache.find(other_ip)); // the same object
    BOOST_TEST(!ref.current());
}

BOOST_AUTO_TEST_CASE(a_permanent_entry_neither_ages_nor_changes_by_arp) {
    world w;
    w.send(0s, peer_ip);
    BOOST_TEST(w.cache.set_permanent(peer_ip, peer_mac));
    BOOST_TEST(w.released().size() == 1u);
    w.arrives(5s, wire::arp_packet::announcement(other_mac, peer_ip));
    w.until(1h);
    BOOST_TEST((w.cache.find(peer_ip)->mac() == peer_mac));
    BOOST_TEST((w.state(peer_ip) == neighbor_state::permanent));
    w.cache.remove(peer_ip);
    BOOST_TEST(w.cache.find(peer_ip) == nullptr);
    w.cache.check_invariants();
}

BOOST_AUTO_TEST_CASE(messages_that_nobody_takes_are_bounded_and_asked_again_later) {
    world w;
    for (std::uint8_t i = 2; i < 102; ++i) w.send(0s, ipv4(10, 0, 0, i), 1);
    BOOST_TEST(w.said().size() == 64u);
    BOOST_TEST(w.cache.statistics().outbox_full == 36u);
    BOOST_TEST(w.until(1s).size() == 100u); // the timer comes back as often as it takes
}

BOOST_AUTO_TEST_CASE(any_order_of_events_keeps_the_invariants) {
    const std::uint64_t seed = testing::test_seed();
    BOOST_TEST_MESSAGE("seed " << seed);
    BOOST_TEST_CONTEXT("seed " << seed) {
        random_generator random(seed);
        world w({.max_entries = 8, .max_waiting_total = 12});
        duration now{0};
        for (int step = 0; step < 20'000; ++step) {
            const ipv4 who(10, 0, 0, static_cast<std::uint8_t>(2 + random.below(14)));
            const mac_address mac(0x02'00'00'00'10'00 + random.below(4));
            switch (random.below(10)) {
            case 0: w.send(now, who, static_cast<std::uint32_t>(1 + random.below(1500))); break;
            case 1:
                if (packet p = w.make(); w.cache.resolve(at(now), who, p, on_behalf::stranger) == resolution::failed)
                    w.cache.keep_refused(std::move(p));
                break;
            case 2: w.reply(now, who, mac); break;
            case 3: w.request(now, who, mac, random.chance(0.5) ? our_ip : who); break;
            case 4: w.cache.confirm(at(now), who); break;
            case 5: w.said(); break;
            case 6: w.released(); break;
            case 7: if (random.chance(0.1)) w.cache.remove(who); break;
            case 8:
                now += duration{static_cast<std::int64_t>(random.below(random.chance(0.05) ? 60'000'000'000 : 400'000'000))};
                w.cache.on_timer(at(now));
                break;
            case 9: w.unreachable(); break;
            }
            w.cache.check_invariants();
        }
        w.said();
        w.released();
        w.until(now + 10min);
        w.unreachable();
        BOOST_TEST(w.cache.waiting_packets() == 0u);
        BOOST_TEST(w.pool.free_count == 256u);
    }
}

BOOST_AUTO_TEST_SUITE_END()
