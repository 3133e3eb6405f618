// Our own IPv6 addresses: duplicate address detection, life times, the choice of a source.
#include <corewire/net/link/ipv6_addresses.hh>

#include <boost/test/unit_test.hpp>

#include <set>

using namespace corewire;
using namespace std::chrono_literals;
using phase = ipv6_address_phase;
using origin = ipv6_address_origin;

namespace {

ipv6 a6(const char* text) { return *ipv6::parse(text); }
time_point at(duration d) { return from_ns(1'000'000'000'000) + d; }

/// Lets time pass to `end`; the probes that were asked for.
int probes_until(ipv6_addresses& addresses, duration end) {
    int probes = 0;
    while (addresses.next_timeout() <= at(end)) {
        addresses.on_timer(addresses.next_timeout());
        for (ipv6 target; addresses.poll_probe(target);) ++probes;
    }
    return probes;
}

} // namespace

BOOST_AUTO_TEST_SUITE(ipv6_addresses)

BOOST_AUTO_TEST_CASE(an_address_is_asked_for_and_used_when_nobody_has_it) { // RFC 4862 5.4.2
    corewire::ipv6_addresses addresses({}, 3);
    addresses.add(at(0s), a6("2001:db8::1"), 64, origin::configured);
    BOOST_TEST(!addresses.is_ours(a6("2001:db8::1")));
    BOOST_TEST(addresses.is_claimed(a6("2001:db8::1")));
    BOOST_TEST(addresses.is_our_group(a6("ff02::1:ff00:1"))); // who has it must be heard
    BOOST_TEST(probes_until(addresses, 1s) == 1);             // after a delay of a second at most
    BOOST_TEST(!addresses.is_ours(a6("2001:db8::1")));
    BOOST_TEST(probes_until(addresses, 2s) == 0);
    BOOST_TEST(addresses.is_ours(a6("2001:db8::1")));
}

BOOST_AUTO_TEST_CASE(hosts_do_not_ask_all_at_once) { // RFC 4862 5.4.2: after up to MAX_RTR_SOLICITATION_DELAY
    std::set<duration> after;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        corewire::ipv6_addresses addresses({.probes = 1}, seed);
        addresses.add(at(0s), a6("2001:db8::1"), 64, origin::configured);
        after.insert(addresses.next_timeout() - at(0s));
        BOOST_TEST((*after.rbegin() <= 1s));
    }
    BOOST_TEST(after.size() > 10u);
}

BOOST_AUTO_TEST_CASE(a_probe_that_has_not_left_is_asked_for_again) {
    corewire::ipv6_addresses addresses({}, 3);
    const ipv6 ours = a6("2001:db8::1");
    addresses.add(at(0s), ours, 64, origin::configured);
    BOOST_TEST(probes_until(addresses, 1s) == 1);
    addresses.on_probe_unsent(ours);
    BOOST_TEST(probes_until(addresses, 2s) == 1); // after RetransTimer
    BOOST_TEST(!addresses.is_ours(ours));
    probes_until(addresses, 3s);
    BOOST_TEST(addresses.is_ours(ours));
    addresses.on_probe_unsent(ours);
    BOOST_TEST(addresses.is_ours(ours));
}

BOOST_AUTO_TEST_CASE(an_address_that_somebody_has_is_never_used) { // RFC 4862 5.4.5
    corewire::ipv6_addresses addresses({}, 3);
    addresses.add(at(0s), a6("2001:db8::1"), 64, origin::configured);
    probes_until(addresses, 1s);
    BOOST_TEST(addresses.on_conflict(a6("2001:db8::1")));
    BOOST_TEST(probes_until(addresses, 60s) == 0);
    BOOST_TEST(!addresses.is_ours(a6("2001:db8::1")));
    BOOST_TEST(!addresses.is_claimed(a6("2001:db8::1")));
    BOOST_TEST(addresses.source_for(a6("2001:db8::2"), true) == nullptr);
    BOOST_TEST(addresses.conflicts() == 1u);
}

BOOST_AUTO_TEST_CASE(an_address_in_use_is_kept_and_the_conflict_counted) {
    corewire::ipv6_addresses addresses({.probes = 0}, 3);
    addresses.add(at(0s), a6("2001:db8::1"), 64, origin::configured);
    BOOST_TEST(!addresses.on_conflict(a6("2001:db8::1")));
    BOOST_TEST(addresses.is_ours(a6("2001:db8::1")));
    BOOST_TEST(addresses.conflicts() == 1u);
}

BOOST_AUTO_TEST_CASE(another_shard_asks_and_this_one_waits_as_long) {
    corewire::ipv6_addresses addresses({.silent = true}, 3);
    addresses.add(at(0s), a6("2001:db8::1"), 64, origin::configured);
    BOOST_TEST(probes_until(addresses, 3s) == 0);
    BOOST_TEST(addresses.is_ours(a6("2001:db8::1")));
}

