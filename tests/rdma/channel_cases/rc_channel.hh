// rdma::rc_channel: messages, remote memory, and the ends of connections. Peers that misbehave are in rc_hostile.hh.
// Cases for whichever fabric `channel_world` stands on: the program that includes this says which.
#pragma once

#include "tests/rdma/ends.hh"

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

task<> echo(rdma::rc_channel& peer) {
    while (auto m = co_await peer.receive()) co_await peer.send(m->bytes());
}

task<> send_and_compare(rdma::rc_channel& peer, std::string what) {
    co_await peer.send(bytes_of(what));
    const auto m = co_await peer.receive();
    BOOST_REQUIRE(m.has_value());
    BOOST_TEST(text_of(m->bytes()) == what);
}

task<> send_some(rdma::rc_channel& to, unsigned count) {
    for (unsigned i = 0; i < count; ++i) co_await to.send(bytes_of(std::to_string(i)));
}

task<> keep(rdma::rc_channel& from, std::vector<rdma::message>& into, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
        auto m = co_await from.receive();
        BOOST_REQUIRE(m.has_value());
        into.push_back(std::move(*m));
    }
}

template <typename Operation>
task<std::uint64_t> value_of(Operation&& work) {
    const std::uint64_t found = co_await work;
    co_return found;
}

task<std::errc> read_some(rdma::rc_channel& from, rdma::local_region into, rdma::remote_region there, std::uint64_t offset) {
    const std::errc how = co_await failure_of(from.read(into, there, offset));
    co_return how;
}

task<> both(task<> a, task<> b) { co_await when_all(std::move(a), std::move(b)); }

task<> expect_cancelled(rdma::rc_channel& on) {
    const std::errc how = co_await failure_of(on.receive());
    BOOST_TEST((how == std::errc::operation_canceled));
}

task<> close_fails(rdma::rc_channel& c, std::errc& how) { how = co_await failure_of(c.close()); }

task<> leave(rdma::rc_channel& c, bool goes) {
    if (goes) c = {};
    else c.abort();
    co_return;
}

const auto everything = verbs::access::local_write | verbs::access::remote_read | verbs::access::remote_write |
                        verbs::access::remote_atomic;

} // namespace

BOOST_AUTO_TEST_SUITE(rc_channel)

BOOST_AUTO_TEST_CASE(messages_come_back_whole_and_in_order) {
    channel_world w;
    w.r.root_group().spawn(echo(w.server));
    for (const std::size_t size : {0u, 1u, 64u, 128u, 129u, 1024u, 1025u, 4096u})
        w.run(send_and_compare(w.client, std::string(size, static_cast<char>('a' + size % 26))));
    BOOST_TEST(w.client.statistics().inline_sends > 0u);
    w.run(w.client.close());
    w.until([&] { return w.r.root_group().size() == 0; }); // the echo saw the goodbye, as an end and no error
    BOOST_TEST(w.r.root_group().failed() == 0u);
}

