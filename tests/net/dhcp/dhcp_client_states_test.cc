// The life of a lease, on a virtual clock, against a server that says what it is told to.
#include "scripted_server.hh"

#include <set>

using namespace corewire;
using namespace corewire::dhcp_test;
using type = dhcp_message_type;

BOOST_AUTO_TEST_SUITE(dhcp_client_states)

BOOST_AUTO_TEST_CASE(discover_offer_request_and_acknowledgement_give_an_address) { // RFC 2131 3.1, 4.4.1
    line l;
    l.start();
    l.pass(1ms);
    BOOST_REQUIRE(l.said.size() == 1u);
    const heard discover = l.last();
    BOOST_TEST((discover.type == type::discover && discover.broadcast));
    BOOST_TEST((discover.how.source.is_any() && discover.how.destination.is_broadcast()));
    l.answer(type::offer);
    const heard request = l.last();
    BOOST_TEST((request.type == type::request && request.broadcast && request.client.is_any()));
    BOOST_TEST(request.transaction == discover.transaction);
    BOOST_TEST((request.address(50) == given && request.address(54) == server_address));
    BOOST_TEST(l.client.lease() == nullptr);
    l.answer(type::ack);
    BOOST_TEST(l.client.lease() == nullptr); // looked at first
    l.pass(1s);
    BOOST_REQUIRE(l.client.lease() != nullptr);
    const dhcp_lease& lease = *l.client.lease();
    BOOST_TEST((lease.address == ip_prefix(given, 24)));
    BOOST_REQUIRE(lease.routes.count == 1u);
    BOOST_TEST((lease.routes.items[0] == route{ip_prefix(ipv4::any(), 0), server_address}));
    BOOST_TEST((lease.ends_at == request.at + 3600s)); // from when it was asked for
    BOOST_TEST(l.probes.size() == 2u);
    BOOST_TEST(l.client.generation() == 1u);
}

BOOST_AUTO_TEST_CASE(the_client_is_known_by_an_identifier_that_the_kernels_client_does_not_have) { // RFC 4361 6.1
    line l({.association = 0x63770007, .start_delay = duration{0}});
    l.start();
    l.pass(1ms);
    const option* id = l.last().find(61);
    BOOST_REQUIRE(id != nullptr);
    BOOST_TEST(id->data.size() == 15u);
    BOOST_TEST(load_u8(id->data.data()) == 255u);
    BOOST_TEST(load_be32(id->data.data() + 1) == 0x63770007u);
    BOOST_TEST(load_be16(id->data.data() + 5) == 3u);
    BOOST_TEST((mac_address::load(id->data.data() + 9) == our_mac));
}

BOOST_AUTO_TEST_CASE(the_classless_routes_are_asked_for_before_the_routers) { // RFC 3442
    line l;
    l.start();
    l.pass(1ms);
    const bytes list = l.last().find(55)->data;
    const auto at = [&](unsigned code) { return std::ranges::find(list, static_cast<std::byte>(code)) - list.begin(); };
    BOOST_TEST(at(121) < at(3));
    BOOST_TEST(at(3) < static_cast<std::ptrdiff_t>(list.size()));
}

BOOST_AUTO_TEST_CASE(an_unanswered_question_is_asked_again_after_4_8_16_32_64_and_64_seconds) { // RFC 2131 4.1
    line l;
    l.start();
    l.pass(300s);
    const int expected[] = {4, 8, 16, 32, 64, 64};
    BOOST_REQUIRE(l.said.size() >= 7u);
    for (std::size_t i = 0; i < 6; ++i) {
        const duration gap = l.said[i + 1].at - l.said[i].at;
        BOOST_TEST((gap >= std::chrono::seconds{expected[i]} - 1s && gap <= std::chrono::seconds{expected[i]} + 1s));
        BOOST_TEST((l.said[i].type == type::discover && l.said[i].transaction == l.said[0].transaction));
    }
    BOOST_TEST((l.said[1].at - l.said[0].at != 4s)); // a little more or less
    BOOST_TEST(l.said[6].seconds >= 180u);
}

BOOST_AUTO_TEST_CASE(a_request_has_been_asking_as_long_as_the_discovery_before_it) { // RFC 2131 3.1 (3)
    line l;
    l.start();
    l.pass(20s);
    const heard discover = l.last();
    BOOST_REQUIRE((discover.type == type::discover && discover.seconds != 0));
    l.pass(2s);
    l.answer(type::offer);
    BOOST_TEST((l.last().type == type::request && l.last().seconds == discover.seconds));
    l.pass(6s);
    BOOST_TEST((l.said.back().type == type::request && l.said.size() == 5u));
    BOOST_TEST(l.last().seconds == discover.seconds);
}

