// Who chooses a connection's congestion control, and what that does to the handshake.
#include "stack_world.hh"

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::socket_suite;

namespace {

stack_config with(tcp::congestion_factory factory, bool ecn) {
    stack_config config;
    config.tcp.congestion = factory;
    config.tcp.ecn = ecn;
    return config;
}

struct newreno_world : stack_world {
    newreno_world() : stack_world({.vouch_for_checksums = false}, with(tcp::reno_congestion, false)) {}
};
struct ecn_world : stack_world {
    ecn_world() : stack_world({.vouch_for_checksums = false}, with(tcp::cubic_congestion, true)) {}
};

stack_config with_accurate_ecn() {
    stack_config config = with(tcp::dctcp_congestion, false);
    config.tcp.accurate_ecn = true;
    return config;
}
struct accurate_world : stack_world {
    accurate_world() : stack_world({.vouch_for_checksums = false}, with_accurate_ecn()) {}
};

task<> standard_is_the_stacks(world& w) {
    ends both = co_await connected(w);
    BOOST_TEST(both.client.congestion() == "newreno");
    BOOST_TEST((both.server.options().congestion == congestion_algorithm::newreno));
    both.client.set_congestion(congestion_algorithm::cubic);
    BOOST_TEST(both.client.congestion() == "cubic");
    both.client.set_congestion(congestion_algorithm::standard);
    BOOST_TEST(both.client.congestion() == "newreno");
}

task<> both_say_ecn(world& w) {
    ends both = co_await connected(w);
    BOOST_TEST((both.client.info().ecn && !both.client.info().marks));
    BOOST_TEST(both.server.info().ecn);
}

task<> both_say_accurate_ecn(world& w) {
    ends both = co_await connected(w);
    BOOST_TEST((both.client.info().accurate_ecn && both.server.info().accurate_ecn));
    task_group echoing{"echo"};
    echoing.spawn(echo(std::move(both.server)));
    const std::string text(400'000, 'w');
    std::vector<std::byte> back(text.size());
    co_await both.client.write(text);
    const std::size_t got = co_await both.client.read_exactly(back); // options and all
    BOOST_TEST(got == text.size());
    const mark_tally marks = both.client.info().marks.value_or(mark_tally{});
    BOOST_TEST((marks.received == 0u && marks.delivered == 0u && marks.failures == 0u && marks.option_seen == 2u));
    BOOST_TEST(marks.received_ect_1 + marks.received_ect_0 >= text.size()); // modulo 2^32, what came again included
    BOOST_TEST(marks.delivered_ect_1 + marks.delivered_ect_0 > text.size() / 2); // as far as the peer has said it
    both.client.shutdown();
    co_await echoing.join();
}

task<> dctcp_brings_ecn(world& w) {
    const tcp_options_set dctcp{.congestion = congestion_algorithm::dctcp};
    tcp_listener listener = listen(w, 0, {.stream = dctcp});
    tcp_stream client = co_await dial(w, listener.local_address(), {}, dctcp);
    tcp_stream server = co_await listener.accept();
    BOOST_TEST(client.congestion() == "dctcp");
    BOOST_TEST(server.congestion() == "dctcp");
    BOOST_TEST((client.info().ecn && server.info().ecn));
    tcp_stream plain = co_await dial(w, listener.local_address()); // does not ask for it
    tcp_stream its_server = co_await listener.accept();
    BOOST_TEST(!plain.info().ecn);
    BOOST_TEST(its_server.congestion() == "dctcp");
}

task<> the_window_stays(world& w) {
    ends both = co_await connected(w);
    task_group echoing{"echo"};
    echoing.spawn(echo(std::move(both.server)));
    const std::string text(400'000, 'w');
    std::vector<std::byte> back(text.size());
    co_await both.client.write(text);
    const std::size_t got = co_await both.client.read_exactly(back);
    BOOST_TEST(got == text.size());
    const tcp_information before = both.client.info();
    BOOST_TEST(before.congestion_window > 20u * before.send_segment); // it has grown
    using enum congestion_algorithm;
    for (const auto how : {newreno, dctcp, bbr, cubic}) {
        both.client.set_congestion(how);
        BOOST_TEST(both.client.info().congestion_window == before.congestion_window);
        BOOST_TEST((both.client.info().slow_start_threshold == before.slow_start_threshold));
    }
    both.client.shutdown();
    co_await echoing.join();
}

} // namespace

BOOST_AUTO_TEST_SUITE(congestion_choice)

BOOST_FIXTURE_TEST_CASE(standard_is_what_the_stack_was_told, newreno_world) { run(standard_is_the_stacks(*this)); }
BOOST_FIXTURE_TEST_CASE(a_stack_that_wants_ecn_agrees_with_another, ecn_world) { run(both_say_ecn(*this)); }
BOOST_FIXTURE_TEST_CASE(a_stack_that_wants_accurate_ecn_agrees_with_another, accurate_world) { run(both_say_accurate_ecn(*this)); }
BOOST_FIXTURE_TEST_CASE(a_socket_that_chooses_dctcp_asks_for_ecn, stack_world) { run(dctcp_brings_ecn(*this)); }
BOOST_FIXTURE_TEST_CASE(a_new_controller_goes_on_from_the_old_ones_window, stack_world) { run(the_window_stays(*this)); }

BOOST_AUTO_TEST_SUITE_END()
