// cw-stat's text and JSON, from reports that are written here.
#include "tools/stat/views.hh"

#include <corewire/net/stack/connection_row.hh>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

using namespace corewire;

namespace {

series_report series(std::string name, std::uint64_t value, std::string labels = {}, metric_unit unit = metric_unit::count) {
    return {.name = std::move(name), .labels = std::move(labels), .unit = unit, .values = {value}};
}

connection_row::fields connection(std::uint16_t port) {
    connection_row row;
    row.name = flow_name(ipv4(192, 0, 2, 1), ipv4(192, 0, 2, 2), 7, port);
    row.info.state = tcp::tcp_state::established;
    row.info.cwnd = 14'480;
    row.retransmitted = 3;
    return row.pack();
}

page_report a_process(std::string network = "wire") {
    page_report r;
    r.pid = 4'711;
    r.start_time = 1;
    r.program = "cw-echo";
    r.network = std::move(network);
    r.state = process_state::running;
    r.sections.resize(2);
    for (section_report& s : r.sections) s.published = 1'000'000'000;
    return r;
}

nlohmann::json json_of(const page_report& report) {
    std::string text;
    stat::process_json(report, [&](std::string_view piece) { text += piece; });
    return nlohmann::json::parse(text);
}

bool has(const std::string& text, std::string_view what) { return text.find(what) != text.npos; }

} // namespace

BOOST_AUTO_TEST_SUITE(views)

BOOST_AUTO_TEST_CASE(drops_and_states_are_told_together_and_by_shard) {
    page_report r = a_process();
    r.sections[0].series = {series("corewire_packets_dropped_total", 2, R"(layer="tcp",reason="checksum")"),
                            series("corewire_packets_dropped_total", 0, R"(layer="ip",reason="malformed")"),
                            series("corewire_tcp_connections", 1, R"(state="ESTABLISHED")")};
    r.sections[1].series = {series("corewire_packets_dropped_total", 3, R"(layer="tcp",reason="checksum")"),
                            series("corewire_tcp_connections", 4, R"(state="TIME-WAIT")")};
    const std::string text = stat::process_text(r, nullptr);
    BOOST_TEST(has(text, "  dropped:     tcp/checksum 5\n"), text);
    BOOST_TEST(has(text, "    shard 0     tcp/checksum 2\n"), text);
    BOOST_TEST(has(text, "    shard 1     tcp/checksum 3\n"), text);
    BOOST_TEST(has(text, "  connections: ESTABLISHED 1, TIME-WAIT 4\n"), text);
    BOOST_TEST(has(text, "    shard 0     ESTABLISHED 1\n"), text);
    BOOST_TEST(has(text, "    shard 1     TIME-WAIT 4\n"), text);
}

BOOST_AUTO_TEST_CASE(of_the_kernels_sockets_failures_are_told) {
    page_report r = a_process("kernel");
    r.sections[1].series = {series("corewire_kernel_connections_failed_total", 6, R"(why="refused")")};
    const std::string text = stat::process_text(r, nullptr);
    BOOST_TEST(has(text, "  failed:      refused 6\n"), text);
    BOOST_TEST(!has(text, "dropped:"), text);
}

