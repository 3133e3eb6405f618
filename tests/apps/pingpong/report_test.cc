// What a run prints: the JSON object's members, in order, and the table.
#include <corewire/apps/pingpong/report.hh>

#include <boost/test/unit_test.hpp>

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

using namespace corewire;
using namespace corewire::pingpong;

namespace {

run_report one_run() {
    run_report report{.net = "wire", .load = {}, .result = {}, .port = {}};
    for (std::uint64_t ns = 1; ns <= 1000; ++ns) report.result.rtt_ns.record(ns);
    report.result.round_trips = 1'234'567;
    report.result.seconds = 0.5;
    return report;
}

std::vector<std::string> members(const std::string& json) {
    std::vector<std::string> names;
    const auto object = nlohmann::ordered_json::parse(json);
    for (const auto& member : object.items()) names.push_back(member.key());
    return names;
}

const std::vector<std::string> documented{"net", "protocol", "size", "connections", "pipeline",
                                          "round_trips", "seconds", "rate", "errors", "rtt_ns"};

} // namespace

BOOST_AUTO_TEST_SUITE(report)

BOOST_AUTO_TEST_CASE(the_json_object_has_the_documented_members_and_no_others) {
    const std::string text = to_json(one_run(), false);
    BOOST_TEST(members(text) == documented, boost::test_tools::per_element());
    const auto json = nlohmann::json::parse(text);
    BOOST_TEST(json["rate"].get<double>() == 2'469'134.0);
    BOOST_TEST(json["rtt_ns"]["min"] == 1);
    BOOST_TEST(json["rtt_ns"]["p50"] == 500);
    BOOST_TEST(json["rtt_ns"]["p999"] == 999);
    BOOST_TEST(json["rtt_ns"]["max"] == 1000);
}

BOOST_AUTO_TEST_CASE(port_counters_are_added_only_when_asked_for_and_known) {
    run_report report = one_run();
    BOOST_TEST(members(to_json(report, true)) == documented, boost::test_tools::per_element());
    report.port = port_statistics{.system_calls = 7};
    BOOST_TEST(members(to_json(report, false)) == documented, boost::test_tools::per_element());
    BOOST_TEST(nlohmann::json::parse(to_json(report, true))["port"]["system_calls"] == 7);
}

BOOST_AUTO_TEST_CASE(a_bulk_run_has_no_round_trip_times_and_says_gigabits) {
    run_report report = one_run();
    report.load.bulk = true;
    report.result.bytes = 2'500'000'000;
    const auto json = nlohmann::json::parse(to_json(report, false));
    BOOST_TEST(json["rtt_ns"].is_null());
    BOOST_TEST(json["gbit_per_s"].get<double>() == 40.0);
    BOOST_TEST(to_table(report).find("40.00") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_run_without_a_single_reply_is_printed_too) {
    const run_report nothing{.net = "xdp", .load = {}, .result = {}, .port = {}};
    BOOST_TEST(nlohmann::json::parse(to_json(nothing, false))["rate"] == 0);
    BOOST_TEST(!to_table(nothing).empty());
}

BOOST_AUTO_TEST_CASE(the_table_shows_thousands_apart) {
    BOOST_TEST(to_table(one_run()).find("1'234'567") != std::string::npos);
    BOOST_TEST(progress_line(2, 1000, 3) == "2.0 s  1'000 round trips  500 /s  3 errors");
}

BOOST_AUTO_TEST_SUITE_END()
