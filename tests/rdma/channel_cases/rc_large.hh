// Messages longer than the receiver's buffers: announced, fetched by the receiver, and their key withdrawn.
// Cases for whichever fabric `channel_world` stands on: the program that includes this says which.
#pragma once

#include "tests/rdma/channel_world.hh"

#include <corewire/rdma/channel/context.hh>

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

std::string text_of_size(std::size_t size) {
    std::string out(size, ' ');
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<char>('!' + (i * 31 + i / 509 + size) % 90);
    return out;
}

task<std::string> text_from(rdma::rc_channel& from) {
    const auto m = co_await from.receive();
    BOOST_REQUIRE(m.has_value());
    BOOST_TEST(!m->is_write());
    co_return text_of(m->bytes());
}

task<> send_text(rdma::rc_channel& to, std::string text) { co_await to.send(bytes_of(text)); }

task<> send_in_place(rdma::rc_channel& to, rdma::local_region what, std::errc& how) {
    how = std::errc::operation_in_progress;
    how = co_await failure_of(to.send_in_place(what));
}

/// Both ends send it so many times while they receive; gives how many have come whole.
int exchanged_whole(channel_world& w, const std::string& text, int count) {
    const auto send_all = [](rdma::rc_channel& to, std::string_view what, int n) -> task<> {
        for (int i = 0; i < n; ++i) co_await to.send(bytes_of(what));
    };
    const auto receive_all = [](rdma::rc_channel& from, std::string_view what, int n, int& whole) -> task<> {
        for (int i = 0; i < n; ++i) {
            const auto m = co_await from.receive();
            BOOST_REQUIRE(m.has_value());
            whole += text_of(m->bytes()) == what;
        }
    };
    int whole = 0;
    std::vector<task<>> all;
    for (rdma::rc_channel* const end : {&w.client, &w.server}) {
        all.push_back(send_all(*end, text, count));
        all.push_back(receive_all(*end, text, count, whole));
    }
    w.run(when_all(std::move(all)));
    return whole;
}

rdma::registered_buffer holding(rdma::rc_channel& of, std::string_view text) {
    auto b = of.allocate(text.size());
    std::memcpy(b.data(), text.data(), text.size());
    return b;
}

rdma::rc_options few(unsigned large_messages) {
    rdma::rc_options o;
    o.large_messages = large_messages;
    return o;
}

rdma::memory_pool& pool_of(channel_world& w, bool of_client) {
    return w.in.adapter_for(of_client ? address_of_client : address_of_server).memory();
}

} // namespace