BOOST_AUTO_TEST_CASE(a_message_is_put_together_from_parts_and_from_stretches_of_registered_memory) {
    rdma::rc_options buffers_only;
    buffers_only.large_messages = 0;
    channel_world w({}, buffers_only);
    const std::string header = "header ", long_body(1500, 'b');
    const std::array<byte_span, 3> parts{bytes_of(header), byte_span{}, bytes_of(long_body)};
    const std::array<byte_span, 2> brief{bytes_of("a"), bytes_of("bc")}; // goes inline
    auto ours = w.client.allocate(8192);
    for (std::size_t i = 0; i < ours.size(); ++i) ours.data()[i] = static_cast<std::byte>('A' + i % 26);
    const std::array stretches{ours.at(26, 3), ours.at(100, 1000), ours.at(5200, 26), ours.at(0, 1)};
    const std::vector<rdma::local_region> too_many(rdma::most_regions + 1, ours.at(0, 1));
    const auto next_text = [](rdma::rc_channel& from) -> task<std::string> {
        const auto m = co_await from.receive();
        BOOST_REQUIRE(m.has_value());
        co_return text_of(m->bytes());
    };
    BOOST_TEST((w.run(failure_of(w.client.send(parts))) == std::errc{}));
    BOOST_TEST(w.run(next_text(w.server)) == header + long_body);
    BOOST_TEST((w.run(failure_of(w.client.send(brief))) == std::errc{}));
    BOOST_TEST(w.run(next_text(w.server)) == "abc");
    BOOST_TEST((w.run(failure_of(w.client.send_in_place(stretches))) == std::errc{}));
    const std::string got = w.run(next_text(w.server));
    BOOST_TEST(got.size() == 1030u);
    BOOST_TEST(got.substr(0, 3) == "ABC");
    BOOST_TEST(got.substr(1003) == "ABCDEFGHIJKLMNOPQRSTUVWXYZA");
    BOOST_TEST((w.run(failure_of(w.client.send_in_place(too_many))) == std::errc::invalid_argument));
    const std::array<byte_span, 2> too_long{bytes_of(long_body), byte_span(ours.data(), 4096)};
    BOOST_TEST((w.run(failure_of(w.client.send(too_long))) == std::errc::message_size));
}

BOOST_AUTO_TEST_CASE(a_sender_waits_for_credits_and_no_receive_queue_is_ever_empty) {
    rdma::rc_options few;
    few.receive_depth = 4;
    few.send_depth = 8;
    channel_world w(few, few);
    constexpr unsigned count = 200;
    const auto feed = [](rdma::rc_channel& to) -> task<> {
        for (unsigned i = 0; i < count; ++i) co_await to.send(bytes_of(std::to_string(i)));
    };
    unsigned got = 0;
    const auto take = [](rdma::rc_channel& from, unsigned& n) -> task<> {
        while (n < count) {
            const auto m = co_await from.receive();
            BOOST_REQUIRE(m.has_value());
            BOOST_TEST(text_of(m->bytes()) == std::to_string(n));
            ++n;
        }
    };
    w.run(both(feed(w.client), take(w.server, got)));
    BOOST_TEST(got == count);
    BOOST_TEST(w.client.statistics().waits_for_credit > 0u);
    BOOST_TEST(w.server.statistics().credit_messages_sent > 0u);
    w.client.connection().check_invariants();
    w.server.connection().check_invariants();
}

BOOST_AUTO_TEST_CASE(who_keeps_messages_stops_its_peer_until_it_lets_go) {
    rdma::rc_options few;
    few.receive_depth = 2;
    channel_world w({}, few);
    w.run(send_some(w.client, 2));
    BOOST_TEST((w.run(failure_of(w.client.send(bytes_of("third"), w.within(50ms)))) == std::errc::timed_out));
    std::vector<rdma::message> kept;
    w.run(keep(w.server, kept, 2));
    BOOST_TEST((w.run(failure_of(w.client.send(bytes_of("third"), w.within(50ms)))) == std::errc::timed_out));
    kept.clear();
    w.run(send_some(w.client, 1));
    w.run(keep(w.server, kept, 1));
    BOOST_TEST(text_of(kept[0].bytes()) == "0"); // what was cut short in line was never sent
}

BOOST_AUTO_TEST_CASE(who_gives_up_at_the_head_of_the_line_lets_those_behind_go) {
    rdma::rc_options few;
    few.receive_depth = 2;
    channel_world w({}, few);
    auto theirs = w.server.allocate(4096);
    auto ours = w.client.allocate(4096);
    const auto window = w.run(w.server.expose(theirs, 0, 4096, everything));
    w.run(send_some(w.client, 2)); // no credit is left
    const auto send_in_vain = [](channel_world& x) -> task<std::errc> {
        const std::errc how = co_await failure_of(x.client.send(bytes_of("third"), x.within(50ms)));
        co_return how;
    };
    const auto begun = w.r.read_clock();
    auto send = send_in_vain(w);
    auto read = read_some(w.client, ours.at(0, 64), window.region(), 0);
    const auto [how_sent, how_read] = w.run(when_all(std::move(send), std::move(read)));
    BOOST_TEST((how_sent == std::errc::timed_out));
    BOOST_TEST((how_read == std::errc{}));
    BOOST_TEST((w.r.read_clock() - begun < 5s)); // and not when a keepalive's completion comes by
}

