// Buffers that grow by themselves: the receive buffer with what is read in a round trip, the send buffer with the congestion window,
// and both within a budget that connections share.
#include <corewire/net/tcp/guard/buffer_budget.hh>
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;

namespace {

tcp::parameters growing(std::uint32_t from, std::uint32_t to, tcp::buffer_budget* budget = nullptr) {
    tcp::parameters p = tcp_script::plain();
    p.receive_buffer = p.send_buffer = from;
    p.receive_growth_limit = p.send_growth_limit = to;
    p.budget = budget;
    return p;
}

/// A handshake that takes ten milliseconds.
void connect_slowly(tcp_script& s) {
    s.open();
    s.expect("S 0:0");
    s.expect_nothing();
    s.advance(10ms);
    s.receive("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 5");
    s.expect("A 1:1 ack 1");
    s.expect_nothing();
}

/// One round trip's worth of data, as much as the window takes; `read`: the reader keeps up.
void fill_window(tcp_script& s, std::int64_t& at, bool read = true) {
    for (std::uint32_t left = s.block().info().receive_window; left >= 1000; left -= 1000) {
        s.receive("A " + std::to_string(at) + ":" + std::to_string(at + 1000) + " ack 1");
        at += 1000;
        if (read) s.read_all();
    }
    s.drain();
    s.advance(10ms);
    s.drain();
}

} // namespace

BOOST_AUTO_TEST_SUITE(right_sizing)

