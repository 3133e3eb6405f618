// The counts of a port and a stack under their names, and the census of connections.
#include "stack_world.hh"

#include <corewire/net/stack/connection_row.hh>
#include <corewire/net/stack/stack_metrics.hh>
#include <corewire/net/stack/tcp_census.hh>
#include <corewire/reactor/metrics/page_reader.hh>

#include <boost/test/unit_test.hpp>

#include <map>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

struct counted : stack_world {
    using stack_world::client_, stack_world::loop_, stack_world::server_;

    counted() {
        register_port_metrics(group, client_.device());
        register_stack_metrics(group, client_);
        census.register_metrics(group);
    }
    void count() {
        registry.begin_rows();
        for (bool begins = true; census.collect(registry, begins);) begins = false;
        registry.publish(0, page::series_capacity);
        registry.end_round(1);
    }
    std::map<std::string, std::uint64_t> values() {
        count();
        std::vector<catalog_entry> all;
        registry.catalog(0, page::series_capacity, all);
        std::map<std::string, std::uint64_t> found;
        for (std::uint32_t id = 0; id < all.size(); ++id)
            found[all[id].name + "{" + all[id].labels + "}"] = registry.value(id);
        return found;
    }
    /// The rows as cw-stat would read them.
    std::vector<connection_row> rows() {
        std::vector<connection_row> out;
        for (std::uint32_t i = 0; i < registry.head().row_count; ++i)
            BOOST_TEST(connection_row::unpack(registry.row(i).fields, out.emplace_back()));
        return out;
    }

    metrics_page page{"test", "wire", 1, ""};
    metric_registry registry{page, 0, ""};
    metric_group group{&registry};
    tcp_census census{client_.tcp()};
};

task<> hold(tcp_listener& listener, std::vector<tcp_stream>& out, int n) {
    for (int i = 0; i < n; ++i) out.push_back(co_await listener.accept());
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(stack_metrics, counted)

BOOST_AUTO_TEST_CASE(every_counter_of_a_connection_has_a_name) {
    BOOST_TEST(tcp_census::described_counters() == std::tuple_size_v<tcp::counter_list>);
}

BOOST_AUTO_TEST_CASE(counters_have_names_that_prometheus_takes_and_counters_end_in_total) {
    std::vector<catalog_entry> all;
    registry.catalog(0, page::series_capacity, all);
    BOOST_TEST(all.size() > 80u);
    for (const catalog_entry& e : all) {
        BOOST_TEST(e.name.starts_with("corewire_"));
        BOOST_TEST((e.name.ends_with("_total") == (e.kind == metric_kind::counter)), e.name);
        BOOST_TEST(e.help.ends_with('.'), e.name);
    }
}

BOOST_AUTO_TEST_CASE(traffic_is_seen_and_connections_are_counted_by_state) {
    run([](counted& w) -> task<> {
        auto listener = tcp_listener(w.server_.listen({first, 7}, {}));
        std::vector<tcp_stream> accepted;
        task_group tasks;
        tasks.spawn(hold(listener, accepted, 3));
        std::vector<tcp_stream> streams;
        for (int i = 0; i < 3; ++i) streams.push_back(co_await tcp_stream::connect({first, 7}));
        co_await streams[0].write(std::string_view("hello"));
        co_await sleep_for(1ms);
        auto v = w.values();
        BOOST_TEST(v.at("corewire_tcp_connections{state=\"ESTABLISHED\"}") == 3u);
        BOOST_TEST(v.at("corewire_tcp_segments_sent_total{}") == w.client_.statistics().tcp_segments_out());
        BOOST_TEST(v.at("corewire_tcp_segments_sent_total{}") >= 7u);
        BOOST_TEST(v.at("corewire_port_transmitted_packets_total{}") >= 8u); // ARP too
        BOOST_TEST(v.at("corewire_neighbors{}") == 1u);
        BOOST_TEST(w.census.round_trips().count() == 3u); // one of each open connection a pass
        const auto all = w.rows();
        BOOST_TEST(all.size() == 3u);
        std::uint64_t unacknowledged = 0;
        for (const connection_row& r : all) {
            BOOST_TEST(r.name.remote_port == 7);
            BOOST_TEST((r.name.local == net_address(second)));
            BOOST_TEST((r.info.state == tcp::tcp_state::established));
            BOOST_TEST(r.info.cwnd > 0u);
            BOOST_TEST(r.info.sack);
            unacknowledged += r.info.unacknowledged;
        }
        BOOST_TEST(unacknowledged <= 5u);
        streams.clear();
        accepted.clear();
        co_await tasks.join();
    }(*this));
    settle();
    auto v = values();
    BOOST_TEST(v.at("corewire_tcp_connections{state=\"ESTABLISHED\"}") == 0u);
    BOOST_TEST(rows().empty());
}

BOOST_AUTO_TEST_CASE(a_refused_connection_is_a_drop_with_a_reason_at_the_other_end) {
    metric_group theirs(&registry, "host=\"server\"");
    register_stack_metrics(theirs, server_);
    run([]() -> task<> {
        try {
            co_await tcp_stream::connect({first, 9});
        } catch (const std::system_error&) {
        }
    }());
    auto v = values();
    BOOST_TEST(v.at("corewire_packets_dropped_total{host=\"server\",layer=\"tcp\",reason=\"no_connection\"}") == 1u);
    BOOST_TEST(v.at("corewire_tcp_resets_sent_total{host=\"server\"}") == 1u);
    settle();
}

BOOST_AUTO_TEST_CASE(what_closed_connections_have_counted_stays_counted) {
    run([](counted& w) -> task<> {
        // Nobody answers: SYNs are repeated.
        try {
            co_await tcp_stream::connect(w.silent_address(), {}, {.deadline = w.loop_.now() + 10s});
        } catch (const std::system_error&) {
        }
    }(*this));
    settle();
    const std::uint64_t repeated = values().at("corewire_tcp_retransmission_timeouts_total{}");
    BOOST_TEST(repeated >= 2u);
    BOOST_TEST(client_.tcp().connections() == 0u);
    BOOST_TEST(values().at("corewire_tcp_retransmission_timeouts_total{}") == repeated);
}

BOOST_AUTO_TEST_CASE(more_connections_than_rows_are_counted_and_the_pass_is_cut_into_slices) {
    run([](counted& w) -> task<> {
        constexpr int n = 600;
        auto listener = tcp_listener(w.server_.listen({first, 7}, {}));
        std::vector<tcp_stream> accepted, streams;
        task_group tasks;
        tasks.spawn(hold(listener, accepted, n));
        for (int i = 0; i < n; ++i) streams.push_back(co_await tcp_stream::connect({first, 7}));
        w.registry.begin_rows();
        int slices = 1;
        for (bool first_slice = true; w.census.collect(w.registry, first_slice); ++slices) first_slice = false;
        BOOST_TEST(slices > 8);
        w.registry.end_round(1);
        BOOST_TEST(w.census.in_state(tcp::tcp_state::established) == static_cast<unsigned>(n));
        BOOST_TEST(w.registry.head().row_count == page::row_capacity);
        BOOST_TEST(w.registry.head().row_total == static_cast<unsigned>(n));
        streams.clear();
        co_await tasks.join();
        accepted.clear();
    }(*this));
    settle();
}

BOOST_AUTO_TEST_SUITE_END()
