// Announcing our address, and what happens when somebody else has it.
#include <corewire/net/link/neighbors.hh>

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

const mac_address our_mac(0x02'00'00'00'00'01);
const mac_address rival(0x02'00'00'00'00'66);
const ipv4 our_ip(10, 0, 0, 1);
time_point at(duration d) { return from_ns(5'000'000'000) + d; }

struct host {
    neighbor_cache cache{our_mac, {our_ip, 24}, {}, 11};
    std::vector<wire::arp_packet> said() {
        std::vector<wire::arp_packet> out;
        for (arp_message m; cache.poll_transmit(m);) {
            BOOST_TEST((m.destination == mac_address::broadcast()));
            out.push_back(m.arp);
        }
        return out;
    }
    std::vector<wire::arp_packet> until(duration end) {
        while (cache.next_timeout() <= at(end)) cache.on_timer(cache.next_timeout());
        return said();
    }
    void rival_speaks(duration now) { cache.on_arp(at(now), wire::arp_packet::announcement(rival, our_ip)); }
};

} // namespace

BOOST_AUTO_TEST_SUITE(address_conflict)

BOOST_AUTO_TEST_CASE(a_host_that_starts_announces_itself_twice_two_seconds_apart) {
    host h;
    h.cache.start(at(0s));
    const auto first = h.said();
    BOOST_REQUIRE_EQUAL(first.size(), 1u);
    BOOST_TEST((first[0] == wire::arp_packet::announcement(our_mac, our_ip)));
    BOOST_TEST(h.cache.claim().usable());
    BOOST_TEST(h.until(2s - 1ns).size() == 0u);
    BOOST_TEST(h.until(2s).size() == 1u);
    BOOST_TEST(h.until(1h).size() == 0u);
    BOOST_TEST((h.cache.claim().phase() == claim_phase::owned));
}

BOOST_AUTO_TEST_CASE(who_answers_the_question_of_a_host_that_starts_is_a_conflict) {
    host h;
    h.cache.start(at(0s), false, true);
    const auto first = h.said();
    BOOST_REQUIRE_EQUAL(first.size(), 2u);
    BOOST_TEST((first[0] == wire::arp_packet::request(our_mac, ipv4::any(), our_ip)));
    BOOST_TEST((first[1] == wire::arp_packet::announcement(our_mac, our_ip)));
    // A host that does not mind an announcement: it answers who asks for its address.
    h.cache.on_arp(at(1ms), {wire::arp_operation::reply, rival, our_ip, our_mac, ipv4::any()});
    BOOST_TEST(h.cache.claim().conflicts() == 1u);
    BOOST_TEST((h.cache.claim().rival() == rival));
    BOOST_TEST(h.cache.claim().usable()); // kept (RFC 5227 2.4 (c))
    BOOST_TEST(h.cache.find(our_ip) == nullptr);
    BOOST_TEST(h.until(2s).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_careful_host_probes_three_times_before_it_announces) {
    host h;
    h.cache.start(at(0s), true);
    BOOST_TEST(!h.cache.claim().usable());
    const auto said = h.until(10s);
    BOOST_REQUIRE_EQUAL(said.size(), 5u);
    for (int i = 0; i < 3; ++i) BOOST_TEST((said[static_cast<std::size_t>(i)] == wire::arp_packet::request(our_mac, ipv4::any(), our_ip)));
    for (int i = 3; i < 5; ++i) BOOST_TEST((said[static_cast<std::size_t>(i)] == wire::arp_packet::announcement(our_mac, our_ip)));
    BOOST_TEST(h.cache.claim().usable());
}

BOOST_AUTO_TEST_CASE(a_probe_that_is_answered_loses_the_address_and_questions_for_it_go_unanswered) {
    host h;
    h.cache.start(at(0s), true);
    h.until(1s);
    h.cache.on_arp(at(1s), {wire::arp_operation::reply, rival, our_ip, our_mac, ipv4::any()});
    BOOST_TEST((h.cache.claim().phase() == claim_phase::lost));
    BOOST_TEST((h.cache.claim().rival() == rival));
    BOOST_TEST(h.until(1h).size() == 0u);
    h.cache.on_arp(at(2s), wire::arp_packet::request(mac_address(0x020000000009), ipv4(10, 0, 0, 9), our_ip));
    BOOST_TEST(h.said().size() == 0u);
}

BOOST_AUTO_TEST_CASE(somebody_elses_probe_for_the_same_address_is_a_conflict_while_we_probe) {
    host h;
    h.cache.start(at(0s), true);
    h.cache.on_arp(at(100ms), wire::arp_packet::request(rival, ipv4::any(), our_ip));
    BOOST_TEST((h.cache.claim().phase() == claim_phase::lost));
}

BOOST_AUTO_TEST_CASE(a_conflict_is_counted_and_the_address_defended_once_in_ten_seconds) {
    host h;
    h.cache.start(at(0s));
    h.until(3s);
    for (int i = 0; i < 100; ++i) h.rival_speaks(4s + i * 1ms);
    BOOST_TEST(h.cache.claim().conflicts() == 100u);
    BOOST_TEST(h.cache.claim().defences() == 1u);
    BOOST_TEST(h.said().size() == 1u);
    h.rival_speaks(14s - 1ns);
    BOOST_TEST(h.said().size() == 0u);
    h.rival_speaks(14s);
    BOOST_TEST(h.said().size() == 1u);
    BOOST_TEST(h.cache.claim().usable()); // kept
    BOOST_TEST(h.cache.size() == 0u);     // and nothing learnt from the rival
}

BOOST_AUTO_TEST_CASE(a_conflict_that_another_shard_counts_is_defended_by_who_announces) {
    host h;
    h.cache.start(at(0s));
    h.until(3s);
    h.cache.on_arp(at(4s), wire::arp_packet::announcement(rival, our_ip), {.answer = false});
    BOOST_TEST(h.cache.claim().conflicts() == 0u);
    BOOST_TEST(h.cache.claim().defences() == 1u);
    BOOST_TEST(h.said().size() == 1u);
}

BOOST_AUTO_TEST_CASE(our_own_announcement_reflected_by_a_switch_is_no_conflict) {
    host h;
    h.cache.start(at(0s));
    h.cache.on_arp(at(1ms), wire::arp_packet::announcement(our_mac, our_ip));
    BOOST_TEST(h.cache.claim().conflicts() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
