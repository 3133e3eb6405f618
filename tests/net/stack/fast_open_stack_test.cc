// Fast Open between two stacks: cookies are learnt, a question travels in the SYN, and the listener bounds what it accepts early.
#include "stack_world.hh"

#include <corewire/net/stack/tcp_listen_socket.hh>
#include <corewire/net/wire/ethernet.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/tcp.hh>

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <vector>

using namespace corewire;
using namespace corewire::socket_suite;

namespace {

const tcp_options_set fast{.fast_open = true};

/// The first connection brings the cookie.
task<> learn(world& w, tcp_listener& listener) {
    tcp_stream client = co_await dial(w, listener.local_address(), {}, fast);
    tcp_stream server = co_await listener.accept();
    const tcp_information first = client.info();
    BOOST_TEST((first.fast_open == fast_open_failure::no_cookie && !first.data_in_syn && !server.info().opened_early));
}

task<> a_question_travels_in_the_syn(stack_world& w) {
    tcp_listener listener = listen(w, 0, {.fast_open = 4});
    co_await learn(w, listener);
    const stack_statistics& s = w.server().statistics();
    BOOST_TEST(s.tcp_fast_open_asked == 1u);
    BOOST_TEST(w.client().tcp().knows_fast_open(stack_world::first));
    tcp_stream client = co_await dial(w, listener.local_address(), {}, fast);
    BOOST_TEST((client.info().state == tcp_state::syn_sent)); // nothing was sent yet
    BOOST_TEST((client.info().fast_open == fast_open_failure::none));
    co_await client.write(std::string_view{"question"});
    tcp_stream server = co_await listener.accept();
    buffer question = co_await server.read();
    BOOST_TEST(question.text() == "question");
    BOOST_TEST((server.info().state == tcp_state::syn_received && server.info().opened_early && server.info().data_in_syn));
    co_await server.write(std::string_view{"answer"});
    buffer answer = co_await client.read();
    BOOST_TEST(answer.text() == "answer");
    BOOST_TEST((client.info().fast_open == fast_open_failure::none && client.info().data_in_syn && !client.info().opened_early));
    BOOST_TEST(s.tcp_fast_open_accepted == 1u);
    client.shutdown();
    buffer end = co_await server.read();
    BOOST_TEST(end.empty());
}

task<> who_only_listens_reads_too(stack_world& w) {
    tcp_listener listener = listen(w, 0, {.fast_open = 4});
    co_await learn(w, listener);
    tcp_stream client = co_await dial(w, listener.local_address(), {}, fast);
    task_group reading{"read"};
    std::optional<std::errc> why;
    reading.spawn(note_error(why, [&] { return client.read(soon(std::chrono::seconds{5})); })); // no data: the SYN goes without
    tcp_stream server = co_await listener.accept();
    co_await server.write(std::string_view{"welcome"});
    co_await reading.join();
    BOOST_TEST((!why || *why == std::errc{}));
    BOOST_TEST((client.info().fast_open == fast_open_failure::none)); // nothing was to go along
}

task<> who_waits_for_the_first_word_hears_it(stack_world& w) {
    tcp_listener listener = listen(w, 0, {.fast_open = 4});
    co_await learn(w, listener);
    tcp_stream client = co_await dial(w, listener.local_address(), {}, fast);
    std::optional<std::errc> why;
    task_group waiting{"wait_readable"};
    waiting.spawn(note_error(why, [&] { return client.wait_readable(soon(std::chrono::seconds{5})); }));
    tcp_stream server = co_await listener.accept(soon(std::chrono::seconds{5}));
    co_await server.write(std::string_view{"welcome"});
    co_await waiting.join();
    BOOST_TEST(why == std::errc{});
}

/// What was written arrives, and the end of it, also where the cookie is bad: then behind the handshake.
task<> hear_all(tcp_listener& listener) {
    tcp_stream server = co_await listener.accept(soon(std::chrono::seconds{5}));
    buffer question = co_await server.read(soon(std::chrono::seconds{5}));
    BOOST_TEST(question.text() == "question");
    buffer end = co_await server.read(soon(std::chrono::seconds{5}));
    BOOST_TEST(end.empty());
}

task<> who_writes_and_goes_is_heard(stack_world& w) {
    tcp_listener listener = listen(w, 0, {.fast_open = 4});
    co_await learn(w, listener);
    for (const bool good : {true, false}) {
        if (!good) w.server().tcp().set_fast_open_keys({.current = {1, 2}, .older = {}});
        {
            tcp_stream client = co_await dial(w, listener.local_address(), {}, fast);
            co_await client.write(std::string_view{"question"});
        }
        co_await hear_all(listener);
    }
    BOOST_TEST(w.server().statistics().tcp_fast_open_accepted == 1u);
}

task<> a_close_waits_until_all_was_heard(stack_world& w) {
    tcp_listener listener = listen(w, 0, {.fast_open = 4});
    co_await learn(w, listener);
    w.server().tcp().set_fast_open_keys({.current = {1, 2}, .older = {}});
    tcp_stream client = co_await dial(w, listener.local_address(), {}, fast);
    co_await client.write(std::string_view{"question"});
    task_group hearing{"hear"};
    hearing.spawn(hear_all(listener));
    co_await client.close(soon(std::chrono::seconds{5}));
    co_await hearing.join();
}

/// Its SYN has left without data, for a reader.
task<> who_reads_first_may_write_and_close(stack_world& w) {
    tcp_listener listener = listen(w, 0, {.fast_open = 4});
    co_await learn(w, listener);
    for (const bool closes : {true, false}) {
        tcp_stream client = co_await dial(w, listener.local_address(), {}, fast);
        const std::errc nothing = co_await error_of([&] { return client.read(soon(std::chrono::nanoseconds{1})); });
        BOOST_TEST(nothing == std::errc::timed_out);
        BOOST_TEST((client.info().state == tcp_state::syn_sent));
        co_await client.write(std::string_view{"question"});
        task_group hearing{"hear"};
        hearing.spawn(hear_all(listener));
        if (closes) co_await client.close(soon(std::chrono::seconds{5}));
        else client = {};
        co_await hearing.join();
    }
}

task<> without_lingering_nothing_is_left(stack_world& w) {
    const tcp_options_set abrupt{.fast_open = true, .reset_on_close = true};
    tcp_listener listener = listen(w, 0, {.fast_open = 4});
    co_await learn(w, listener);
    const std::size_t before = w.client().tcp().connections(); // TIME-WAIT
    {
        tcp_stream client = co_await dial(w, listener.local_address(), {}, abrupt);
        co_await client.write(std::string_view{"question"});
    }
    co_await some_turns();
    BOOST_TEST(w.client().tcp().connections() == before);
}

task<> the_limit_bounds_what_is_accepted_early(stack_world& w) {
    tcp_listener listener = listen(w, 0, {.fast_open = 1});
    co_await learn(w, listener);
    w.server().tcp().set_fast_open_keys({.current = {1, 2}, .older = {}}); // the client's cookie is bad now
    tcp_stream client = co_await dial(w, listener.local_address(), {}, fast);
    co_await client.write(std::string_view{"question"});
    tcp_stream server = co_await listener.accept();
    BOOST_TEST(w.server().statistics().tcp_fast_open_bad_cookie == 1u);
    buffer question = co_await server.read(); // behind the handshake
    BOOST_TEST(question.text() == "question");
    const tcp_information i = client.info();
    BOOST_TEST((i.fast_open == fast_open_failure::not_taken && !i.data_in_syn && !server.info().opened_early));
    BOOST_TEST(w.server().statistics().tcp_fast_open_accepted == 0u);
    tcp_stream one = co_await dial(w, listener.local_address(), {}, fast); // with the new cookie
    tcp_stream two = co_await dial(w, listener.local_address(), {}, fast);
    co_await one.write(std::string_view{"first"});
    co_await two.write(std::string_view{"second"});
    tcp_stream first = co_await listener.accept();
    tcp_stream second = co_await listener.accept();
    BOOST_TEST(w.server().statistics().tcp_fast_open_accepted == 1u);
    BOOST_TEST(w.server().statistics().tcp_fast_open_full == 1u);
    buffer a = co_await first.read();
    buffer b = co_await second.read();
    BOOST_TEST(a.text() == "first");
    BOOST_TEST(b.text() == "second");
}

task<> cookies_are_good_for_two_days_at_most(stack_world& w) { // RFC 7413 4.1.2
    tcp_listener listener = listen(w, 0, {.fast_open = 4});
    co_await learn(w, listener);
    const stack_statistics& s = w.server().statistics();
    constexpr duration day = tcp::fast_open_key_chain::period;
    struct step {
        duration later;
        bool good;
    };
    // After a day the cookie is yesterday's, good, and another one comes with the answer. After two days it would be nobody's.
    constexpr step steps[] = {{day, true}, {day, true}, {day - std::chrono::seconds{1}, true}, {2 * day, false}, {day / 2, true}};
    std::uint64_t accepted = 0, bad = 0;
    for (const step& each : steps) {
        w.clock.advance(each.later);
        tcp_stream client = co_await dial(w, listener.local_address(), {}, fast);
        co_await client.write(std::string_view{"question"});
        tcp_stream server = co_await listener.accept();
        buffer question = co_await server.read();
        BOOST_TEST(question.text() == "question");
        co_await server.write(std::string_view{"answer"});
        buffer answer = co_await client.read(); // behind the SYN-ACK, which may bring another cookie
        BOOST_TEST(answer.text() == "answer");
        ++(each.good ? accepted : bad);
        BOOST_TEST(s.tcp_fast_open_accepted == accepted);
        BOOST_TEST(s.tcp_fast_open_bad_cookie == bad);
    }
    BOOST_TEST(s.tcp_fast_open_asked == 1u);
}

task<> one_with_a_key_of_its_own_believes_no_other(stack_world& w) {
    auto backend = std::make_unique<tcp_listen_socket>(w.server().tcp(), at_server(w, 7), listen_options{.fast_open = 4});
    tcp_listen_socket& raw = *backend;
    raw.set_fast_open_keys({.current = {7, 8}, .older = {}});
    tcp_listener listener{std::move(backend)};
    co_await learn(w, listener);
    w.server().tcp().set_fast_open_keys({.current = {1, 2}, .older = {}}); // not this one's
    const stack_statistics& s = w.server().statistics();
    for (const bool good : {true, false}) {
        if (!good) raw.set_fast_open_keys({.current = {9, 10}, .older = {}});
        tcp_stream client = co_await dial(w, listener.local_address(), {}, fast);
        co_await client.write(std::string_view{"question"});
        tcp_stream server = co_await listener.accept();
        buffer question = co_await server.read();
        BOOST_TEST(question.text() == "question");
        BOOST_TEST(s.tcp_fast_open_accepted == 1u);
        BOOST_TEST(s.tcp_fast_open_bad_cookie == (good ? 0u : 1u));
    }
}

/// A SYN with a byte of data, in the name of the client, which answers with a reset to what comes of it.
void forge_syn(stack_world& w, std::uint16_t from_port, std::uint16_t to_port, int turns = 50) {
    constexpr std::uint32_t size = wire::tcp_header::min_size + 1;
    packet p;
    p.head = w.server().device().pool().allocate_buffer();
    std::byte* const tcp = p.head.append(size);
    std::memset(tcp, 0, size);
    wire::tcp_header{.source_port = from_port, .destination_port = to_port, .sequence = 5, .flags = wire::tcp_flags::syn, .window = 65'535}
        .emit({tcp, wire::tcp_header::min_size});
    wire::store_tcp_checksum({tcp, size}, stack_world::second, stack_world::first);
    wire::ipv4_header{.total_length = 20 + size, .source = stack_world::second, .destination = stack_world::first}.emit(
        {p.head.prepend(20), 20});
    const wire::ethernet_header link{
        .destination = w.server().device().mac(), .source = w.client().device().mac(), .type = wire::ether_type::ipv4};
    link.emit({p.head.prepend(wire::ethernet_header::size), wire::ethernet_header::size});
    w.server().take_over(w.clock.now(), p);
    for (int i = 0; i < turns; ++i) w.loop().poll_once();
}

task<> a_listener_without_it_is_as_before(stack_world& w) {
    tcp_listener listener = listen(w);
    co_await learn(w, listener);
    BOOST_TEST(!w.client().tcp().knows_fast_open(stack_world::first));
    BOOST_TEST(w.server().statistics().tcp_fast_open_asked == 0u);
}

} // namespace

BOOST_AUTO_TEST_SUITE(fast_open_stack)

BOOST_FIXTURE_TEST_CASE(a_question_is_answered_in_one_round_trip, stack_world) { run(a_question_travels_in_the_syn(*this)); }
BOOST_FIXTURE_TEST_CASE(a_reader_does_not_wait_for_a_write_that_never_comes, stack_world) { run(who_only_listens_reads_too(*this)); }
BOOST_FIXTURE_TEST_CASE(nor_does_who_waits_until_it_is_readable, stack_world) { run(who_waits_for_the_first_word_hears_it(*this)); }
BOOST_FIXTURE_TEST_CASE(what_was_written_outlives_a_stream_that_is_destroyed, stack_world) { run(who_writes_and_goes_is_heard(*this)); }
BOOST_FIXTURE_TEST_CASE(closing_waits_for_the_handshake_and_the_data, stack_world) { run(a_close_waits_until_all_was_heard(*this)); }
BOOST_FIXTURE_TEST_CASE(a_reader_whose_syn_has_left_may_write_and_close, stack_world) { run(who_reads_first_may_write_and_close(*this)); }
BOOST_FIXTURE_TEST_CASE(letting_go_without_lingering_sends_nothing_more, stack_world) { run(without_lingering_nothing_is_left(*this)); }
BOOST_FIXTURE_TEST_CASE(bad_cookies_and_full_listeners_fall_back_to_the_handshake, stack_world) {
    run(the_limit_bounds_what_is_accepted_early(*this));
}
BOOST_FIXTURE_TEST_CASE(connections_that_were_reset_count_for_a_minute, stack_world) { // RFC 7413 5.1
    using std::chrono::seconds;
    reactor::scope here(loop_);
    auto backend = std::make_unique<tcp_listen_socket>(server_.tcp(), at_server(*this, 7), listen_options{});
    backend->set_fast_open(1, true); // who forges SYNs has learnt a cookie
    const tcp_listener listener{std::move(backend)};
    const stack_statistics& s = server_.statistics();
    forge_syn(*this, 1001, 7);
    BOOST_TEST(s.tcp_fast_open_accepted == 1u);
    BOOST_TEST(server_.tcp().connections() == 0u); // it was reset
    clock.advance(seconds{60} - std::chrono::nanoseconds{1});
    forge_syn(*this, 1002, 7);
    BOOST_TEST(s.tcp_fast_open_full == 1u);
    BOOST_TEST(s.tcp_fast_open_accepted == 1u);
    clock.advance(std::chrono::nanoseconds{1});
    forge_syn(*this, 1003, 7);
    BOOST_TEST(s.tcp_fast_open_full == 1u);
    BOOST_TEST(s.tcp_fast_open_accepted == 2u);
}
BOOST_AUTO_TEST_CASE(little_data_in_syns_holds_no_frames_where_they_are_rare) {
    stack_world w({.frames = 256, .vouch_for_checksums = false});
    reactor::scope here(w.loop());
    auto backend = std::make_unique<tcp_listen_socket>(w.server().tcp(), at_server(w, 7), listen_options{});
    backend->set_fast_open(100, true);
    const tcp_listener listener{std::move(backend)};
    frame_pool& pool = w.server().device().pool();
    std::vector<buffer> taken;
    while (pool.free_count > 100) taken.push_back(pool.allocate_buffer());
    for (std::uint16_t i = 0; i < 50; ++i) forge_syn(w, static_cast<std::uint16_t>(1001 + i), 7, 0);
    BOOST_TEST(w.server().statistics().tcp_fast_open_accepted == 50u);
    BOOST_TEST(w.server().statistics().tcp_small_kept == 50u);
    BOOST_TEST(pool.free_count == 100u);
    for (int i = 0; i < 50; ++i) w.loop().poll_once();
}
BOOST_FIXTURE_TEST_CASE(keys_change_every_day, stack_world) { run(cookies_are_good_for_two_days_at_most(*this)); }
BOOST_FIXTURE_TEST_CASE(a_listener_may_have_a_key_of_its_own, stack_world) { run(one_with_a_key_of_its_own_believes_no_other(*this)); }
BOOST_FIXTURE_TEST_CASE(it_is_off_unless_the_listener_asks_for_it, stack_world) { run(a_listener_without_it_is_as_before(*this)); }

BOOST_AUTO_TEST_SUITE_END()