BOOST_AUTO_TEST_CASE(remote_memory_is_written_read_and_changed_atomically) {
    channel_world w;
    auto theirs = w.server.allocate(65536);
    auto ours = w.client.allocate(65536);
    const auto window = w.run(w.server.expose(theirs, 4096, 32768, everything));
    const auto told = rdma::remote_region::from_wire(window.region().to_wire());
    BOOST_REQUIRE(told.has_value());
    for (std::size_t i = 0; i < 30000; ++i) ours.data()[i] = static_cast<std::byte>(i * 13);
    BOOST_TEST((w.run(failure_of(w.client.write(ours.at(0, 30000), *told, 8))) == std::errc{}));
    BOOST_TEST(std::memcmp(theirs.data() + 4096 + 8, ours.data(), 30000) == 0);
    BOOST_TEST((w.run(failure_of(w.client.read(ours.at(32768, 30000), *told, 8))) == std::errc{}));
    BOOST_TEST(std::memcmp(ours.data() + 32768, ours.data(), 30000) == 0);

    const std::uint64_t forty = 40;
    std::memcpy(theirs.data() + 4096, &forty, 8);
    BOOST_TEST(w.run(value_of(w.client.fetch_and_add(*told, 0, 2))) == 40u);
    BOOST_TEST(w.run(value_of(w.client.compare_and_swap(*told, 0, 41, 7))) == 42u); // not what was expected: unchanged
    BOOST_TEST(w.run(value_of(w.client.compare_and_swap(*told, 0, 42, 7))) == 42u);
    BOOST_TEST(w.run(value_of(w.client.fetch_and_add(*told, 0, 0))) == 7u);

    BOOST_TEST((w.run(failure_of(w.client.write_with_immediate(ours.at(0, 100), *told, 1000, 0xc0ffee))) == std::errc{}));
    std::vector<rdma::message> kept;
    w.run(keep(w.server, kept, 1));
    BOOST_TEST(kept[0].is_write());
    BOOST_TEST(kept[0].immediate() == 0xc0ffeeu);
    BOOST_TEST(kept[0].size() == 100u);
    BOOST_TEST(std::memcmp(theirs.data() + 4096 + 1000, ours.data(), 100) == 0);

    // Out of the region: refused here, and the channel goes on.
    BOOST_TEST((w.run(failure_of(w.client.write(ours.at(0, 100), *told, 32700))) == std::errc::result_out_of_range));
    BOOST_TEST((w.run(failure_of(w.client.read(ours.at(0, 8), *told, ~std::uint64_t{0}))) == std::errc::result_out_of_range));
    w.run(send_some(w.client, 1));
}

BOOST_AUTO_TEST_CASE(a_large_message_goes_from_registered_memory_without_a_copy) {
    rdma::rc_options large;
    large.message_size = 65536;
    large.receive_depth = 4;
    large.large_messages = 0;
    rdma::rc_options buffers_only;
    buffers_only.large_messages = 0;
    channel_world w(buffers_only, large);
    BOOST_TEST(w.client.largest_message() == 65536u);
    auto ours = w.client.allocate(65536);
    for (std::size_t i = 0; i < 65536; ++i) ours.data()[i] = static_cast<std::byte>(i >> 3);
    BOOST_TEST((w.run(failure_of(w.client.send_in_place(ours.all()))) == std::errc{}));
    std::vector<rdma::message> kept;
    w.run(keep(w.server, kept, 1));
    BOOST_REQUIRE(kept[0].size() == 65536u);
    BOOST_TEST(std::memcmp(kept[0].bytes().data(), ours.data(), 65536) == 0);
    BOOST_TEST((w.run(failure_of(w.server.send_in_place(w.server.allocate(4097).all()))) == std::errc::message_size));
    kept.clear();
}

