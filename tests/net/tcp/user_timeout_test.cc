// How long a connection bears that nothing is acknowledged: the user timeout (RFC 9293 3.8.3), told to the peer (RFC 5482); and what
// lingers of a connection that nobody holds.
#include <corewire/net/tcp/user_timeout.hh>
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;
using tcp::event;
using tcp::tcp_state;

namespace {

tcp::parameters patient_for(duration timeout) {
    tcp::parameters p = tcp_script::plain();
    p.user_timeout = timeout;
    p.tail_loss_probe = false;
    return p;
}

tcp::parameters telling(duration timeout) {
    tcp::parameters p = tcp_script::plain();
    p.advertised_user_timeout = timeout;
    return p;
}

} // namespace

BOOST_AUTO_TEST_SUITE(user_timeout)

BOOST_AUTO_TEST_CASE(patience_counts_from_the_oldest_byte_that_is_not_acknowledged) { // RFC 9293 3.8.3, RFC 5482 2
    tcp_script s(patient_for(1s));
    s.connect();
    s.write(100);
    s.expect("A 1:101");
    s.expect_nothing();
    for (const duration wait : {duration{200ms}, duration{400ms}}) {
        s.advance(wait);
        BOOST_TEST(s.expect("A 1:101").retransmission);
        s.expect_nothing();
    }
    s.advance(400ms - 1us);
    s.expect_state(tcp_state::established);
    BOOST_TEST(tcp::has(s.advance(1us), event::timed_out | event::closed));
    BOOST_TEST((s.block().error() == std::errc::timed_out));
}

BOOST_AUTO_TEST_CASE(what_was_agreed_stays_where_other_options_are_set) { // RFC 5482 3.1: CHANGEABLE
    tcp_script s(telling(200s));
    s.connect("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0 uto 300");
    s.drain();
    BOOST_TEST((s.block().options().user_timeout == 300s));
    s.block().set_user_timeout(300s); // as a socket's options were read
    s.block().set_user_timeout(0s);   // or were not looked at
    BOOST_TEST((s.block().options().user_timeout == 300s));
    s.receive("A 1:1 ack 1 uto 400");
    BOOST_TEST((s.block().options().user_timeout == 400s));
    s.block().set_user_timeout(150s);
    s.receive("A 1:1 ack 1 uto 500");
    BOOST_TEST((s.block().options().user_timeout == 150s));
}

BOOST_AUTO_TEST_CASE(an_acknowledgement_gives_new_patience) {
    tcp_script s(patient_for(1s));
    s.connect();
    s.write(100);
    s.expect("A 1:101");
    s.expect_nothing();
    s.advance(200ms);
    s.expect("A 1:101");
    s.receive("A 1:1 ack 101");
    s.expect_nothing();
    s.advance(5s);
    s.write(100);
    s.expect("A 101:201");
    s.expect_nothing();
    s.advance(700ms);
    s.drain();
    s.expect_state(tcp_state::established);
}

BOOST_AUTO_TEST_CASE(a_window_that_stays_closed_ends_it_though_the_peer_answers) { // tcp(7), TCP_USER_TIMEOUT
    tcp_script s(patient_for(1s));
    s.connect();
    s.write(100);
    s.expect("A 1:101");
    s.receive("A 1:1 ack 101 win 0");
    s.write(100);
    s.expect_nothing();
    const time_point closed = s.now();
    while (!tcp::has(s.advance(50ms), event::timed_out)) {
        if (s.drain() != 0) s.receive("A 1:1 ack 101 win 0");
        BOOST_REQUIRE(s.now() < closed + 3s);
    }
    BOOST_TEST(((s.now() - closed) == duration{1s}));
}

BOOST_AUTO_TEST_CASE(without_it_a_closed_window_is_borne_as_long_as_the_peer_answers) { // RFC 9293 3.8.6.1, MUST-37
    tcp_script s(patient_for(0s));
    s.connect();
    s.write(100);
    s.expect("A 1:101");
    s.receive("A 1:1 ack 101 win 0");
    s.write(100);
    s.expect_nothing();
    for (int probes = 0; probes < 40;) {
        s.advance(60s);
        const int sent = s.drain();
        if (sent != 0) s.receive("A 1:1 ack 101 win 0");
        probes += sent;
    }
    s.expect_state(tcp_state::established);
}

