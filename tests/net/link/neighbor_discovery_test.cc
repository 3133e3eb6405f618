// Neighbour discovery's cache: what solicitations and advertisements do to it. The states' timers are ARP's, too
// (net/link/neighbors).
#include <corewire/net/frame/frame_pool.hh>
#include <corewire/net/link/neighbor_discovery.hh>
#include <corewire/net/wire/ethernet.hh>

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

const ipv6 us = *ipv6::parse("2001:db8::1"), peer = *ipv6::parse("2001:db8::2");
const mac_address peer_mac(0x02'00'00'00'00'02), other_mac(0x02'00'00'00'00'03);
time_point at(duration d) { return from_ns(1'000'000'000'000) + d; }

struct world {
    frame_pool pool{64};
    neighbor_discovery cache{{}, 7};

    resolution send(duration now) {
        packet p;
        p.head = pool.allocate_buffer();
        wire::ethernet_header{}.emit({p.head.append(14), 14});
        const resolution r = cache.resolve(at(now), peer, p);
        cache.check_invariants();
        return r;
    }
    struct flags {
        bool solicited = false, override = false, router = false;
    };
    bool advertise(duration now, std::optional<mac_address> mac, flags f) {
        const bool stopped = cache.on_advertisement(at(now), {f.router, f.solicited, f.override, peer, mac});
        cache.check_invariants();
        return stopped;
    }
    std::vector<nd_message> said() {
        std::vector<nd_message> out;
        for (nd_message m; cache.poll_transmit(m);) out.push_back(m);
        return out;
    }
    std::vector<nd_message> until(duration end) {
        std::vector<nd_message> out;
        while (cache.next_timeout() <= at(end)) {
            cache.on_timer(cache.next_timeout());
            for (const nd_message& m : said()) out.push_back(m);
        }
        return out;
    }
    int released() {
        int n = 0;
        for (packet p; cache.poll_released(p);) ++n;
        return n;
    }
    neighbor_state state() { return cache.find(peer) == nullptr ? neighbor_state::unused : cache.find(peer)->state(); }
    void reach() {
        send(0s);
        advertise(0s, peer_mac, {.solicited = true, .override = true});
        said();
        released();
    }
};
using enum neighbor_state;

} // namespace

BOOST_AUTO_TEST_SUITE(neighbor_discovery)

BOOST_AUTO_TEST_CASE(the_first_packet_asks_the_solicited_node_group_and_leaves_with_the_answer) { // RFC 4861 7.2.2
    world w;
    BOOST_TEST((w.send(0s) == resolution::queued));
    const auto asked = w.said();
    BOOST_REQUIRE(asked.size() == 1u);
    BOOST_TEST((asked[0].what == nd_message::kind::question && asked[0].target == peer));
    BOOST_TEST(to_string(asked[0].destination) == "ff02::1:ff00:2");
    BOOST_TEST(to_string(asked[0].destination_mac) == "33:33:ff:00:00:02");
    w.advertise(1ms, peer_mac, {.solicited = true, .override = true});
    BOOST_TEST((w.state() == reachable));
    BOOST_TEST(w.released() == 1);
}

BOOST_AUTO_TEST_CASE(three_questions_a_second_apart_and_then_it_is_unreachable) { // RFC 4861 7.2.2, 10
    world w;
    w.send(0s);
    BOOST_TEST(w.said().size() + w.until(2s).size() == 3u);
    BOOST_TEST(w.until(3s).empty());
    BOOST_TEST((w.state() == failed));
    BOOST_TEST((w.send(3s) == resolution::failed));
    BOOST_TEST(w.cache.statistics().unreachable_dropped == 1u);
}

BOOST_AUTO_TEST_CASE(a_neighbour_that_is_probed_is_asked_alone) { // RFC 4861 7.3.3
    world w;
    w.reach();
    BOOST_TEST(w.until(45s).empty()); // 30 s, drawn from 15 to 45 (6.3.2)
    BOOST_TEST((w.state() == stale));
    BOOST_TEST((w.send(46s) == resolution::ready));
    const auto probes = w.until(51s);
    BOOST_REQUIRE(probes.size() == 1u);
    BOOST_TEST((probes[0].destination == peer && probes[0].destination_mac == peer_mac));
}

