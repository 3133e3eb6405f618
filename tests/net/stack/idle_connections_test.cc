// What idle connections of a stack share: parameters, and a congestion controller until it is told something (tcp/commons.hh).
#include "stack_world.hh"

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::socket_suite;

namespace {

/// The parameters of all connections, and no others, are those of the first.
bool share_parameters(network_stack& stack) {
    const tcp::parameters* first = nullptr;
    bool same = true;
    stack.tcp().for_each_connection([&](tcp_connection& c) {
        if (first == nullptr) first = &c.tcb.options();
        same = same && first == &c.tcb.options();
    });
    return same && first != nullptr;
}

task<> connections_share(stack_world& w) {
    ends a = co_await connected(w);
    ends b = co_await connected(w);
    BOOST_TEST((share_parameters(w.server()) && share_parameters(w.client())));
    const std::size_t sets = w.server().tcp().commons().sets();
    tcp_options_set changed = b.server.options();
    changed.no_delay = !changed.no_delay;
    b.server.set_options(changed);
    BOOST_TEST(!share_parameters(w.server()));
    BOOST_TEST((b.server.options().no_delay == changed.no_delay && a.server.options().no_delay != changed.no_delay));
    BOOST_TEST(w.server().tcp().commons().sets() > sets);
    BOOST_TEST(w.server().tcp().commons().refused() == 0u);
}

task<> words_now_and_then(stack_world& w) {
    ends a = co_await connected(w);
    const std::size_t made = w.server().tcp().commons().controllers();
    std::array<std::byte, 64> word{}, answer{};
    for (int i = 0; i < 3; ++i) {
        co_await a.client.write(byte_span{word});
        const std::size_t there = co_await a.server.read_exactly(answer);
        co_await a.server.write(byte_span{answer});
        const std::size_t back = co_await a.client.read_exactly(answer);
        BOOST_TEST((there == word.size() && back == word.size()));
        co_await sleep_for(std::chrono::seconds{5}); // longer than any time-out: the window falls back to what it is
    }
    BOOST_TEST(w.server().tcp().commons().controllers() == made);
    w.server().tcp().for_each_connection([](tcp_connection& c) { BOOST_TEST(c.tcb.shares_controller()); });
    std::vector<std::byte> much(300'000);
    task_group sending{"send"};
    sending.spawn(echo(std::move(a.server)));
    co_await a.client.write(byte_span{much}); // now the window is the limit
    const std::size_t back = co_await a.client.read_exactly(much);
    BOOST_TEST(back == much.size());
    w.client().tcp().for_each_connection([](tcp_connection& c) { BOOST_TEST(!c.tcb.shares_controller()); });
    a.client.shutdown();
    co_await sending.join();
}

} // namespace

BOOST_AUTO_TEST_SUITE(idle_connections)

BOOST_FIXTURE_TEST_CASE(connections_that_were_told_the_same_share_it, stack_world) { run(connections_share(*this)); }
BOOST_FIXTURE_TEST_CASE(a_word_now_and_then_needs_no_controller_of_ones_own, stack_world) { run(words_now_and_then(*this)); }

BOOST_AUTO_TEST_SUITE_END()
