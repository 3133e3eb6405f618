// What is counted of the kernel's sockets, and the census that asks the kernel about them.
#include "kernel_world.hh"

#include <corewire/net/kernel/kernel_connection.hh>
#include <corewire/net/kernel/kernel_metrics.hh>
#include <corewire/net/stack/connection_row.hh>

#include <boost/test/unit_test.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

using namespace corewire;
using namespace corewire::socket_suite;

namespace {

struct counted : kernel_world {
    counted() {
        register_kernel_metrics(group, provider);
        census.register_metrics(group);
    }
    /// A round. How many slices it took.
    int count() {
        registry.begin_rows();
        int slices = 1;
        for (bool begins = true; census.collect(registry, begins); begins = false) ++slices;
        registry.publish(0, page::series_capacity);
        registry.end_round(1);
        return slices;
    }
    std::uint64_t value(const std::string& wanted) {
        count();
        std::vector<catalog_entry> all;
        registry.catalog(0, page::series_capacity, all);
        for (std::uint32_t id = 0; id < all.size(); ++id)
            if (all[id].name + "{" + all[id].labels + "}" == "corewire_" + wanted) return registry.value(id);
        BOOST_FAIL("no series " << wanted);
        return 0;
    }
    std::vector<connection_row> rows() {
        std::vector<connection_row> out;
        for (std::uint32_t i = 0; i < registry.head().row_count; ++i)
            BOOST_TEST(connection_row::unpack(registry.row(i).fields, out.emplace_back()));
        return out;
    }

