// Where the port has little room, or the pool few frames: everybody gets something.
#include "stack_world.hh"

#include <corewire/net/port/wrap/wrapped_port.hh>
#include <corewire/reactor/task/when_all.hh>

#include <vector>

using namespace corewire;
using namespace corewire::socket_suite;
using namespace std::chrono_literals;

namespace {

/// Takes a few packets a turn.
class narrow_port final : public wrapped_port {
public:
    using wrapped_port::wrapped_port;
    std::size_t transmit(std::span<packet> burst) override {
        return wrapped_port::transmit(burst.first(std::min<std::size_t>(burst.size(), 4)));
    }
};

class narrow_world : public stack_world {
public:
    narrow_world() : narrow_world(wire_link::make({.vouch_for_checksums = false})) {}

private:
    explicit narrow_world(wire_link::ends ends)
        : stack_world(std::make_unique<narrow_port>(std::move(ends.first)), std::move(ends.second), {}) {}
};

constexpr std::uint32_t large_buffer = 4 << 20;

task<> stream_until(tcp_stream& out, const bool& enough) {
    const std::vector<std::byte> block(1 << 16);
    while (!enough) co_await out.write(byte_span{block});
    co_await out.close();
}

task<> read_all(tcp_stream& in, std::uint64_t& got) {
    for (buffer b = co_await in.read(); b; b = co_await in.read()) got += b.size();
}

task<> answer_each(tcp_stream& stream) {
    for (buffer b = co_await stream.read(); b; b = co_await stream.read()) co_await stream.write(std::move(b));
}

/// Small questions while a megabyte or more stands before the port.
task<> ask_beside(tcp_stream& stream, const std::uint64_t& streamed, bool& enough, int& answered) {
    while (streamed < 4u << 20) co_await sleep_for(1ms);
    for (; answered < 20; ++answered) {
        co_await stream.write(std::string_view{"?"}, soon(1s));
        const buffer reply = co_await stream.read(soon(1s));
        BOOST_REQUIRE(reply.size() == 1u);
    }
    enough = true;
    co_await stream.close();
}

task<> stream_and_ask(narrow_world& w, int& answered) {
    tcp_listener listener = listen(w, 7, {.stream = {.send_buffer = large_buffer}});
    tcp_stream bulk_in = co_await dial(w, at_server(w, 7), {}, {.receive_buffer = large_buffer});
    tcp_stream bulk_out = co_await listener.accept();
    tcp_stream asks = co_await dial(w, at_server(w, 7));
    tcp_stream answers = co_await listener.accept();
    bool enough = false;
    std::uint64_t got = 0;
    co_await when_all(stream_until(bulk_out, enough), read_all(bulk_in, got), answer_each(answers),
                      ask_beside(asks, got, enough, answered));
}

} // namespace

BOOST_AUTO_TEST_SUITE(scarce_room)

BOOST_FIXTURE_TEST_CASE(a_stream_that_fills_the_port_leaves_others_their_turn, narrow_world) {
    int answered = 0;
    run(stream_and_ask(*this, answered));
    BOOST_TEST(answered == 20);
}

namespace {

/// Writes until `deadline`, whatever comes of it.
task<> write_for(tcp_stream& stream, std::size_t size, duration patience, std::errc& came_to) {
    const std::vector<std::byte> block(size);
    came_to = co_await error_of([&] { return stream.write(byte_span{block}, soon(patience)); });
}

/// Clients that read nothing have the server's frames; then somebody else asks.
task<> hold_frames_unread(stack_world& w, std::errc& small, std::vector<tcp_stream>& theirs, std::vector<tcp_stream>& mine,
                          std::size_t holders = 6) {
    for (std::size_t i = 0; i <= holders; ++i) {
        ends both = co_await connected(w, {.receive_buffer = 4096});
        mine.push_back(std::move(both.client));
        theirs.push_back(std::move(both.server));
    }
    for (std::size_t i = 0; i < holders; ++i) {
        std::errc ignored{};
        co_await write_for(theirs[i], 1 << 20, 100ms, ignored);
    }
    BOOST_REQUIRE(w.server().tcp().frames_are_scarce());
    co_await write_for(theirs.back(), 1000, 30s, small);
    if (small != std::errc{}) co_return;
    const buffer heard = co_await mine.back().read();
    BOOST_TEST(heard.size() == 1000u);
}

struct crowded_world : stack_world {
    crowded_world() : stack_world({.frames = 256, .vouch_for_checksums = false}) {}
};

task<> small_writes_beside_who_reads_nothing(crowded_world& w, std::errc& small) {
    std::vector<tcp_stream> theirs, mine;
    co_await hold_frames_unread(w, small, theirs, mine);
    for (tcp_stream& each : mine) each.abort();
}

/// So many that none of the reserve is left either.
task<> write_beside_many(crowded_world& w, std::errc& small, duration& took) {
    std::vector<tcp_stream> theirs, mine;
    const time_point begin = w.loop().now();
    co_await hold_frames_unread(w, small, theirs, mine, 30);
    took = w.loop().now() - begin;
    for (tcp_stream& each : mine) each.abort();
}

/// The server's users let go, and the clients go on to read nothing.
task<> leave_orphans(crowded_world& w, std::errc& large) {
    std::vector<tcp_stream> theirs, mine;
    std::errc small{};
    co_await hold_frames_unread(w, small, theirs, mine);
    theirs.erase(theirs.begin(), theirs.begin() + 6);
    co_await sleep_for(3s);
    BOOST_TEST(!w.server().tcp().frames_are_scarce());
    std::uint64_t got = 0;
    const auto writer = [&]() -> task<> {
        co_await write_for(theirs.back(), 1 << 20, 10s, large);
        co_await theirs.back().close();
    };
    co_await when_all(writer(), read_all(mine.back(), got));
    BOOST_TEST(got == 1u << 20);
    for (tcp_stream& each : mine) each.abort();
}

} // namespace

