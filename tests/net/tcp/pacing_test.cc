// Pacing: how evenly data leaves (send/pacer.hh).
#include <corewire/net/tcp/send/pacer.hh>
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

using namespace corewire;
using namespace corewire::test;

namespace {

tcp::parameters capped(std::uint64_t rate) {
    tcp::parameters p = tcp_script::plain();
    p.max_pacing_rate = rate;
    p.tail_loss_probe = false;
    return p;
}

/// Sends for `time`, acknowledging each segment at once; returns the bytes that left.
std::uint32_t send_for(tcp_script& s, duration time) {
    const time_point end = s.now() + time;
    const tcp::seq_number start = s.block().info().snd_una;
    while (s.now() < end) {
        if (s.block().queued() < 60'000) s.write(30'000);
        while (s.drain() != 0) {
            const auto i = s.block().info();
            s.receive("A 1:1 ack " + std::to_string(i.snd_max.value - 1'000'000) + " win 65535");
        }
        s.advance(std::min<duration>(end - s.now(), 1ms));
    }
    return s.block().info().snd_max - start;
}

/// The first ten segments leave as a burst, and two more: two seconds' worth, and half of them forgiven.
void wait_for_the_cap(tcp_script& s) {
    s.connect();
    s.write(30'000);
    BOOST_TEST(s.drain() == 10);
    s.receive("A 1:1 ack 10001 win 65535");
    BOOST_TEST(s.drain() == 2);
}

} // namespace

BOOST_AUTO_TEST_SUITE(pacing)

BOOST_AUTO_TEST_CASE(a_cap_is_kept_over_time) {
    tcp_script s(capped(1'000'000));
    s.connect();
    const std::uint32_t sent = send_for(s, 2s);
    BOOST_TEST(sent >= 1'980'000u);
    BOOST_TEST(sent <= 2'015'000u); // the first ten segments are free, and one burst is under way
}

BOOST_AUTO_TEST_CASE(the_first_ten_segments_leave_at_once_and_then_two_at_a_time) {
    tcp_script s(capped(100'000)); // a segment in 10 ms
    s.connect();
    s.write(18'000);
    BOOST_TEST(s.drain() == 10); // the initial window
    s.receive("A 1:1 ack 10001 win 65535");
    BOOST_TEST(s.drain() == 2);
    s.expect_nothing();
    s.advance(10ms - 1us); // a burst that begins late is forgiven half of its time
    s.expect_nothing();
    s.advance(1us);
    BOOST_TEST(s.drain() == 2);
    s.advance(20ms - 1us);
    s.expect_nothing();
    s.advance(1us);
    BOOST_TEST(s.drain() == 2);
}

BOOST_AUTO_TEST_CASE(acknowledgements_do_not_wait_for_the_pace) {
    tcp_script s(capped(100'000));
    s.connect();
    s.write(13'000);
    BOOST_TEST(s.drain() == 10);
    s.receive("A 1:1 ack 10001 win 65535");
    BOOST_TEST(s.drain() == 2);
    s.receive("A 1:1001 ack 10001 win 65535");
    s.receive("A 1001:2001 ack 10001 win 65535");
    s.expect("A 12001:12001 ack 2001");
    s.shutdown(); // behind data that is held
    s.expect_nothing();
    s.advance(10ms);
    s.expect("FA 12001:13001 ack 2001");
}

BOOST_AUTO_TEST_CASE(retransmissions_are_paced_but_for_the_first) {
    tcp_script s(capped(100'000));
    s.connect();
    s.write(10'000);
    BOOST_TEST(s.drain() == 10);
    s.advance(50ms);
    s.receive("A 1:1 ack 1 win 65535 sack 4001-10001");
    BOOST_TEST(s.expect("A 1:1001").retransmission); // RACK: four are lost
    BOOST_TEST(s.drain() <= 2);
    BOOST_TEST(s.block().info().lost != 0u); // they wait
    for (int i = 0; i < 10 && s.block().info().lost != 0u; ++i) {
        s.advance(20ms);
        BOOST_TEST(s.drain() <= 2);
    }
    BOOST_TEST(s.block().info().lost == 0u);
}

BOOST_AUTO_TEST_CASE(a_window_is_spread_over_its_round_trip) { // Linux: 200 % in slow start, 120 % afterwards
    tcp::parameters p = tcp_script::plain();
    p.pacing = true;
    p.tail_loss_probe = false;
    tcp_script s(p);
    s.open();
    s.expect("S 0:0");
    s.expect_nothing();
    s.advance(100ms);
    s.receive("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0");
    s.expect("A 1:1 ack 1");
    s.write(30'000);
    BOOST_TEST(s.drain() == 10);
    s.advance(100ms);
    s.receive("A 1:1 ack 10001 win 65535");
    const tcp::connection_info i = s.block().info();
    BOOST_TEST(i.paced);
    BOOST_TEST(i.cwnd == 20'000u); // HyStart++: all that was acknowledged, since it leaves at a pace (RFC 9406 4.3)
    BOOST_TEST(i.pacing_rate == 400'000u); // 20,000 bytes in 100 ms, twice
    BOOST_TEST(s.drain() == 2);
    s.advance(100ms);
    int sent = 2;
    for (int step = 0; step < 100 && sent < 20; ++step) {
        sent += s.drain();
        s.advance(5ms);
    }
    BOOST_TEST(sent == 20);
}

BOOST_AUTO_TEST_CASE(without_a_cap_nothing_waits_and_taking_it_away_lets_go) {
    tcp_script s(capped(1000));
    wait_for_the_cap(s);
    BOOST_TEST(s.block().info().paced);
    s.block().set_max_pacing_rate(s.now(), tcp::pacer::off);
    BOOST_TEST(!s.block().info().paced);
    BOOST_TEST(s.drain() == 18); // the whole window
}

BOOST_AUTO_TEST_CASE(what_waits_for_a_cap_that_is_raised_waits_for_the_new_one) {
    tcp_script s(capped(1000));
    wait_for_the_cap(s);
    s.expect_nothing();
    s.block().set_max_pacing_rate(s.now(), 100'000);
    s.expect_nothing();
    s.advance(10ms - 1us);
    s.expect_nothing();
    s.advance(1us);
    BOOST_TEST(s.drain() == 2);
    s.block().set_max_pacing_rate(s.now(), 50'000); // one that is lowered counts from the next burst
    s.advance(20ms);
    BOOST_TEST(s.drain() == 2);
    s.block().set_max_pacing_rate(s.now(), ~std::uint64_t{0} - 1);
    BOOST_TEST(s.drain() != 0);
}

BOOST_AUTO_TEST_CASE(a_burst_is_a_millisecond_and_two_segments_at_least) {
    tcp::pacer p;
    BOOST_TEST(!p.on());
    p.set_rate(0); // not off, and not nothing
    BOOST_TEST(p.on());
    BOOST_TEST(p.rate() == 1u);
    BOOST_TEST(p.burst(1000) == 2000u);
    p.set_rate(10u << 20);
    BOOST_TEST(p.burst(1000) == 10u << 10);
    p.set_rate(std::uint64_t{10} << 30);
    BOOST_TEST(p.burst(1000) == 65'536u);
    BOOST_TEST(p.burst(60'000) == 120'000u);
}

BOOST_AUTO_TEST_CASE(lost_data_that_waits_for_its_pace_is_no_silence) { // RFC 6298 5: of the peer's
    for (const bool sack : {false, true}) {
        tcp::parameters p = tcp_script::plain();
        p.max_pacing_rate = 5000;
        tcp_script s(p);
        s.connect(std::string("SA 0:0 ack 1 win 65535 mss 1000 ws 0") + (sack ? " sackok" : ""), 10ms);
        s.write(10'000);
        BOOST_TEST(s.drain() == 10); // in one burst, before a rate was known
        s.advance(10ms);
        std::array<bool, 10> had{false, true, false, true, false, true, false, true, false, true};
        const auto arrive = [&](std::size_t k) {
            had[k] = true;
            const auto una = static_cast<std::size_t>(std::find(had.begin(), had.end(), false) - had.begin());
            std::string text = "A 1:1 ack " + std::to_string(1 + una * 1000);
            if (sack && k > una) text += " sack " + std::to_string(1 + k * 1000) + "-" + std::to_string(1001 + k * 1000);
            s.receive(text);
            return una == had.size();
        };
        for (std::size_t k = 1; k < had.size(); k += 2) arrive(k);
        std::uint64_t resent = 0;
        unsigned passed = 0;
        for (bool done = false; !done && passed < 4000; passed += 10) {
            std::vector<std::size_t> under_way;
            tcp::outgoing_segment out;
            while (s.block().next_segment(s.now(), out)) {
                if (out.payload_size == 0) continue;
                under_way.push_back((out.seq - tcp::seq_number(1'000'001)) / 1000);
                resent += out.payload_size;
            }
            s.advance(10ms);
            for (const std::size_t k : under_way) done |= arrive(k);
        }
        BOOST_TEST(s.block().statistics().retransmission_timeouts == 0u);
        BOOST_TEST(resent <= 2000 + 5u * passed); // 5,000 bytes a second behind a burst of two segments
    }
}

BOOST_AUTO_TEST_SUITE_END()
