// Fast Open (RFC 7413): data in the SYN, both ends of it; cookies; and what a client remembers of servers.
#include <corewire/net/tcp/open/fast_open.hh>
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;
using tcp::event;
using tcp::tcp_state;

namespace {

tcp::fast_open_cookie cookie(unsigned n) {
    const std::vector<std::byte> bytes(8, static_cast<std::byte>(n));
    return tcp::fast_open_cookie::of(bytes);
}

const tcp::fast_open_request asking{.asked = true, .cookie = {}};
tcp::fast_open_request knowing(std::uint16_t mss = 1000) { return {.asked = true, .cookie = cookie(7), .peer_mss = mss}; }
const tcp::fast_open_answer good{.take_data = true, .give_cookie = false, .cookie = {}};

bool has_cookie(const tcp::outgoing_segment& s) {
    wire::tcp_options o;
    BOOST_REQUIRE((wire::tcp_options::parse({s.options.data(), s.option_size}, o) == wire::parse_error::none));
    return o.has_fast_open();
}

} // namespace

BOOST_AUTO_TEST_SUITE(fast_open)

// ---- the client ----

BOOST_AUTO_TEST_CASE(a_client_without_a_cookie_asks_for_one) { // RFC 7413 4.2.1
    tcp_script s;
    s.open(asking);
    s.write(500); // does not go along
    s.expect("S 0:0 fo 0");
    s.receive("SA 0:0 ack 1 win 65535 mss 900 sackok ws 0 fo 9");
    s.expect("A 1:501 ack 1");
    BOOST_TEST(s.block().fast_open().answered);
    BOOST_TEST((s.block().fast_open().cookie == cookie(9)));
    BOOST_TEST(s.block().fast_open().peer_mss == 900u);
}

BOOST_AUTO_TEST_CASE(with_a_cookie_the_syn_waits_for_data_and_takes_it_along) {
    tcp_script s;
    s.open(knowing());
    s.expect_nothing();
    BOOST_TEST(s.block().waits_for_data());
    s.write(500);
    s.expect("S 0:500 fo 7");
    s.expect_nothing();
    s.receive("SA 0:0 ack 501 win 65535 mss 1000 sackok ws 0");
    s.expect_state(tcp_state::established);
    BOOST_TEST(s.saw(event::all_acknowledged));
    s.expect("A 501:501 ack 1");
    BOOST_TEST(s.block().fast_open().data_acked);
    s.write(100);
    s.expect("A 501:601 ack 1");
}

BOOST_AUTO_TEST_CASE(it_goes_without_data_when_it_is_told_to) {
    tcp_script s;
    s.open(knowing());
    s.expect_nothing();
    s.block().hurry_syn();
    s.expect("S 0:0 fo 7");
    s.receive("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0");
    s.expect("A 1:1 ack 1");
}

BOOST_AUTO_TEST_CASE(what_the_server_does_not_take_is_sent_behind_the_handshake) {
    tcp_script s;
    s.open(knowing());
    s.write(800);
    s.expect("S 0:800 fo 7");
    s.receive("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0 fo 8");
    s.expect("A 1:801 ack 1");
    BOOST_TEST(!s.block().fast_open().data_acked);
    BOOST_TEST((s.block().fast_open().cookie == cookie(8))); // the one it gave now
    s.receive("A 1:1 ack 801");
    s.expect_nothing();
}

BOOST_AUTO_TEST_CASE(what_it_takes_in_part_goes_on_there) {
    tcp_script s;
    s.open(knowing());
    s.write(800);
    s.expect("S 0:800");
    s.receive("SA 0:0 ack 301 win 65535 mss 1000 sackok ws 0");
    s.expect("A 301:801 ack 1");
}

BOOST_AUTO_TEST_CASE(a_syn_takes_what_fits_beside_all_options) { // RFC 7413 4.2.1: the MSS that is known, 536 without
    tcp_script s;
    s.open(knowing());
    s.write(1800);
    s.expect("S 0:960");
    s.receive("SA 0:0 ack 961 win 65535 mss 1000 sackok ws 0");
    s.expect("A 961:1801 ack 1");
    tcp_script unknown;
    unknown.open(knowing(0));
    unknown.write(1800);
    unknown.expect("S 0:496");
}

