// Little data in many frames, and many who wait for frames: the shard goes on.
#include "flooded_world.hh"

#include <corewire/reactor/task/when_all.hh>

#include <vector>

using namespace corewire;
using namespace corewire::socket_suite;
using namespace std::chrono_literals;

namespace {

stack_config without_timestamps() {
    stack_config config;
    config.tcp.timestamps = false; // as injected segments are
    return config;
}

struct usual_world : flooded_world {
    usual_world() : flooded_world({.frames = 4096, .vouch_for_checksums = false}, without_timestamps()) {}
    std::uint32_t free() { return server_.device().pool().free_count; }
};
struct crowded_world : flooded_world {
    explicit crowded_world(std::uint32_t frames = 256)
        : flooded_world({.frames = frames, .vouch_for_checksums = false}, without_timestamps()) {}
    /// So many frames are left.
    void leave(std::uint32_t frames) {
        taken.clear();
        while (server_.device().pool().free_count > frames) taken.push_back(server_.device().pool().allocate_buffer());
    }
    std::vector<buffer> taken;
};

const tcp_connection& server_end(flooded_world& w, const tcp_stream& theirs) {
    const tcp_connection* found = nullptr;
    w.server().tcp().for_each_connection([&](const tcp_connection& c) {
        if (c.key.remote_port == theirs.peer_address().port) found = &c;
    });
    BOOST_REQUIRE(found != nullptr);
    return *found;
}

task<> send(tcp_stream& out, std::size_t size) {
    const std::vector<std::byte> block(size);
    co_await out.write(byte_span{block});
}

task<> send_soon(tcp_stream& out, std::size_t size) {
    const std::vector<std::byte> block(size);
    co_await out.write(byte_span{block}, soon(5ms));
}

task<> receive(tcp_stream& in, std::size_t size) {
    for (std::size_t got = 0; got < size;) {
        const buffer b = co_await in.read();
        BOOST_REQUIRE(b.size() != 0u);
        got += b.size();
    }
}

/// A megabyte to the server and another back.
task<> exchange(world& w, ends& both, duration& took) {
    constexpr std::size_t megabyte = 1 << 20;
    const time_point begin = w.loop().now();
    co_await when_all(send(both.client, megabyte), receive(both.server, megabyte));
    co_await when_all(send(both.server, megabyte), receive(both.client, megabyte));
    took = w.loop().now() - begin;
}

constexpr int crowd = 64; ///< clients
constexpr std::uint32_t specks = 64; ///< bytes that each of them sends apart

/// One byte each, every second byte.
void send_specks(flooded_world& w, const tcp_connection& c) {
    for (std::uint32_t n = 1; n <= specks; ++n)
        w.inject(w.second, c.key.remote_port, 7, (c.tcb.expected() + 2 * n).value, wire::tcp_flags::ack, c.tcb.acknowledged().value, 1);
}

task<> speckle(usual_world& w, duration& before, duration& beside) {
    ends bulk = co_await connected(w);
    co_await exchange(w, bulk, before);
    tcp_listener listener = listen(w, 7);
    std::vector<tcp_stream> mine, theirs;
    for (int i = 0; i < crowd; ++i) {
        tcp_stream dialled = co_await dial(w, at_server(w, 7));
        mine.push_back(std::move(dialled));
        tcp_stream accepted = co_await listener.accept();
        theirs.push_back(std::move(accepted));
        send_specks(w, server_end(w, theirs.back()));
    }
    BOOST_TEST(!w.server().tcp().frames_are_scarce());
    BOOST_TEST(w.free() > 3500u);
    co_await exchange(w, bulk, beside);
    for (tcp_stream& each : mine) each.abort();
}

task<> fill_accept_queue(usual_world& w, duration& before, duration& beside) {
    ends bulk = co_await connected(w);
    co_await exchange(w, bulk, before);
    tcp_listener listener = listen(w, 7, {.backlog = 2 * crowd});
    std::vector<tcp_stream> mine;
    for (int i = 0; i < crowd; ++i) {
        tcp_stream dialled = co_await dial(w, at_server(w, 7), {}, {.no_delay = true});
        mine.push_back(std::move(dialled));
    }
    for (int byte = 0; byte < 63; ++byte) {
        for (tcp_stream& each : mine) co_await each.write(std::string_view{"x"});
        co_await sleep_for(1ms);
    }
    BOOST_TEST(!w.server().tcp().frames_are_scarce());
    BOOST_TEST(w.free() > 3000u);
    co_await exchange(w, bulk, beside);
    for (tcp_stream& each : mine) each.abort();
}

} // namespace