BOOST_AUTO_TEST_CASE(advertisements_change_what_their_flags_allow) { // RFC 4861 7.2.5 and its appendix C
    struct row {
        bool same_mac, with_mac, solicited, override;
        neighbor_state from, to;
        bool changed;
    };
    constexpr row rows[] = {
        // same mac, one given, S, O
        {true, true, true, false, stale, reachable, false},
        {true, true, false, false, stale, stale, false},
        {true, true, false, false, reachable, reachable, false},
        {true, false, true, false, stale, reachable, false},
        {true, false, false, true, stale, stale, false},
        {false, true, true, false, reachable, stale, false},
        {false, true, false, false, reachable, stale, false},
        {false, true, true, false, stale, stale, false},
        {false, true, true, true, reachable, reachable, true},
        {false, true, false, true, reachable, stale, true},
        {false, true, false, true, stale, stale, true},
    };
    for (const row& r : rows) {
        world w;
        w.reach();
        if (r.from == stale) w.until(45s);
        BOOST_REQUIRE((w.state() == r.from));
        std::optional<mac_address> mac;
        if (r.with_mac) mac = r.same_mac ? peer_mac : other_mac;
        w.advertise(r.from == stale ? 46s : 1s, mac, {.solicited = r.solicited, .override = r.override});
        BOOST_TEST(to_string(w.state()) == to_string(r.to), "row " << (&r - rows) << ": " << to_string(w.state()));
        BOOST_TEST((w.cache.find(peer)->mac() == (r.changed ? other_mac : peer_mac)), "row " << (&r - rows));
    }
}

BOOST_AUTO_TEST_CASE(an_advertisement_nobody_asked_for_makes_no_entry) { // RFC 4861 7.2.5
    world w;
    w.advertise(0s, peer_mac, {.solicited = false, .override = true});
    BOOST_TEST((w.state() == unused));
    BOOST_TEST(w.cache.statistics().ignored_unsolicited == 1u);
}

