// DHCPv6: the life of a lease of addresses, and of other settings, on a virtual clock against a server that says what it is told to.
#include <corewire/net/dhcp/dhcp6_client.hh>

#include "pass_time.hh"

#include <boost/test/unit_test.hpp>

#include <set>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;
using type = dhcp6_message_type;
using bytes = std::vector<std::byte>;

namespace {

const mac_address our_mac(0x02'00'00'00'00'07);
const ipv6 given = *ipv6::parse("2001:db8::50"), other_given = *ipv6::parse("2001:db8::51"), dns = *ipv6::parse("2001:db8::53");

void put(bytes& to, std::uint16_t code, const bytes& data) {
    bytes head(4);
    store_be16(head.data(), code);
    store_be16(head.data() + 2, static_cast<std::uint16_t>(data.size()));
    to.insert(to.end(), head.begin(), head.end());
    to.insert(to.end(), data.begin(), data.end());
}
bytes number(std::uint32_t value, std::size_t size) {
    bytes out(size);
    for (std::size_t i = 0; i < size; ++i) out[size - 1 - i] = static_cast<std::byte>(value >> (8 * i));
    return out;
}
bytes text(ipv6 a) {
    bytes out(16);
    a.store(out.data());
    return out;
}

struct answer {
    type what = type::reply;
    std::vector<dhcp6_address> addresses{{given, 1000, 2000}};
    std::uint32_t t1 = 0, t2 = 0, association = 1;
    std::uint8_t server = 1;
    int preference = -1;
    bool rapid = false, with_association = true, with_server = true;
    std::uint16_t status = 0, association_status = 0;
    bytes more{};
};

struct heard {
    type what = type::none;
    std::uint32_t transaction = 0;
    time_point at;
    bytes message;
    bytes find(std::uint16_t code) const {
        for (std::size_t i = 4; i + 4 <= message.size();) {
            const std::size_t size = load_be16(message.data() + i + 2);
            const auto from = message.begin() + static_cast<std::ptrdiff_t>(i) + 4;
            if (load_be16(message.data() + i) == code) return bytes(from, from + static_cast<std::ptrdiff_t>(size));
            i += 4 + size;
        }
        return {};
    }
    bool has(std::uint16_t code) const {
        for (std::size_t i = 4; i + 4 <= message.size(); i += 4 + load_be16(message.data() + i + 2))
            if (load_be16(message.data() + i) == code) return true;
        return false;
    }
    /// The address in its association.
    ipv6 about() const {
        const bytes ia = find(3);
        return ia.size() < 12 + 28 ? ipv6::any() : ipv6::load(ia.data() + 16);
    }
    bool mentions(const ipv6& address) const {
        const bytes ia = find(3);
        for (std::size_t i = 12; i + 28 <= ia.size(); i += 28)
            if (ipv6::load(ia.data() + i + 4) == address) return true;
        return false;
    }
};

struct line {
    explicit line(bool rapid = false, duration start_delay = {}, std::uint64_t seed = 5)
        : client(our_mac, {.rapid_commit = rapid, .start_delay = start_delay}, seed) {}
    dhcp6_client client;
    time_point now = from_ns(1'000'000'000'000);
    std::vector<heard> said;

    void drain() {
        client.check_invariants();
        for (dhcp6_outgoing out; client.poll_transmit(out);) {
            heard h{.at = now, .message = bytes(out.bytes.begin(), out.bytes.begin() + out.size)};
            h.what = static_cast<type>(load_u8(h.message.data()));
            h.transaction = load_be32(h.message.data()) & 0xffffff;
            BOOST_TEST((h.what == out.type));
            BOOST_TEST(std::ranges::equal(h.find(1), client.duid()));
            said.push_back(h);
        }
    }
    void flags(bool managed, bool other) {
        client.on_flags(now, managed, other);
        drain();
        pass(1ms);
    }
    void pass(duration time) { dhcp_test::pass(*this, time); }
    const heard& last() const {
        BOOST_REQUIRE(!said.empty());
        return said.back();
    }
    bytes make(const answer& a) const {
        bytes m = number(static_cast<std::uint32_t>(a.what) << 24 | last().transaction, 4);
        put(m, 1, bytes(client.duid().begin(), client.duid().end()));
        if (a.with_server) put(m, 2, bytes(4, std::byte{a.server}));
        if (a.preference >= 0) put(m, 7, number(static_cast<std::uint32_t>(a.preference), 1));
        if (a.rapid) put(m, 14, {});
        if (a.status != 0) put(m, 13, number(a.status, 2));
        bytes ia = number(a.association, 4);
        for (const std::uint32_t t : {a.t1, a.t2})
            for (const std::byte b : number(t, 4)) ia.push_back(b);
        for (const dhcp6_address& each : a.addresses) {
            bytes inner = text(each.address);
            for (const std::uint32_t t : {each.preferred, each.valid})
                for (const std::byte b : number(t, 4)) inner.push_back(b);
            put(ia, 5, inner);
        }
        if (a.association_status != 0) put(ia, 13, number(a.association_status, 2));
        if (a.with_association) put(m, 3, ia);
        m.insert(m.end(), a.more.begin(), a.more.end());
        return m;
    }
    void hear(const answer& a) {
        client.input(now, make(a));
        drain();
    }
    void acquire(const answer& reply = {}) {
        flags(true, false);
        hear({.what = type::advertise, .preference = 255});
        hear(reply);
        BOOST_REQUIRE((client.state() == dhcp6_state::bound));
    }
    std::size_t count(type what) const { return static_cast<std::size_t>(std::ranges::count(said, what, &heard::what)); }
};

} // namespace

BOOST_AUTO_TEST_SUITE(dhcp6_client_states)

BOOST_AUTO_TEST_CASE(solicit_advertise_request_and_reply_give_an_address) { // RFC 8415 18.2.1, 18.2.2, 18.2.10
    line l;
    l.flags(true, false);
    const heard solicit = l.last();
    BOOST_TEST((solicit.what == type::solicit && !solicit.has(2) && solicit.has(3) && solicit.has(8) && !solicit.has(14)));
    bytes duid = number(0x0003'0001, 4); // 11.4: DUID-LL, of Ethernet
    duid.resize(10);
    our_mac.store(duid.data() + 4);
    BOOST_TEST((solicit.find(1) == duid));
    BOOST_TEST((solicit.find(6) == bytes{std::byte{0}, std::byte{23}, std::byte{0}, std::byte{24}, std::byte{0}, std::byte{82}}));
    l.hear({.what = type::advertise, .preference = 255}); // taken at once
    const heard request = l.last();
    BOOST_TEST((request.what == type::request && request.about() == given && request.find(2) == bytes(4, std::byte{1})));
    BOOST_TEST(request.transaction != solicit.transaction);
    bytes settings;
    put(settings, 23, text(dns));
    bytes search;
    for (const char c : {'\2', 'e', 'x', '\3', 'o', 'r', 'g', '\0'}) search.push_back(static_cast<std::byte>(c));
    put(settings, 24, search);
    l.hear({.more = settings});
    BOOST_REQUIRE((l.client.state() == dhcp6_state::bound));
    const dhcp6_lease& lease = l.client.lease();
    BOOST_REQUIRE(lease.addresses.count == 1u);
    BOOST_TEST((lease.addresses.items[0] == dhcp6_leased{given, l.now + 1000s, l.now + 2000s}));
    BOOST_TEST((lease.renew_at == l.now + 500s && lease.rebind_at == l.now + 800s));
    BOOST_TEST((lease.name_servers.count == 1u && lease.name_servers.items[0] == dns));
    BOOST_TEST(std::string(lease.domain.items.data(), lease.domain.count) == "ex.org");
}

BOOST_AUTO_TEST_CASE(the_best_advertisement_of_the_first_second_is_taken) { // 18.2.1, 18.2.9
    line l;
    l.flags(true, false);
    l.hear({.what = type::advertise, .server = 1, .preference = 3});
    l.hear({.what = type::advertise, .server = 2, .preference = 9});
    l.hear({.what = type::advertise, .server = 3}); // says none: 0
    l.hear({.what = type::advertise, .addresses = {}, .server = 4, .preference = 255, .association_status = 2}); // has none
    BOOST_TEST(l.said.size() == 1u);
    l.pass(1200ms);
    BOOST_TEST((l.said.size() == 2u && l.last().find(2) == bytes(4, std::byte{2})));
}

BOOST_AUTO_TEST_CASE(a_server_may_answer_with_a_lease_at_once) { // 18.2.10.1: rapid commit
    line l(true);
    l.flags(true, false);
    BOOST_TEST(l.last().has(14));
    l.hear({}); // without the option it counts for nothing
    BOOST_TEST((l.client.state() == dhcp6_state::soliciting));
    l.hear({.rapid = true});
    BOOST_TEST((l.client.state() == dhcp6_state::bound));
    line not_asked;
    not_asked.flags(true, false);
    not_asked.hear({.rapid = true});
    BOOST_TEST((not_asked.client.state() == dhcp6_state::soliciting));
}

BOOST_AUTO_TEST_CASE(questions_are_repeated_at_growing_intervals) { // 15
    line l;
    l.flags(true, false);
    l.pass(200s);
    BOOST_REQUIRE(l.count(type::solicit) >= 7u);
    duration gap{0};
    int drawn = 0;
    for (std::size_t i = 1; i < 7; ++i) {
        const duration next = l.said[i].at - l.said[i - 1].at;
        if (next != 2 * gap) ++drawn;
        if (i == 1) BOOST_TEST((next >= 1s && next <= 1100ms));
        else BOOST_TEST((next >= gap * 19 / 10 && next <= gap * 21 / 10));
        gap = next;
        BOOST_TEST(l.said[i].transaction == l.said[0].transaction);
    }
    BOOST_TEST(drawn == 6);
    BOOST_TEST(load_be16(l.said[3].find(8).data()) >= 600u); // hundredths of a second
    for (const std::uint32_t outside : {59u, 86'401u}) { // 21.24
        bytes more;
        put(more, 82, number(outside, 4));
        l.hear({.what = type::advertise, .addresses = {}, .association_status = 2, .more = more});
    }
    const std::size_t first = l.said.size();
    l.pass(300s);
    BOOST_TEST(l.said.size() <= first + 2);
    bytes shorter;
    put(shorter, 82, number(60, 4)); // SOL_MAX_RT, of a server that has no addresses
    l.hear({.what = type::advertise, .addresses = {}, .association_status = 2, .more = shorter});
    const std::size_t before = l.said.size();
    l.pass(700s);
    BOOST_TEST(l.said.size() >= before + 8);
}

BOOST_AUTO_TEST_CASE(a_request_is_asked_ten_times_and_then_another_server_is_looked_for) { // 18.2.2
    line l;
    l.flags(true, false);
    l.hear({.what = type::advertise, .preference = 255});
    l.pass(300s);
    BOOST_TEST(l.count(type::request) == 10u);
    BOOST_TEST((l.last().what == type::solicit));
}

BOOST_AUTO_TEST_CASE(what_answers_no_question_of_ours_is_ignored) { // 16.3, 16.10
    line l;
    l.flags(true, false);
    bytes m = l.make({.what = type::advertise, .preference = 255});
    const auto hear = [&](bytes changed) { l.client.input(l.now, changed); };
    bytes wrong = m;
    wrong[3] ^= std::byte{1}; // another's number
    hear(wrong);
    wrong = m;
    wrong[12] ^= std::byte{1}; // another's identifier
    hear(wrong);
    l.hear({.what = type::advertise, .association = 9, .preference = 255}); // another's association: it has nothing for us
    BOOST_TEST(l.client.statistics().refused == 1u);
    BOOST_TEST(l.said.size() == 1u);
    BOOST_TEST(l.client.statistics().ignored == 2u);
    l.hear({.what = type::advertise, .preference = 255, .with_server = false}); // 16.3: of which server?
    BOOST_TEST(l.said.size() == 1u);
    BOOST_TEST(l.client.statistics().ignored == 3u);
    l.hear({.what = type::advertise, .preference = 255});
    l.hear({.server = 2}); // not who was asked
    l.hear({.with_server = false});
    BOOST_TEST(l.client.statistics().ignored == 5u);
    BOOST_TEST((l.client.state() == dhcp6_state::requesting));
    l.hear({.t1 = 9, .t2 = 5}); // 21.4: T1 behind T2
    BOOST_TEST((l.client.state() == dhcp6_state::requesting));
    l.hear({.addresses = {{given, 20, 10}}}); // 21.6: preferred for longer than valid
    l.hear({.addresses = {{*ipv6::parse("fe80::1"), 10, 20}}});
    BOOST_TEST((l.client.state() == dhcp6_state::requesting));
    line settings;
    settings.flags(false, true);
    settings.hear({.with_association = false, .with_server = false}); // 16.10
    BOOST_TEST((settings.client.state() == dhcp6_state::informing && settings.client.statistics().ignored == 1u));
}

BOOST_AUTO_TEST_CASE(the_times_of_a_server_count_to_the_second) { // 14.2, 18.2.4, 18.2.5, 21.4
    line l;
    l.acquire({.t1 = 100, .t2 = 300});
    BOOST_TEST((l.client.lease().renew_at == l.now + 100s && l.client.lease().rebind_at == l.now + 300s));
    const time_point bound = l.now;
    l.pass(301s);
    BOOST_REQUIRE((l.count(type::renew) >= 1u && l.count(type::rebind) == 1u));
    BOOST_TEST((std::ranges::find(l.said, type::renew, &heard::what)->at == bound + 100s));
    BOOST_TEST((std::ranges::find(l.said, type::rebind, &heard::what)->at == bound + 300s));
    line late; // T1 alone, behind where we would have put T2
    late.acquire({.t1 = 900});
    BOOST_TEST((late.client.lease().renew_at == late.now + 900s && late.client.lease().rebind_at == late.now + 900s));
    line half; // T2 alone
    half.acquire({.t2 = 300});
    BOOST_TEST((half.client.lease().renew_at == half.now + 300s && half.client.lease().rebind_at == half.now + 300s));
}

BOOST_AUTO_TEST_CASE(a_lease_is_renewed_by_its_server_then_by_any_and_ends) { // 18.2.4, 18.2.5
    line l;
    l.acquire();
    const time_point begin = l.now;
    l.pass(510s);
    BOOST_TEST((l.last().what == type::renew && l.last().has(2) && l.last().about() == given));
    l.hear({.addresses = {{given, 3000, 4000}}});
    BOOST_TEST((l.client.state() == dhcp6_state::bound && l.client.lease().addresses.items[0].valid_until == l.now + 4000s));
    BOOST_TEST(l.client.statistics().renewals == 1u);
    l.pass(2390s); // T1 is 1500 s, T2 2400 s
    BOOST_TEST((l.last().what == type::renew));
    l.pass(30s);
    BOOST_TEST((l.last().what == type::rebind && !l.last().has(2) && l.last().about() == given));
    l.hear({.addresses = {{given, 1000, 2000}}, .server = 7}); // whoever has it
    BOOST_TEST((l.client.state() == dhcp6_state::bound && l.client.lease().server.items[0] == std::byte{7}));
    const std::uint32_t generation = l.client.generation();
    l.pass(2001s);
    BOOST_TEST(l.client.lease().addresses.empty());
    BOOST_TEST((l.client.generation() > generation && l.client.statistics().expired == 1u));
    BOOST_TEST((l.client.state() == dhcp6_state::soliciting && l.now > begin));
}

BOOST_AUTO_TEST_CASE(a_server_without_the_binding_is_asked_for_one) { // 18.2.10.1: NoBinding
    line l;
    l.acquire();
    l.pass(510s);
    l.hear({.addresses = {}, .association_status = 3});
    BOOST_TEST((l.last().what == type::request && l.last().about() == given && l.last().has(2)));
    l.hear({});
    BOOST_TEST((l.client.state() == dhcp6_state::bound));
}

BOOST_AUTO_TEST_CASE(a_renewal_changes_what_it_names_and_leaves_the_rest) { // 18.2.10.1
    line l;
    l.acquire({.addresses = {{given, 1000, 2000}, {other_given, 1000, 2000}}});
    BOOST_TEST(l.client.lease().addresses.count == 2u);
    l.pass(510s);
    l.hear({.addresses = {{given, 0, 0}}}); // taken away
    BOOST_REQUIRE(l.client.lease().addresses.count == 1u);
    BOOST_TEST((l.client.lease().addresses.items[0].address == other_given));
    BOOST_TEST((l.client.lease().renew_at == l.now + 245s)); // half of what the other is preferred for still
}

BOOST_AUTO_TEST_CASE(an_address_that_is_preferred_no_more_is_not_asked_for_all_the_time) { // 14.2: no storms
    const auto questions = [](const line& l) { return l.count(type::renew) + l.count(type::rebind); };
    line l;
    l.acquire({.addresses = {{given, 0, 2000}, {other_given, 1000, 2000}}});
    BOOST_TEST((l.client.lease().renew_at == l.now + 500s && l.client.lease().rebind_at == l.now + 800s));
    for (const std::uint32_t preferred : {0u, 1u}) { // and none that is preferred for long
        line alone;
        alone.acquire({.addresses = {{given, preferred, 2000}}});
        alone.pass(59s);
        BOOST_TEST(questions(alone) == 0u);
        alone.pass(1942s);
        BOOST_TEST(questions(alone) >= 1u);
    }
    line brief;
    brief.acquire({.addresses = {{given, 1, 20}}}); // not over before it is asked for
    brief.pass(11s);
    BOOST_TEST(questions(brief) == 1u);
}

BOOST_AUTO_TEST_CASE(a_refusal_is_followed_by_a_new_search_more_slowly_each_time) {
    line l;
    l.flags(true, false);
    duration before{0};
    for (int i = 0; i < 4; ++i) {
        l.hear({.what = type::advertise, .preference = 255});
        BOOST_REQUIRE((l.last().what == type::request));
        const time_point refused = l.now;
        l.hear({.addresses = {}, .association_status = static_cast<std::uint16_t>(i % 2 == 0 ? 2 : 4)});
        while (l.last().what != type::solicit) l.pass(100ms);
        BOOST_TEST((l.last().at - refused > before));
        before = l.last().at - refused;
    }
    BOOST_TEST(l.client.statistics().refused == 4u);
}

BOOST_AUTO_TEST_CASE(an_address_that_somebody_has_is_declined) { // 18.2.8
    line l;
    l.acquire();
    l.client.on_duplicate(l.now, given);
    l.drain();
    BOOST_TEST((l.last().what == type::decline && l.last().about() == given && l.last().has(2) && !l.last().has(6)));
    BOOST_TEST(l.client.lease().addresses.empty());
    l.pass(60s);
    BOOST_TEST(l.count(type::decline) == 4u); // and nobody answers
    BOOST_TEST((l.last().what == type::solicit));
    line two;
    two.acquire({.addresses = {{given, 1000, 2000}, {other_given, 1000, 2000}}});
    two.client.on_duplicate(two.now, given);
    two.drain();
    two.hear({.addresses = {}});
    BOOST_TEST((two.client.state() == dhcp6_state::bound)); // the other is ours still
    BOOST_TEST((two.client.lease().addresses.count == 1u));
    line both;
    both.acquire({.addresses = {{given, 1000, 2000}, {other_given, 1000, 2000}}});
    both.client.on_duplicate(both.now, given);
    both.client.on_duplicate(both.now, other_given);
    both.drain();
    BOOST_TEST((both.last().what == type::decline && both.last().mentions(given) && both.last().mentions(other_given)));
}

BOOST_AUTO_TEST_CASE(a_server_that_offers_what_is_in_use_is_asked_more_and_more_slowly) {
    line l;
    duration before{0};
    for (int i = 0; i < 5; ++i) {
        l.acquire();
        l.client.on_duplicate(l.now, given);
        l.drain();
        BOOST_REQUIRE((l.last().what == type::decline));
        const time_point declined = l.now;
        l.hear({.addresses = {}});
        while (l.last().what != type::solicit) l.pass(100ms);
        BOOST_TEST((l.last().at - declined > before));
        before = l.last().at - declined;
    }
    BOOST_TEST((before > 10s));
}

BOOST_AUTO_TEST_CASE(addresses_are_given_back_at_the_end) { // 18.2.7
    line l;
    l.acquire();
    l.client.release(l.now);
    l.drain();
    BOOST_TEST((l.last().what == type::release && l.last().about() == given && l.last().has(2)));
    BOOST_TEST((l.client.lease().addresses.empty() && l.client.next_timeout() == never));
    const std::size_t before = l.said.size();
    l.flags(true, true); // a router goes on to say so
    l.pass(100s);
    BOOST_TEST(l.said.size() == before);
}

BOOST_AUTO_TEST_CASE(other_settings_alone_are_asked_for_and_asked_for_again) { // 18.2.6, 21.23
    line l;
    l.flags(false, true);
    BOOST_TEST((l.last().what == type::information_request && !l.last().has(3) && !l.last().has(2)));
    bytes settings;
    put(settings, 23, text(dns));
    put(settings, 32, number(700, 4));
    l.hear({.with_association = false, .more = settings});
    BOOST_TEST((l.client.state() == dhcp6_state::informed && l.client.lease().name_servers.count == 1u));
    l.pass(699s);
    BOOST_TEST(l.count(type::information_request) == 1u);
    l.pass(2s);
    BOOST_TEST(l.count(type::information_request) == 2u);
    l.flags(true, true); // now there are addresses, too
    BOOST_TEST((l.last().what == type::solicit));
    line often; // 21.23: ten minutes are the least, whatever the server says
    often.flags(false, true);
    bytes at_once;
    put(at_once, 32, number(1, 4));
    often.hear({.with_association = false, .more = at_once});
    often.pass(599s);
    BOOST_TEST(often.count(type::information_request) == 1u);
    often.pass(1s);
    BOOST_TEST(often.count(type::information_request) == 2u);
    line nothing;
    nothing.flags(false, false);
    nothing.pass(100s);
    BOOST_TEST(nothing.said.empty());
}

BOOST_AUTO_TEST_CASE(who_asks_for_addresses_in_vain_asks_for_the_rest_where_routers_promise_no_more) { // RFC 4861 4.2
    line l;
    l.flags(true, false);
    BOOST_TEST((l.last().what == type::solicit));
    l.flags(false, true); // somebody may answer still
    BOOST_TEST((l.client.state() == dhcp6_state::soliciting));
    l.pass(20s);
    BOOST_TEST(l.count(type::solicit) >= 4u);
    l.flags(true, true);
    BOOST_TEST((l.client.state() == dhcp6_state::soliciting));
    l.flags(false, true);
    BOOST_TEST((l.last().what == type::information_request));
    bytes settings;
    put(settings, 23, text(dns));
    l.hear({.with_association = false, .more = settings});
    BOOST_TEST((l.client.state() == dhcp6_state::informed && l.client.lease().name_servers.count == 1u));
    l.flags(true, false);
    BOOST_TEST((l.last().what == type::solicit));
}

BOOST_AUTO_TEST_CASE(what_all_hosts_were_told_at_once_is_not_asked_at_once) { // 18.2.1, 18.2.6, 21.23
    std::set<duration> solicited, asked_again;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        line addresses(false, 1s, seed);
        const time_point told = addresses.now;
        addresses.flags(true, false);
        addresses.pass(1s);
        BOOST_REQUIRE(!addresses.said.empty());
        solicited.insert(addresses.said.front().at - told);

        line settings(false, 1s, seed);
        settings.flags(false, true);
        settings.pass(1s);
        const time_point began = settings.now;
        settings.hear({.with_association = false});
        settings.pass(86'400s + 1s);
        BOOST_REQUIRE(settings.count(type::information_request) >= 2u);
        const auto again = std::ranges::find_if(settings.said, [&](const heard& each) { return each.at > began; });
        asked_again.insert(again->at - began);
        BOOST_TEST((again->at >= began + 86'400s));
    }
    BOOST_TEST(solicited.size() > 10u);
    BOOST_TEST(asked_again.size() > 10u);
}

BOOST_AUTO_TEST_CASE(what_there_is_no_room_for_is_counted) {
    line l;
    l.flags(true, false);
    const ipv6::octet_array first = given.octets();
    answer many;
    bytes servers;
    many.addresses.clear();
    for (std::uint8_t i = 0; i < 6; ++i) {
        ipv6::octet_array each = first;
        each[15] = static_cast<std::uint8_t>(0x70 + i);
        many.addresses.push_back({ipv6(each), 1000, 2000});
        const bytes one = text(ipv6(each));
        servers.insert(servers.end(), one.begin(), one.end());
    }
    put(many.more, 23, servers);
    dhcp6_reply out;
    BOOST_TEST((parse_dhcp6_reply(l.make(many), l.client.duid(), 1, out) == dhcp6_parse_error::none));
    BOOST_TEST((out.addresses.count == 4u && out.name_servers.count == 4u && out.left_out == 4u));
}

BOOST_AUTO_TEST_CASE(what_is_cut_or_runs_over_is_refused) {
    line l;
    l.flags(true, false);
    bytes settings;
    put(settings, 23, text(dns));
    const bytes good = l.make({.what = type::advertise, .preference = 3, .more = settings});
    dhcp6_reply out;
    BOOST_TEST((parse_dhcp6_reply(good, l.client.duid(), 1, out) == dhcp6_parse_error::none));
    BOOST_TEST((out.ours && out.addresses.count == 1u && out.name_servers.count == 1u && out.preference == 3u));
    std::size_t whole = 0;
    for (std::size_t size = 0; size < good.size(); ++size) {
        const bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
        whole += parse_dhcp6_reply(cut, l.client.duid(), 1, out) == dhcp6_parse_error::none;
    }
    BOOST_TEST(whole == 5u); // between its options alone: after the header and each but the last
    bytes wrong = good;
    wrong[0] = std::byte{1}; // a client's
    BOOST_TEST((parse_dhcp6_reply(wrong, l.client.duid(), 1, out) == dhcp6_parse_error::not_a_reply));
}

BOOST_AUTO_TEST_SUITE_END()