BOOST_AUTO_TEST_CASE(it_takes_the_place_of_the_number_of_keepalive_probes) { // RFC 5482 4.2
    tcp::parameters p = patient_for(30s);
    p.keepalive = true;
    p.keepalive_idle = 10s;
    p.keepalive_interval = 5s;
    p.keepalive_probes = 1;
    tcp_script s(p);
    s.connect();
    s.expect_nothing();
    s.advance(10s);
    for (int i = 0; i < 4; ++i) {
        s.expect("A 0:0 ack 1");
        s.expect_nothing();
        s.advance(5s);
    }
    s.expect("RA 1:1 ack 1"); // a peer that lives after all hears of it
    s.expect_state(tcp_state::closed);
    BOOST_TEST((s.block().error() == std::errc::timed_out));
}

BOOST_AUTO_TEST_CASE(the_options_field_counts_seconds_and_then_minutes) { // RFC 5482 3
    BOOST_TEST(tcp::user_timeout_field(1ms) == 1u);
    BOOST_TEST(tcp::user_timeout_field(300s) == 300u);
    BOOST_TEST(tcp::user_timeout_field(std::chrono::hours{24}) == (0x8000u | 24 * 60));
    BOOST_TEST(tcp::user_timeout_field(std::chrono::hours{24 * 365}) == 0xffffu);
    BOOST_TEST((tcp::user_timeout_of(300) == duration{300s}));
    BOOST_TEST((tcp::user_timeout_of(0x8005) == duration{300s}));
    BOOST_TEST((tcp::user_timeout_of(0x8000) == duration{0}));
}

BOOST_AUTO_TEST_CASE(it_is_told_in_the_handshake_and_once_more_behind_it) { // RFC 5482 3.3
    tcp_script s(telling(300s));
    s.open();
    s.expect("S 0:0 uto 300");
    s.receive("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0 uto 600");
    BOOST_TEST((s.block().options().user_timeout == duration{600s})); // the larger of the two
    s.expect("A 1:1 ack 1 uto 300");
    s.expect_nothing();
}

BOOST_AUTO_TEST_CASE(the_listener_tells_it_too_and_heeds_what_comes_later) { // RFC 9293 MUST-5: options of segments that are no SYN
    tcp_script s(telling(300s));
    s.listen("S 0:0 win 65535 mss 1000 sackok ws 0 uto 200");
    s.expect("SA 0:0 ack 1 uto 300");
    s.receive("A 1:1 ack 1");
    BOOST_TEST((s.block().options().user_timeout == duration{300s}));
    s.expect("A 1:1 ack 1 uto 300");
    s.receive("A 1:1 ack 1 uto 32778"); // ten minutes
    BOOST_TEST((s.block().options().user_timeout == duration{600s}));
    s.receive("A 1:1 ack 1 uto 0"); // reserved: ignored
    BOOST_TEST((s.block().options().user_timeout == duration{600s}));
}

BOOST_AUTO_TEST_CASE(it_is_told_where_what_came_out_of_order_fills_the_options) {
    auto p = tcp_script::plain();
    p.timestamps = true;
    tcp_script s(p);
    s.open();
    s.expect("S 0:0");
    s.receive("SA 0:0 ack 1 win 65535 mss 1000 sackok ts 1 0 ws 0");
    s.drain();
    for (const char* far : {"A 1001:1101 ack 1 ts 1 0", "A 2001:2101 ack 1 ts 1 0", "A 3001:3101 ack 1 ts 1 0"}) s.receive(far);
    s.drain();
    s.receive("A 2001:2101 ack 1 ts 1 0"); // which has come twice
    s.block().advertise_user_timeout(300s);
    s.expect("A 1:1 ack 1 uto 300");
    s.expect("A 1:1 ack 1 sack 2001-2101,2001-2101,3001-3101"); // what has made room for it
}

BOOST_AUTO_TEST_CASE(what_is_agreed_on_has_bounds) { // RFC 5482 3.1: L_LIMIT, U_LIMIT
    tcp_script s(telling(1s));
    s.listen("S 0:0 win 65535 mss 1000 uto 2");
    BOOST_TEST((s.block().options().user_timeout == duration{100s}));
    s.expect("SA 0:0 ack 1");
    s.receive("A 1:1 ack 1 uto 65535");
    BOOST_TEST((s.block().options().user_timeout == duration{std::chrono::hours{1}}));
}

