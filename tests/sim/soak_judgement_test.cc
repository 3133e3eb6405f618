// What excuses a failure in the soak (soak_plan.hh), and what does not.
#include "soak_plan.hh"

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::soaking;
using namespace std::chrono_literals;

namespace {

/// One exchange whose client was done after ten seconds.
struct one_exchange {
    one_exchange() { e.client_error = std::errc{}, e.client_ended = 10s; }
    plan p;
    exchange e;
    /// So much of the exchange as the server had before it failed, if it did.
    void server_failed(duration at) { e.server_began = true, e.server_error = std::errc::connection_reset, e.server_ended = at; }
    bool excused_by(const mishap& m) {
        p.mishaps = {m};
        return p.excuses_server(e);
    }
};
constexpr mishap crash(duration at) { return {mishap::kind::crash_server, at, 5ms}; }

} // namespace

BOOST_AUTO_TEST_SUITE(soak_judgement)

BOOST_FIXTURE_TEST_CASE(what_comes_after_the_client_has_ended_excuses_no_server_that_never_heard_of_it, one_exchange) {
    BOOST_TEST(!p.excuses_server(e));
    BOOST_TEST(!excused_by(crash(11s)));
    BOOST_TEST(!excused_by({mishap::kind::partition, 11s, 30min}));
    BOOST_TEST(excused_by(crash(9s)));
}

BOOST_FIXTURE_TEST_CASE(what_comes_after_an_end_has_failed_does_not_excuse_it, one_exchange) {
    server_failed(12s);
    BOOST_TEST(!excused_by(crash(13s)));
    BOOST_TEST(excused_by(crash(12s)));
    e.client_error = std::errc::connection_reset;
    p.mishaps = {crash(11s)};
    BOOST_TEST(!p.excuses_client(e));
    p.mishaps = {crash(10s)};
    BOOST_TEST(p.excuses_client(e));
}

BOOST_FIXTURE_TEST_CASE(a_session_that_is_gone_without_an_end_needs_a_crash_or_a_stop, one_exchange) {
    e.server_began = true; // whose last bytes the server read when the client had gone
    BOOST_TEST(!p.excuses_server(e));
    BOOST_TEST(!excused_by({mishap::kind::partition, 5s, 30min}));
    BOOST_TEST(excused_by(crash(11s)));
    BOOST_TEST(excused_by({mishap::kind::stop_server, 11s, {}}));
}

BOOST_AUTO_TEST_CASE(what_a_connection_may_end_with_is_a_closed_list) {
    for (const auto how : {std::errc{}, std::errc::connection_reset, std::errc::timed_out, std::errc::operation_canceled})
        BOOST_TEST(may_end_with(how));
    for (const auto how : {std::errc::invalid_argument, std::errc::no_buffer_space, std::errc::not_connected, std::errc::io_error,
                           std::errc::bad_file_descriptor, std::errc::network_unreachable, std::errc::message_size})
        BOOST_TEST(!may_end_with(how));
}

BOOST_FIXTURE_TEST_CASE(what_all_have_to_bear_excuses_nobody, one_exchange) {
    server_failed(12s);
    for (const auto what : {mishap::kind::partition, mishap::kind::freeze_server, mishap::kind::jump_client})
        BOOST_TEST(!excused_by({what, 1s, 20s}));
    p.listening.backlog = 1; // a cookie is forgotten by then
    BOOST_TEST(excused_by({mishap::kind::partition, 1s, 20s}));
    BOOST_TEST(!excused_by({mishap::kind::partition, 1s, 2s}));
}

BOOST_AUTO_TEST_SUITE_END()