BOOST_AUTO_TEST_CASE(more_reads_than_the_peer_serves_stand_in_line) {
    rdma::rc_options two;
    two.reads = 2;
    channel_world w(two, two);
    auto theirs = w.server.allocate(4096);
    auto ours = w.client.allocate(4096);
    const auto window = w.run(w.server.expose(theirs, 0, 4096, everything));
    std::vector<task<std::errc>> reads;
    for (unsigned i = 0; i < 16; ++i) reads.push_back(read_some(w.client, ours.at(i * 64, 64), window.region(), i * 64));
    for (const std::errc e : w.run(when_all(std::move(reads)))) BOOST_TEST((e == std::errc{}));
    BOOST_TEST(w.client.statistics().waits_for_reads > 0u);
}

BOOST_AUTO_TEST_CASE(a_goodbye_is_an_end_behind_all_that_was_sent) {
    channel_world w;
    w.run(send_some(w.client, 3));
    w.run(w.client.close());
    std::vector<rdma::message> kept;
    w.run(keep(w.server, kept, 3));
    BOOST_TEST(text_of(kept[2].bytes()) == "2");
    BOOST_TEST(!w.run(next_of(w.server)).has_value());
    BOOST_TEST((w.run(failure_of(w.server.send(bytes_of("late")))) == std::errc::broken_pipe));
    w.run(w.server.close());
    BOOST_TEST(text_of(kept[1].bytes()) == "1"); // messages outlive their channel
    w.server = {};
    BOOST_TEST(text_of(kept[1].bytes()) == "1");
}

BOOST_AUTO_TEST_CASE(an_end_that_goes_at_the_goodbye_still_acknowledges_it) {
    for (int i = 0; i < 20; ++i) {
        channel_world w;
        const auto leave_at_goodbye = [](rdma::rc_channel peer) -> task<> {
            while (auto m = co_await peer.receive()) {}
        };
        w.r.root_group().spawn(leave_at_goodbye(std::move(w.server)));
        w.run(send_some(w.client, 2));
        BOOST_TEST((w.run(failure_of(w.client.close())) == std::errc{}));
        w.until([&] { return w.r.root_group().size() == 0; });
    }
}

BOOST_AUTO_TEST_CASE(both_ends_may_close_at_once) {
    channel_world w;
    w.run(both(w.client.close(), w.server.close()));
    BOOST_TEST(!w.run(next_of(w.client)).has_value());
    BOOST_TEST(!w.run(next_of(w.server)).has_value());
}

BOOST_AUTO_TEST_CASE(a_channel_may_be_aborted_or_go_while_close_waits) {
    for (const bool goes : {false, true}) {
        channel_world w;
        w.silence(w.server.connection().pair());
        std::errc how{};
        w.run(both(close_fails(w.client, how), leave(w.client, goes)));
        BOOST_TEST((how == std::errc::operation_canceled));
    }
}

BOOST_AUTO_TEST_CASE(an_end_that_leaves_without_a_goodbye_resets_its_peer) {
    channel_world w;
    auto waiting = end_of(w.server);
    w.client.abort();
    BOOST_TEST((w.run(std::move(waiting)) == std::errc::connection_reset));
    BOOST_TEST((w.run(failure_of(w.server.send(bytes_of("x")))) == std::errc::connection_reset));
}

BOOST_AUTO_TEST_CASE(a_peer_whose_device_acknowledges_no_more_is_noticed_at_either_end) {
    rdma::rc_options soon;
    soon.silence = 1s;
    for (const bool of_client : {true, false}) {
        channel_world w(soon, soon);
        rdma::rc_channel& here = of_client ? w.client : w.server;
        const rdma::rc_channel& there = of_client ? w.server : w.client;
        w.silence(there.connection().pair());
        BOOST_TEST((w.run(failure_of(here.receive(w.within(50ms)))) == std::errc::timed_out));
        BOOST_TEST((here.connection().phase() == rdma::rc_connection::state::open)); // who sends nothing hears of nothing
        w.run(send_some(here, 1));
        BOOST_TEST((w.run(failure_of(here.close())) == std::errc::timed_out));
        BOOST_TEST((here.connection().why() == std::errc::timed_out));
    }
}

