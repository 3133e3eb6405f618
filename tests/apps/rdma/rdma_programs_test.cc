// What cw-rdma-perf and cw-rdma-pingpong measure, between two fake NICs; and that the JSON objects of both programs of round trips agree.
// ctest: timeout=60
#include <corewire/apps/pingpong/report.hh>
#include <corewire/apps/rdma-perf/perf.hh>
#include <corewire/apps/rdma-pingpong/client.hh>
#include <corewire/apps/rdma-pingpong/server.hh>
#include <corewire/apps/rdma-program/program.hh>

#include "tests/rdma/channel_world.hh"
#include "tests/rdma/fake_fabric.hh"

#include <nlohmann/json.hpp>

using namespace corewire;
using namespace corewire::test;

namespace {

/// "a", "rtt_ns.min": the members of an object, those of objects in it included, in their order.
std::vector<std::string> members(const nlohmann::ordered_json& object, const std::string& prefix = "") {
    std::vector<std::string> names;
    for (const auto& [name, value] : object.items()) {
        if (value.is_object()) std::ranges::copy(members(value, prefix + name + "."), std::back_inserter(names));
        else names.push_back(prefix + name);
    }
    return names;
}

using world = basic_channel_world<fake_fabric>;

rdma_perf::outcome run_perf(rdma_perf::workload load) {
    world w;
    rdma::listener at = rdma::listener::bind(w.in, {address_of_server, 0});
    load.server = {address_of_server, at.port()};
    load.from = address_of_client;
    auto serving = rdma_perf::serve(at, true);
    serving.handle().resume();
    const rdma_perf::outcome result = w.run(rdma_perf::measure(w.in, load));
    w.until([&] { return serving.done(); });
    return result;
}

rdma_pingpong::outcome run_pingpong(rdma_pingpong::mode what, const ip_address& server, const ip_address& client) {
    world w;
    rdma::listener at = rdma::listener::bind(w.in, rdma_program::at_port(server, 0), rdma_pingpong::options_for(64));
    rdma_pingpong::workload load;
    load.what = what;
    load.size = 64;
    load.count = 50;
    load.server = rdma_program::at_port(server, at.port());
    load.from = client;
    auto serving = rdma_pingpong::serve(w.in, at, server, true);
    serving.handle().resume();
    const rdma_pingpong::outcome result = w.run(rdma_pingpong::measure(w.in, load));
    w.until([&] { return serving.done(); });
    return result;
}

} // namespace

BOOST_AUTO_TEST_SUITE(rdma_programs)

BOOST_AUTO_TEST_CASE(every_operation_is_measured_and_what_it_has_moved_is_checked) {
    for (std::size_t i = 0; i < rdma_perf::operation_names.size(); ++i) {
        rdma_perf::workload load;
        load.what = static_cast<rdma_perf::operation>(i);
        load.size = 1000;
        load.depth = 16;
        load.count = 300;
        const rdma_perf::outcome result = run_perf(load);
        BOOST_TEST_INFO_SCOPE(rdma_perf::name_of(load.what));
        BOOST_TEST(result.errors == 0u);
        BOOST_TEST(result.operations == 300u);
        const auto said = nlohmann::ordered_json::parse(rdma_perf::to_json(load, result));
        BOOST_TEST(said["operation"] == rdma_perf::name_of(load.what));
        BOOST_TEST(said["size"] == (rdma_perf::is_atomic(load.what) ? 8 : 1000));
    }
}

BOOST_AUTO_TEST_CASE(the_json_of_round_trips_over_rdma_has_the_members_of_those_over_ip) {
    const std::string over_ip = pingpong::to_json({.net = "wire", .load = {}, .result = {}, .port = {}}, false);
    for (const auto what : {rdma_pingpong::mode::rc_send, rdma_pingpong::mode::rc_write, rdma_pingpong::mode::ud}) {
        const rdma_pingpong::outcome result = run_pingpong(what, address_of_server, address_of_client);
        BOOST_TEST(result.round_trips == 50u);
        BOOST_TEST(result.errors == 0u);
        rdma_pingpong::workload load;
        load.what = what;
        const auto over_rdma = nlohmann::ordered_json::parse(rdma_pingpong::to_json(load, result));
        BOOST_TEST(members(over_rdma) == members(nlohmann::ordered_json::parse(over_ip)), boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(round_trips_go_between_addresses_of_ipv6_too) {
    for (const auto what : {rdma_pingpong::mode::rc_send, rdma_pingpong::mode::ud}) {
        const rdma_pingpong::outcome result = run_pingpong(what, address6_of_server(), address6_of_client());
        BOOST_TEST(result.round_trips == 50u);
        BOOST_TEST(result.errors == 0u);
    }
    BOOST_TEST((rdma_program::parse_address("2001:db8::1") == ip_address(*ipv6::parse("2001:db8::1"))));
    BOOST_CHECK_THROW(rdma_program::parse_address("2001:db8::x"), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