BOOST_AUTO_TEST_CASE(what_a_shard_has_done_becomes_rates_when_there_is_an_earlier_report) {
    page_report before = a_process(), now = a_process();
    before.sections[0].series = {series("corewire_port_received_packets_total", 1'000)};
    now.sections[0].series = {series("corewire_port_received_packets_total", 3'000), series("corewire_reactor_tasks", 17),
                              series("corewire_tcp_segments_retransmitted_total", 23)};
    now.sections[0].published += 500'000'000;
    BOOST_TEST(has(stat::process_text(now, &before), " 4000/s "));
    const std::string once = stat::process_text(now, nullptr);
    BOOST_TEST(has(once, " 3000 "), once);
    BOOST_TEST(has(once, " 17 "), once);
    BOOST_TEST(has(once, " 23 "), once);
    before.start_time = 2; // another process of this number: its counts say nothing
    BOOST_TEST(!has(stat::process_text(now, &before), "/s"));
    before.start_time = now.start_time;
    before.sections.resize(1);
    BOOST_TEST(!has(stat::process_text(now, &before), "/s"));
}

BOOST_AUTO_TEST_CASE(a_count_that_went_back_is_no_rate_below_nothing) {
    page_report before = a_process(), now = a_process();
    before.sections[0].series = {series("corewire_port_received_packets_total", 1'000)};
    now.sections[0].series = {series("corewire_port_received_packets_total", 1)};
    now.sections[0].published += 1'000'000'000;
    BOOST_TEST(has(stat::process_text(now, &before), " 0/s "));
}

BOOST_AUTO_TEST_CASE(a_table_has_its_limit_and_says_how_many_there_are) {
    page_report r = a_process();
    for (std::uint16_t i = 0; i < 50; ++i) r.sections[i % 2].rows.push_back(connection(static_cast<std::uint16_t>(1'000 + i)));
    r.sections[0].row_total = 25;
    r.sections[1].row_total = 1'000'000; // a page holds fewer than there are
    const std::string text = stat::process_text(r, nullptr);
    std::size_t lines = 0;
    for (std::size_t at = 0; (at = text.find(" ESTABLISHED ", at)) != text.npos; ++at) ++lines;
    BOOST_TEST(lines == 40u);
    BOOST_TEST(has(text, "  ... 40 of 1000025 connections shown\n"), text);
    BOOST_TEST(has(text, "192.0.2.1:7"), text);
}

BOOST_AUTO_TEST_CASE(a_row_that_is_no_connection_is_left_out) {
    page_report r = a_process();
    connection_row::fields rubbish;
    rubbish.fill(~0ull);
    r.sections[0].rows = {rubbish, connection(9)};
    r.sections[0].row_total = 2;
    const nlohmann::json out = json_of(r);
    BOOST_TEST(out["shards"][0]["connections"].size() == 1u);
    BOOST_TEST(out["shards"][0]["connections"][0]["retransmitted"] == 3);
    BOOST_TEST(out["shards"][0]["connections"][0]["remote"] == "192.0.2.2:9");
}

BOOST_AUTO_TEST_CASE(json_has_the_buckets_of_histograms_and_units_as_prometheus_has_them) {
    page_report r = a_process();
    series_report h = series("corewire_tcp_rtt_seconds", 0, {}, metric_unit::nanoseconds);
    h.kind = metric_kind::histogram;
    h.values = {1'000, 1'000'000, 2, 5, 6, 3'000'000'000}; // two bounds, their counts, number, sum
    r.sections[0].series = {h, series("corewire_reactor_load_ratio", 500'000, {}, metric_unit::parts_per_million), series("n", 7)};
    const nlohmann::json out = json_of(r)["shards"][0]["series"];
    BOOST_TEST(out[0]["buckets"].size() == 2u);
    BOOST_TEST(out[0]["buckets"][0]["le"].get<double>() == 1e-6, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(out[0]["buckets"][1]["count"] == 5);
    BOOST_TEST(out[0]["count"] == 6);
    BOOST_TEST(out[0]["sum"].get<double>() == 3.0, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(out[1]["value"].get<double>() == 0.5, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(out[2]["value"] == 7);
}

BOOST_AUTO_TEST_CASE(json_names_the_process_and_has_its_shards_in_order_a_piece_each) {
    page_report r = a_process();
    r.program = "\"quoted\"";
    r.sections[1].series = {series("n", 7)};
    const nlohmann::json out = json_of(r);
    BOOST_TEST(out["pid"] == 4'711);
    BOOST_TEST(out["program"] == "\"quoted\"");
    BOOST_TEST(out["network"] == "wire");
    BOOST_TEST(out["state"] == "running");
    BOOST_REQUIRE(out["shards"].size() == 2u);
    BOOST_TEST(out["shards"][0]["series"].empty());
    BOOST_TEST(out["shards"][1]["series"][0]["value"] == 7);
    std::size_t pieces = 0;
    stat::process_json(r, [&](std::string_view piece) { pieces += piece.find("\"series\"") != piece.npos; });
    BOOST_TEST(pieces == 2u);
}

BOOST_AUTO_TEST_CASE(a_list_has_a_line_for_each_process) {
    page_report dead = a_process("kernel");
    dead.state = process_state::dead;
    dead.sections[0].published = dead.sections[1].published = 0;
    const std::string text = stat::list_line(a_process()) + stat::list_line(dead);
    BOOST_TEST(has(text, "    4711 running  cw-echo          wire          2"), text);
    BOOST_TEST(has(text, "    4711 dead     cw-echo          kernel        2"), text);
    BOOST_TEST(has(text, "    never\n"), text);
}

BOOST_AUTO_TEST_SUITE_END()
