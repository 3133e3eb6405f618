// The fast paths, in and out, do what the general way does: the same connection twice, with and without them, must send
// the same segments at the same times, whatever the network does to them.
// ctest: timeout=300
#include <tests/support/tcp_pair.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;

namespace {

struct play {
    std::uint64_t bytes = 40'000;
    std::uint32_t write_size = 200;
    bool lockstep = true;
    bool both = true;      ///< both sides write
    pair_faults faults{};
    tcp::parameters parameters{};
};

struct outcome {
    std::vector<std::string> trace;
    unsigned fast_in = 0, fast_out = 0;
    bool whole = false;
};

outcome run(std::uint64_t seed, play how, bool fast) {
    how.parameters.fast_path = fast;
    how.parameters.time_wait = 1s;
    tcp_pair p(seed, how.faults, how.parameters);
    for (int i = 0; i < 2; ++i) {
        p[i].to_write = i == 0 || how.both ? how.bytes : 0;
        p[i].write_size = how.write_size;
        p[i].lockstep = how.lockstep;
        p[i].closing = true;
    }
    p.record();
    p.start();
    const auto closed = [&](int i) { return p[i].tcb && p[i].tcb->state() == tcp::tcp_state::closed; };
    outcome o;
    o.whole = p.run([&] { return closed(0) && closed(1); }, 3600s) && p.transferred(0) && p.transferred(1);
    BOOST_CHECK_MESSAGE(o.whole, "seed " << seed << ": " << p.why());
    o.trace = p.trace();
    o.fast_in = p[0].fast_in + p[1].fast_in;
    o.fast_out = p[0].fast_out + p[1].fast_out;
    return o;
}

/// Compares the two and returns the one with fast paths.
outcome compare(std::uint64_t seed, const play& how) {
    BOOST_TEST_MESSAGE("seed " << seed);
    outcome fast = run(seed, how, true);
    const outcome slow = run(seed, how, false);
    BOOST_TEST(slow.fast_in == 0u);
    BOOST_TEST(slow.fast_out == 0u);
    std::size_t i = 0;
    while (i < fast.trace.size() && i < slow.trace.size() && fast.trace[i] == slow.trace[i]) ++i;
    const auto at = [i](const outcome& o) { return i < o.trace.size() ? o.trace[i] : std::string("nothing"); };
    BOOST_CHECK_MESSAGE(i == fast.trace.size() && i == slow.trace.size(),
                        "seed " << seed << ", segment " << i << ": fast " << at(fast) << "\n  general " << at(slow));
    return fast;
}

} // namespace

BOOST_AUTO_TEST_SUITE(fast_path)

BOOST_AUTO_TEST_CASE(a_clean_exchange_is_the_same_and_nearly_all_of_it_is_fast) {
    const outcome o = compare(1, {});
    BOOST_TEST(o.fast_out >= 390u); // of 2 x 200 writes, each sent by itself
    BOOST_TEST(o.fast_in >= 390u);
}

BOOST_AUTO_TEST_CASE(losses_duplicates_and_reordering_are_met_alike) {
    unsigned in = 0, out = 0;
    for (std::uint64_t seed = 100; seed < 130; ++seed) {
        const outcome o = compare(seed, {.faults = {.loss = 0.05, .duplicate = 0.05, .reorder = 0.2}});
        in += o.fast_in;
        out += o.fast_out;
    }
    BOOST_TEST(in > 1000u);
    BOOST_TEST(out > 1000u);
}

BOOST_AUTO_TEST_CASE(heavy_loss_is_met_alike) {
    for (std::uint64_t seed = 200; seed < 210; ++seed) {
        compare(seed, {.bytes = 10'000, .faults = {.loss = 0.2, .duplicate = 0.1, .reorder = 0.3}});
    }
}

BOOST_AUTO_TEST_CASE(streams_without_pause_are_sent_alike) {
    for (std::uint64_t seed = 300; seed < 310; ++seed) {
        compare(seed, {.bytes = 200'000, .write_size = 1448, .lockstep = false, .faults = {.loss = 0.02, .reorder = 0.1}});
        compare(seed, {.bytes = 200'000, .write_size = 777, .lockstep = false, .both = false, .faults = {.drop_every = 50}});
    }
}

BOOST_AUTO_TEST_CASE(nagle_and_immediate_sending_are_kept) { // RFC 9293 3.7.4
    for (const bool no_delay : {false, true}) {
        for (std::uint64_t seed = 400; seed < 405; ++seed) {
            play how{.bytes = 20'000, .write_size = 90, .lockstep = false, .faults = {.loss = 0.03, .reorder = 0.1}};
            how.parameters.no_delay = no_delay;
            compare(seed, how);
        }
    }
}

BOOST_AUTO_TEST_CASE(small_windows_and_buffers_are_respected_alike) { // RFC 9293 3.8.6
    for (std::uint64_t seed = 500; seed < 510; ++seed) {
        play how{.bytes = 30'000, .write_size = 333, .lockstep = seed % 2 == 0, .faults = {.loss = 0.03, .reorder = 0.1}};
        how.parameters.receive_buffer = 3000 + static_cast<std::uint32_t>(seed);
        how.parameters.send_buffer = 2500;
        compare(seed, how);
    }
}

BOOST_AUTO_TEST_CASE(peers_without_timestamps_or_sack_are_served_alike) {
    for (std::uint64_t seed = 600; seed < 610; ++seed) {
        play how{.faults = {.loss = 0.05, .duplicate = 0.05, .reorder = 0.2}};
        (seed % 2 == 0 ? how.parameters.timestamps : how.parameters.sack) = false;
        compare(seed, how);
    }
}

BOOST_AUTO_TEST_CASE(keepalive_and_idle_restart_are_the_same) { // RFC 9293 3.8.4, RFC 5681 4.1
    play how{.bytes = 4000, .both = false, .faults = {.latency = 400ms}};
    how.parameters.keepalive = true;
    how.parameters.keepalive_idle = 300ms;
    how.parameters.keepalive_interval = 200ms;
    how.parameters.keepalive_probes = 100;
    for (std::uint64_t seed = 700; seed < 705; ++seed) compare(seed, how);
}

BOOST_AUTO_TEST_SUITE_END()