namespace corewire::test {

/// The server keeps the one large message that it may keep; behind it the client has announced another, which waits to be fetched.
struct behind_a_kept_one : channel_world {
    behind_a_kept_one() : channel_world(few(1), few(1)) {
        run(send_text(client, text_of_size(10'000)));
        kept = run(next_of(server));
        memory = holding(client, text_of_size(20'000));
        r.root_group().spawn(send_in_place(client, memory.all(), how));
        until([&] { return server.statistics().messages_received == 2; });
    }
    void expect_end(std::errc why) {
        until([&] { return how != std::errc::operation_in_progress; });
        BOOST_TEST((how == why));
    }
    std::optional<rdma::message> kept;
    rdma::registered_buffer memory;
    std::errc how{};
};

} // namespace corewire::test

BOOST_AUTO_TEST_SUITE(rc_large)

BOOST_AUTO_TEST_CASE(a_message_longer_than_the_buffers_comes_whole_copied_and_in_place_from_either_end) {
    channel_world w;
    BOOST_TEST(w.client.buffered_message() == 4096u);
    BOOST_TEST(w.client.largest_message() == 16u << 20);
    for (rdma::rc_channel* from : {&w.client, &w.server}) {
        rdma::rc_channel& to = from == &w.client ? w.server : w.client;
        for (const std::size_t size : {4096u, 4097u, 65536u, 300'003u}) {
            const std::string text = text_of_size(size);
            w.run(send_text(*from, text));
            BOOST_TEST((w.run(text_from(to)) == text));
            const auto memory = holding(*from, text);
            std::errc how{};
            w.r.root_group().spawn(send_in_place(*from, memory.all(), how));
            BOOST_TEST((w.run(text_from(to)) == text));
            w.until([&] { return how != std::errc::operation_in_progress; });
            BOOST_TEST((how == std::errc{}));
        }
        BOOST_TEST(from->statistics().large_sent == 6u);
        BOOST_TEST(to.statistics().large_received == 6u);
        BOOST_TEST(to.statistics().fetches == 2 * (1u + 1u + 5u)); // pieces of 64 KiB
    }
    w.client.connection().check_invariants();
    w.server.connection().check_invariants();
    w.run(w.client.close());
}

BOOST_AUTO_TEST_CASE(what_is_sent_behind_a_large_message_is_received_behind_it) {
    channel_world w;
    const std::string large = text_of_size(300'000);
    w.run(send_text(w.client, "before"));
    w.run(send_text(w.client, large));
    w.run(send_text(w.client, "behind"));
    w.run(send_text(w.client, large.substr(1)));
    BOOST_TEST(w.run(text_from(w.server)) == "before");
    BOOST_TEST((w.run(text_from(w.server)) == large));
    BOOST_TEST(w.run(text_from(w.server)) == "behind");
    BOOST_TEST((w.run(text_from(w.server)) == large.substr(1)));
}

BOOST_AUTO_TEST_CASE(a_large_message_is_gathered_from_stretches_and_from_memory_registered_elsewhere) {
    channel_world w;
    const std::string text = text_of_size(20'000);
    const auto one = holding(w.client, text), other = holding(w.client, text);
    std::vector<std::byte> own(20'000);
    std::memcpy(own.data(), text.data(), own.size());
    const verbs::memory_region registered(w.in.adapter_for(address_of_client).domain(), own, verbs::access::local_write);
    const std::array stretches{one.at(100, 9000), rdma::local_region{}, other.at(0, 1),
                               rdma::local_region{own.data(), 10'000, registered.local_key()}};
    std::errc how = std::errc::operation_in_progress;
    const auto send = [](rdma::rc_channel& to, std::span<const rdma::local_region> parts, std::errc& told) -> task<> {
        told = co_await failure_of(to.send_in_place(parts));
    };
    w.r.root_group().spawn(send(w.client, stretches, how));
    BOOST_TEST((w.run(text_from(w.server)) == text.substr(100, 9000) + text.substr(0, 1) + text.substr(0, 10'000)));
    w.until([&] { return how != std::errc::operation_in_progress; });
    BOOST_TEST((how == std::errc{}));

    const std::string first = text.substr(0, 3000), second = text.substr(3000);
    const std::array<byte_span, 3> parts{bytes_of(first), byte_span{}, bytes_of(second)};
    BOOST_TEST((w.run(failure_of(w.client.send(parts))) == std::errc{}));
    BOOST_TEST((w.run(text_from(w.server)) == text));
}

BOOST_AUTO_TEST_CASE(who_keeps_large_messages_stops_its_peer_at_their_bound) {
    channel_world w(few(2), few(2));
    std::vector<rdma::message> kept;
    for (int i = 0; i < 2; ++i) {
        w.run(send_text(w.client, text_of_size(10'000)));
        kept.push_back(std::move(*w.run(next_of(w.server))));
    }
    for (int i = 0; i < 2; ++i) w.run(send_text(w.client, text_of_size(20'000))); // announced, and not fetched
    BOOST_TEST((w.run(failure_of(w.client.send(bytes_of(text_of_size(5000)), w.within(50ms)))) == std::errc::timed_out));
    BOOST_TEST(w.client.statistics().waits_for_slot > 0u);
    BOOST_TEST((w.run(failure_of(w.server.receive(w.within(20ms)))) == std::errc::timed_out));
    BOOST_TEST(w.server.statistics().fetches == 2u);
    w.server.connection().check_invariants();
    kept.clear();
    for (int i = 0; i < 2; ++i) BOOST_TEST((w.run(text_from(w.server)) == text_of_size(20'000)));
    w.run(send_text(w.client, "what was cut short in line was never sent"));
    BOOST_TEST(w.run(text_from(w.server)) == "what was cut short in line was never sent");
}

BOOST_AUTO_TEST_CASE(cut_short_behind_its_announcement_it_happens_and_its_memory_has_no_other_owner_before) {
    channel_world w(few(1), few(1));
    w.run(send_text(w.client, text_of_size(10'000)));
    auto kept = w.run(next_of(w.server));
    const std::string text = text_of_size(30'000);
    {
        const auto memory = holding(w.client, text);
        BOOST_TEST((w.run(failure_of(w.client.send_in_place(memory.all(), w.within(30ms)))) == std::errc::timed_out));
        stop_source stop;
        stop.request_stop();
        BOOST_TEST((w.run(failure_of(w.client.send_in_place(memory.all(), {.stop = stop.token()}))) == std::errc::operation_canceled));
    }
    const auto next_owner = holding(w.client, std::string(30'000, 'x')); // not in the place of the first
    kept.reset();
    BOOST_TEST((w.run(text_from(w.server)) == text));
    w.run(send_text(w.client, "next"));
    BOOST_TEST(w.run(text_from(w.server)) == "next");
}

BOOST_AUTO_TEST_CASE(longer_than_the_peer_takes_is_refused_and_so_is_anything_large_where_one_end_has_none) {
    rdma::rc_options small = few(4);
    small.largest_message = 100'000;
    channel_world w(few(0), small);
    BOOST_TEST(w.client.largest_message() == 4096u);
    BOOST_TEST(w.server.largest_message() == 4096u);
    BOOST_TEST((w.run(failure_of(w.client.send(bytes_of(text_of_size(5000))))) == std::errc::message_size));
    BOOST_TEST((w.run(failure_of(w.server.send(bytes_of(text_of_size(5000))))) == std::errc::message_size));
    channel_world v({}, small);
    BOOST_TEST(v.client.largest_message() == 100'000u);
    BOOST_TEST((v.run(failure_of(v.client.send(bytes_of(text_of_size(100'001))))) == std::errc::message_size));
    v.run(send_text(v.client, text_of_size(100'000)));
    BOOST_TEST((v.run(text_from(v.server)) == text_of_size(100'000)));
}

BOOST_AUTO_TEST_CASE(close_waits_until_what_was_announced_has_been_fetched) {
    channel_world w;
    const std::string text = text_of_size(200'000);
    w.run(send_text(w.client, text));
    w.run(w.client.close());
    BOOST_TEST((w.run(text_from(w.server)) == text));
    BOOST_TEST(!w.run(next_of(w.server)).has_value());
    w.run(w.server.close());
}

BOOST_FIXTURE_TEST_CASE(a_receiver_that_says_goodbye_ends_what_it_has_not_fetched, behind_a_kept_one) {
    run(server.close());
    expect_end(std::errc::broken_pipe);
    run(client.close());
}

BOOST_AUTO_TEST_CASE(a_sender_that_goes_before_or_while_its_message_is_fetched_leaves_nothing_behind) {
    for (const bool in_the_middle : {false, true}) {
        channel_world w(few(1), few(1));
        w.run(send_text(w.client, text_of_size(10'000)));
        auto kept = w.run(next_of(w.server));
        w.run(send_text(w.client, text_of_size(3 << 20)));
        w.run(send_text(w.client, "behind"));
        w.until([&] { return w.server.statistics().messages_received == 3; });
        if (in_the_middle) {
            kept.reset(); // the fetch begins
            w.until([&] { return w.server.statistics().fetches > 1; });
        }
        w.client.abort();
        const std::errc how = w.run(failure_of(w.server.receive()));
        BOOST_TEST((how == std::errc::connection_reset || how == std::errc::timed_out)); // the latter: said by the READ first
        kept.reset();
        w.server = {};
        BOOST_TEST(pool_of(w, false).statistics().used == 0u);
        BOOST_TEST(pool_of(w, true).statistics().used == 0u);
    }
}

BOOST_FIXTURE_TEST_CASE(a_receiver_that_goes_ends_the_send_that_it_has_not_fetched, behind_a_kept_one) {
    server.abort();
    expect_end(std::errc::connection_reset);
    memory = {};
    client = {};
    BOOST_TEST(pool_of(*this, true).statistics().used == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_channel_that_is_destroyed_ends_its_own_large_sends, behind_a_kept_one) {
    client = {};
    expect_end(std::errc::operation_canceled);
}

BOOST_AUTO_TEST_CASE(large_messages_that_nobody_has_received_go_with_their_channel) {
    channel_world w(few(2), few(2));
    w.run(send_text(w.client, text_of_size(10'000)));
    w.run(send_text(w.client, text_of_size(20'000)));
    w.until([&] { return w.server.statistics().fetches >= 2; });
    w.run(w.client.close());
    w.server = {};
    BOOST_TEST(pool_of(w, false).statistics().used == 0u);
}

BOOST_AUTO_TEST_CASE(both_ends_wait_for_memory_when_the_pool_is_at_its_limit) {
    rdma::rc_options small;
    small.receive_depth = small.send_depth = 16;
    rdma::context_options bounded;
    bounded.memory.limit = std::size_t{6} << 20; // the buffers of both ends, and one of these messages
    channel_world w(small, small, bounded);
    const std::string text = text_of_size(1'990'000);
    auto all_of_it = w.server.allocate(3 << 20);
    std::vector<rdma::registered_buffer> taken;
    w.run(send_text(w.client, text));
    w.until([&] { return w.server.statistics().waits_for_memory > 0; });
    BOOST_TEST((w.run(failure_of(w.server.receive(w.within(20ms)))) == std::errc::timed_out));
    all_of_it = {};
    BOOST_TEST((w.run(text_from(w.server)) == text));
    w.until([&] { return pool_of(w, true).statistics().used < 1 << 20; }); // the client has heard of it

    auto of_client = w.client.allocate(3 << 20);
    BOOST_TEST((w.run(failure_of(w.client.send(bytes_of(text), w.within(20ms)))) == std::errc::timed_out));
    BOOST_TEST(w.client.statistics().waits_for_memory > 0u);
    BOOST_TEST((w.run(failure_of(w.client.send(bytes_of(text_of_size(7 << 20))))) == std::errc::message_size));
    w.r.root_group().spawn(send_text(w.client, text));
    w.until([&] { return w.client.statistics().waits_for_memory > 1; });
    of_client = {};
    BOOST_TEST((w.run(text_from(w.server)) == text));
    try {
        for (int i = 0; i < 4; ++i) taken.push_back(w.client.allocate(2 << 20));
        BOOST_FAIL("there is a limit");
    } catch (const std::system_error& e) {
        BOOST_TEST(e.code().value() == ENOBUFS);
    }
}

BOOST_AUTO_TEST_CASE(two_ends_that_only_send_leave_each_other_memory_to_fetch_into) {
    rdma::rc_options small;
    small.receive_depth = small.send_depth = 32;
    small.message_size = 16384; // no room for one of these messages beside the buffers
    rdma::context_options bounded;
    bounded.memory.limit = std::size_t{8} << 20; // four copies of these, if they were let, and nothing else
    channel_world w(small, small, bounded);
    BOOST_TEST(w.client.largest_message() == 2u << 20); // buffers 2 MiB, copies 4
    BOOST_TEST((w.run(failure_of(w.client.send(bytes_of(text_of_size(3 << 20))))) == std::errc::message_size));
    BOOST_TEST(exchanged_whole(w, text_of_size(1'100'000), 4) == 8);
    BOOST_TEST(exchanged_whole(w, text_of_size(2 << 20), 2) == 4);
    BOOST_TEST(w.client.statistics().waits_for_memory > 0u);
}

BOOST_AUTO_TEST_CASE(a_pool_without_room_for_copies_refuses_them_and_takes_and_sends_from_registered_memory) {
    rdma::context_options least;
    least.memory.limit = std::size_t{2} << 20;
    channel_world w({}, {}, least);
    const std::string text = text_of_size(500'000);
    BOOST_TEST((w.run(failure_of(w.client.send(bytes_of(text)))) == std::errc::no_buffer_space));
    const auto memory = holding(w.client, text);
    std::errc how{};
    w.r.root_group().spawn(send_in_place(w.client, memory.all(), how));
    BOOST_TEST((w.run(text_from(w.server)) == text));
}

BOOST_AUTO_TEST_CASE(a_channel_takes_nothing_longer_than_what_the_pool_has_beside_its_buffers) {
    rdma::context_options least;
    least.memory.limit = std::size_t{2} << 20;
    for (const unsigned depth : {220u, 252u}) { // beside the buffers are 256 KiB, or nothing
        rdma::rc_options wide;
        wide.receive_depth = wide.send_depth = depth;
        channel_world w(wide, wide, least);
        const std::uint32_t largest = depth == 220 ? 256u << 10 : 4096;
        BOOST_TEST(w.client.largest_message() == largest);
        BOOST_TEST((w.run(failure_of(w.client.send(bytes_of(text_of_size(largest + 1))))) == std::errc::message_size));
    }
}

BOOST_AUTO_TEST_CASE(a_copy_for_which_connections_buffers_leave_no_room_is_refused_and_not_kept_waiting) {
    rdma::context_options small;
    small.memory.limit = std::size_t{6} << 20;
    rdma::rc_options wide; // buffers of 4.4 MiB: three regions of 2 MiB
    wide.message_size = 32768;
    channel_world w(wide, {}, small);
    BOOST_TEST(w.client.largest_message() >= 100'000u);
    BOOST_TEST(pool_of(w, true).statistics().lasting == 6u << 20);
    BOOST_TEST((w.run(failure_of(w.client.send(bytes_of(text_of_size(100'000)), w.within(1s)))) == std::errc::no_buffer_space));
    w.run(send_text(w.client, "what fits into a buffer goes"));
    BOOST_TEST(w.run(text_from(w.server)) == "what fits into a buffer goes");

    // Whom they leave room waits for the rest.
    rdma::rc_options middling;
    middling.message_size = 16384; // two regions
    channel_world v(middling, {}, small);
    auto all_of_it = v.client.allocate(2 << 20);
    BOOST_TEST((v.run(failure_of(v.client.send(bytes_of(text_of_size(100'000)), v.within(20ms)))) == std::errc::timed_out));
    v.r.root_group().spawn(send_text(v.client, text_of_size(100'000)));
    all_of_it = {};
    BOOST_TEST((v.run(text_from(v.server)) == text_of_size(100'000)));
    v.client = {};
    v.server = {};
    BOOST_TEST(pool_of(v, true).statistics().lasting == 0u);
}

BOOST_AUTO_TEST_CASE(without_memory_windows_who_waits_for_a_slot_or_for_memory_goes_on_as_soon_as_it_comes_free) {
    for (const unsigned slots : {1u, 4u}) {
        rdma::context_options bounded;
        bounded.memory.windows = false;
        bounded.memory.limit = std::size_t{6} << 20; // room for one copy of these
        channel_world w(few(slots), few(slots), bounded);
        const std::string text = text_of_size(1'500'000);
        for (int i = 0; i < 2; ++i) w.r.root_group().spawn(send_text(w.client, text));
        for (int i = 0; i < 2; ++i) {
            const auto m = w.run(next_of(w.server, w.within(5s)));
            BOOST_REQUIRE(m.has_value());
            BOOST_TEST((text_of(m->bytes()) == text));
        }
        BOOST_TEST((slots == 1 ? w.client.statistics().waits_for_slot : w.client.statistics().waits_for_memory) > 0u);
        BOOST_TEST(w.client.statistics().keepalives == 0u);
    }
}

BOOST_AUTO_TEST_SUITE_END()