BOOST_AUTO_TEST_CASE(a_silent_shard_waits_as_long_as_who_asks_may) {
    for (std::uint64_t seed = 0; seed < 32; ++seed) {
        corewire::ipv6_addresses addresses({.silent = true, .retransmit_time = 100ms}, seed);
        addresses.add(at(0s), a6("2001:db8::1"), 64, origin::configured);
        probes_until(addresses, 1100ms); // who asks draws a second at most, and then waits for an answer
        BOOST_TEST(!addresses.is_ours(a6("2001:db8::1")));
        probes_until(addresses, 1400ms);
        BOOST_TEST(addresses.is_ours(a6("2001:db8::1")));
    }
}

BOOST_AUTO_TEST_CASE(a_generation_tells_when_another_address_is_ours_or_one_is_no_more) {
    corewire::ipv6_addresses addresses({}, 3);
    const std::uint32_t first = addresses.generation();
    own_ipv6_address* a = addresses.add(at(0s), a6("2001:db8::1"), 64, origin::autoconfigured);
    a->preferred_until = at(10s);
    a->valid_until = at(20s);
    BOOST_TEST(addresses.generation() == first); // tentative
    probes_until(addresses, 3s);
    const std::uint32_t ours = addresses.generation();
    BOOST_TEST(ours != first);
    probes_until(addresses, 10s);
    BOOST_TEST(addresses.generation() != ours); // deprecated: ours, and others are sent from
    probes_until(addresses, 20s);
    const std::uint32_t gone = addresses.generation();
    BOOST_TEST(gone != ours);
    corewire::ipv6_addresses unasked({.probes = 0}, 3);
    unasked.add(at(0s), a6("2001:db8::1"), 64, origin::configured);
    const std::uint32_t there = unasked.generation();
    BOOST_TEST(there != first);
    unasked.remove(a6("2001:db8::1"));
    BOOST_TEST(unasked.generation() != there);
}

BOOST_AUTO_TEST_CASE(life_times_end) { // RFC 4862 5.5.4
    corewire::ipv6_addresses addresses({.probes = 0}, 3);
    own_ipv6_address* a = addresses.add(at(0s), a6("2001:db8::1"), 64, origin::autoconfigured);
    a->preferred_until = at(10s);
    a->valid_until = at(20s);
    probes_until(addresses, 10s);
    BOOST_TEST((addresses.all()[0].phase == phase::deprecated && addresses.is_ours(a6("2001:db8::1"))));
    probes_until(addresses, 20s);
    BOOST_TEST(addresses.all().empty());
    BOOST_TEST((addresses.next_timeout() == never));
}

BOOST_AUTO_TEST_CASE(the_table_is_bounded) {
    corewire::ipv6_addresses addresses({.probes = 0}, 3);
    for (std::uint64_t i = 0; i <= corewire::ipv6_addresses::max_addresses; ++i)
        addresses.add(at(0s), wire::with_identifier(a6("2001:db8::"), i), 64, origin::configured);
    BOOST_TEST(addresses.all().size() == corewire::ipv6_addresses::max_addresses);
    BOOST_TEST(addresses.refused() == 1u);
}

BOOST_AUTO_TEST_CASE(the_source_fits_the_destination) { // RFC 6724 5
    corewire::ipv6_addresses addresses({.probes = 0}, 3);
    addresses.add(at(0s), a6("fe80::1"), 64, origin::link_local);
    addresses.add(at(0s), a6("2001:db8:1::1"), 64, origin::configured);
    addresses.add(at(0s), a6("2001:db8:2::1"), 64, origin::configured)->phase = phase::deprecated;
    const auto source = [&](const char* to) { return to_string(addresses.source_for(a6(to))->address); };
    BOOST_TEST(source("2001:db8:2::1") == "2001:db8:2::1"); // rule 1: the address itself
    BOOST_TEST(source("fe80::9") == "fe80::1");             // rule 2: the scope
    BOOST_TEST(source("ff02::1") == "fe80::1");
    BOOST_TEST(source("2001:db8:2::9") == "2001:db8:1::1"); // rule 3: not deprecated, though the prefix fits better
    addresses.add(at(0s), a6("2001:db8:2::2"), 64, origin::configured);
    BOOST_TEST(source("2001:db8:2::9") == "2001:db8:2::2"); // rule 8: the longest prefix
    BOOST_TEST(source("2001:db8:1::9") == "2001:db8:1::1");
    addresses.add(at(0s), a6("fd00::1"), 64, origin::configured);
    BOOST_TEST(source("fd77::9") == "fd00::1"); // rule 6: private prefixes have a label of their own
    BOOST_TEST(source("4000::9") == "2001:db8:1::1");
}

BOOST_AUTO_TEST_SUITE_END()
