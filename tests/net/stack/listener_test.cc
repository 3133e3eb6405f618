// Listeners under pressure: floods of SYNs, backlogs that are full, many connections in a row.
#include "flooded_world.hh"

#include <set>
#include <vector>

using namespace corewire;
using namespace corewire::socket_suite;

namespace {

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

namespace {

task<> knock_while_nobody_accepts(flooded_world& w) {
    tcp_listener listener = listen(w, 7, {.backlog = 2});
    const stack_statistics& s = w.server().statistics();
    w.inject(w.stranger(1), 2'000, 7, 1, wire::tcp_flags::syn); // half-open
    tcp_stream one = co_await dial(w, at_server(w, 7));
    co_await sleep_for(std::chrono::milliseconds{10}); // the last ACK has come
    tcp_stream two = co_await dial(w, at_server(w, 7));
    co_await sleep_for(std::chrono::milliseconds{10});
    const auto before = w.server().tcp().connections();
    w.inject(w.stranger(1), 2'000, 7, 2, wire::tcp_flags::ack);
    BOOST_TEST(s.tcp_backlog_full == 1u);
    BOOST_TEST(s.tcp_resets_sent == 0u);
    BOOST_TEST(w.server().tcp().connections() == before);
    w.inject(w.stranger(2), 2'000, 7, 1, wire::tcp_flags::syn);
    BOOST_TEST(s.tcp_backlog_full == 2u);
    BOOST_TEST(s.tcp_cookies_sent == 0u);
    BOOST_TEST(w.server().tcp().connections() == before);
    tcp_stream first = co_await listener.accept();
    tcp_stream second = co_await listener.accept();
}

} // namespace

BOOST_AUTO_TEST_CASE(linux_leaves_the_handshake_open_while_nobody_accepts) {
    stack_config config;
    config.tcp.habits = tcp::personality::linux_;
    config.tcp.fast_path = false;
    flooded_world w(wire_options{}, config);
    w.run(knock_while_nobody_accepts(w));
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

namespace {

task<> close_first(flooded_world& w, int times) {
    tcp_listener listener = listen(w, 7);
    for (int i = 0; i < times; ++i) {
        tcp_stream mine = co_await dial(w, at_server(w, 7));
        tcp_stream theirs = co_await listener.accept();
        theirs.shutdown();
        BOOST_REQUIRE(!co_await mine.read());
        co_await mine.close();
    }
}

} // namespace

BOOST_AUTO_TEST_CASE(connections_in_time_wait_make_room_for_others) { // docs/rfc/9293.md: sooner than MUST-13 has it
    stack_config few;
    few.max_connections = 50;
    flooded_world w(wire_options{}, few);
    w.run(close_first(w, 200));
    BOOST_TEST(w.server().statistics().tcp_time_wait_ended >= 100u);
    BOOST_TEST(w.server().statistics().tcp_connection_limit == 0u);
}

namespace {

/// What was said to strangers waits for their link addresses, for which nobody answers.
task<> until_strangers_are_forgotten(task<> work) {
    co_await std::move(work);
    co_await sleep_for(std::chrono::seconds{10});
}

task<> guess_cookies(flooded_world& w) {
    tcp_listener listener = listen(w, 7, {.backlog = 8});
    const stack_statistics& s = w.server().statistics();
    const auto guess = [&w](std::uint32_t i) { w.inject(w.stranger(i), 3'000, 7, i, wire::tcp_flags::ack); };
    guess(1);
    BOOST_TEST(s.tcp_cookies_rejected == 0u); // none was sent
    for (std::uint32_t i = 0; i < 9; ++i) w.inject(w.stranger(i), 2'000, 7, i, wire::tcp_flags::syn);
    BOOST_TEST(s.tcp_cookies_sent == 1u);
    co_await sleep_for(std::chrono::seconds{100});
    guess(2);
    BOOST_TEST(s.tcp_cookies_rejected == 1u);
    co_await sleep_for(std::chrono::seconds{30});
    const std::uint64_t resets = s.tcp_resets_sent;
    guess(3);
    BOOST_TEST(s.tcp_cookies_rejected == 1u); // it is not even looked at
    BOOST_TEST(s.tcp_resets_sent == resets + 1);
}

} // namespace

BOOST_FIXTURE_TEST_CASE(a_guessed_cookie_is_looked_at_while_one_can_be_out_and_no_longer, flooded_world) {
    run(until_strangers_are_forgotten(guess_cookies(*this)));
}

namespace {

const tcp_connection* on_port(flooded_world& w, std::uint16_t remote_port, tcp::tcp_state state) {
    const tcp_connection* found = nullptr;
    w.server().tcp().for_each_connection([&](const tcp_connection& c) {
        if (c.key.remote_port == remote_port && c.tcb.state() == state) found = &c;
    });
    return found;
}

/// Behind the SYNs of so many strangers one comes on the 4-tuple of a connection in TIME-WAIT: how far beyond the numbers of the old
/// one the new one begins.
std::uint32_t beyond_the_old_one(flooded_world& w, std::uint16_t port, std::uint32_t strangers) {
    const tcp_connection* const old = on_port(w, port, tcp::tcp_state::time_wait);
    BOOST_REQUIRE(old != nullptr);
    const tcp::seq_number floor = old->tcb.time_wait_floor();
    for (std::uint32_t i = 0; i < strangers; ++i) w.inject(w.stranger(i), 2'000, 7, i, wire::tcp_flags::syn);
    w.inject(w.second, port, 7, (old->tcb.expected() + 1'000).value, wire::tcp_flags::syn);
    const tcp_connection* const fresh = on_port(w, port, tcp::tcp_state::syn_received);
    BOOST_REQUIRE(fresh != nullptr);
    return fresh->tcb.info().snd_una - floor;
}

/// The server has sent two megabytes and closed first; then a SYN comes on the same 4-tuple.
task<> come_again(flooded_world& w, unsigned backlog_left) {
    tcp_listener listener = listen(w, 7, {.backlog = 8});
    tcp_stream mine = co_await dial(w, at_server(w, 7));
    tcp_stream theirs = co_await listener.accept();
    const std::uint16_t port = theirs.peer_address().port;
    const std::string much(500'000, 'x');
    for (int i = 0; i < 4; ++i) {
        co_await theirs.write(std::string_view{much});
        for (std::size_t got = 0; got < much.size();) {
            buffer piece = co_await mine.read();
            got += piece.size();
        }
    }
    theirs.shutdown();
    BOOST_REQUIRE(!co_await mine.read());
    co_await mine.close();
    co_await sleep_for(std::chrono::milliseconds{1});
    BOOST_TEST(static_cast<std::int32_t>(beyond_the_old_one(w, port, 8 - backlog_left)) >= 65'537);
}

} // namespace

BOOST_FIXTURE_TEST_CASE(a_new_incarnation_begins_beyond_the_numbers_of_the_old_one, flooded_world) { // RFC 9293 3.6.1 MAY-2
    run(until_strangers_are_forgotten(come_again(*this, 8)));
}

namespace {

/// How far beyond the numbers of a connection of few bytes the one begins that takes its place after seconds.
task<> come_again_later(flooded_world& w, std::uint32_t& beyond) {
    tcp_listener listener = listen(w, 7, {.backlog = 8});
    tcp_stream mine = co_await dial(w, at_server(w, 7));
    tcp_stream theirs = co_await listener.accept();
    const std::uint16_t port = theirs.peer_address().port;
    theirs.shutdown();
    BOOST_REQUIRE(!co_await mine.read());
    co_await mine.close();
    co_await sleep_for(std::chrono::seconds{5});
    beyond = beyond_the_old_one(w, port, 0);
}

} // namespace

namespace {

/// The listener is gone when the SYN comes.
task<> come_again_for_nobody(flooded_world& w, bool& stays) {
    tcp_listener listener = listen(w, 7, {.backlog = 8});
    tcp_stream mine = co_await dial(w, at_server(w, 7));
    tcp_stream theirs = co_await listener.accept();
    const std::uint16_t port = theirs.peer_address().port;
    theirs.shutdown();
    BOOST_REQUIRE(!co_await mine.read());
    co_await mine.close();
    co_await sleep_for(std::chrono::seconds{5});
    listener = {};
    const tcp_connection* const old = on_port(w, port, tcp::tcp_state::time_wait);
    BOOST_REQUIRE(old != nullptr);
    const std::uint64_t resets = w.server().statistics().tcp_resets_sent;
    w.inject(w.second, port, 7, (old->tcb.expected() + 1'000).value, wire::tcp_flags::syn);
    stays = on_port(w, port, tcp::tcp_state::time_wait) == old && w.server().statistics().tcp_resets_sent == resets;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_syn_ends_no_time_wait_where_nobody_listens) { // RFC 9293 3.6.1 MAY-2 is a listener's; RFC 1337
    for (const tcp::personality habits : {tcp::personality::standard, tcp::personality::linux_}) {
        stack_config config;
        config.tcp.habits = habits;
        config.tcp.fast_path = habits == tcp::personality::standard;
        bool stays = false;
        flooded_world w(wire_options{}, config);
        w.run(until_strangers_are_forgotten(come_again_for_nobody(w, stays)));
        BOOST_TEST(stays);
    }
}

namespace {

/// Clients who wait for the server's first word, and a server that accepts nobody for two seconds.
task<> wait_for_the_first_word(flooded_world& w, int& greeted) {
    tcp_listener listener = listen(w, 7, {.backlog = 2});
    const auto call = [&]() -> task<> {
        tcp_stream mine = co_await dial(w, at_server(w, 7));
        const buffer word = co_await mine.read(soon(std::chrono::seconds{60}));
        greeted += word.text() == "welcome";
    };
    task_group clients{"clients"};
    for (int i = 0; i < 10; ++i) { // one by one: who comes while others are half-open gets a cookie, and a reset if there is no room then
        clients.spawn(call());
        co_await sleep_for(std::chrono::milliseconds{10});
    }
    co_await sleep_for(std::chrono::seconds{2});
    for (int i = 0; i < 10; ++i) {
        tcp_stream theirs = co_await listener.accept(soon(std::chrono::seconds{60}));
        co_await theirs.write(std::string_view{"welcome"});
        co_await theirs.close();
    }
    co_await clients.join();
}

} // namespace

BOOST_FIXTURE_TEST_CASE(who_finds_the_accept_queue_full_comes_again_and_is_heard, flooded_world) {
    int greeted = 0;
    run(wait_for_the_first_word(*this, greeted));
    BOOST_TEST(greeted == 10);
    BOOST_TEST(server_.statistics().tcp_backlog_full > 0u);
}

BOOST_FIXTURE_TEST_CASE(a_backlog_of_nothing_is_one, flooded_world) { // as listen(2)
    run([](flooded_world& w) -> task<> {
        tcp_listener listener = listen(w, 7, {.backlog = 0});
        co_await prove_it_hears(w, listener);
    }(*this));
}

namespace {

/// Peers send a lot beyond gaps that they never fill, until the server has no frame to spare; then it has something to say.
task<> hold_all_frames(flooded_world& w, std::errc& came_to) {
    tcp_listener listener = listen(w, 7);
    std::vector<tcp_stream> mine, theirs;
    for (int i = 0; i < 6; ++i) {
        tcp_stream dialled = co_await dial(w, at_server(w, 7));
        mine.push_back(std::move(dialled));
        tcp_stream accepted = co_await listener.accept();
        theirs.push_back(std::move(accepted));
        const tcp_connection* const c = on_port(w, theirs.back().peer_address().port, tcp::tcp_state::established);
        BOOST_REQUIRE(c != nullptr);
        for (std::uint32_t n = 0; n < 40 && !w.server().tcp().frames_are_scarce(); ++n)
            w.inject(w.second, c->key.remote_port, 7, (c->tcb.expected() + 1 + n * 1'000).value, wire::tcp_flags::ack,
                     c->tcb.acknowledged().value, 1'000);
    }
    const buffer one_more = w.server().device().pool().allocate_buffer();
    BOOST_REQUIRE(w.server().tcp().frames_are_scarce());
    const std::vector<std::byte> much(100'000); // a little of it finds room
    came_to = co_await error_of([&] { return theirs.back().write(byte_span{much}, soon(std::chrono::seconds{10})); });
    if (came_to != std::errc{}) co_return;
    buffer heard = co_await mine.back().read();
    BOOST_TEST(heard.size() != 0u);
}

} // namespace

BOOST_AUTO_TEST_CASE(peers_who_fill_no_gap_do_not_stop_the_writers_of_the_shard) { // RFC 2018 8
    std::errc came_to{};
    stack_config config;
    config.tcp.timestamps = false;
    flooded_world w({.frames = 256}, config);
    w.run(hold_all_frames(w, came_to));
    BOOST_TEST((came_to == std::errc{}));
    BOOST_TEST(w.server().statistics().tcp_ahead_dropped > 0u);
}

namespace {

/// A stranger sends three segments while something is on its way to it, and there is a frame for the first of them.
task<> send_where_frames_are_scarce(flooded_world& w, std::uint64_t& recoveries) {
    tcp_listener listener = listen(w, 7);
    w.inject(w.stranger(1), 2'000, 7, 1, wire::tcp_flags::syn);
    co_await sleep_for(std::chrono::milliseconds{1}); // it is answered
    const tcp_connection* const c = on_port(w, 2'000, tcp::tcp_state::syn_received);
    BOOST_REQUIRE(c != nullptr);
    const std::uint32_t iss = c->tcb.acknowledged().value;
    w.inject(w.stranger(1), 2'000, 7, 2, wire::tcp_flags::ack, iss + 1);
    tcp_stream theirs = co_await listener.accept(soon(std::chrono::seconds{5}));
    co_await theirs.write(std::string_view{"on its way"});
    co_await sleep_for(std::chrono::milliseconds{1});
    const tcp_connection* const open = on_port(w, 2'000, tcp::tcp_state::established);
    BOOST_REQUIRE(open != nullptr);
    BOOST_REQUIRE(open->tcb.info().in_flight == 10u);
    std::vector<buffer> taken;
    while (!w.server().tcp().frames_are_scarce()) taken.push_back(w.server().device().pool().allocate_buffer());
    for (const std::uint32_t seq : {2u, 1'002u, 2'002u}) w.inject(w.stranger(1), 2'000, 7, seq, wire::tcp_flags::ack, iss + 1, 1'000);
    BOOST_TEST(w.server().statistics().no_frame == 2u); // the first found an empty queue
    recoveries = open->tcb.statistics().fast_recoveries;
    const buffer first = co_await theirs.read();
    BOOST_TEST(first.size() == 1'000u);
}

} // namespace

BOOST_AUTO_TEST_CASE(what_finds_no_frame_is_no_duplicate_acknowledgment) { // RFC 5681 2 (b)
    std::uint64_t recoveries = 1;
    flooded_world w({.frames = 256}, {});
    w.run(send_where_frames_are_scarce(w, recoveries));
    BOOST_TEST(recoveries == 0u);
}

BOOST_AUTO_TEST_CASE(linux_begins_a_new_incarnation_at_a_fixed_distance) {
    stack_config config;
    config.tcp.habits = tcp::personality::linux_;
    config.tcp.fast_path = false;
    std::uint32_t beyond = 0;
    flooded_world w(wire_options{}, config);
    w.run(until_strangers_are_forgotten(come_again_later(w, beyond)));
    BOOST_TEST(beyond == 65'537u);
}

BOOST_FIXTURE_TEST_CASE(a_later_incarnation_begins_where_the_clock_of_numbers_is, flooded_world) { // RFC 9293 3.4.1
    std::uint32_t beyond = 0;
    run(until_strangers_are_forgotten(come_again_later(*this, beyond)));
    BOOST_TEST(beyond > 65'537u);
}

BOOST_FIXTURE_TEST_CASE(and_it_does_so_when_others_get_cookies, flooded_world) { run(until_strangers_are_forgotten(come_again(*this, 0))); }

BOOST_AUTO_TEST_SUITE_END()