BOOST_AUTO_TEST_CASE(a_syn_without_an_answer_is_repeated_without_any_of_it) { // RFC 7413 4.2.1, 7.1
    tcp_script s;
    s.open(knowing());
    s.write(500);
    s.expect("S 0:500 fo 7");
    s.expect_nothing();
    s.advance(1s);
    BOOST_TEST(!has_cookie(s.expect("S 0:0")));
    s.receive("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0");
    s.expect("A 1:501 ack 1");
    BOOST_TEST(s.block().fast_open().syn_lost);
    BOOST_TEST(!s.block().fast_open().answered);
}

BOOST_AUTO_TEST_CASE(the_answer_to_the_first_syn_may_come_after_the_second) {
    tcp_script s;
    s.open(knowing());
    s.write(500);
    s.expect("S 0:500");
    s.expect_nothing();
    s.advance(1s);
    s.expect("S 0:0");
    s.receive("SA 0:0 ack 501 win 65535 mss 1000 sackok ws 0");
    s.expect("A 501:501 ack 1");
    BOOST_TEST(s.block().fast_open().data_acked);
}

BOOST_AUTO_TEST_CASE(what_is_urgent_waits_for_the_handshake) { // RFC 9293 3.8.5: a SYN has no urgent pointer
    tcp_script s;
    s.open(knowing());
    s.write(500);
    s.block().set_urgent();
    s.expect("S 0:0 fo 7");
    s.receive("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0");
    s.expect("A 1:501 ack 1 up 500");
}

BOOST_AUTO_TEST_CASE(the_fin_follows_the_data_whatever_the_server_took_of_it) {
    for (const int taken : {501, 301, 1}) {
        tcp_script s;
        s.open(knowing());
        s.write(500);
        s.expect("S 0:500 fo 7");
        s.shutdown();
        s.expect_nothing();
        s.receive("SA 0:0 ack " + std::to_string(taken) + " win 65535 mss 1000 sackok ws 0");
        s.expect_state(tcp_state::fin_wait_1);
        s.expect("FA " + std::to_string(taken) + ":501 ack 1");
        BOOST_TEST(!s.block().all_acknowledged());
        s.receive("A 1:1 ack 502");
        s.expect_state(tcp_state::fin_wait_2);
        BOOST_TEST(s.block().all_acknowledged());
    }
}

BOOST_AUTO_TEST_CASE(who_has_nothing_to_write_says_so_behind_the_handshake) {
    tcp_script s;
    s.open(knowing());
    s.shutdown();
    s.expect("S 0:0 fo 7");
    s.expect_nothing();
    s.receive("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0");
    s.expect("FA 1:1 ack 1");
    s.expect_state(tcp_state::fin_wait_1);
}

namespace {

/// Its user wrote something and has gone, before the SYN left or behind that.
void let_go(tcp_script& s, bool before_the_syn) {
    s.open(knowing());
    s.write(500);
    if (!before_the_syn) s.expect("S 0:500 fo 7");
    s.shutdown();
    s.orphan();
    if (before_the_syn) s.expect("S 0:500 fo 7");
    s.expect_nothing();
}

} // namespace

BOOST_AUTO_TEST_CASE(what_was_written_outlives_its_user) { // RFC 9293 3.10.4 speaks of a connect() that has not returned
    for (const bool before_the_syn : {true, false}) {
        tcp_script s;
        let_go(s, before_the_syn);
        s.advance(1s);
        s.expect("S 0:0");
        s.receive("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0");
        s.expect("FA 1:501 ack 1");
        s.receive("A 1:1 ack 502");
        s.expect_state(tcp_state::fin_wait_2);
        BOOST_TEST(tcp::has(s.advance(60s), event::closed));
    }
}