BOOST_FIXTURE_TEST_CASE(peers_who_read_nothing_do_not_stop_the_small_writes_of_the_shard, crowded_world) {
    std::errc small = std::errc::timed_out;
    run(small_writes_beside_who_reads_nothing(*this, small));
    BOOST_TEST((small == std::errc{}));
    BOOST_TEST(server_.statistics().tcp_refused_dropped == 0u); // they have users, who may wait as long as they like
}

BOOST_FIXTURE_TEST_CASE(peers_who_read_nothing_go_after_ten_seconds_where_frames_are_scarce, crowded_world) { // RFC 6429 4
    std::errc small = std::errc::timed_out;
    duration took{};
    run(write_beside_many(*this, small, took));
    BOOST_TEST((small == std::errc{}));
    BOOST_TEST((took >= 10s && took < 20s));
    BOOST_TEST(server_.statistics().tcp_refused_dropped >= 1u);
}

BOOST_FIXTURE_TEST_CASE(orphans_whose_peers_read_nothing_go_where_frames_are_scarce, crowded_world) {
    std::errc large = std::errc::timed_out;
    run(leave_orphans(*this, large));
    BOOST_TEST((large == std::errc{}));
    BOOST_TEST(server_.statistics().tcp_refused_dropped >= 1u);
}

namespace {

/// Two writers, and frames for less than what the first one has to say.
task<> share_few_frames(crowded_world& w, std::errc& small, bool& first_goes_on) {
    ends one = co_await connected(w), other = co_await connected(w);
    std::vector<buffer> taken;
    while (w.server().device().pool().free_count > 80) taken.push_back(w.server().device().pool().allocate_buffer());
    std::uint64_t got[2]{};
    const auto first = [&]() -> task<> {
        std::errc ignored{};
        co_await write_for(one.server, 8 << 20, 60s, ignored);
        first_goes_on = false;
        co_await one.server.close();
    };
    const auto second = [&]() -> task<> {
        while (got[0] < 100'000) co_await sleep_for(1ms);
        first_goes_on = true;
        co_await write_for(other.server, 100'000, 60s, small);
        BOOST_TEST(first_goes_on);
        co_await other.server.close();
    };
    co_await when_all(first(), second(), read_all(one.client, got[0]), read_all(other.client, got[1]));
}

} // namespace

BOOST_FIXTURE_TEST_CASE(writers_who_wait_for_frames_take_turns, crowded_world) {
    std::errc small = std::errc::timed_out;
    bool first_goes_on = false;
    run(share_few_frames(*this, small, first_goes_on));
    BOOST_TEST((small == std::errc{}));
}

BOOST_FIXTURE_TEST_CASE(who_waits_for_frames_keeps_no_core_awake, crowded_world) {
    std::vector<buffer> taken;
    const auto wait_for_frames = [&]() -> task<> {
        tcp_listener listener = listen(*this, 7);
        tcp_stream mine = co_await dial(*this, at_server(*this, 7));
        tcp_stream theirs = co_await listener.accept();
        while (server_.device().pool().free_count > 20) taken.push_back(server_.device().pool().allocate_buffer());
        std::errc came_to{};
        const auto free_them_later = [&]() -> task<> {
            co_await sleep_for(300ms);
            BOOST_TEST(!server_.tcp().anything_to_do());
            taken.clear(); // nothing that arrives tells of it
        };
        const time_point begin = loop_.now();
        co_await when_all(write_for(theirs, 1000, 5s, came_to), free_them_later());
        BOOST_TEST((came_to == std::errc{}));
        BOOST_TEST((loop_.now() - begin < 500ms));
        mine.abort();
    };
    run(wait_for_frames());
}

BOOST_AUTO_TEST_SUITE_END()