BOOST_AUTO_TEST_CASE(a_request_that_is_not_answered_four_times_begins_anew) { // RFC 2131 3.1 (5)
    line l;
    l.start();
    l.pass(1ms);
    l.answer(type::offer);
    const std::uint32_t first = l.last().transaction;
    l.pass(70s);
    int requests = 0;
    for (const heard& h : l.said) requests += h.type == type::request;
    BOOST_TEST(requests == 4);
    BOOST_TEST((l.last().type == type::discover && l.last().transaction != first));
    BOOST_TEST((l.last().address(50) == given)); // the same address, if it can be
}

BOOST_AUTO_TEST_CASE(what_answers_no_question_of_ours_is_ignored) {
    line l;
    l.start();
    l.pass(1ms);
    l.hear(reply(type::offer, l.last().transaction + 1, given, l.offer_options())); // another's number
    const mac_address other(0x02'00'00'00'00'08);
    l.hear(reply(type::offer, l.last().transaction, given, l.offer_options(), other)); // another's MAC
    auto foreign = l.offer_options();
    foreign.push_back(raw(61, {1, 2, 0, 0, 0, 0, 7}));
    l.hear(reply(type::offer, l.last().transaction, given, foreign)); // another's identifier: RFC 6842 3
    l.answer(type::ack);                                               // nothing was requested
    BOOST_TEST(l.said.size() == 1u);
    BOOST_TEST(l.client.statistics().ignored == 4u);
    l.answer(type::offer);
    l.hear(reply(type::ack, l.last().transaction, given, {address(54, ipv4(192, 0, 2, 99)), word(51, 60)})); // another server
    l.answer(type::ack, ipv4(192, 0, 2, 51)); // another address
    l.hear(reply(type::nak, l.last().transaction, ipv4::any(), {address(54, ipv4(192, 0, 2, 99))})); // another server
    BOOST_TEST(l.client.statistics().ignored == 7u);
    BOOST_TEST((l.client.state() == dhcp_state::requesting));
}

BOOST_AUTO_TEST_CASE(only_the_server_of_a_lease_renews_or_refuses_it) { // RFC 2131 4.4.1, 4.4.5
    line l;
    l.acquire(3600);
    l.pass(1900s);
    BOOST_REQUIRE((l.client.state() == dhcp_state::renewing));
    const ipv4 other(192, 0, 2, 99);
    auto options = l.offer_options(7200);
    options[0] = address(54, other);
    l.hear(reply(type::ack, l.last().transaction, given, options));
    l.hear(reply(type::nak, l.last().transaction, ipv4::any(), {address(54, other)}));
    BOOST_TEST((l.client.state() == dhcp_state::renewing && l.client.lease()->server == server_address));
    BOOST_TEST(l.client.statistics().ignored == 2u);
    l.answer(type::ack);
    BOOST_TEST((l.client.state() == dhcp_state::bound));
}

BOOST_AUTO_TEST_CASE(addresses_that_no_host_can_have_are_not_taken) {
    for (const ipv4 bad : {ipv4::any(), ipv4::loopback(), ipv4(224, 0, 0, 5), ipv4::broadcast(), ipv4(192, 0, 2, 0),
                           ipv4(192, 0, 2, 255)}) {
        line l;
        l.start();
        l.pass(1ms);
        l.answer(type::offer, bad);
        BOOST_TEST(l.said.size() == 1u, to_string(bad));
        BOOST_TEST(l.client.statistics().unusable == 1u);
    }
    line l;
    l.start();
    l.pass(1ms);
    l.hear(reply(type::offer, l.last().transaction, given, {word(51, 60)}));                                // no server
    l.hear(reply(type::offer, l.last().transaction, given, {address(54, server_address)}));                  // for how long?
    l.hear(reply(type::offer, l.last().transaction, given, {address(54, server_address), word(51, 0)}));
    BOOST_TEST(l.client.statistics().unusable == 3u);
}

BOOST_AUTO_TEST_CASE(a_lease_is_renewed_at_half_its_time_by_its_server_alone) { // RFC 2131 4.4.5
    line l;
    l.acquire(3600);
    const std::size_t before = l.said.size();
    const time_point end = l.client.lease()->ends_at;
    l.pass(1500s);
    BOOST_TEST(l.said.size() == before);
    l.pass(400s);
    BOOST_REQUIRE(l.said.size() == before + 1);
    const heard renewal = l.last();
    BOOST_TEST((renewal.type == type::request && renewal.client == given && !renewal.broadcast));
    BOOST_TEST((renewal.how.source == given && renewal.how.destination == server_address));
    BOOST_TEST((renewal.find(50) == nullptr && renewal.find(54) == nullptr));
    l.answer(type::ack);
    BOOST_TEST((l.client.state() == dhcp_state::bound));
    BOOST_TEST((l.client.lease()->ends_at == renewal.at + 3600s));
    BOOST_TEST((l.client.lease()->ends_at > end));
    BOOST_TEST(l.client.generation() == 1u); // nothing is different
    BOOST_TEST(l.client.statistics().renewals == 1u);
}

BOOST_AUTO_TEST_CASE(an_unanswered_renewal_is_asked_of_all_and_then_the_address_is_given_up) {
    line l;
    l.acquire(3600);
    const std::size_t before = l.said.size();
    const dhcp_lease lease = *l.client.lease();
    l.pass(3598s);
    std::vector<heard> renewals(l.said.begin() + static_cast<std::ptrdiff_t>(before), l.said.end());
    int to_server = 0, to_all = 0;
    for (std::size_t i = 0; i < renewals.size(); ++i) {
        const heard& h = renewals[i];
        BOOST_TEST((h.type == type::request && h.client == given));
        (h.how.destination.is_broadcast() ? to_all : to_server)++;
        if (i != 0) BOOST_TEST((h.at - renewals[i - 1].at >= 60s || h.how.destination != renewals[i - 1].how.destination));
    }
    BOOST_REQUIRE((to_server >= 3 && to_all >= 2));
    BOOST_TEST((renewals[0].at == lease.renew_at && renewals[1].at == lease.renew_at + (lease.rebind_at - lease.renew_at) / 2));
    const auto to = static_cast<std::size_t>(to_server);
    BOOST_TEST((renewals[to].at == lease.rebind_at && renewals[to + 1].at == lease.rebind_at + (lease.ends_at - lease.rebind_at) / 2));
    BOOST_TEST(l.client.lease() != nullptr);
    l.pass(3s);
    BOOST_TEST(l.client.lease() == nullptr);
    BOOST_TEST(l.client.statistics().expired == 1u);
    BOOST_TEST(l.client.generation() == 2u);
    BOOST_TEST((l.last().type == type::discover && l.last().address(50) == given));
}

BOOST_AUTO_TEST_CASE(any_server_may_answer_who_asks_all) {
    line l;
    l.acquire(3600);
    l.pass(3300s);
    BOOST_TEST((l.client.state() == dhcp_state::rebinding));
    const ipv4 other(192, 0, 2, 3);
    l.hear(reply(type::ack, l.last().transaction, given,
                 {address(54, other), address(1, ipv4(255, 255, 255, 0)), word(51, 7200), address(3, other)}));
    BOOST_TEST((l.client.state() == dhcp_state::bound));
    BOOST_TEST((l.client.lease()->server == other));
    BOOST_TEST(l.client.generation() == 2u); // another router
}

BOOST_AUTO_TEST_CASE(the_servers_times_count_if_they_make_sense) { // RFC 2131 4.4.5
    struct times {
        duration renew, rebind;
    };
    const auto of_lease = [](std::uint32_t t1, std::uint32_t t2, std::uint64_t seed = 11) -> times {
        line l({.start_delay = duration{0}}, seed);
        l.start();
        l.pass(1ms);
        l.answer(type::offer);
        auto options = l.offer_options(3600);
        options.push_back(word(58, t1));
        options.push_back(word(59, t2));
        const time_point asked = l.last().at;
        l.hear(reply(type::ack, l.last().transaction, given, options));
        l.pass(1s);
        return {l.client.lease()->renew_at - asked, l.client.lease()->rebind_at - asked};
    };
    const auto about = [](times is, duration t1, duration t2) {
        return is.renew <= t1 && is.renew >= t1 - t1 / 16 && is.rebind <= t2 && is.rebind >= t2 - (t2 - t1) / 16;
    };
    BOOST_TEST(about(of_lease(600, 2400), 600s, 2400s));
    BOOST_TEST(about(of_lease(3400, 2400), 1800s, 2400s)); // T1 behind T2
    BOOST_TEST(about(of_lease(600, 5000), 600s, 3150s));   // T2 behind the end
    BOOST_TEST(about(of_lease(0, 0), 1800s, 3150s));
    std::set<duration> renew, rebind; // not all hosts at once
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const times is = of_lease(600, 2400, seed);
        BOOST_TEST(about(is, 600s, 2400s));
        renew.insert(is.renew);
        rebind.insert(is.rebind);
    }
    BOOST_TEST((*renew.rbegin() - *renew.begin() > 20s));
    BOOST_TEST((*rebind.rbegin() - *rebind.begin() > 60s));
}