    metrics_page page{"test", "kernel", 1, ""};
    metric_registry registry{page, 0, ""};
    metric_group group{&registry};
    kernel_census census{provider};
};

task<> talk(counted& w) {
    ends both = co_await connected(w);
    co_await both.client.write(std::string_view{"five!"});
    const buffer got = co_await both.server.read();
    BOOST_TEST(got.text() == "five!");
    co_await both.server.write(std::string_view{"and seven"});
    co_await some_turns();
    BOOST_TEST(w.value("kernel_connections_opened_total{by=\"us\"}") == 1u);
    BOOST_TEST(w.value("kernel_connections_opened_total{by=\"peer\"}") == 1u);
    BOOST_TEST(w.value("kernel_sent_bytes_total{transport=\"tcp\"}") == 14u);
    BOOST_TEST(w.value("kernel_sends_total{transport=\"tcp\"}") == 2u);
    BOOST_TEST(w.value("kernel_received_bytes_total{transport=\"tcp\"}") == 5u);
    BOOST_TEST(w.value("kernel_receives_total{transport=\"tcp\"}") == 1u);
    BOOST_TEST(w.value("tcp_connections{state=\"ESTABLISHED\"}") == 2u);

    // The same connection from both ends, as cw-stat reads it.
    const std::uint64_t before = w.census.round_trips().count();
    w.count();
    const auto all = w.rows();
    BOOST_REQUIRE_EQUAL(all.size(), 2u);
    BOOST_TEST(all[0].name.local_port == all[1].name.remote_port);
    BOOST_TEST(all[1].name.local_port == all[0].name.remote_port);
    std::uint32_t unread = 0;
    for (const connection_row& r : all) {
        BOOST_TEST((r.name.local == net_address(ipv4::loopback())));
        BOOST_TEST((r.info.state == tcp::tcp_state::established));
        BOOST_TEST(r.info.cwnd > 0u);
        BOOST_TEST(r.info.rto.count() > 0);
        BOOST_TEST(r.info.unacknowledged == 0u);
        unread += r.info.unread;
    }
    BOOST_TEST(unread == 9u); // what the client has not read
    BOOST_TEST(w.census.round_trips().count() >= before + 1); // the client has measured one
}

task<> fail_in_every_way(counted& w) {
    {
        tcp_listener gone = listen(w);
        const socket_address nobody = at_server(w, gone.local_address().port);
        gone.close();
        co_await some_turns();
        const std::errc refused = co_await error_of([&] { return dial(w, nobody); });
        BOOST_TEST(refused == std::errc::connection_refused);
    }
    BOOST_TEST(w.value("kernel_connects_failed_total{}") == 1u);
    ends both = co_await connected(w);
    task_group reading{"reading"};
    reading.spawn([](tcp_stream& s) -> task<> {
        const std::errc why = co_await error_of([&] { return s.read(); });
        BOOST_TEST(why == std::errc::connection_reset);
    }(both.server));
    co_await yield();
    both.client.abort();
    co_await reading.join();
    BOOST_TEST(w.value("kernel_connections_failed_total{why=\"reset\"}") == 1u);
    BOOST_TEST(w.value("kernel_connections_failed_total{why=\"other\"}") == 0u); // who aborts has not failed
}

task<> fill_the_buffer(counted& w) {
    ends both = co_await connected(w);
    task_group filling{"filling"};
    filling.spawn(fill(both.client));
    for (int i = 0; i < 100'000 && w.provider.statistics().tcp.send_waits == 0; ++i) co_await yield();
    BOOST_TEST(w.value("kernel_send_waits_total{transport=\"tcp\"}") >= 1u);
    filling.destroy_all();
}

task<> datagrams(counted& w) {
    udp_socket server = bind_udp_server(w), client = bind_udp_client(w);
    co_await client.send_to(std::as_bytes(std::span{std::string_view{"eleven byte"}}), at_server(w, server.local_address().port));
    const datagram got = co_await server.receive_from();
    BOOST_TEST(got.data.text() == "eleven byte");
    BOOST_TEST(w.value("kernel_sent_bytes_total{transport=\"udp\"}") == 11u);
    BOOST_TEST(w.value("kernel_sends_total{transport=\"udp\"}") == 1u);
    BOOST_TEST(w.value("kernel_received_bytes_total{transport=\"udp\"}") == 11u);
    BOOST_TEST(w.value("kernel_receives_total{transport=\"udp\"}") == 1u);
    BOOST_TEST(w.value("kernel_sent_bytes_total{transport=\"tcp\"}") == 0u);
    const std::vector<std::byte> too_much(70'000);
    const std::errc refused = co_await error_of([&] { return client.send_to(byte_span{too_much}, at_server(w, 9)); });
    BOOST_TEST(refused == std::errc::message_size);
    BOOST_TEST(w.value("kernel_datagrams_refused_total{}") == 1u);
}

task<> many(counted& w) {
    std::vector<ends> all;
    for (int i = 0; i < 150; ++i) all.push_back(co_await connected(w));
    const int slices = w.count();
    BOOST_TEST(w.provider.connections().size() == 300u);
    BOOST_TEST(w.census.in_state(tcp::tcp_state::established) == 300u); // those beyond the table as the shard knows them
    BOOST_TEST(w.registry.head().row_count == page::row_capacity);
    BOOST_TEST(w.registry.head().row_total == 300u);
    BOOST_TEST(slices >= static_cast<int>(page::row_capacity / kernel_census::asked_a_slice));
    all.erase(all.begin(), all.begin() + 100);
    for (int i = 0; i < 1000 && w.provider.connections().size() > 100; ++i) co_await yield();
    w.count();
    BOOST_TEST(w.census.in_state(tcp::tcp_state::established) == 100u);
    all.clear();
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(kernel_metrics, counted)

BOOST_AUTO_TEST_CASE(bytes_and_connections_are_counted_and_the_kernel_is_asked_about_each) {
    run(talk(*this));
    settle();
    BOOST_TEST(value("kernel_connections_closed_total{}") == 2u);
    BOOST_TEST(value("tcp_connections{state=\"ESTABLISHED\"}") == 0u);
    BOOST_TEST(rows().empty());
}

BOOST_AUTO_TEST_CASE(what_fails_is_counted_by_what_it_failed_of) {
    run(fail_in_every_way(*this));
    settle();
}

BOOST_AUTO_TEST_CASE(sends_that_find_no_room_are_counted) {
    run(fill_the_buffer(*this));
    settle();
}

BOOST_AUTO_TEST_CASE(datagrams_are_counted_apart) {
    run(datagrams(*this));
    settle();
}

BOOST_AUTO_TEST_CASE(more_connections_than_the_table_holds_are_counted_all_the_same) {
    run(many(*this));
    settle();
}

BOOST_AUTO_TEST_CASE(counters_have_names_that_prometheus_takes_and_counters_end_in_total) {
    std::vector<catalog_entry> all;
    registry.catalog(0, page::series_capacity, all);
    BOOST_TEST(all.size() > 30u);
    for (const catalog_entry& e : all) {
        BOOST_TEST((e.name.ends_with("_total") == (e.kind == metric_kind::counter)), e.name);
        BOOST_TEST(e.help.ends_with('.'), e.name);
    }
}

BOOST_AUTO_TEST_SUITE_END()
