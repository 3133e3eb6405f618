// ICMP: echoes answered, errors sent within the rules, errors received turned into reports.
#include "tests/net/ip/datagrams.hh"
#include "tests/support/test_seed.hh"

#include <corewire/net/ip/icmp.hh>
#include <corewire/net/ip/reassembly.hh>
#include <corewire/reactor/base/random.hh>

#include <boost/test/unit_test.hpp>

#include <set>

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

std::vector<std::byte> message(const wire::icmp_header& h, byte_span payload) {
    std::vector<std::byte> out(8 + payload.size());
    h.emit(out, payload);
    return out;
}

/// A quoted datagram: IPv4 header and the first 8 bytes of transport.
std::vector<std::byte> quote(wire::ipv4_header h, std::uint16_t source_port, std::uint16_t destination_port,
                             std::uint32_t sequence) {
    std::vector<std::byte> out(28);
    h.emit(out);
    store_be16(out.data() + 20, source_port);
    store_be16(out.data() + 22, destination_port);
    store_be32(out.data() + 24, sequence);
    return out;
}

struct bench {
    frame_pool pool{64};
    icmp_layer icmp;
    packet out;
    icmp_report report;
    explicit bench(icmp_options o = {}, std::uint64_t seed = 1) : icmp(us, pool, o, seed) {}

    packet carry(byte_span icmp_message, ipv4 from = peer, ipv4 to = us, byte_span options = {}, std::size_t in_head = SIZE_MAX) {
        return datagram(pool, {.identification = 5, .protocol = wire::ip_protocol::icmp, .source = from, .destination = to},
                        icmp_message, options, in_head);
    }
    icmp_verdict input(packet p, arrival how = {}, duration now = 0s) {
        return icmp.input(at(now), view(p), p, how, out, report);
    }
    icmp_verdict error(const wire::icmp_header& h, byte_span quoted) { return input(carry(message(h, quoted))); }
};

const wire::icmp_header port_unreachable = wire::icmp_header::unreachable(wire::icmp_unreachable::port);
const wire::ipv4_header our_segment{.total_length = 1500, .protocol = wire::ip_protocol::tcp, .source = us, .destination = peer};

void check_reply(const packet& reply, byte_span data, ipv4 from = us) {
    const wire::ipv4_view ip = view(reply);
    BOOST_TEST(ip.checksum_ok());
    BOOST_TEST(ip.total_length() == reply.size());
    BOOST_TEST((ip.source() == from));
    BOOST_TEST((ip.destination() == peer));
    BOOST_TEST(ip.ttl() == 64);
    BOOST_TEST(reply.head.headroom() >= 14u);
    const auto all = payload_of(reply);
    wire::icmp_view m;
    BOOST_REQUIRE((wire::icmp_view::parse(all, m) == wire::parse_error::none));
    BOOST_TEST(m.checksum_ok());
    BOOST_TEST((m.type() == wire::icmp_type::echo_reply));
    BOOST_TEST(m.identifier() == 0x1234);
    BOOST_TEST(m.sequence() == 7);
    BOOST_TEST(same(m.payload(), data));
}

} // namespace

BOOST_AUTO_TEST_SUITE(icmp_errors)

// ---- echo ----

BOOST_AUTO_TEST_CASE(an_echo_request_becomes_its_reply_in_place) {
    bench b;
    const auto data = pattern(56);
    packet p = b.carry(message(wire::icmp_header::echo_request(0x1234, 7), data));
    const std::byte* bytes = p.head.data();
    BOOST_TEST((b.input(std::move(p)) == icmp_verdict::reply));
    BOOST_TEST(b.out.head.data() == bytes);
    check_reply(b.out, data);
    BOOST_TEST(b.pool.free_count == 63u);
}

BOOST_AUTO_TEST_CASE(an_echo_request_that_somebody_else_sees_is_copied) {
    bench b;
    const auto data = pattern(56);
    packet p = b.carry(message(wire::icmp_header::echo_request(0x1234, 7), data));
    const buffer watcher = p.head.share();
    const std::vector<std::byte> before(watcher.bytes().begin(), watcher.bytes().end());
    BOOST_TEST((b.input(std::move(p)) == icmp_verdict::reply));
    check_reply(b.out, data);
    BOOST_TEST(same(watcher.bytes(), before));
}