BOOST_AUTO_TEST_CASE(who_only_receives_notices_a_peer_that_has_lost_its_power_and_leaves_a_quiet_one_alone) {
    rdma::rc_options soon;
    soon.silence = 300ms;
    channel_world w(soon, soon);
    BOOST_TEST((w.run(failure_of(w.server.receive(w.within(1s)))) == std::errc::timed_out)); // by its deadline
    BOOST_TEST(w.server.statistics().keepalives >= 2u);
    BOOST_TEST(w.server.statistics().keepalives <= 4u);
    BOOST_TEST((w.server.connection().phase() == rdma::rc_connection::state::open));
    w.run(send_some(w.client, 1));
    BOOST_TEST(text_of(w.run(next_of(w.server))->bytes()) == "0");
    w.silence(w.client.connection().pair());
    BOOST_TEST((w.run(failure_of(w.server.receive(w.within(20s)))) == std::errc::timed_out));
    BOOST_TEST((w.server.connection().phase() == rdma::rc_connection::state::broken)); // and not by its deadline
    BOOST_TEST((w.server.connection().why() == std::errc::timed_out));
}

BOOST_AUTO_TEST_CASE(waits_end_by_deadline_by_stop_and_with_the_channel) {
    channel_world w;
    BOOST_TEST((w.run(failure_of(w.client.receive(w.within(20ms)))) == std::errc::timed_out));
    stop_source stop;
    stop.request_stop();
    BOOST_TEST((w.run(failure_of(w.client.receive({.stop = stop.token()}))) == std::errc::operation_canceled));
    w.r.root_group().spawn(expect_cancelled(w.client));
    w.client = {};
    w.until([&] { return w.r.root_group().size() == 0; });
    BOOST_TEST(w.r.root_group().failed() == 0u);
}

BOOST_AUTO_TEST_CASE(a_key_of_a_closed_channel_or_of_another_one_opens_nothing) {
    channel_world w;
    auto theirs = w.server.allocate(4096);
    auto window = w.run(w.server.expose(theirs, 0, 4096, everything));
    const rdma::remote_region told = window.region();

    // Another peer that has heard of the key: its own connection ends, and nothing is written.
    auto second = w.run(w.dial());
    const auto second_server = w.run(w.listening.accept());
    auto ours = second.allocate(64);
    ours.data()[0] = std::byte{0x55};
    BOOST_TEST((w.run(failure_of(second.write(ours.at(0, 64), told))) == std::errc::permission_denied));
    BOOST_TEST((theirs.data()[0] == std::byte{0}));
    w.run(send_some(w.client, 1)); // whom it was told goes on

    // Withdrawn: the peer's writes are refused.
    window = {};
    auto more = w.client.allocate(64);
    BOOST_TEST((w.run(failure_of(w.client.write(more.at(0, 64), told))) == std::errc::permission_denied));
    BOOST_TEST((w.run(failure_of(w.client.send(bytes_of("x")))) != std::errc{}));

    // Closed, with what it exposed still in hand: neither its peer nor another one gets in.
    auto third = w.run(w.dial());
    auto third_server = w.run(w.listening.accept());
    const auto kept = w.run(third_server.expose(theirs, 0, 4096, everything));
    auto last = third.allocate(64);
    last.data()[0] = std::byte{0x66};
    BOOST_TEST((w.run(failure_of(third.write(last.at(0, 64), kept.region(), 64))) == std::errc{}));
    BOOST_TEST((theirs.data()[64] == std::byte{0x66}));
    w.run(third_server.close());
    BOOST_TEST((w.run(failure_of(third.write(last.at(0, 64), kept.region()))) != std::errc{}));
    auto fourth = w.run(w.dial());
    const auto fourth_server = w.run(w.listening.accept());
    BOOST_TEST((w.run(failure_of(fourth.write(last.at(0, 64), kept.region()))) == std::errc::permission_denied));
    BOOST_TEST((theirs.data()[0] == std::byte{0}));
}

