// tcp_options_set::statistics: a connection of ours tells all that the kernel's would, and others pay nothing for it.
#include "stack_world.hh"

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::socket_suite;
using namespace std::chrono_literals;

namespace {

/// 50,000 bytes there, six back and with them the acknowledgement.
task<> talk(ends& both) {
    const std::string text(50'000, 'c');
    std::vector<std::byte> got(text.size());
    co_await both.client.write(text);
    const std::size_t there = co_await both.server.read_exactly(got);
    BOOST_REQUIRE(there == text.size());
    co_await both.server.write(std::string_view{"thanks"});
    buffer thanks = co_await both.client.read();
    BOOST_TEST(thanks.size() == 6u);
}

task<> counts_for_who_asks(world& w) {
    const tcp_options_set asks{.statistics = true};
    tcp_listener listener = listen(w, 0, {.stream = asks});
    ends both;
    both.client = co_await dial(w, listener.local_address(), {}, asks);
    both.server = co_await listener.accept();
    BOOST_TEST(both.client.options().statistics);
    co_await talk(both);
    const tcp_information i = both.client.info();
    const std::uint64_t least = (50'000 + i.send_segment - 1) / i.send_segment;
    BOOST_TEST(i.data_segments_sent.value_or(0) >= least);
    BOOST_TEST(i.data_segments_sent.value_or(0) <= least + 10);
    BOOST_TEST(i.segments_sent.value_or(0) >= i.data_segments_sent.value_or(1) + 2); // the SYN and its ACK
    BOOST_TEST(i.data_segments_received.value_or(0) == 1u);
    BOOST_TEST(i.segments_received.value_or(0) >= 2u);
    BOOST_TEST(i.segments_delivered.value_or(0) == i.data_segments_sent.value_or(1) + 1); // the SYN counts
    BOOST_TEST(i.segments_delivered_marked.value_or(1) == 0u);
    BOOST_TEST(i.bytes_acknowledged == 50'000u);
    BOOST_TEST(i.delivery_rate.value_or(0) > 0u);
    BOOST_TEST(i.busy.has_value());
    BOOST_TEST((i.busy.value_or(0ns) >= i.limited_by_receiver.value_or(1h) + i.limited_by_send_buffer.value_or(1h)));
    BOOST_TEST(i.since_data_received.has_value());
    BOOST_TEST((i.timeouts_total.value_or(1) == 0u && i.timeout_rows.value_or(1) == 0u && i.in_timeouts.value_or(1s) == 0s));
    BOOST_TEST(both.server.info().data_segments_received.value_or(0) == i.data_segments_sent.value_or(1));

    both.client.set_options({}); // no more
    co_await talk(both);
    const tcp_information later = both.client.info();
    BOOST_TEST((!later.segments_sent && !later.segments_delivered && !later.busy && !later.delivery_rate));
    both.client.set_options(asks); // and again: from now on
    co_await talk(both);
    BOOST_TEST(both.client.info().data_segments_sent.value_or(0) >= i.data_segments_sent.value_or(1) + least);
    BOOST_TEST(both.client.info().bytes_acknowledged == 150'000u);
}

task<> is_silent_to_others(world& w) {
    ends both = co_await connected(w);
    co_await talk(both);
    const tcp_information i = both.client.info();
    BOOST_TEST((!i.segments_sent && !i.segments_received && !i.data_segments_sent && !i.data_segments_received));
    BOOST_TEST((!i.segments_delivered && !i.segments_delivered_marked && !i.delivery_rate && !i.busy && !i.since_data_received));
    BOOST_TEST((i.timeouts_total && i.timeout_rows && i.in_timeouts && i.receive_buffer_room)); // what costs nothing
    BOOST_TEST(!both.client.options().statistics);
}

/// Nobody reads: the peer's window closes, and is probed; then nobody answers.
task<> probes_are_counted(stack_world& w) {
    tcp_listener listener = listen(w, 0, {.stream = {.receive_buffer = 16'384}});
    ends both;
    both.client = co_await dial(w, listener.local_address(), {}, {});
    both.server = co_await listener.accept();
    task_group writing{"write"};
    const std::string text(100'000, 'w');
    const auto write = [&]() -> task<> { co_await both.client.write(text); };
    writing.spawn(write());
    co_await sleep_for(5s);
    BOOST_TEST((both.client.info().window_probes == 0u && both.client.info().send_window < both.client.info().send_segment));
    neighbor_table& ways = w.client().ip().neighbors();
    ways.set_permanent(stack_world::first, mac_address(0x02'00'00'00'00'99));
    co_await sleep_for(60s);
    const tcp_information i = both.client.info();
    BOOST_TEST((i.window_probes >= 2u && i.window_probes <= 5u), i.window_probes); // each twice as long after the one before
    BOOST_TEST(i.timeouts == 0u);
    BOOST_TEST((i.since_received > 50s && i.since_received <= 65s));
    BOOST_TEST((i.since_data_sent.value_or(0s) > 55s));
    ways.set_permanent(stack_world::first, w.server().device().mac());
    std::vector<std::byte> got(text.size());
    const std::size_t there = co_await both.server.read_exactly(got);
    BOOST_TEST(there == text.size());
    co_await writing.join();
    BOOST_TEST(both.client.info().window_probes == 0u);
}

task<> paces_are_told(world& w) {
    tcp_listener listener = listen(w, 0);
    ends both;
    both.client = co_await dial(w, listener.local_address(), {}, {.max_pacing_rate = 1'000'000});
    both.server = co_await listener.accept();
    BOOST_TEST(both.client.info().max_pacing_rate.value_or(0) == 1'000'000u);
    co_await talk(both);
    BOOST_TEST(both.client.info().pacing_rate.value_or(0) == 1'000'000u); // the path is faster
    BOOST_TEST((!both.server.info().max_pacing_rate && !both.server.info().pacing_rate));
    BOOST_TEST(both.server.info().receive_space.value_or(50'000) <= 50'000u);
    BOOST_TEST((both.client.info().delayed_ack > 0ms && both.client.info().delayed_ack <= 500ms)); // MUST-40
}

} // namespace

BOOST_AUTO_TEST_SUITE(connection_counts)

BOOST_FIXTURE_TEST_CASE(a_connection_that_is_asked_counts_segments_rates_and_times, stack_world) { run(counts_for_who_asks(*this)); }
BOOST_FIXTURE_TEST_CASE(others_count_nothing_that_would_cost_something_with_every_segment, stack_world) {
    run(is_silent_to_others(*this));
}
BOOST_FIXTURE_TEST_CASE(probes_of_a_closed_window_are_no_time_outs, stack_world) { run(probes_are_counted(*this)); }
BOOST_FIXTURE_TEST_CASE(a_cap_of_the_pace_and_what_it_makes_of_it_are_told, stack_world) { run(paces_are_told(*this)); }

BOOST_AUTO_TEST_SUITE_END()