BOOST_AUTO_TEST_CASE(options_of_a_request_are_dropped_and_a_body_goes_by_reference) {
    bench b;
    const auto data = pattern(1000);
    for (const std::size_t in_head : {SIZE_MAX, std::size_t{8}, std::size_t{300}}) {
        for (const bool shared : {false, true}) {
            packet p = b.carry(message(wire::icmp_header::echo_request(0x1234, 7), data), peer, us, wire::ipv4_router_alert, in_head);
            const buffer watcher = shared ? p.head.share() : buffer{};
            BOOST_TEST((b.input(std::move(p)) == icmp_verdict::reply));
            check_reply(b.out, data);
            BOOST_TEST(b.out.body.empty() == (in_head == SIZE_MAX));
        }
    }
}

BOOST_AUTO_TEST_CASE(padding_behind_a_request_does_not_come_back) {
    bench b;
    const auto data = pattern(100);
    for (const std::size_t in_head : {SIZE_MAX, std::size_t{50}}) {
        packet p = b.carry(message(wire::icmp_header::echo_request(0x1234, 7), data), peer, us, {}, in_head);
        (in_head == SIZE_MAX ? p.head : p.body).append(9);
        BOOST_TEST((b.input(std::move(p)) == icmp_verdict::reply));
        check_reply(b.out, data);
    }
}