BOOST_AUTO_TEST_CASE(what_is_exposed_and_cut_short_is_bound_once_and_gone_without_harm) {
    channel_world w;
    auto theirs = w.server.allocate(4096);
    stop_source stop;
    stop.request_stop();
    BOOST_TEST((w.run(failure_of(w.server.expose(theirs, 0, 4096, everything, {.stop = stop.token()}))) == std::errc::operation_canceled));
    { // its coroutine goes while the work request waits for the end of the turn
        const auto cut = w.server.expose(theirs, 0, 4096, everything);
        cut.handle().resume();
    }
    w.run(send_some(w.server, 1)); // posted behind both
    BOOST_TEST(text_of(w.run(next_of(w.client))->bytes()) == "0");
    const auto window = w.run(w.server.expose(theirs, 0, 4096, everything));
    auto ours = w.client.allocate(64);
    BOOST_TEST((w.run(failure_of(w.client.write(ours.at(0, 64), window.region()))) == std::errc{}));
}

BOOST_AUTO_TEST_CASE(what_is_exposed_may_outlive_its_channel_and_opens_nothing_more) {
    channel_world w;
    auto theirs = w.server.allocate(4096);
    auto window = w.run(w.server.expose(theirs, 0, 4096, everything));
    auto bound = w.server.expose(theirs, 0, 64, everything);
    bound.handle().resume(); // under way when the channel goes
    theirs = {};
    w.server = {};
    BOOST_TEST((w.run(end_of(w.client)) == std::errc::connection_reset));
    BOOST_TEST((w.run(failure_of(std::move(bound))) == std::errc::operation_canceled));
    window = {};
}

BOOST_AUTO_TEST_CASE(a_channel_that_was_moved_from_is_a_bad_descriptor) {
    channel_world w;
    auto memory = w.client.allocate(64);
    rdma::rc_channel moved = std::move(w.client);
    rdma::rc_channel& empty = w.client;
    const auto is_bad = [](const std::system_error& e) { return e.code() == std::errc::bad_file_descriptor; };
    BOOST_TEST(!empty);
    for (const std::errc how : {w.run(failure_of(empty.send(bytes_of("x")))), w.run(failure_of(empty.send_in_place(memory.all()))),
                                w.run(failure_of(empty.receive())), w.run(failure_of(empty.write(memory.all(), {0, 64, 0}))),
                                w.run(failure_of(empty.fetch_and_add({0, 64, 0}, 0, 1))),
                                w.run(failure_of(empty.expose(memory, 0, 64, everything)))})
        BOOST_TEST((how == std::errc::bad_file_descriptor));
    BOOST_TEST((w.run(failure_of(empty.close())) == std::errc{}));
    BOOST_CHECK_EXCEPTION(empty.allocate(64), std::system_error, is_bad);
    BOOST_CHECK_EXCEPTION(empty.largest_message(), std::system_error, is_bad);
    BOOST_CHECK_EXCEPTION(empty.peer_address(), std::system_error, is_bad);
    BOOST_CHECK_EXCEPTION(empty.statistics(), std::system_error, is_bad);
    w.client = std::move(moved);
    w.run(send_some(w.client, 1));
}

BOOST_AUTO_TEST_CASE(a_connection_that_nobody_takes_is_refused) {
    channel_world w;
    BOOST_TEST((w.run(failure_of(w.dial(9))) == std::errc::connection_refused));
}

BOOST_AUTO_TEST_CASE(a_full_backlog_refuses_and_makes_room_again) {
    rdma::rc_options one;
    one.accept_backlog = 1;
    channel_world w({}, one);
    auto first = w.run(w.dial());
    BOOST_TEST((w.run(failure_of(w.dial())) == std::errc::connection_refused));
    BOOST_TEST(w.listening.statistics().rejected_full == 1u);
    auto taken = w.run(w.listening.accept());
    auto third = w.run(w.dial());
    BOOST_TEST(static_cast<bool>(third));
}

BOOST_AUTO_TEST_SUITE_END()