BOOST_AUTO_TEST_CASE(a_lease_for_ever_is_never_renewed) {
    line l;
    l.acquire(0xffffffff);
    const std::size_t before = l.said.size();
    l.pass(std::chrono::hours{24 * 365});
    BOOST_TEST(l.said.size() == before);
    BOOST_TEST((l.client.next_timeout() == never));
}

BOOST_AUTO_TEST_CASE(a_refusal_takes_the_address_away_and_begins_anew_more_slowly_each_time) { // RFC 2131 3.2 (4)
    line l;
    l.acquire(3600);
    l.pass(1900s);
    l.hear(reply(type::nak, l.last().transaction, ipv4::any(), {address(54, server_address)}));
    BOOST_TEST(l.client.lease() == nullptr);
    l.pass(1ms);
    BOOST_TEST((l.last().type == type::discover && l.last().find(50) == nullptr));
    duration before{0};
    for (int i = 0; i < 4; ++i) { // a server that offers and then refuses
        l.answer(type::offer);
        const time_point refused = l.now;
        l.hear(reply(type::nak, l.last().transaction, ipv4::any(), {address(54, server_address)}));
        while (l.last().type != type::discover) l.pass(100ms);
        BOOST_TEST((l.last().at - refused > before));
        before = l.last().at - refused;
    }
    BOOST_TEST(l.client.statistics().refused == 5u);
}