BOOST_AUTO_TEST_SUITE(little_data)

BOOST_FIXTURE_TEST_CASE(single_bytes_beyond_gaps_hold_no_frame_each, usual_world) {
    duration before{}, beside{};
    run(speckle(*this, before, beside));
    BOOST_TEST((beside < 2 * before));
    BOOST_TEST(server_.statistics().tcp_small_kept >= 3000u);
}

BOOST_FIXTURE_TEST_CASE(single_bytes_that_nobody_accepts_hold_no_frame_each, usual_world) {
    duration before{}, beside{};
    run(fill_accept_queue(*this, before, beside));
    BOOST_TEST((beside < 2 * before));
}

namespace {

/// Peers that send small things where there is nearly no frame left hold none, and what they say is heard.
task<> talk_where_frames_are_rare(crowded_world& w) {
    std::vector<ends> each;
    for (int i = 0; i < 3; ++i) {
        ends both = co_await connected(w);
        each.push_back(std::move(both));
    }
    w.leave(70);
    for (int i = 0; i < 20; ++i) {
        for (ends& e : each) co_await e.client.write(std::string_view{"unread"});
        co_await sleep_for(1ms);
    }
    BOOST_TEST(w.server().device().pool().free_count >= 69u);
    for (ends& e : each) co_await receive(e.server, 120);
    w.leave(~0u);
}

/// Whoever waits for bytes, in whatever way, gets `size` bytes with so many frames left.
task<> wake_all(crowded_world& w, std::size_t size, std::uint32_t left) {
    ends reads = co_await connected(w), waits = co_await connected(w);
    w.leave(left);
    const auto reader = [&]() -> task<> {
        const buffer got = co_await reads.server.read(soon(100ms));
        BOOST_TEST(got.size() == size);
    };
    const auto waiter = [&]() -> task<> {
        co_await waits.server.wait_readable(soon(100ms));
        const buffer got = co_await waits.server.read(soon(1ms));
        BOOST_TEST(got.size() == size);
    };
    const auto writer = [&]() -> task<> {
        co_await sleep_for(1ms);
        co_await send(reads.client, size);
        co_await send(waits.client, size);
    };
    co_await when_all(reader(), waiter(), writer());
    w.leave(~0u);
}

/// Nobody waits.
task<> send_to_nobody(crowded_world& w, std::uint32_t left, std::uint32_t& readable) {
    ends both = co_await connected(w);
    w.leave(left);
    for (int i = 0; i < 2; ++i) {
        co_await send(both.client, 1000);
        co_await sleep_for(10ms);
    }
    readable = server_end(w, both.server).tcb.readable();
    w.leave(~0u);
    both.client.abort();
}

} // namespace

BOOST_AUTO_TEST_CASE(small_segments_are_heard_where_frames_are_rare) {
    crowded_world w;
    w.run(talk_where_frames_are_rare(w));
    BOOST_TEST(w.server().statistics().tcp_small_kept >= 50u);
}

BOOST_AUTO_TEST_CASE(who_waits_for_bytes_gets_some_where_frames_are_scarce) {
    for (const std::size_t size : {10u, 1000u}) {
        for (const std::uint32_t left : {50u, 20u}) {
            crowded_world w;
            w.run(wake_all(w, size, left));
        }
    }
}

BOOST_AUTO_TEST_CASE(an_empty_queue_takes_a_segment_from_the_upper_half_of_the_reserve) { // Linux: sk_forced_mem_schedule()
    for (const bool upper : {true, false}) {
        crowded_world w;
        std::uint32_t readable = 1;
        w.run(send_to_nobody(w, upper ? 50 : 20, readable));
        BOOST_TEST(readable == (upper ? 1000u : 0u));
    }
}