BOOST_AUTO_TEST_CASE(nobody_waits_long_for_the_answer_to_an_orphans_syn) {
    tcp::parameters p = tcp_script::plain();
    p.orphan_retries = 2;
    tcp_script s(p);
    let_go(s, false);
    s.advance(1s);
    s.expect("S 0:0");
    s.advance(2s);
    s.expect("S 0:0");
    BOOST_TEST(tcp::has(s.advance(4s), event::closed));
    BOOST_TEST((s.block().error() == std::errc::timed_out));
    tcp_script standard; // as for a stranger's half-open connection
    let_go(standard, false);
    for (const auto wait : {1s, 2s, 4s, 8s, 16s}) {
        standard.advance(wait);
        standard.expect("S 0:0");
    }
    BOOST_TEST(tcp::has(standard.advance(32s), event::closed));
    BOOST_TEST((standard.block().info().fast_open == tcp::fast_open_failure::none)); // nobody has said what was taken
}

BOOST_AUTO_TEST_CASE(without_data_or_with_linuxs_habits_nothing_outlives_its_user) {
    tcp_script s;
    s.open(knowing());
    s.block().hurry_syn();
    s.expect("S 0:0 fo 7");
    s.shutdown();
    s.orphan();
    s.expect_state(tcp_state::closed);
    tcp::parameters p = tcp_script::plain();
    p.habits = tcp::personality::linux_;
    tcp_script linux_habits(p);
    linux_habits.open(knowing());
    linux_habits.write(500);
    linux_habits.expect("S 0:500 fo 7");
    linux_habits.shutdown();
    linux_habits.orphan();
    linux_habits.expect_state(tcp_state::closed);
}

BOOST_AUTO_TEST_CASE(an_ack_beyond_what_the_syn_took_along_is_refused) {
    tcp_script s;
    s.open(knowing());
    s.write(500);
    s.expect("S 0:500");
    s.receive("SA 0:0 ack 502 win 65535 mss 1000");
    s.expect("R 502:502");
    s.expect_state(tcp_state::syn_sent);
}

BOOST_AUTO_TEST_CASE(a_cookie_that_nobody_asked_for_is_nothing) {
    tcp_script s;
    s.connect("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0 fo 9");
    BOOST_TEST(!s.block().fast_open().answered);
}

// ---- the server ----

BOOST_AUTO_TEST_CASE(with_freebsds_habits_nothing_is_kept_for_who_has_gone_before_the_handshake_is_done) {
    tcp::parameters p = tcp_script::plain();
    p.habits = tcp::personality::freebsd;
    tcp_script s(p);
    s.listen("S 0:100 win 65535 mss 1000 sackok ws 0 fo 7", good);
    s.drain();
    s.block().shutdown_send();
    s.block().orphan(s.now());
    s.drain();
    s.receive("A 101:201 ack 1");
    s.drain();
    BOOST_TEST(s.block().readable() == 0u);
}

BOOST_AUTO_TEST_CASE(data_of_a_good_syn_is_readable_before_the_handshake_is_done) { // RFC 7413 4.2.2
    tcp_script s;
    s.listen("S 0:100 win 65535 mss 1000 sackok ws 0 fo 7", good);
    BOOST_TEST(s.saw(event::readable));
    BOOST_TEST(s.block().serving_early());
    BOOST_TEST(s.read() == 100u);
    s.expect("SA 0:0 ack 101");
    s.write(300);
    s.expect("A 1:301 ack 101"); // an answer in the same round trip
    s.expect_nothing();
    s.expect_state(tcp_state::syn_received);
    s.receive("A 101:101 ack 301");
    s.expect_state(tcp_state::established);
    BOOST_TEST(s.saw(event::established));
    BOOST_TEST(s.saw(event::all_acknowledged));
    BOOST_TEST(!s.block().serving_early());
    s.receive("A 101:201 ack 301");
    BOOST_TEST(s.read() == 100u);
    s.expect_nothing();
    s.advance(40ms);
    s.expect("A 301:301 ack 201");
}