BOOST_AUTO_TEST_CASE(an_echo_of_64_kilobytes_is_answered_whole) {
    frame_pool large(1, reassembler::frame_size);
    bench b; // holds the reply: goes before the frames
    const auto data = pattern(65'507);
    packet p;
    p.head = large.allocate_buffer();
    std::byte* to = p.head.append(65'535);
    wire::ipv4_header{.total_length = 65'535, .protocol = wire::ip_protocol::icmp, .source = peer, .destination = us}.emit({to, 20});
    wire::icmp_header::echo_request(0x1234, 7).emit({to + 20, 65'515}, data);
    BOOST_TEST((b.input(std::move(p)) == icmp_verdict::reply));
    check_reply(b.out, data);
}

BOOST_AUTO_TEST_CASE(echoes_to_groups_are_not_answered) {
    bench b;
    const auto ping = message(wire::icmp_header::echo_request(0x1234, 7), {});
    BOOST_TEST((b.input(b.carry(ping, peer, ipv4(10, 0, 0, 255)), {.link_broadcast = true, .ip_broadcast = true}) ==
                icmp_verdict::nothing));
    BOOST_TEST((b.input(b.carry(ping, peer, ipv4::all_hosts())) == icmp_verdict::nothing));
    BOOST_TEST((b.input(b.carry(ping), {.link_broadcast = true}) == icmp_verdict::nothing));
    BOOST_TEST(b.icmp.statistics().group_echoes_ignored == 3u);
}

BOOST_AUTO_TEST_CASE(damaged_and_short_messages_are_counted) {
    bench b;
    auto ping = message(wire::icmp_header::echo_request(0x1234, 7), pattern(64));
    ping[20] ^= std::byte{1};
    BOOST_TEST((b.input(b.carry(ping)) == icmp_verdict::nothing));
    BOOST_TEST(b.icmp.statistics().bad_checksum == 1u);
    BOOST_TEST((b.input(b.carry(pattern(7))) == icmp_verdict::nothing));
    BOOST_TEST(b.icmp.statistics().malformed == 1u);
}

BOOST_AUTO_TEST_CASE(a_flood_of_echoes_is_answered_at_the_configured_rate) {
    bench b({.echoes_a_second = 10, .echo_burst = 5});
    const auto ping = message(wire::icmp_header::echo_request(0x1234, 7), {});
    unsigned replies = 0;
    for (int i = 0; i < 100; ++i) replies += b.input(b.carry(ping)) == icmp_verdict::reply;
    BOOST_TEST(replies == 5u);
    for (int i = 0; i < 100; ++i) replies += b.input(b.carry(ping), {}, 100ms) == icmp_verdict::reply;
    BOOST_TEST(replies == 6u);
    BOOST_TEST(b.icmp.statistics().rate_limited == 194u);
}

BOOST_AUTO_TEST_CASE(an_empty_pool_costs_a_shared_echo_its_reply) {
    bench b;
    packet p = b.carry(message(wire::icmp_header::echo_request(0x1234, 7), {}));
    const buffer watcher = p.head.share();
    std::vector<buffer> all;
    while (b.pool.free_count != 0) all.push_back(b.pool.allocate_buffer());
    BOOST_TEST((b.input(std::move(p)) == icmp_verdict::nothing));
    BOOST_TEST(b.icmp.statistics().no_frame == 1u);
}

// ---- errors we send ----

BOOST_AUTO_TEST_CASE(an_error_quotes_the_datagram_up_to_576_bytes) {
    bench b;
    for (const std::size_t size : {0u, 8u, 100u, 548u, 1400u}) {
        const packet offending = datagram(b.pool, {.protocol = wire::ip_protocol::udp, .source = peer, .destination = us}, pattern(size));
        BOOST_TEST(b.icmp.make_error(at(0s), port_unreachable, offending.head.bytes(), {}, b.out));
        const wire::ipv4_view ip = view(b.out);
        BOOST_TEST(ip.checksum_ok());
        BOOST_TEST((ip.source() == us));
        BOOST_TEST((ip.destination() == peer));
        BOOST_TEST(b.out.size() == std::min<std::size_t>(576, 28 + 20 + size));
        wire::icmp_view m;
        BOOST_REQUIRE((wire::icmp_view::parse(ip.payload(), m) == wire::parse_error::none));
        BOOST_TEST(m.checksum_ok());
        BOOST_TEST(m.is(wire::icmp_unreachable::port));
        BOOST_TEST(same(m.quoted(), offending.head.bytes().first(m.quoted().size())));
    }
}

BOOST_AUTO_TEST_CASE(an_error_and_a_reply_have_the_class_of_service_of_what_they_answer) { // RFC 1812 4.3.2.5
    bench b;
    for (const std::uint8_t dscp : std::initializer_list<std::uint8_t>{0, 10, 46}) {
        const packet offending =
            datagram(b.pool, {.dscp = dscp, .ecn = 2, .protocol = wire::ip_protocol::udp, .source = peer, .destination = us},
                     pattern(8));
        BOOST_TEST(b.icmp.make_error(at(0s), port_unreachable, offending.head.bytes(), {}, b.out));
        BOOST_TEST(view(b.out).dscp() == dscp);
        BOOST_TEST(view(b.out).ecn() == 0); // that is of the one packet
        packet request = datagram(b.pool, {.dscp = dscp, .protocol = wire::ip_protocol::icmp, .source = peer, .destination = us},
                                  message(wire::icmp_header::echo_request(1, 1), pattern(8)));
        BOOST_TEST((b.input(std::move(request)) == icmp_verdict::reply));
        BOOST_TEST(view(b.out).dscp() == dscp);
    }
}

BOOST_AUTO_TEST_CASE(no_error_is_ever_sent_where_rfc_1122_forbids_it) {
    bench b;
    const auto forbidden = [&](wire::ipv4_header h, byte_span payload, arrival how = {}) {
        const packet p = datagram(b.pool, h, payload);
        return !b.icmp.make_error(at(0s), port_unreachable, p.head.bytes(), how, b.out);
    };
    const auto data = pattern(64);
    const wire::ipv4_header good{.protocol = wire::ip_protocol::udp, .source = peer, .destination = us};
    auto h = good;
    BOOST_TEST(!forbidden(h, data));
    BOOST_TEST(forbidden(h, data, {.link_broadcast = true}));
    BOOST_TEST(forbidden(h, data, {.ip_broadcast = true}));
    for (const ipv4 to : {ipv4::broadcast(), ipv4::all_hosts(), ipv4(239, 1, 2, 3)}) {
        h = good;
        h.destination = to;
        BOOST_TEST(forbidden(h, data), to);
    }
    for (const ipv4 from : {ipv4::any(), ipv4::broadcast(), ipv4(224, 0, 0, 9), ipv4::loopback(), ipv4(240, 0, 0, 1), us}) {
        h = good;
        h.source = from;
        BOOST_TEST(forbidden(h, data), from);
    }
    h = good;
    h.dont_fragment = false;
    h.fragment_offset = 8;
    BOOST_TEST(forbidden(h, data));
    h.fragment_offset = 0;
    h.more_fragments = true;
    BOOST_TEST(!forbidden(h, data)); // about the first fragment it may
    h = good;
    h.protocol = wire::ip_protocol::icmp;
    BOOST_TEST(forbidden(h, message(port_unreachable, data)));
    BOOST_TEST(forbidden(h, message(wire::icmp_header::time_exceeded(wire::icmp_time_exceeded::ttl), data)));
    BOOST_TEST(forbidden(h, pattern(4))); // too short to tell
    BOOST_TEST(!forbidden(h, message(wire::icmp_header::echo_request(1, 1), data)));
    BOOST_TEST(!b.icmp.make_error(at(0s), port_unreachable, pattern(12), {}, b.out));
}

BOOST_AUTO_TEST_CASE(errors_are_limited_in_rate) {
    constexpr std::uint32_t many = 1'000'000;
    bench b({.errors_a_second = 1000, .error_burst = 50, .errors_a_second_each = many, .error_burst_each = many});
    const packet offending = datagram(b.pool, {.protocol = wire::ip_protocol::udp, .source = peer, .destination = us}, pattern(8));
    unsigned sent = 0;
    for (int i = 0; i < 1000; ++i) sent += b.icmp.make_error(at(0s), port_unreachable, offending.head.bytes(), {}, b.out);
    BOOST_TEST((sent >= 25u && sent < 100u)); // each takes none, one or two
    for (int ms = 1; ms <= 10'000; ++ms) {
        for (int i = 0; i < 5; ++i) {
            sent += b.icmp.make_error(at(std::chrono::milliseconds{ms}), port_unreachable, offending.head.bytes(), {}, b.out);
        }
    }
    BOOST_TEST((sent > 9'700u && sent < 10'300u)); // one on average
    BOOST_TEST(b.icmp.statistics().errors_sent == sent);
    BOOST_TEST(b.icmp.statistics().rate_limited == 51'000u - sent);
}

BOOST_AUTO_TEST_CASE(who_is_told_errors_learns_nothing_of_what_others_were_told) { // CVE-2020-25705
    const auto say = [](bench& b, ipv4 from) {
        const packet p = datagram(b.pool, {.protocol = wire::ip_protocol::udp, .source = from, .destination = us}, pattern(8));
        return b.icmp.make_error(at(0s), port_unreachable, p.head.bytes(), {}, b.out);
    };
    const ipv4 name_server(10, 0, 0, 53);
    std::set<unsigned> told;
    int answered = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        bench b({}, seed);
        for (int i = 0; i < 50; ++i) static_cast<void>(say(b, name_server)); // as many as there are for all
        answered += say(b, peer);
        unsigned all = 0;
        for (std::uint32_t i = 0; i < 1000; ++i) all += say(b, ipv4(ipv4(10, 1, 0, 0).value() + i));
        told.insert(all);
    }
    BOOST_TEST(answered >= 95); // some share a bucket, and nobody knows with whom
    BOOST_TEST(told.size() > 5u); // nor by counting what is left for all
}

// ---- errors we receive ----

BOOST_AUTO_TEST_CASE(each_kind_of_error_becomes_its_report) {
    using enum icmp_error_kind;
    using wire::icmp_type;
    struct row { icmp_type type; std::uint8_t code; icmp_error_kind kind; };
    const row table[] = {
        {icmp_type::unreachable, 0, network_unreachable}, {icmp_type::unreachable, 1, host_unreachable},
        {icmp_type::unreachable, 2, protocol_unreachable}, {icmp_type::unreachable, 3, port_unreachable},
        {icmp_type::unreachable, 4, fragmentation_needed}, {icmp_type::unreachable, 5, host_unreachable},
        {icmp_type::unreachable, 6, network_unreachable}, {icmp_type::unreachable, 7, host_unreachable},
        {icmp_type::unreachable, 8, host_unreachable}, {icmp_type::unreachable, 9, prohibited},
        {icmp_type::unreachable, 10, prohibited}, {icmp_type::unreachable, 13, prohibited},
        {icmp_type::unreachable, 200, host_unreachable}, {icmp_type::time_exceeded, 0, time_exceeded},
        {icmp_type::time_exceeded, 1, time_exceeded}, {icmp_type::parameter_problem, 0, parameter_problem},
        {icmp_type::redirect, 1, redirect}, {icmp_type::redirect, 4, none},
        {icmp_type::source_quench, 0, none}, // RFC 9293 3.9.2.2: MUST-55; RFC 6633
    };
    for (const row& r : table) {
        bench b;
        const icmp_verdict v = b.error({r.type, r.code, r.type == icmp_type::unreachable && r.code == 4 ? 1400u : 0u},
                                       quote(our_segment, 80, 5000, 0xdeadbeef));
        BOOST_TEST((v == (r.kind == none ? icmp_verdict::nothing : icmp_verdict::report)));
        if (r.kind == none) continue;
        BOOST_TEST((b.report.kind == r.kind));
        BOOST_TEST((b.report.protocol == wire::ip_protocol::tcp));
        BOOST_TEST((b.report.local == us));
        BOOST_TEST((b.report.remote == peer));
        BOOST_TEST(b.report.local_port == 80);
        BOOST_TEST(b.report.remote_port == 5000);
        BOOST_TEST(b.report.sequence == 0xdeadbeef);
        BOOST_TEST(b.report.quoted_length == 1500);
        BOOST_TEST(b.report.mtu == (r.kind == fragmentation_needed ? 1400 : 0));
    }
}

BOOST_AUTO_TEST_CASE(questions_that_rfc_6918_deprecates_are_not_answered) { // timestamp, information, address mask
    for (const std::uint8_t type : std::initializer_list<std::uint8_t>{13, 15, 17}) {
        bench b;
        packet p = b.carry(message(wire::icmp_header{static_cast<wire::icmp_type>(type), 0, 0x12340007}, pattern(12)));
        BOOST_TEST((b.input(std::move(p)) == icmp_verdict::nothing));
        BOOST_TEST(b.icmp.statistics().ignored == 1u);
    }
}

BOOST_AUTO_TEST_CASE(errors_about_what_we_did_not_send_are_ignored) {
    bench b;
    auto h = our_segment;
    h.source = ipv4(10, 0, 0, 77);
    BOOST_TEST((b.error(port_unreachable, quote(h, 1, 2, 3)) == icmp_verdict::nothing));
    h = our_segment;
    h.fragment_offset = 8;
    BOOST_TEST((b.error(port_unreachable, quote(h, 1, 2, 3)) == icmp_verdict::nothing));
    h = our_segment;
    h.protocol = wire::ip_protocol::icmp;
    BOOST_TEST((b.error(port_unreachable, quote(h, 1, 2, 3)) == icmp_verdict::nothing));
    auto cut = quote(our_segment, 1, 2, 3);
    cut.resize(27); // not 8 bytes of transport
    BOOST_TEST((b.error(port_unreachable, cut) == icmp_verdict::nothing));
    BOOST_TEST((b.error(port_unreachable, {}) == icmp_verdict::nothing));
    BOOST_TEST(b.icmp.statistics().errors_foreign == 5u);
}

BOOST_AUTO_TEST_CASE(random_messages_break_nothing) {
    const std::uint64_t seed = testing::test_seed();
    BOOST_TEST_CONTEXT("seed " << seed) {
        random_generator random(seed);
        bench b;
        for (int i = 0; i < 20'000; ++i) {
            std::vector<std::byte> bytes(random.below(120));
            for (std::byte& x : bytes) x = static_cast<std::byte>(random.next());
            if (bytes.size() >= 4) {
                bytes[0] = static_cast<std::byte>(random.below(14));
                if (bytes.size() >= 28 && random.chance(0.7)) {
                    const auto q = quote(our_segment, 1, 2, 3);
                    std::memcpy(bytes.data() + 8, q.data(), std::min(q.size(), bytes.size() - 8));
                }
                if (random.chance(0.9)) {
                    store_be16(bytes.data() + 2, 0);
                    store_be16(bytes.data() + 2, wire::internet_checksum(bytes));
                }
            }
            b.input(b.carry(bytes, peer, us, {}, random.below(130)), {}, i * 1ms);
        }
        b.out = {};
        BOOST_TEST(b.pool.free_count == 64u);
    }
}

BOOST_AUTO_TEST_SUITE_END()