namespace {

/// Large segments beyond gaps, from all of them.
void hoard(crowded_world& w, const std::vector<tcp_stream>& theirs) {
    for (const tcp_stream& each : theirs) {
        const tcp_connection& c = server_end(w, each);
        for (std::uint32_t n = 0; n < 40 && !w.server().tcp().frames_are_scarce(); ++n)
            w.inject(w.second, c.key.remote_port, 7, (c.tcb.expected() + 1 + n * 1'000).value, wire::tcp_flags::ack,
                     c.tcb.acknowledged().value, 1'000);
    }
    w.taken.push_back(w.server().device().pool().allocate_buffer());
    BOOST_REQUIRE(w.server().tcp().frames_are_scarce());
}

task<> hoard_again(crowded_world& w, duration (&took)[2]) {
    tcp_listener listener = listen(w, 7);
    std::vector<tcp_stream> mine, theirs;
    for (int i = 0; i < 6; ++i) {
        tcp_stream dialled = co_await dial(w, at_server(w, 7));
        mine.push_back(std::move(dialled));
        tcp_stream accepted = co_await listener.accept();
        theirs.push_back(std::move(accepted));
    }
    ends bulk = co_await connected(w);
    for (duration& each : took) {
        hoard(w, theirs);
        const std::uint64_t dropped = w.server().statistics().tcp_ahead_dropped;
        const time_point begin = w.loop().now();
        const auto note_relief = [&]() -> task<> {
            while (w.server().statistics().tcp_ahead_dropped == dropped) co_await sleep_for(1ms);
            each = w.loop().now() - begin;
        };
        co_await when_all(send(bulk.server, 100'000), receive(bulk.client, 100'000), note_relief());
    }
    w.leave(~0u);
    for (tcp_stream& each : mine) each.abort();
}

} // namespace

BOOST_AUTO_TEST_CASE(who_hoards_beyond_gaps_gives_back_soon) {
    crowded_world w;
    duration took[2]{1min, 1min};
    w.run(hoard_again(w, took));
    BOOST_TEST((took[0] <= 200ms));
    BOOST_TEST((took[1] <= 200ms));
}

namespace {

constexpr std::uint32_t silent = 50; ///< peers that are not answered

/// In order, eight each, while there are many frames; then those are few.
task<> leave_unread(crowded_world& w, std::uint32_t& given_back) {
    tcp_listener listener = listen(w, 7);
    std::vector<tcp_stream> mine, theirs;
    for (std::uint32_t i = 0; i < silent; ++i) {
        tcp_stream dialled = co_await dial(w, at_server(w, 7));
        mine.push_back(std::move(dialled));
        tcp_stream accepted = co_await listener.accept();
        theirs.push_back(std::move(accepted));
        const tcp_connection& c = server_end(w, theirs.back());
        for (int n = 0; n < 8; ++n)
            w.inject(w.second, c.key.remote_port, 7, c.tcb.expected().value, wire::tcp_flags::ack, c.tcb.acknowledged().value, 64);
    }
    ends other = co_await connected(w);
    w.leave(20);
    const std::uint32_t before = w.server().device().pool().free_count;
    task_group writing{"write"};
    writing.spawn(send(other.server, 100'000));
    co_await receive(other.client, 100'000);
    co_await writing.join();
    given_back = w.server().device().pool().free_count - before;
    for (tcp_stream& each : theirs) co_await receive(each, 512);
    w.leave(~0u);
    for (tcp_stream& each : mine) each.abort();
}

/// Before any of it leaves.
task<> write_little(crowded_world& w, std::uint32_t& taken) {
    std::vector<ends> each;
    for (std::uint32_t i = 0; i < silent; ++i) {
        ends both = co_await connected(w);
        each.push_back(std::move(both));
    }
    w.leave(70);
    const std::uint32_t before = w.server().device().pool().free_count;
    for (ends& e : each) co_await send(e.server, 64);
    taken = before - w.server().device().pool().free_count;
    for (ends& e : each) co_await receive(e.client, 64);
    w.leave(~0u);
}

/// A connection whose peer takes no more, and which holds many frames for it.
task<ends> stuffed(crowded_world& w) {
    ends both = co_await connected(w, {.receive_buffer = 4096});
    co_await send(both.server, 12'000);
    co_await sleep_for(1ms);
    co_return both;
}

task<> go_on_in_turn(crowded_world& w, std::vector<int>& order, duration& took) {
    ends first = co_await stuffed(w), second = co_await stuffed(w);
    w.leave(20);
    const auto write = [&](tcp_stream& stream, int name) -> task<> {
        co_await send(stream, 3000);
        order.push_back(name);
    };
    task_group writing{"write"};
    writing.spawn(write(first.server, 1));
    co_await sleep_for(1ms);
    const time_point begin = w.loop().now();
    w.leave(100); // few, and no longer scarce
    writing.spawn(write(second.server, 2));
    co_await writing.join();
    took = w.loop().now() - begin;
    w.leave(~0u);
    first.client.abort();
    second.client.abort();
}

/// Who gave up waits for frames no more, whatever ended it.
task<> give_up(crowded_world& w, std::size_t& waiting) {
    ends timed = co_await stuffed(w), reset = co_await stuffed(w);
    w.leave(20);
    task_group writing{"write"};
    std::optional<std::errc> late, dead;
    writing.spawn(note_error(late, [&] { return send_soon(timed.server, 3000); }));
    writing.spawn(note_error(dead, [&] { return send(reset.server, 3000); }));
    co_await sleep_for(1ms);
    BOOST_TEST(w.server().tcp().what_remains().starved == 1u);
    reset.client.abort();
    co_await writing.join();
    BOOST_TEST(late == std::errc::timed_out);
    BOOST_TEST(dead == std::errc::connection_reset);
    waiting = w.server().tcp().what_remains().starved;
    w.server().check_invariants();
    w.leave(~0u);
    timed.client.abort();
}

constexpr std::size_t writers = 100;

task<> write_in_vain(tcp_stream& stream, std::size_t size) {
    const std::vector<std::byte> block(size);
    const std::errc ignored = co_await error_of([&] { return stream.write(byte_span{block}, soon(1s)); });
    BOOST_TEST((ignored != std::errc{}));
}

/// All of them wait for frames, of which there are some, and may have none: their peers take nothing.
task<> count_questions(crowded_world& w, std::uint64_t& most, std::uint64_t& asked) {
    std::vector<tcp_stream> mine, theirs;
    for (std::size_t i = 0; i < writers; ++i) {
        ends both = co_await connected(w, {.receive_buffer = 4096});
        mine.push_back(std::move(both.client));
        theirs.push_back(std::move(both.server));
        co_await send(theirs.back(), 8192);
    }
    co_await sleep_for(100ms);
    w.leave(50);
    task_group group;
    for (tcp_stream& each : theirs) group.spawn(write_in_vain(each, 5000));
    co_await yield();
    const std::uint64_t& count = w.server().statistics().tcp_writers_retried;
    const std::uint64_t begin = count;
    for (int turn = 0; turn < 10; ++turn) {
        const std::uint64_t before = count;
        w.server().tcp().do_chores(w.loop().now());
        most = std::max(most, count - before);
    }
    asked = count - begin;
    co_await group.join();
    w.leave(~0u);
    for (tcp_stream& each : mine) each.abort();
}

} // namespace

BOOST_AUTO_TEST_CASE(what_is_small_and_unread_gives_its_frames_back_where_they_are_scarce) {
    crowded_world w(1024);
    std::uint32_t given_back = 0;
    w.run(leave_unread(w, given_back));
    BOOST_TEST(given_back >= 200u); // until they are rare no more
}

BOOST_AUTO_TEST_CASE(what_is_small_and_waits_for_its_ack_holds_no_frame_where_they_are_rare) {
    crowded_world w;
    std::uint32_t taken = silent;
    w.run(write_little(w, taken));
    BOOST_TEST(taken == 0u);
}

BOOST_AUTO_TEST_CASE(who_waits_for_frames_gets_them_at_once_and_before_who_comes_later) {
    crowded_world w;
    std::vector<int> order;
    duration took = 1min;
    w.run(go_on_in_turn(w, order, took));
    BOOST_TEST((order == std::vector<int>{1, 2}));
    BOOST_TEST((took < 5ms)); // and not at the next look at what is scarce
}

BOOST_AUTO_TEST_CASE(who_writes_no_more_waits_for_no_frames) {
    crowded_world w;
    std::size_t waiting = 1;
    w.run(give_up(w, waiting));
    BOOST_TEST(waiting == 0u);
}

BOOST_AUTO_TEST_CASE(of_many_who_wait_for_frames_a_few_are_asked_in_a_turn) {
    crowded_world w(1024);
    std::uint64_t most = 0, asked = 0;
    w.run(count_questions(w, most, asked));
    BOOST_TEST(most <= 16u);
    BOOST_TEST(asked >= writers);
}

BOOST_AUTO_TEST_SUITE_END()