BOOST_AUTO_TEST_CASE(an_answer_without_a_mac_or_with_a_groups_leaves_the_question_open) {
    world w;
    w.send(0s);
    w.advertise(0s, std::nullopt, {.solicited = true});
    BOOST_TEST((w.state() == incomplete));
    w.advertise(0s, mac_address(0x33'33'00'00'00'01), {.solicited = true, .override = true});
    BOOST_TEST((w.state() == incomplete));
    BOOST_TEST(w.cache.statistics().ignored_malformed == 1u);
}

BOOST_AUTO_TEST_CASE(who_asks_for_us_is_known_and_answered) { // RFC 4861 7.2.3, 7.2.4
    world w;
    w.cache.on_solicitation(at(0s), peer, {us, peer_mac});
    BOOST_TEST((w.state() == stale));
    const auto answer = w.said();
    BOOST_REQUIRE(answer.size() == 1u);
    BOOST_TEST((answer[0].what == nd_message::kind::answer && answer[0].target == us && answer[0].solicited));
    BOOST_TEST((answer[0].destination == peer && answer[0].destination_mac == peer_mac));
}

BOOST_AUTO_TEST_CASE(who_asks_without_its_mac_is_answered_at_once_only_when_it_is_known) { // RFC 4861 7.2.4
    world w;
    BOOST_TEST(w.cache.on_solicitation(at(0s), peer, {us, {}})); // the caller's, to send behind a question
    BOOST_TEST((w.said().empty() && w.cache.size() == 0u));
    w.reach();
    BOOST_TEST(!w.cache.on_solicitation(at(0s), peer, {us, {}}));
    BOOST_TEST(w.said().size() == 1u);
}

BOOST_AUTO_TEST_CASE(who_asks_whether_the_address_is_free_is_answered_before_all) { // RFC 4861 7.2.4
    world w;
    w.cache.on_solicitation(at(0s), ipv6::any(), {us, {}});
    const auto answer = w.said();
    BOOST_REQUIRE(answer.size() == 1u);
    BOOST_TEST((answer[0].destination == ipv6::all_nodes() && !answer[0].solicited));
    BOOST_TEST(w.cache.size() == 0u);
}

BOOST_AUTO_TEST_CASE(a_router_that_says_it_is_none_any_more_is_told) { // RFC 4861 7.2.5
    world w;
    w.send(0s);
    BOOST_TEST(!w.advertise(0s, peer_mac, {.solicited = true, .override = true, .router = true}));
    BOOST_TEST(w.cache.find(peer)->is_router());
    BOOST_TEST(w.advertise(1s, peer_mac, {.solicited = true, .override = true, .router = false}));
    BOOST_TEST(!w.cache.find(peer)->is_router());
}

BOOST_AUTO_TEST_CASE(a_router_that_advertises_without_its_mac_is_one_all_the_same) { // RFC 4861 6.3.4
    for (const bool known : {true, false}) {
        world w;
        if (known) w.reach();
        else w.send(0s);
        w.cache.on_router(peer);
        BOOST_TEST(w.cache.find(peer)->is_router());
        BOOST_TEST(w.advertise(1s, peer_mac, {.solicited = true, .override = true, .router = false})); // 7.2.5: it goes
        BOOST_TEST(!w.cache.find(peer)->is_router());
    }
    world w;
    w.cache.on_router(peer);
    BOOST_TEST(w.cache.size() == 0u);
}

BOOST_AUTO_TEST_CASE(how_long_a_neighbour_counts_as_reachable_is_drawn) { // RFC 4861 6.3.2
    duration least = 1h, most = 0s;
    for (std::uint64_t seed = 1; seed <= 64; ++seed) {
        corewire::neighbor_discovery cache({}, seed);
        least = std::min(least, cache.reachable_time());
        most = std::max(most, cache.reachable_time());
    }
    BOOST_TEST((least >= 15s && least < 18s));
    BOOST_TEST((most <= 45s && most > 42s));
}

BOOST_AUTO_TEST_CASE(routers_say_how_long_a_neighbour_counts_as_reachable) { // RFC 4861 6.3.4
    world w;
    w.cache.on_times(at(0s), 4s, 0s);
    const duration drawn = w.cache.reachable_time();
    BOOST_TEST((drawn >= 2s && drawn <= 6s));
    w.reach();
    w.until(drawn - 1ms);
    BOOST_TEST((w.state() == reachable));
    w.until(drawn);
    BOOST_TEST((w.state() == stale));
    // The same value again draws nothing, and neither does none; another one does, once.
    w.cache.on_times(at(7s), 4s, 0s);
    w.cache.on_times(at(7s), 0s, 0s);
    BOOST_TEST((w.cache.reachable_time() == drawn));
    w.cache.on_times(at(7s), 100s, 0s);
    BOOST_TEST((w.cache.reachable_time() >= 50s && w.cache.reachable_time() <= 150s));
}

BOOST_AUTO_TEST_CASE(what_is_reachable_already_is_so_for_the_new_time) {
    world w;
    w.cache.on_times(at(0s), 1000s, 0s);
    w.reach();
    const ipv6 second = *ipv6::parse("2001:db8::3");
    w.cache.on_solicitation(at(1s), second, {us, other_mac});
    w.said();
    w.cache.on_advertisement(at(1s), {false, true, true, second, other_mac});
    w.cache.on_times(at(2s), 2s, 0s); // 1 to 3 s
    w.cache.check_invariants();
    w.until(4s);
    BOOST_TEST((w.state() == stale));
    BOOST_TEST((w.cache.find(second)->state() == stale));
}

BOOST_AUTO_TEST_CASE(the_time_is_drawn_again_every_few_hours) { // RFC 4861 6.3.2
    world w;
    w.reach();
    w.until(45s);
    const duration first = w.cache.reachable_time();
    w.cache.on_timer(at(119min));
    BOOST_TEST((w.cache.reachable_time() == first));
    w.cache.on_timer(at(121min));
    BOOST_TEST((w.cache.reachable_time() != first));
    BOOST_TEST((w.cache.reachable_time() >= 15s && w.cache.reachable_time() <= 45s));
}

BOOST_AUTO_TEST_CASE(routers_say_how_long_an_answer_is_waited_for) { // RFC 4861 6.3.4
    world w;
    w.send(0s);
    BOOST_TEST(w.said().size() == 1u);
    w.cache.on_times(at(0s), 0s, 200ms); // for the question that is out already, too
    BOOST_TEST(w.until(199ms).empty());
    BOOST_TEST(w.until(200ms).size() == 1u);
    BOOST_TEST(w.until(400ms).size() == 1u);
    BOOST_TEST(w.until(600ms).empty());
    BOOST_TEST((w.state() == failed));
}

BOOST_AUTO_TEST_CASE(no_router_can_have_us_ask_without_pause_or_believe_for_ever) {
    world w;
    w.cache.on_times(at(0s), 1ms, 1ms);
    BOOST_TEST((w.cache.reachable_time() >= 500ms && w.cache.reachable_time() <= 1500ms));
    BOOST_TEST((w.cache.retransmit_time() == 100ms));
    constexpr duration longest = std::chrono::milliseconds{UINT32_MAX}; // 49 days
    w.cache.on_times(at(0s), longest, longest);
    BOOST_TEST((w.cache.reachable_time() >= 30min && w.cache.reachable_time() <= 90min));
    BOOST_TEST((w.cache.retransmit_time() == 10s));
}

BOOST_AUTO_TEST_CASE(strangers_that_ask_do_not_push_out_neighbours_in_use) {
    neighbor_options few;
    few.max_entries = 4;
    corewire::neighbor_discovery cache(few, 7);
    BOOST_REQUIRE(cache.set_permanent(peer, peer_mac));
    for (std::uint64_t i = 16; i < 64; ++i) {
        cache.on_solicitation(at(0s), wire::with_identifier(peer, i), {us, mac_address(0x02'00'00'00'01'00 + i)});
        for (nd_message m; cache.poll_transmit(m);) {}
        cache.check_invariants();
    }
    BOOST_TEST(cache.size() == 4u);
    BOOST_TEST((cache.find(peer)->state() == permanent));
}

BOOST_AUTO_TEST_SUITE_END()
