// A connection's one wheel timer follows its deadlines, also when a nearer one comes up.
#include "stack_world.hh"

using namespace corewire;
using namespace corewire::socket_suite;

BOOST_AUTO_TEST_SUITE(timers)

namespace {

bool client_has_all_acknowledged(stack_world& w) {
    bool all = true;
    w.client().tcp().for_each_connection([&](tcp_connection& c) { all &= c.tcb.all_acknowledged(); });
    return all;
}

task<> time_the_last_ack(stack_world& w, duration& took) {
    ends both = co_await connected(w, {.no_delay = true});
    // Data that flows back ends the quick ACKs of the start, and arms a retransmission timer behind the delayed ACK's.
    for (int i = 0; i < 20; ++i) {
        co_await both.client.write(std::string_view{"question"});
        co_await both.server.read();
        co_await both.server.write(std::string_view{"answer"});
        co_await both.client.read();
    }
    const time_point sent = w.clock.now();
    co_await both.client.write(std::string_view{"the last word"});
    do co_await sleep_for(std::chrono::milliseconds{1});
    while (!client_has_all_acknowledged(w));
    took = w.clock.now() - sent;
}

} // namespace

BOOST_FIXTURE_TEST_CASE(a_delayed_ack_comes_in_its_time_although_a_later_timer_is_armed, stack_world) {
    duration took{};
    run(time_the_last_ack(*this, took));
    BOOST_TEST(took.count() <= 45'000'000);
}

BOOST_AUTO_TEST_SUITE_END()