BOOST_AUTO_TEST_CASE(what_the_application_has_chosen_the_peer_does_not_change) { // RFC 5482 3.1: CHANGEABLE
    tcp::parameters p = telling(300s);
    p.user_timeout = 5s;
    tcp_script s(p);
    s.connect("SA 0:0 ack 1 win 65535 mss 1000 uto 600");
    BOOST_TEST((s.block().options().user_timeout == duration{5s}));
    s.block().set_user_timeout(0s);
    s.receive("A 1:1 ack 1 uto 600");
    BOOST_TEST((s.block().options().user_timeout == duration{600s}));
}

BOOST_AUTO_TEST_CASE(by_default_nothing_is_told_and_nothing_heeded) {
    tcp_script s;
    s.open();
    const tcp::outgoing_segment syn = s.expect("S 0:0");
    wire::tcp_options o;
    BOOST_REQUIRE((wire::tcp_options::parse({syn.options.data(), syn.option_size}, o) == wire::parse_error::none));
    BOOST_TEST(!o.has_user_timeout());
    s.receive("SA 0:0 ack 1 win 65535 mss 1000 uto 600");
    s.expect("A 1:1 ack 1");
    BOOST_TEST((s.block().options().user_timeout == duration{0}));
    s.block().advertise_user_timeout(200s); // from now on
    s.expect("A 1:1 ack 1 uto 200");
    s.expect_nothing();
}

BOOST_AUTO_TEST_CASE(an_orphan_is_given_up_earlier) {
    tcp::parameters p = patient_for(0s);
    p.orphan_retries = 2;
    tcp_script s(p);
    s.connect();
    s.shutdown();
    s.orphan();
    s.expect("FA 1:1");
    s.expect_nothing();
    for (const duration wait : {duration{200ms}, duration{400ms}}) {
        s.advance(wait);
        s.expect("FA 1:1");
        s.expect_nothing();
    }
    BOOST_TEST(tcp::has(s.advance(800ms), event::timed_out));
}

BOOST_AUTO_TEST_CASE(an_orphan_whose_peer_answers_and_takes_nothing_is_given_up) { // RFC 6429: MUST-37 is no reason to keep it for ever
    for (const tcp::personality habits : {tcp::personality::standard, tcp::personality::linux_}) {
        for (const bool held : {false, true}) {
            tcp::parameters p = patient_for(0s);
            p.habits = habits;
            p.retries = 5;
            p.max_rto = 5s;
            tcp_script s(p);
            s.connect("SA 0:0 ack 1 win 0 mss 1000");
            s.write(1000);
            s.shutdown();
            if (!held) s.orphan();
            s.drain();
            for (int i = 0; i < 100 && s.block().state() != tcp_state::closed; ++i) {
                s.advance(1s);
                if (s.drain() != 0) s.receive("A 1:1 ack 1 win 0");
            }
            s.expect_state(held ? tcp_state::fin_wait_1 : tcp_state::closed); // MUST-37: as long as somebody waits for it
        }
    }
}

BOOST_AUTO_TEST_CASE(an_orphan_without_patience_resets_instead_of_waiting_for_the_peers_fin) { // tcp(7), TCP_LINGER2
    tcp::parameters p = tcp_script::plain();
    p.fin_wait_2 = -1s;
    tcp_script s(p);
    s.connect();
    s.shutdown();
    s.orphan();
    s.expect("FA 1:1");
    BOOST_TEST(tcp::has(s.receive("A 1:1 ack 2"), event::closed));
    s.expect("R 2:2");
    s.expect_nothing();
    tcp_script late(p); // closed first, let go of then
    late.connect();
    late.shutdown();
    late.expect("FA 1:1");
    late.receive("A 1:1 ack 2");
    late.expect_state(tcp_state::fin_wait_2);
    late.orphan();
    late.expect("RA 2:2 ack 1");
    late.expect_state(tcp_state::closed);
}

BOOST_AUTO_TEST_CASE(an_abort_says_nothing_where_everything_has_been_said) { // RFC 9293 3.10.5, CLOSING and LAST-ACK
    tcp_script s;
    s.connect();
    s.receive("FA 1:1 ack 1");
    s.expect("A 1:1 ack 2");
    s.shutdown();
    s.expect("FA 1:1 ack 2");
    s.expect_state(tcp_state::last_ack);
    s.abort();
    s.expect_nothing();
    s.expect_state(tcp_state::closed);
}

BOOST_AUTO_TEST_SUITE_END()
