// The receive window as Linux reckons it (receive/linux_window.hh): the numbers are those of a 6.18 kernel that was told the same
// (tools/against-linux: shrink_allowed, grows_beyond_gap).
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;

namespace {

/// A host with tcp_rmem "4096 `memory` 33554432".
tcp::parameters linux_host(std::uint32_t memory, bool shrinks = false) {
    tcp::parameters p = tcp_script::plain();
    p.habits = tcp::personality::linux_;
    p.mss = 1460;
    p.quick_acks = 0;
    p.receive_memory = memory;
    p.receive_buffer = memory / 2;
    p.receive_growth_limit = 1u << 24;
    p.receive_buffer_limit = 1u << 25;
    p.shrinks_window = shrinks;
    return p;
}

void accept_slowly(tcp_script& s) {
    s.listen("S 0:0 win 65535 mss 1000 sackok ws 7");
    s.drain();
    s.advance(100ms);
    s.receive("A 1:1 ack 1 win 257");
    s.block().accept();
    s.advance(100ms);
}

} // namespace

BOOST_AUTO_TEST_SUITE(linux_window)

BOOST_AUTO_TEST_CASE(where_memory_is_short_the_window_is_taken_back_if_that_is_asked_for) {
    for (const bool shrinks : {true, false}) {
        tcp_script s(linux_host(32'768, shrinks));
        accept_slowly(s);
        s.receive("PA 1:1001 ack 1 win 257");
        s.expect(shrinks ? "A 1:1 ack 1001 win 12" : "A 1:1 ack 1001 win 15"); // up to 13,289; the SYN-ACK promised up to 16,061
        s.advance(50ms);
        s.receive("PA 13290:13291 ack 1 win 257");
        s.expect(shrinks ? "A 1:1 ack 1001 win 12" : "A 1:1 ack 1001 win 15 sack 13290-13291");
        s.advance(50ms);
        if (!shrinks) continue;
        s.receive("PA 1001:2001 ack 1 win 257");
        s.expect("A 1:1 ack 2001 win 11");
    }
}

BOOST_AUTO_TEST_CASE(the_buffer_grows_with_what_lies_beyond_a_gap_once_it_has_a_user) {
    for (const bool accepted : {true, false}) {
        tcp_script s(linux_host(65'536));
        s.listen("S 0:0 win 65535 mss 1000 sackok ws 7");
        s.drain();
        s.receive("A 1:1 ack 1 win 257");
        if (accepted) s.block().accept();
        s.advance(100ms);
        s.receive("PA 1:1001 ack 1 win 257");
        s.drain();
        s.advance(50ms);
        s.receive("A 2001:3001 ack 1 win 257");
        s.drain();
        // 2 * 14,600 + 2,000 bytes of window, of which 111 come in 256 bytes of memory.
        BOOST_TEST(s.block().info().receive_buffer == (accepted ? 71'956u / 2 : 32'768u));
    }
}

BOOST_AUTO_TEST_CASE(what_is_read_is_measured_over_a_whole_round_trip) {
    tcp_script s(linux_host(65'536));
    accept_slowly(s);
    std::int64_t at = 1;
    const auto stream = [&](int segments, duration apart) {
        for (int i = 0; i < segments; ++i, at += 1000) {
            s.receive("PA " + std::to_string(at) + ":" + std::to_string(at + 1000) + " ack 1 win 257");
            s.read_all();
            s.drain();
            s.advance(apart);
            s.drain();
        }
    };
    stream(200, 5ms);
    const std::uint32_t slow = s.block().info().receive_space, buffer = s.block().info().receive_buffer;
    stream(1000, 1ms); // five times as much in each
    BOOST_TEST(s.block().info().receive_space > slow);
    BOOST_TEST(s.block().info().receive_buffer > buffer);
}

BOOST_AUTO_TEST_CASE(the_buffer_grows_with_what_is_read_in_a_round_trip) {
    for (const bool grows : {true, false}) {
        auto p = linux_host(65'536);
        if (!grows) p.receive_growth_limit = 0;
        tcp_script s(p);
        accept_slowly(s);
        BOOST_TEST(s.block().info().receive_space == 14'600u);
        std::int64_t at = 1;
        for (int round = 0; round < 8; ++round) {
            for (int i = 0; i < 20; ++i, at += 1000) {
                s.receive("PA " + std::to_string(at) + ":" + std::to_string(at + 1000) + " ack 1 win 257");
                s.read_all();
                s.drain();
            }
            s.advance(100ms);
            s.drain();
        }
        BOOST_TEST(s.block().info().receive_space >= 20'000u);
        BOOST_TEST((s.block().info().receive_buffer > 40'000u) == grows);
    }
}

BOOST_AUTO_TEST_SUITE_END()
