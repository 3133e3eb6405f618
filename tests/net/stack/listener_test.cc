// Listeners under pressure: floods of SYNs, backlogs that are full, many connections in a row.
#include "stack_world.hh"

#include <corewire/net/wire/ethernet.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/tcp.hh>

#include <set>

using namespace corewire;
using namespace corewire::socket_suite;

namespace {

class flooded_world : public stack_world {
public:
    using stack_world::stack_world;

    /// A bare TCP segment that says it comes from `from`, as if it had arrived at the server's port.
    void inject(ipv4 from, std::uint16_t from_port, std::uint16_t port, std::uint32_t seq, wire::tcp_flags flags) {
        packet p;
        p.head = server_.device().pool().allocate_buffer();
        BOOST_REQUIRE(p.head.underlying_frame() != nullptr);
        std::byte* tcp = p.head.append(wire::tcp_header::min_size);
        const wire::tcp_header header{
            .source_port = from_port, .destination_port = port, .sequence = seq, .flags = flags, .window = 65'535};
        header.emit({tcp, wire::tcp_header::min_size});
        wire::store_tcp_checksum({tcp, wire::tcp_header::min_size}, from, first);
        const wire::ipv4_header ip{.total_length = 40, .source = from, .destination = first};
        ip.emit({p.head.prepend(wire::ipv4_header::min_size), wire::ipv4_header::min_size});
        const wire::ethernet_header link{.destination = server_.device().mac(),
                                         .source = mac_address(0x02'00'00'00'00'55),
                                         .type = wire::ether_type::ipv4};
        link.emit({p.head.prepend(wire::ethernet_header::size), wire::ethernet_header::size});
        server_.take_over(clock.now(), p);
    }
    static ipv4 stranger(std::uint32_t i) { return ipv4(10, 0, 0, static_cast<std::uint8_t>(100 + i % 100)); }
    static std::uint16_t stranger_port(std::uint32_t i) { return static_cast<std::uint16_t>(1'024 + i / 100); }
};

/// The listener still accepts: one whole conversation.
task<> prove_it_hears(flooded_world& w, tcp_listener& listener) {
    tcp_stream mine = co_await dial(w, at_server(w, listener.local_address().port));
    tcp_stream theirs = co_await listener.accept(soon(std::chrono::seconds{5}));
    co_await mine.write(std::string_view{"can you hear me"});
    buffer heard = co_await theirs.read();
    BOOST_TEST(heard.text() == "can you hear me");
    co_await mine.close();
}

task<> flood(flooded_world& w, bool reset_each) {
    tcp_listener listener = listen(w, 7, {.backlog = 64});
    for (std::uint32_t i = 0; i < 5'000; ++i) {
        w.inject(w.stranger(i), w.stranger_port(i), 7, i * 1'000, wire::tcp_flags::syn);
        if (reset_each) w.inject(w.stranger(i), w.stranger_port(i), 7, i * 1'000 + 1, wire::tcp_flags::rst);
        if (i % 16 == 0) co_await yield();
    }
    co_await prove_it_hears(w, listener);
}

} // namespace

BOOST_AUTO_TEST_SUITE(listener)

BOOST_FIXTURE_TEST_CASE(a_flood_of_syns_does_not_make_it_deaf, flooded_world) {
    run(flood(*this, false));
    BOOST_TEST(server_.statistics().tcp_backlog_full > 4'000u);
    BOOST_TEST(server_.statistics().tcp_cookies_sent > 4'000u);
}

namespace {

task<> send_odd_openings(flooded_world& w) {
    tcp_listener listener = listen(w, 7, {.backlog = 8});
    using wire::tcp_flags;
    for (const tcp_flags odd : {tcp_flags::syn | tcp_flags::fin, tcp_flags::syn | tcp_flags::rst, tcp_flags::fin, tcp_flags::none}) {
        w.inject(w.stranger(1), 2'000, 7, 1, odd);
    }
    co_await yield();
    BOOST_TEST(w.server().tcp().connections() == 0u);
    BOOST_TEST(w.server().statistics().tcp_resets_sent == 0u);
    w.inject(w.stranger(1), 2'000, 7, 1, tcp_flags::syn | tcp_flags::ack);
    BOOST_TEST(w.server().statistics().tcp_resets_sent == 1u);
    co_await prove_it_hears(w, listener);
}

} // namespace

BOOST_FIXTURE_TEST_CASE(what_is_no_plain_syn_opens_nothing, flooded_world) { // RFC 9293 3.10.7.2
    run(send_odd_openings(*this));
}

BOOST_FIXTURE_TEST_CASE(a_flood_of_syns_each_with_a_reset_does_not_make_it_deaf, flooded_world) {
    run(flood(*this, true));
    BOOST_TEST(server_.tcp().connections() <= 66u); // nothing half-open is left of the flood
}

namespace {

task<> open_while_half_open_is_full(flooded_world& w) {
    tcp_listener listener = listen(w, 7, {.backlog = 8});
    for (std::uint32_t i = 0; i < 8; ++i) w.inject(w.stranger(i), 2'000, 7, i, wire::tcp_flags::syn);
    for (int i = 0; i < 3; ++i) co_await prove_it_hears(w, listener);
}

} // namespace

BOOST_FIXTURE_TEST_CASE(with_half_open_connections_at_the_limit_a_cookie_opens_one, flooded_world) {
    run(open_while_half_open_is_full(*this));
    BOOST_TEST(server_.statistics().tcp_cookies_accepted >= 3u);
}

BOOST_FIXTURE_TEST_CASE(an_ack_out_of_the_blue_is_reset_and_opens_nothing, flooded_world) {
    reactor::scope here(loop_);
    tcp_listener listener = listen(*this, 7);
    for (std::uint32_t i = 0; i < 100; ++i) inject(stranger(i), 3'000, 7, i, wire::tcp_flags::ack);
    BOOST_TEST(server_.tcp().connections() == 0u);
    BOOST_TEST(server_.statistics().tcp_resets_sent == 100u);
}

namespace {

task<> ten_thousand(flooded_world& w, std::set<std::uint16_t>& seen) {
    tcp_listener listener = listen(w, 7);
    for (int i = 0; i < 10'000; ++i) {
        tcp_stream mine = co_await dial(w, at_server(w, 7));
        tcp_stream theirs = co_await listener.accept();
        // Every one of them is still in TIME-WAIT at our end: no port may come twice.
        BOOST_REQUIRE(seen.insert(theirs.peer_address().port).second);
        mine.shutdown();
        BOOST_REQUIRE(!co_await theirs.read());
    }
}

} // namespace

BOOST_FIXTURE_TEST_CASE(ten_thousand_connections_have_ten_thousand_4_tuples, flooded_world) {
    std::set<std::uint16_t> seen;
    run(ten_thousand(*this, seen));
    BOOST_TEST(seen.size() == 10'000u);
}

namespace {

task<> reach_the_limit(flooded_world& w) {
    tcp_listener listener = listen(w, 7);
    std::vector<tcp_stream> open;
    for (int i = 0; i < 50; ++i) {
        tcp_stream mine = co_await dial(w, at_server(w, 7));
        open.push_back(std::move(mine));
    }
    const std::errc why = co_await error_of([&] { return dial(w, at_server(w, 7)); });
    BOOST_TEST(why == std::errc::no_buffer_space);
    open.pop_back();
}

} // namespace

BOOST_AUTO_TEST_CASE(the_limit_on_connections_is_an_error_with_a_name) {
    stack_config few;
    few.max_connections = 50;
    flooded_world w(wire_options{}, few);
    w.run(reach_the_limit(w));
}

BOOST_AUTO_TEST_SUITE_END()