BOOST_AUTO_TEST_CASE(a_scaled_window_closes_under_small_segments_too) { // RFC 9293 3.8.6.2.2: the field is rounded, and the edge stays
    tcp_script s(growing(20'000, 8'000'000));
    connect_slowly(s);
    std::int64_t at = 1;
    for (int i = 0; i < 2000 && s.edge() >= at + 100; ++i, at += 100) {
        s.receive("A " + std::to_string(at) + ":" + std::to_string(at + 100) + " ack 1");
        s.advance(50ms);
        s.drain();
    }
    BOOST_TEST(s.block().readable() > 19'000u);
    BOOST_TEST(s.block().readable() <= 20'000u + 2 * 128);
    s.read_all();
    s.drain();
    BOOST_TEST(s.edge() >= at + 19'000);
}

BOOST_AUTO_TEST_CASE(a_reader_who_keeps_up_gets_a_larger_window_until_the_limit) {
    tcp_script s(growing(20'000, 300'000));
    connect_slowly(s);
    std::int64_t at = 1;
    std::uint32_t last = s.block().info().receive_buffer;
    BOOST_TEST(last == 20'000u);
    for (int round = 0; round < 3; ++round) fill_window(s, at);
    BOOST_TEST(s.block().info().receive_buffer > 2 * last);
    for (int round = 0; round < 8; ++round) {
        fill_window(s, at);
        BOOST_TEST(s.block().info().receive_buffer >= last); // it never shrinks
        last = s.block().info().receive_buffer;
    }
    BOOST_TEST(last == 300'000u);
    BOOST_TEST(s.block().info().receive_window > 250'000u);
    BOOST_TEST(s.block().options().receive_buffer == 20'000u); // what was asked for
}

BOOST_AUTO_TEST_CASE(what_came_in_an_hour_is_no_round_trips_worth) {
    tcp_script s(growing(20'000, 300'000));
    connect_slowly(s);
    std::int64_t at = 1;
    fill_window(s, at);
    const std::uint32_t before = s.block().info().receive_buffer;
    int written = 1;
    for (int i = 0; i < 1000; ++i) { // each ACK rides on an answer
        s.receive("A " + std::to_string(at) + ":" + std::to_string(at + 1000) + " ack " + std::to_string(written));
        at += 1000;
        s.read_all();
        s.write(100);
        s.drain();
        written += 100;
        s.advance(3s);
    }
    for (int i = 0; i < 4; ++i) { // more than one at a time
        s.receive("A " + std::to_string(at) + ":" + std::to_string(at + 1000) + " ack " + std::to_string(written));
        at += 1000;
        s.read_all();
    }
    s.drain();
    BOOST_TEST(s.block().info().receive_buffer == before);
}

BOOST_AUTO_TEST_CASE(a_reader_who_does_not_keep_up_gets_none) {
    tcp_script s(growing(20'000, 300'000));
    connect_slowly(s);
    std::int64_t at = 1;
    for (int round = 0; round < 6; ++round) {
        fill_window(s, at, false);
        s.read(5000);
    }
    BOOST_TEST(s.block().info().receive_buffer == 20'000u);
    s.read_all();
}

BOOST_AUTO_TEST_CASE(a_stream_that_is_slower_than_the_window_leaves_it_as_it_is) {
    tcp_script s(growing(100'000, 300'000));
    connect_slowly(s);
    std::int64_t at = 1;
    for (int round = 0; round < 20; ++round) {
        for (int i = 0; i < 8; ++i) {
            s.receive("A " + std::to_string(at) + ":" + std::to_string(at + 1000) + " ack 1");
            at += 1000;
            s.read_all();
        }
        s.drain();
        s.advance(10ms);
        s.drain();
    }
    BOOST_TEST(s.block().info().receive_buffer == 100'000u);
}

BOOST_AUTO_TEST_CASE(a_size_that_was_chosen_stays) {
    tcp_script s(growing(20'000, 300'000));
    connect_slowly(s);
    std::int64_t at = 1;
    for (int round = 0; round < 4; ++round) fill_window(s, at);
    BOOST_TEST(s.block().info().receive_buffer > 20'000u);
    s.block().set_buffers(20'000, 20'000); // what they are said to be: nothing new
    BOOST_TEST(s.block().info().receive_buffer > 20'000u);
    s.block().set_buffers(30'000, 20'000);
    for (int round = 0; round < 4; ++round) fill_window(s, at);
    BOOST_TEST(s.block().info().receive_buffer == 30'000u);
}

BOOST_AUTO_TEST_CASE(what_a_shard_has_left_bounds_them_all_and_comes_back) {
    tcp::buffer_budget budget(100'000);
    {
        tcp_script first(growing(20'000, 100'000, &budget));
        connect_slowly(first);
        std::int64_t at = 1;
        for (int round = 0; round < 10; ++round) fill_window(first, at);
        BOOST_TEST(first.block().info().receive_buffer == 100'000u);
        BOOST_TEST(budget.used() == 80'000u);
        tcp_script second(growing(20'000, 100'000, &budget));
        connect_slowly(second);
        at = 1;
        for (int round = 0; round < 10; ++round) fill_window(second, at);
        BOOST_TEST(second.block().info().receive_buffer <= 40'000u);
        BOOST_TEST(budget.used() <= 100'000u);
        BOOST_TEST(budget.refused() != 0u);
    }
    BOOST_TEST(budget.used() == 0u);
}

BOOST_AUTO_TEST_CASE(the_send_buffer_becomes_twice_the_congestion_window) {
    tcp_script s(growing(10'000, 35'000));
    connect_slowly(s);
    std::int64_t acked = 1;
    for (int round = 0; round < 6; ++round) {
        while (s.block().writable() != 0) s.write(1000);
        s.drain();
        acked += s.block().info().unacknowledged;
        s.advance(10ms);
        s.receive("A 1:1 ack " + std::to_string(acked) + " win 65535");
        if (round == 0) BOOST_TEST(s.block().info().send_buffer == 2 * s.block().info().cwnd);
    }
    BOOST_TEST(s.block().info().send_buffer == 35'000u);
    s.drain();
}

BOOST_AUTO_TEST_CASE(what_was_refused_is_asked_for_again) {
    tcp::buffer_budget budget(1 << 20);
    BOOST_REQUIRE(budget.take(1 << 20)); // others have it all
    tcp_script s(growing(32'000, 1 << 20, &budget));
    connect_slowly(s);
    std::int64_t at = 1;
    for (int i = 0; i < 10; ++i) fill_window(s, at);
    BOOST_TEST(s.block().info().receive_buffer == 32'000u);
    budget.give_back(1 << 20);
    for (int i = 0; i < 20; ++i) fill_window(s, at);
    BOOST_TEST(s.block().info().receive_buffer > 64'000u);
}

BOOST_AUTO_TEST_CASE(a_buffer_of_less_than_ten_segments_grows_too) {
    tcp_script s(growing(8'000, 1 << 20));
    connect_slowly(s);
    std::int64_t at = 1;
    for (int i = 0; i < 20; ++i) fill_window(s, at);
    BOOST_TEST(s.block().info().receive_buffer > 16'000u);
}

BOOST_AUTO_TEST_SUITE_END()