BOOST_AUTO_TEST_CASE(the_initial_window_is_ten_segments_beside_the_syn) {
    tcp_script s;
    s.listen("S 0:100 win 65535 mss 1000 sackok ws 0", good);
    s.read_all();
    s.write(20'000);
    s.expect("SA 0:0 ack 101");
    BOOST_TEST(s.drain() == 10);
    s.receive("A 101:101 ack 1"); // the SYN's, and of no data
    s.expect_nothing();
    s.receive("A 101:101 ack 2001");
    BOOST_TEST(s.drain() == 4);
}

BOOST_AUTO_TEST_CASE(only_the_syn_ack_is_repeated_until_the_handshake_is_done) {
    tcp::parameters p = tcp_script::plain();
    p.tail_loss_probe = false;
    tcp_script s(p);
    s.listen("S 0:100 win 65535 mss 1000 sackok ws 0", {.take_data = true, .give_cookie = true, .cookie = cookie(3)});
    s.read_all();
    s.expect("SA 0:0 ack 101 fo 3"); // a new cookie for an old one
    s.write(300);
    s.expect("A 1:301 ack 101");
    s.expect_nothing();
    s.advance(1s);
    BOOST_TEST(!has_cookie(s.expect("SA 0:0 ack 101")));
    s.expect_nothing();
    s.receive("A 101:101 ack 1");
    s.expect_state(tcp_state::established);
    s.expect_nothing();
    s.advance(5s);
    BOOST_TEST(s.expect("A 1:301 ack 101").retransmission);
    s.receive("A 101:101 ack 301");
    s.expect_nothing();
}

BOOST_AUTO_TEST_CASE(a_syn_that_comes_again_is_answered_again_and_read_once) {
    tcp_script s;
    s.listen("S 0:100 win 65535 mss 1000 sackok ws 0", good);
    s.expect("SA 0:0 ack 101");
    s.receive("S 0:100 win 65535 mss 1000 sackok ws 0");
    s.expect("SA 0:0 ack 101");
    s.expect_nothing();
    BOOST_TEST(s.read_all() == 100u);
}

BOOST_AUTO_TEST_CASE(a_reset_of_one_in_use_is_no_refusal) {
    tcp_script s;
    s.listen("S 0:100 win 65535 mss 1000 sackok ws 0", good);
    s.expect("SA 0:0 ack 101");
    s.receive("R 101:101");
    BOOST_TEST((s.block().error() == std::errc::connection_reset));
    BOOST_TEST(s.read_all() == 100u);
    tcp::outgoing_segment none;
    BOOST_TEST(!s.block().next_segment(s.now(), none)); // though it could send in SYN-RECEIVED
}

BOOST_AUTO_TEST_CASE(it_may_be_closed_before_the_handshake_is_done) {
    tcp_script s;
    s.listen("S 0:100 win 65535 mss 1000 sackok ws 0", good);
    s.read_all();
    s.expect("SA 0:0 ack 101");
    s.write(200);
    s.shutdown();
    s.expect("FA 1:201 ack 101");
    s.receive("A 101:101 ack 202");
    s.expect_state(tcp_state::fin_wait_2);
    s.receive("FA 101:101 ack 202");
    s.expect("A 202:202 ack 102");
}

BOOST_AUTO_TEST_CASE(a_cookie_is_given_to_who_asks_and_the_data_of_a_bad_one_is_not_taken) {
    tcp_script s;
    s.listen("S 0:100 win 65535 mss 1000 sackok ws 0 fo 5", {.take_data = false, .give_cookie = true, .cookie = cookie(3)});
    s.expect("SA 0:0 ack 1 fo 3");
    BOOST_TEST(s.block().readable() == 0u);
    s.receive("A 1:101 ack 1"); // it comes again
    BOOST_TEST(s.read_all() == 100u);
}

// ---- cookies and the cache ----

BOOST_AUTO_TEST_CASE(a_cookie_is_what_linux_makes_of_the_same_key) {
    std::array<std::byte, 16> bytes;
    for (unsigned i = 0; i < 16; ++i) bytes[i] = static_cast<std::byte>(0xa1 + 0x11 * (i / 4));
    tcp::fast_open_keys keys{.current = tcp::fast_open_keys::key_of(bytes), .older = {}};
    std::array<std::byte, 16> back;
    tcp::fast_open_keys::bytes_of(keys.current, back);
    BOOST_TEST((back == bytes));
    const wire::net_address client = ipv4(192, 0, 2, 1), server = ipv4(192, 168, 0, 1);
    const tcp::fast_open_cookie c = keys.cookie_for(client, server);
    const std::byte expected[8] = {std::byte{0x30}, std::byte{0x21}, std::byte{0xb9}, std::byte{0xd8},
                                   std::byte{0x89}, std::byte{0x01}, std::byte{0x7e}, std::byte{0xeb}};
    BOOST_TEST((c == tcp::fast_open_cookie::of(expected)));
    using verdict = tcp::fast_open_keys::verdict;
    BOOST_TEST((keys.check(c, client, server) == verdict::good));
    BOOST_TEST((keys.check(c, ipv4(192, 0, 2, 2), server) == verdict::bad)); // another's
    BOOST_TEST((keys.check({}, client, server) == verdict::bad));
    keys.older = keys.current; // RFC 7413 4.1.2: keys change
    keys.current = {1, 2};
    BOOST_TEST((keys.check(c, client, server) == verdict::old));
    keys.older.reset();
    BOOST_TEST((keys.check(c, client, server) == verdict::bad));
}

BOOST_AUTO_TEST_CASE(keys_change_every_day_and_yesterdays_are_taken) { // RFC 7413 4.1.2
    using tcp::fast_open_key_chain;
    using verdict = tcp::fast_open_keys::verdict;
    fast_open_key_chain ours({1, 2}), another_shards({1, 2}), anothers({1, 3});
    const wire::net_address client = ipv4(192, 0, 2, 1), server = ipv4(192, 168, 0, 1);
    const time_point noon = from_ns(0) + 10 * fast_open_key_chain::period + std::chrono::hours{12};
    const tcp::fast_open_cookie given = ours.at(noon).cookie_for(client, server);
    BOOST_TEST((given == another_shards.at(noon).cookie_for(client, server)));
    BOOST_TEST(!(given == anothers.at(noon).cookie_for(client, server)));
    const auto later = [&](duration d) { return ours.at(noon + d).check(given, client, server); };
    constexpr std::chrono::nanoseconds moment{1};
    BOOST_TEST((later(std::chrono::hours{12} - moment) == verdict::good));
    BOOST_TEST((later(std::chrono::hours{12}) == verdict::old));
    BOOST_TEST((later(std::chrono::hours{36} - moment) == verdict::old));
    BOOST_TEST((later(std::chrono::hours{36}) == verdict::bad));
    ours.fix({.current = {7, 8}, .older = {}}); // who sets keys changes them, too
    const tcp::fast_open_cookie fixed = ours.at(noon).cookie_for(client, server);
    BOOST_TEST((ours.at(noon + std::chrono::hours{1000}).check(fixed, client, server) == verdict::good));
}

BOOST_AUTO_TEST_CASE(the_cache_is_bounded_and_forgets_whom_it_has_not_seen_for_longest) {
    tcp::fast_open_cache cache;
    const auto host = [](unsigned n) -> wire::net_address { return ipv4(0x0a00'0000u + n); };
    const auto at = [](unsigned n) { return from_ns(1'000'000'000) + std::chrono::seconds{n}; };
    BOOST_TEST(cache.request_for(at(0), host(1)).asked);
    BOOST_TEST(cache.request_for(at(0), host(1)).cookie.empty());
    cache.learn(at(0), host(1), {}, 1460);
    BOOST_TEST(cache.size() == 0u); // it gave none
    for (unsigned n = 0; n < tcp::fast_open_cache::limit; ++n) cache.learn(at(n), host(n), cookie(n), 1000);
    BOOST_TEST((cache.request_for(at(100), host(0)).cookie == cookie(0)));
    BOOST_TEST(cache.request_for(at(100), host(0)).peer_mss == 1000u);
    cache.learn(at(101), host(999), cookie(9), 1000);
    BOOST_TEST(cache.size() == tcp::fast_open_cache::limit);
    BOOST_TEST(cache.knows(at(101), host(0)));
    BOOST_TEST(!cache.knows(at(101), host(1))); // not used since its first second
}

BOOST_AUTO_TEST_CASE(servers_without_cookies_do_not_drive_out_those_that_gave_one) {
    tcp::fast_open_cache cache;
    const auto host = [](unsigned n) -> wire::net_address { return ipv4(0x0a00'0000u + n); };
    const auto at = [](unsigned n) { return from_ns(1'000'000'000) + std::chrono::seconds{n}; };
    cache.learn(at(0), host(0), cookie(7), 1000);
    cache.on_lost_syn(at(0), host(1));
    for (unsigned n = 0; n < 2 * tcp::fast_open_cache::limit; ++n) {
        cache.learn(at(1), host(2 + n), {}, 1000, true);
        BOOST_TEST(cache.size() <= tcp::fast_open_cache::limit);
    }
    BOOST_TEST(cache.knows(at(2), host(0)));
    BOOST_TEST(cache.paused(at(2), host(1)));
}

BOOST_AUTO_TEST_CASE(who_asks_in_vain_asks_once_in_the_older_form) {
    tcp::fast_open_cache cache;
    const auto server = wire::net_address(ipv4(192, 0, 2, 1));
    const auto asked = [&](bool experimental) {
        const tcp::fast_open_request r = cache.request_for(time_point{}, server);
        BOOST_TEST((r.asked && r.cookie.empty()));
        BOOST_TEST(r.cookie.experimental == experimental);
        return r;
    };
    const auto in_vain = [&] { cache.learn(time_point{}, server, asked(false).cookie, 1000, true); };
    in_vain();
    cache.learn(time_point{}, server, asked(true).cookie, 1000, true);
    for (int i = 0; i < 3; ++i) in_vain();

    tcp::fast_open_cache other;
    other.learn(time_point{}, server, {}, 1000, true);
    tcp::fast_open_cookie given = cookie(7);
    given.experimental = true;
    other.learn(time_point{}, server, given, 1000);
    const tcp::fast_open_request r = other.request_for(time_point{}, server);
    BOOST_TEST((r.cookie == given && r.cookie.experimental));
    other.learn(time_point{}, server, {}, 1000, true); // its cookie stays
    BOOST_TEST((other.request_for(time_point{}, server).cookie == given));
}

BOOST_AUTO_TEST_CASE(where_syns_with_data_vanish_none_is_sent_for_a_while) { // RFC 7413 4.1.3, 7.1
    tcp::fast_open_cache cache;
    const time_point start = from_ns(1'000'000'000);
    const wire::net_address server = ipv4(10, 0, 0, 1);
    cache.learn(start, server, cookie(7), 1000);
    cache.on_lost_syn(start, server);
    BOOST_TEST(!cache.request_for(start + 59s, server).asked);
    BOOST_TEST(!cache.knows(start + 59s, server));
    BOOST_TEST(cache.request_for(start + 60s, server).asked);
    cache.on_lost_syn(start + 60s, server);
    BOOST_TEST(cache.paused(start + 179s, server));
    BOOST_TEST(!cache.paused(start + 180s, server));
    for (int i = 0; i < 20; ++i) cache.on_lost_syn(start, server);
    BOOST_TEST(cache.paused(start + 59min, server));
    BOOST_TEST(!cache.paused(start + 61min, server));
    cache.learn(start + 61min, server, cookie(8), 1000); // one came through
    cache.on_lost_syn(start + 61min, server);
    BOOST_TEST(!cache.paused(start + 62min + 1s, server));
    for (int i = 0; i < 20; ++i) cache.on_lost_syn(start, server);
    cache.on_taken_syn(server); // without a new cookie, as servers do
    cache.on_lost_syn(start + 2h, server);
    BOOST_TEST(!cache.paused(start + 2h + 1min, server));
}

BOOST_AUTO_TEST_SUITE_END()
