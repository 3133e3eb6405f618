// What a shard counts, lets through, leaves out and drops; what its messages look like. On a clock that only the test moves.
#include "log_fixture.hh"

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

constexpr log_event<unsigned> often{"tcp", "often", log_level::warn, "number {}", {.burst = 3, .each = 1s}};
constexpr log_event<unsigned> seldom{"arp", "seldom", log_level::warn, "arp {}", {.burst = 3, .each = 1s}};
constexpr log_event<> detail_of_tcp{"tcp", "detail", log_level::debug, "a detail"};
constexpr log_event<log_text<>, double, bool> mixed{"file", "mixed", log_level::error, "'{}' {:.1f} {}"};
constexpr log_event<unsigned> flood{"tcp", "flood", log_level::info, "f{}", {.burst = 1'000'000, .each = 1s}};

const shard_log::event_state* state_of(const shard_log& log, const log_site& site) {
    for (const auto& each : log.events())
        if (each.site == &site) return &each;
    return nullptr;
}

using texts = std::vector<std::string>;

} // namespace

BOOST_AUTO_TEST_SUITE(shard_log)

BOOST_AUTO_TEST_CASE(a_message_has_its_time_level_shard_and_module) {
    kept_log log(2);
    log.pass(1'500ms);
    const reactor::scope here(*log.loops[1]);
    log_message(often, 7u);
    log.writer.drain();
    BOOST_REQUIRE_EQUAL(log.lines.size(), 1u);
    BOOST_TEST(log.lines[0] == "2023-11-14T22:13:22.500000Z warning s1 tcp: number 7\n");
}

BOOST_AUTO_TEST_CASE(text_numbers_and_truth_values_are_formatted_as_the_event_says) {
    kept_log log;
    const reactor::scope here(*log.loops[0]);
    log_message(mixed, "a file", 2.25, true);
    const texts expected{"error s0 file: 'a file' 2.2 true"};
    BOOST_TEST(log.messages() == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_event_is_written_as_often_as_its_rate_allows_and_says_then_how_many_were_left_out) {
    kept_log log;
    const reactor::scope here(*log.loops[0]);
    for (unsigned i = 0; i < 10; ++i) log_message(often, i);
    log_message(seldom, 1u); // another event has a rate of its own
    const texts first{"warning s0 tcp: number 0", "warning s0 tcp: number 1", "warning s0 tcp: number 2", "warning s0 arp: arp 1"};
    BOOST_TEST(log.messages() == first, boost::test_tools::per_element());
    log.pass(999ms);
    log_message(often, 10u);
    BOOST_TEST(log.messages().empty());
    log.pass(1ms);
    log_message(often, 11u);
    log_message(often, 12u);
    const texts second{"warning s0 tcp: number 11 (8 more left out)", "warning s0 tcp: number 12"};
    BOOST_TEST(log.messages() == second, boost::test_tools::per_element());
    BOOST_TEST(log.logs[0]->statistics().left_out == 8u);
    BOOST_TEST(state_of(*log.logs[0], often)->occurred == 13u);
}

BOOST_AUTO_TEST_CASE(levels_decide_by_module_and_may_change_while_it_runs_but_everything_is_counted) {
    kept_log log(1, 64, "arp=error,info");
    const reactor::scope here(*log.loops[0]);
    log_message(detail_of_tcp);
    log_message(seldom, 1u);
    log_message(often, 1u);
    const texts first{"warning s0 tcp: number 1"};
    BOOST_TEST(log.messages() == first, boost::test_tools::per_element());
    BOOST_TEST(log.writer.levels().set("tcp=debug,off").empty());
    log_message(detail_of_tcp);
    log_message(seldom, 2u);
    const texts second{"debug s0 tcp: a detail"};
    BOOST_TEST(log.messages() == second, boost::test_tools::per_element());
    BOOST_TEST(state_of(*log.logs[0], detail_of_tcp)->occurred == 2u);
    BOOST_TEST(state_of(*log.logs[0], seldom)->occurred == 2u);
}

BOOST_AUTO_TEST_CASE(a_full_ring_drops_the_newest_and_counts_them) {
    kept_log log(1, 8);
    const reactor::scope here(*log.loops[0]);
    for (unsigned i = 0; i < 20; ++i) log_message(flood, i);
    BOOST_TEST(log.logs[0]->statistics().dropped == 12u);
    BOOST_TEST(log.logs[0]->statistics().written == 8u);
    BOOST_TEST(state_of(*log.logs[0], flood)->occurred == 20u);
    const texts all = log.messages();
    BOOST_REQUIRE_EQUAL(all.size(), 8u);
    BOOST_TEST(all.back() == "info s0 tcp: f7");
    log_message(flood, 20u); // there is room again
    BOOST_TEST(log.messages().back() == "info s0 tcp: f20");
}

BOOST_AUTO_TEST_CASE(what_a_peer_has_sent_cannot_end_the_line_or_steer_a_terminal) {
    kept_log log;
    const reactor::scope here(*log.loops[0]);
    using namespace std::string_literals;
    log_message(mixed, "x\n2026-01-01 error s0 tcp: forged\r\t\x1b[2J\x7f\x9b\xc2\x85\\{}\0end"s, 0.0, false);
    const texts expected{
        R"(error s0 file: 'x\n2026-01-01 error s0 tcp: forged\r\t\x1b[2J\x7f\x9b\xc2\x85\\{}\x00end' 0.0 false)"};
    BOOST_TEST(log.messages() == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_text_that_is_too_long_is_cut) {
    kept_log log;
    const reactor::scope here(*log.loops[0]);
    log_message(mixed, std::string(120, 'a'), 0.0, false);
    log_message(mixed, std::string(121, 'b'), 0.0, false);
    const texts expected{"error s0 file: '" + std::string(120, 'a') + "' 0.0 false",
                         "error s0 file: '" + std::string(117, 'b') + "...' 0.0 false"};
    BOOST_TEST(log.messages() == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(more_events_than_have_a_place_are_counted_together_and_written_all_the_same) {
    const std::vector<log_event<unsigned>> many(2 * corewire::shard_log::max_events, often);
    kept_log log(1, 1024);
    const reactor::scope here(*log.loops[0]);
    for (const auto& each : many) log_message(each, 1u);
    std::uint64_t counted = log.logs[0]->others().occurred;
    BOOST_TEST(counted >= corewire::shard_log::max_events);
    for (const auto& each : log.logs[0]->events()) counted += each.occurred;
    BOOST_TEST(counted == many.size());
    BOOST_TEST(log.logs[0]->statistics().written + log.logs[0]->statistics().left_out == many.size());
}

BOOST_AUTO_TEST_SUITE_END()
