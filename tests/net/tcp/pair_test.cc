// Two endpoints over a network with faults, from seeds: every byte once and in order, invariants after every event, no
// frame left behind.
// ctest: timeout=300
#include <tests/support/tcp_pair.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;
using tcp::tcp_state;

namespace {

tcp::parameters quick() {
    tcp::parameters p;
    p.receive_pieces = 4096;
    p.time_wait = 60s; // or the last ACK, lost three times, is an error
    return p;
}

/// Both sides write `bytes`, close, and go through all the states to the end.
void exchange(std::uint64_t seed, const pair_faults& faults, std::uint64_t bytes, const tcp::parameters& a,
              const tcp::parameters& b, std::uint32_t write_size = 1448, bool both_open = false) {
    BOOST_TEST_MESSAGE("seed " << seed);
    tcp_pair p(seed, faults, a, b);
    for (int i = 0; i < 2; ++i) {
        p[i].to_write = bytes;
        p[i].closing = true;
        p[i].write_size = write_size;
    }
    p.start(both_open);
    const auto closed = [&](int i) { return p[i].tcb && p[i].tcb->state() == tcp_state::closed; };
    const bool done = p.run([&] { return closed(0) && closed(1); }, 3600s);
    BOOST_CHECK_MESSAGE(done, "seed " << seed << ": " << p.why() << ", read " << p[1].read << " and " << p[0].read);
    for (int i = 0; i < 2; ++i) {
        BOOST_CHECK_MESSAGE(p.transferred(i), "seed " << seed << ": side " << i << " is short");
        BOOST_CHECK_MESSAGE(p[i].tcb->error() == std::errc{},
                            "seed " << seed << ": error " << static_cast<int>(p[i].tcb->error()));
    }
    p.finish();
    BOOST_TEST(!p.leaked());
}

} // namespace

BOOST_AUTO_TEST_SUITE(pair)

BOOST_AUTO_TEST_CASE(a_clean_network_carries_both_streams_and_the_connection_closes_in_order) {
    exchange(1, {}, 300'000, quick(), quick());
}

BOOST_AUTO_TEST_CASE(a_clean_network_needs_no_retransmission) {
    tcp_pair p(1, {}, quick());
    p[0].to_write = 3'000'000;
    p.start();
    BOOST_TEST(p.run([&] { return p.transferred(0); }, 10s));
    BOOST_TEST(p[0].tcb->statistics().retransmitted_segments == 0u);
    BOOST_TEST(p[0].tcb->statistics().retransmission_timeouts == 0u);
}

BOOST_AUTO_TEST_CASE(loss_reordering_and_duplication_change_nothing) {
    for (std::uint64_t seed = 100; seed < 140; ++seed) {
        exchange(seed, {.loss = 0.05, .duplicate = 0.05, .reorder = 0.2}, 150'000, quick(), quick());
    }
}

BOOST_AUTO_TEST_CASE(heavy_loss_is_survived) {
    for (std::uint64_t seed = 200; seed < 215; ++seed) {
        exchange(seed, {.loss = 0.2, .duplicate = 0.1, .reorder = 0.3}, 30'000, quick(), quick());
    }
}

BOOST_AUTO_TEST_CASE(peers_without_sack_or_timestamps_get_their_bytes_too) { // RFC 6582
    auto plain = quick();
    plain.sack = plain.timestamps = plain.window_scaling = false;
    for (std::uint64_t seed = 300; seed < 320; ++seed) {
        exchange(seed, {.loss = 0.05, .duplicate = 0.05, .reorder = 0.2}, 100'000, quick(), plain);
    }
}

BOOST_AUTO_TEST_CASE(small_windows_and_odd_writes_get_through) {
    auto small = quick();
    small.receive_buffer = 4000;
    small.send_buffer = 3000;
    for (std::uint64_t seed = 400; seed < 415; ++seed) {
        exchange(seed, {.loss = 0.03, .reorder = 0.1}, 40'000, small, quick(), 77);
    }
}

BOOST_AUTO_TEST_CASE(both_may_open_and_close_at_once) { // RFC 9293 3.5, 3.6
    for (std::uint64_t seed = 500; seed < 520; ++seed) {
        exchange(seed, {.loss = 0.1, .duplicate = 0.05, .reorder = 0.2}, 5'000, quick(), quick(), 500, true);
    }
}

BOOST_AUTO_TEST_CASE(a_reader_that_pauses_closes_the_window_and_opens_it_again) { // RFC 9293 3.8.6
    auto p = quick();
    p.receive_buffer = 50'000;
    tcp_pair t(7, {.loss = 0.02}, p);
    t[0].to_write = 400'000;
    t[1].paused = true;
    t.start();
    BOOST_TEST(!t.run([] { return false; }, 20s));
    BOOST_TEST((t[1].tcb->readable() > 45'000u && t[1].tcb->readable() <= 50'032u));
    BOOST_TEST(t[0].tcb->statistics().window_probes > 0u);
    tcp_pair u(7, {.loss = 0.02}, p);
    u[0].to_write = 400'000;
    u[1].paused = true;
    u.start();
    BOOST_TEST(u.run(
        [&] {
            return u.now() > from_ns(1'000'000'000) + 10s ||
                   (u[1].paused = u[1].tcb && u[1].tcb->readable() < 49'000 && u[1].read == 0, u.transferred(0));
        },
        3600s));
}

BOOST_AUTO_TEST_CASE(a_dead_network_ends_in_a_time_out) { // RFC 9293 3.8.3, R2
    tcp_pair p(9, {}, quick());
    p[0].to_write = 1'000'000;
    p.start();
    BOOST_TEST(p.run([&] { return p[1].read > 100'000; }, 10s));
    p[1].tcb.reset();
    p.run([&] { return p[0].tcb->state() == tcp_state::closed; }, 3600s);
    BOOST_TEST((p[0].tcb->error() == std::errc::timed_out));
}

BOOST_AUTO_TEST_CASE(every_thousandth_frame_lost_costs_less_than_half_of_the_rate) {
    const auto rate = [](unsigned drop_every, std::uint64_t& timeouts) {
        // 40 Gbit/s: 300 ns a frame, round trip 10 us.
        tcp_pair p(11, {.latency = 5us, .drop_every = drop_every, .frame_time = 300ns}, quick());
        p[0].to_write = 30'000'000;
        p.start();
        const time_point begin = p.now();
        BOOST_CHECK_MESSAGE(p.run([&] { return p.transferred(0); }, 100s), p.why());
        timeouts = p[0].tcb->statistics().retransmission_timeouts;
        return 30e6 * 8 / static_cast<double>((p.now() - begin).count());
    };
    std::uint64_t timeouts = 0;
    const double clean = rate(0, timeouts);
    const double lossy = rate(1000, timeouts);
    BOOST_TEST_MESSAGE("clean " << clean << " Gbit/s, lossy " << lossy << " Gbit/s, time-outs " << timeouts);
    BOOST_TEST(timeouts == 0u);
    BOOST_TEST(clean > 30.0);
    BOOST_TEST(lossy >= 0.5 * clean);
}

BOOST_AUTO_TEST_SUITE_END()