BOOST_AUTO_TEST_CASE(an_address_that_somebody_has_is_declined_and_ten_seconds_are_waited) { // RFC 2131 3.1 (5), 4.4.4
    const mac_address rival(0x02'00'00'00'00'66);
    const wire::arp_packet told[] = {{wire::arp_operation::reply, rival, given, our_mac, ipv4::any()},
                                     wire::arp_packet::request(rival, ipv4::any(), given)}; // or is about to take it
    for (const wire::arp_packet& packet : told) {
        line l;
        l.start();
        l.pass(1ms);
        l.answer(type::offer);
        l.answer(type::ack);
        BOOST_TEST(l.probes.size() == 1u);
        l.arp(wire::arp_packet::request(rival, ipv4(192, 0, 2, 9), given)); // asks for it: nobody has it for that
        l.arp({wire::arp_operation::reply, our_mac, given, rival, ipv4::any()}); // our own, reflected
        BOOST_TEST((l.client.state() == dhcp_state::checking));
        l.arp(packet);
        const heard decline = l.last();
        BOOST_TEST((decline.type == type::decline && decline.client.is_any() && !decline.broadcast));
        BOOST_TEST((decline.address(50) == given && decline.address(54) == server_address));
        BOOST_TEST(decline.find(55) == nullptr);
        const std::size_t before = l.said.size();
        l.pass(9s);
        BOOST_TEST(l.said.size() == before);
        l.pass(2s);
        BOOST_TEST((l.last().type == type::discover && l.last().find(50) == nullptr));
        BOOST_TEST(l.client.statistics().conflicts == 1u);
        BOOST_TEST(l.client.lease() == nullptr);
    }
}

BOOST_AUTO_TEST_CASE(after_ten_conflicts_no_address_is_tried_for_a_minute) { // RFC 5227 2.1.1: MAX_CONFLICTS, RATE_LIMIT_INTERVAL
    const mac_address rival(0x02'00'00'00'00'66);
    line l;
    l.start();
    l.pass(1ms);
    for (unsigned conflict = 1; conflict <= 12; ++conflict) {
        BOOST_REQUIRE((l.last().type == type::discover));
        l.answer(type::offer);
        l.answer(type::ack);
        l.arp({wire::arp_operation::reply, rival, given, our_mac, ipv4::any()});
        BOOST_REQUIRE((l.last().type == type::decline));
        const std::size_t before = l.said.size();
        l.pass(conflict < 10 ? 9s : 59s);
        BOOST_TEST(l.said.size() == before);
        l.pass(2s);
    }
    l.answer(type::offer);
    l.answer(type::ack);
    l.pass(10s);
    BOOST_TEST(l.client.lease() != nullptr);
}

BOOST_AUTO_TEST_CASE(a_start_waits_by_chance) { // RFC 2131 4.4.1
    std::set<duration> waits;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        line l({}, seed);
        const time_point begin = l.now;
        l.start();
        l.pass(10s);
        BOOST_REQUIRE(!l.said.empty());
        waits.insert(l.said.front().at - begin);
    }
    BOOST_TEST(waits.size() > 10u);
}

BOOST_AUTO_TEST_CASE(a_remembered_address_is_asked_for_at_once) { // RFC 2131 3.2, 4.3.2: INIT-REBOOT
    line l;
    l.start(given);
    l.pass(1ms);
    BOOST_TEST((l.last().type == type::request && l.last().address(50) == given));
    BOOST_TEST((l.last().find(54) == nullptr && l.last().client.is_any()));
    l.answer(type::ack);
    l.pass(1s);
    BOOST_REQUIRE(l.client.lease() != nullptr);
    line refused;
    refused.start(given);
    refused.pass(1ms);
    refused.hear(reply(type::nak, refused.last().transaction, ipv4::any(), {address(54, server_address)}));
    refused.pass(1ms);
    BOOST_TEST((refused.last().type == type::discover));
    line silent;
    silent.start(given);
    silent.pass(70s);
    BOOST_TEST((silent.last().type == type::discover));
}

BOOST_AUTO_TEST_CASE(a_host_that_goes_gives_its_address_back) { // RFC 2131 4.4.6
    line l;
    l.acquire();
    l.client.release(l.now);
    l.drain();
    const heard release = l.last();
    BOOST_TEST((release.type == type::release && release.client == given && release.address(54) == server_address));
    BOOST_TEST((release.how.source == given && release.how.destination == server_address));
    BOOST_TEST(release.find(50) == nullptr);
    BOOST_TEST(l.client.lease() == nullptr);
    BOOST_TEST((l.client.next_timeout() == never));
    const std::size_t before = l.said.size();
    l.client.release(l.now); // there is none any more
    l.drain();
    BOOST_TEST(l.said.size() == before);
}

BOOST_AUTO_TEST_CASE(a_host_that_goes_while_it_looks_whether_an_address_is_free_gives_it_back_too) {
    line l;
    l.start();
    l.pass(1ms);
    l.answer(type::offer);
    l.answer(type::ack);
    BOOST_REQUIRE((l.client.state() == dhcp_state::checking));
    l.client.release(l.now);
    l.drain();
    const heard release = l.last();
    BOOST_TEST((release.type == type::release && release.client == given && release.address(54) == server_address));
    BOOST_TEST(l.client.lease() == nullptr);
    BOOST_TEST((l.client.next_timeout() == never));
}

BOOST_AUTO_TEST_CASE(what_nobody_takes_away_to_send_is_bounded) {
    line l;
    l.client.start(l.now);
    for (int i = 0; i < 5; ++i) l.client.on_timer(l.now = l.client.next_timeout());
    BOOST_TEST(l.client.statistics().outbox_full == 3u);
    dhcp_outgoing out;
    BOOST_TEST((l.client.poll_transmit(out) && l.client.poll_transmit(out) && !l.client.poll_transmit(out)));
}

BOOST_AUTO_TEST_CASE(a_lease_of_a_second_is_not_asked_for_at_the_speed_of_the_wire) {
    line l;
    l.acquire(3600);
    for (const std::uint32_t length : {2u, 1u}) {
        l.pass(l.client.next_timeout() - l.now);
        BOOST_REQUIRE((l.client.state() == dhcp_state::renewing || l.client.state() == dhcp_state::rebinding));
        const std::size_t before = l.said.size();
        l.answer(type::ack, given, length);
        BOOST_TEST((l.client.state() == dhcp_state::bound));
        l.pass(900ms);
        BOOST_TEST(l.said.size() == before);
    }
    l.pass(100ms);
    BOOST_TEST((l.last().type == type::discover)); // the shortest was over
}

BOOST_AUTO_TEST_SUITE_END()
