// rdma::ud_socket on two fake NICs and a virtual clock: what errors do to it, and datagrams that outlive it. On rdma_rxe it has
// tests/vm/guest/ud_socket_test.cc.
// ctest: timeout=60
#include <corewire/rdma/channel/ud_socket.hh>

#include "tests/rdma/datagram_end.hh"
#include "tests/rdma/ends.hh"
#include "tests/rdma/fake_fabric.hh"
#include "tests/rdma/in_real_time.hh"
#include "tests/rdma/support.hh"

using namespace corewire;
using namespace corewire::test;

namespace {

struct datagram_world : fake_fabric {
    explicit datagram_world(const rdma::ud_options& options = {})
        : here(loop()), in({.verbs = &fake::api(), .cm = &fake::cm()}), a(rdma::ud_socket::bind(in, address_of_client, options)),
          b(rdma::ud_socket::bind(in, address_of_server, options)) {}
    template <typename T>
    T run(task<T> work) {
        task<T> bounded = with_deadline(std::move(work), {.deadline = loop().read_clock() + std::chrono::seconds{30}});
        const auto frame = bounded.handle();
        frame.resume();
        while (!frame.done()) turn();
        return frame.promise().take();
    }
    void turns(int n) {
        while (n-- > 0) turn();
    }
    reactor::scope here;
    rdma::context in;
    rdma::ud_socket a, b;

private:
    std::size_t calls_under_way() override { return in.waits().under_way(); }
};

task<std::string> pass(rdma::ud_socket& from, rdma::ud_socket& to, std::string what) {
    co_await from.send_to(bytes_of(what), to.local_address());
    const auto got = co_await to.receive_from();
    co_return text_of(got.bytes());
}

task<std::string> pass(rdma::rc_channel& from, rdma::rc_channel& to, std::string what) {
    co_await from.send(bytes_of(what));
    const auto got = co_await to.receive();
    co_return got ? text_of(got->bytes()) : "a goodbye";
}

task<> connect(rdma::context& in, rdma::listener& to, rdma::rc_channel& client, rdma::rc_channel& server) {
    rdma::connector ours(in);
    auto accepted = to.accept();
    auto made = ours.connect({address_of_server, to.port()}, {}, {address_of_client, 0});
    auto [b, a] = co_await when_all(std::move(accepted), std::move(made));
    server = std::move(b);
    client = std::move(a);
}

task<> send_some(rdma::ud_socket& from, rdma::ud_address to, int count) {
    for (int i = 0; i < count; ++i) co_await from.send_to(bytes_of(std::to_string(i)), to);
}

task<rdma::ud_datagram> next_of(rdma::ud_socket& at) {
    auto got = co_await at.receive_from();
    co_return got;
}

const net_address the_group = ipv4(239, 1, 2, 3);

task<> send_to_group(rdma::ud_socket& from, std::string what) {
    co_await from.send_to(bytes_of(what), rdma::ud_address::of_group(the_group));
}

bool is_bad_descriptor(const std::system_error& e) { return e.code() == std::errc::bad_file_descriptor; }

} // namespace

BOOST_AUTO_TEST_SUITE(ud_socket)

BOOST_AUTO_TEST_CASE(datagrams_arrive_and_more_than_the_send_queue_holds_wait_for_room) {
    rdma::ud_options few;
    few.send_depth = 4;
    datagram_world w(few);
    for (const std::size_t size : {0u, 1u, 128u, 129u, 1024u}) {
        const std::string text(size, 'd');
        BOOST_TEST(w.run(pass(w.a, w.b, text)) == text);
    }
    BOOST_TEST(w.a.statistics().handles_made == 1u);
    w.run(send_some(w.a, w.b.local_address(), 100));
    BOOST_TEST(w.a.statistics().waits_for_room > 0u);
    for (int i = 0; i < 100; ++i) BOOST_TEST(text_of(w.run(next_of(w.b)).bytes()) == std::to_string(i));
}

BOOST_AUTO_TEST_CASE(a_send_that_fails_is_lost_and_the_socket_goes_on) {
    datagram_world w;
    BOOST_TEST(w.run(pass(w.a, w.b, "before")) == "before");
    w.run(send_some(w.b, w.a.local_address(), 2));
    const auto kept = w.run(next_of(w.a)); // one is held by the program, one waits: neither buffer goes to the device again
    w.first().fail_sends(IBV_WC_LOC_QP_OP_ERR);
    w.run(send_some(w.a, w.b.local_address(), 20)); // the first fails, what is behind it is flushed
    w.turns(5);
    BOOST_TEST(w.a.statistics().failed_sends > 0u);
    BOOST_TEST(w.a.statistics().restarts == 1u);
    BOOST_TEST(text_of(kept.bytes()) == "0");
    BOOST_TEST(text_of(w.run(next_of(w.a)).bytes()) == "1");
    BOOST_TEST(w.run(pass(w.a, w.b, "after")) == "after");
    for (int i = 0; i < 600; ++i) BOOST_TEST(w.run(pass(w.b, w.a, std::to_string(i))) == std::to_string(i)); // each buffer, twice
    BOOST_TEST(text_of(kept.bytes()) == "0");
}

BOOST_AUTO_TEST_CASE(a_receive_that_fails_is_lost_and_the_socket_goes_on) {
    datagram_world w;
    w.second().fail_receives(IBV_WC_LOC_PROT_ERR);
    w.run(send_some(w.a, w.b.local_address(), 1));
    w.turns(5);
    BOOST_TEST(w.b.statistics().restarts == 1u);
    for (int i = 0; i < 300; ++i) BOOST_TEST(w.run(pass(w.a, w.b, std::to_string(i))) == std::to_string(i));
}

BOOST_AUTO_TEST_CASE(a_datagram_without_a_header_is_dropped_and_counted_and_its_buffer_serves_again) {
    rdma::ud_options few;
    few.receive_depth = 8;
    datagram_world w(few);
    auto neighbour = rdma::ud_socket::bind(w.in, address_of_server);
    std::uint64_t dropped = 0;
    for (const bool told : {true, false})
        for (int round = 0; round < 10; ++round) {
            w.second().spoil_headers(5, told);
            w.run(send_some(w.a, w.b.local_address(), 5));
            w.turns(5);
            dropped += 5;
            BOOST_TEST(w.b.statistics().malformed == dropped);
            BOOST_TEST(w.run(pass(w.a, w.b, "whole")) == "whole");
            BOOST_TEST(w.run(pass(w.a, neighbour, "beside")) == "beside");
        }
    BOOST_TEST(w.b.statistics().received == 20u);
    BOOST_TEST(w.b.statistics().restarts == 0u);
    BOOST_TEST(neighbour.statistics().malformed == 0u);
}

BOOST_AUTO_TEST_CASE(a_flood_at_one_socket_costs_its_own_datagrams_and_no_neighbours) {
    rdma::ud_options few;
    few.receive_depth = 8;
    datagram_world w(few);
    auto near = rdma::ud_socket::bind(w.in, address_of_client, few);
    auto far = rdma::ud_socket::bind(w.in, address_of_server, few); // on the flooded device
    auto listening = rdma::listener::bind(w.in, {address_of_server, 0});
    rdma::rc_channel client, server;
    w.run(connect(w.in, listening, client, server));
    datagram_end stranger("fake_c", ipv4(192, 0, 2, 3));
    const rdma::ud_address victim = w.b.local_address();
    const verbs::address_handle way = stranger.way_to(victim.gid);
    unsigned sent = 0;
    const auto pour = [&](std::uint32_t with) {
        for (int i = 0; i < 15; ++i) BOOST_TEST(stranger.send(way, victim.queue_pair, 900, with) == 0);
        for (const ibv_wc& each : stranger.poll()) BOOST_TEST(each.status == IBV_WC_SUCCESS);
        sent += 15;
    };
    const auto others_go_on = [&](int round) {
        const std::string text = std::to_string(round);
        BOOST_TEST(w.run(pass(near, far, text)) == text);
        BOOST_TEST(w.run(pass(client, server, text)) == text);
    };
    for (int round = 0; round < 100; ++round) { // nobody receives
        pour(victim.key);
        others_go_on(round);
    }
    BOOST_TEST(w.b.statistics().received == 8u); // all that it has buffers for
    BOOST_TEST(w.second().statistics().no_receive == sent - 8);
    for (int i = 0; i < 8; ++i) BOOST_TEST(w.run(next_of(w.b)).from().queue_pair == stranger.pair.number());
    w.turns(2);
    for (int round = 0; round < 100; ++round) { // somebody does, and gets what it can
        pour(victim.key);
        for (int i = 0; i < 8; ++i) BOOST_TEST(w.run(next_of(w.b)).bytes().size() == 900u);
        others_go_on(round);
    }
    const auto before = w.b.statistics().received;
    for (int round = 0; round < 10; ++round) pour(victim.key + 1); // the device knows better
    w.turns(5);
    BOOST_TEST(w.b.statistics().received == before);
    BOOST_TEST(w.run(pass(w.a, w.b, "after")) == "after");
    for (const rdma::ud_socket* each : {&w.b, &near, &far}) {
        BOOST_TEST(each->statistics().restarts == 0u);
        BOOST_TEST(each->statistics().malformed == 0u);
    }
    BOOST_TEST((server.connection().phase() == rdma::rc_connection::state::open));
}

BOOST_AUTO_TEST_CASE(errors_without_end_end_it) {
    datagram_world w;
    int sent = 0;
    for (; sent < 100; ++sent) {
        w.first().fail_sends(IBV_WC_LOC_QP_OP_ERR);
        if (w.run(failure_of(w.a.send_to(bytes_of("x"), w.b.local_address()))) != std::errc{}) break;
        w.turns(5);
    }
    BOOST_TEST(w.a.statistics().restarts == 16u);
    BOOST_TEST((w.run(failure_of(w.a.receive_from())) == std::errc::io_error));
    BOOST_TEST(sent == 17);
}

BOOST_AUTO_TEST_CASE(who_has_been_given_a_datagram_keeps_it_though_the_socket_goes_in_the_same_turn) {
    datagram_world w;
    auto waiting = next_of(w.b);
    waiting.handle().resume();
    auto cut = std::optional(next_of(w.b)); // given one as well, and destroyed before it runs
    cut->handle().resume();
    w.run(send_some(w.a, w.b.local_address(), 2));
    poller& first = w.in.adapter_for(address_of_client);
    poller& second = w.in.adapter_for(address_of_server);
    static_cast<void>(first.flush(w.loop().now()));
    static_cast<void>(second.poll(w.loop().now()));
    { const rdma::ud_socket gone = std::move(w.b); }
    cut.reset();
    w.turns(2);
    BOOST_REQUIRE(waiting.done());
    const auto got = waiting.handle().promise().take();
    BOOST_TEST(text_of(got.bytes()) == "0");
}

BOOST_AUTO_TEST_CASE(waits_end_with_the_socket) {
    datagram_world w;
    auto waiting = end_of(w.b);
    waiting.handle().resume();
    { const rdma::ud_socket gone = std::move(w.b); }
    w.turns(2);
    BOOST_REQUIRE(waiting.done());
    BOOST_TEST((waiting.handle().promise().take() == std::errc::operation_canceled));
}

// ---- groups ----

BOOST_AUTO_TEST_CASE(a_group_is_heard_by_each_that_has_joined_it_until_it_leaves) {
    datagram_world w;
    rdma::ud_socket c = rdma::ud_socket::bind(w.in, address_of_server);
    const auto group = rdma::ud_address::of_group(the_group);
    {
        const rdma::joined_group one = w.b.join(the_group);
        const rdma::joined_group two = c.join(the_group);
        w.run(send_to_group(w.a, "to all"));
        for (rdma::ud_socket* each : {&w.b, &c}) {
            const auto got = w.run(next_of(*each));
            BOOST_TEST(text_of(got.bytes()) == "to all");
            BOOST_TEST(got.from().queue_pair == w.a.local_address().queue_pair);
        }
    }
    w.run(send_some(w.a, group, 1));
    w.run(send_some(w.a, w.b.local_address(), 2));
    w.run(send_some(w.a, c.local_address(), 2));
    for (rdma::ud_socket* each : {&w.b, &c})
        for (const char* text : {"0", "1"}) BOOST_TEST(text_of(w.run(next_of(*each)).bytes()) == text); // and nothing before
    BOOST_TEST(w.first().statistics().datagrams_lost == 1u);
}

BOOST_AUTO_TEST_CASE(a_group_joined_twice_is_heard_once_and_until_the_last_one_leaves) {
    datagram_world w;
    auto one = w.b.join(the_group);
    const auto two = w.b.join(the_group);
    one = {};
    w.run(send_to_group(w.a, "once"));
    BOOST_TEST(text_of(w.run(next_of(w.b)).bytes()) == "once");
    BOOST_TEST(w.run(pass(w.a, w.b, "next")) == "next");
}

BOOST_AUTO_TEST_CASE(a_joined_group_may_outlive_its_socket) {
    datagram_world w;
    auto kept = w.b.join(the_group);
    const auto before = w.second().live_objects();
    { const rdma::ud_socket gone = std::move(w.b); }
    BOOST_TEST(w.second().live_objects() < before); // the queue pair has gone
    w.run(send_to_group(w.a, "to nobody"));
    w.turns(5);
    BOOST_TEST(w.first().statistics().datagrams_lost == 1u);
    auto moved = std::move(kept);
    moved = {};
}

BOOST_AUTO_TEST_CASE(a_socket_whose_device_has_gone_may_be_destroyed_before_or_after_its_group) {
    for (const bool socket_first : {true, false}) {
        datagram_world w;
        std::optional<rdma::joined_group> kept = w.b.join(the_group);
        w.second().remove();
        w.turns(5);
        BOOST_TEST((w.run(failure_of(w.b.receive_from())) == std::errc::no_such_device));
        BOOST_CHECK_THROW(w.b.join(the_group), std::system_error);
        if (socket_first) {
            const rdma::ud_socket gone = std::move(w.b);
        }
        kept.reset();
    }
}

BOOST_AUTO_TEST_CASE(a_socket_that_was_started_again_hears_its_groups_still) {
    datagram_world w;
    const auto member = w.b.join(the_group);
    w.second().fail_receives(IBV_WC_LOC_PROT_ERR);
    w.run(send_some(w.a, w.b.local_address(), 1));
    w.turns(5);
    BOOST_TEST(w.b.statistics().restarts == 1u);
    w.run(send_to_group(w.a, "after"));
    BOOST_TEST(text_of(w.run(next_of(w.b)).bytes()) == "after");
}

BOOST_AUTO_TEST_CASE(a_group_that_cannot_be_joined_says_why) {
    datagram_world w;
    w.second().fail_calls("attach_mcast", ENOMEM);
    const std::string full = sentence_of([&] { static_cast<void>(w.b.join(the_group)); });
    BOOST_TEST(mentions(full, "239.1.2.3"));
    BOOST_TEST(mentions(full, "attach queue pair"));
    const auto member = w.b.join(the_group); // nothing of the first one is left
    w.run(send_to_group(w.a, "heard"));
    BOOST_TEST(text_of(w.run(next_of(w.b)).bytes()) == "heard");
    BOOST_TEST(mentions(sentence_of([&] { static_cast<void>(w.b.join(address_of_client)); }), "no group"));
    BOOST_TEST(mentions(sentence_of([&] { static_cast<void>(w.b.join(*ipv6::parse("ff0e::1"))); }), "families"));
}

// ---- where it stands ----

BOOST_AUTO_TEST_CASE(the_port_is_the_one_that_rdma_cm_names) {
    datagram_world w;
    verbs::cm_api by_second_port = fake::cm();
    by_second_port.bind_addr = [](rdma_cm_id* id, sockaddr* at) {
        const int how = fake::cm().bind_addr(id, at);
        id->port_num = 2;
        return how;
    };
    rdma::context in({.verbs = &fake::api(), .cm = &by_second_port});
    const std::string said = sentence_of([&] { static_cast<void>(rdma::ud_socket::bind(in, address_of_client)); });
    BOOST_TEST(mentions(said, "port 2")); // which the fake has not
}

BOOST_AUTO_TEST_CASE(an_infiniband_port_is_refused_with_a_sentence) {
    const ipv4 another(192, 0, 2, 77);
    const fake::nic other({.name = "fake_ib", .addresses = {another}, .ethernet = false});
    datagram_world w;
    const std::string said = sentence_of([&] { static_cast<void>(rdma::ud_socket::bind(w.in, another)); });
    BOOST_TEST(mentions(said, "InfiniBand"));
    BOOST_TEST(mentions(said, "192.0.2.77"));
}

BOOST_AUTO_TEST_CASE(a_socket_that_was_moved_from_is_a_bad_descriptor) {
    datagram_world w;
    const rdma::ud_address there = w.b.local_address();
    const rdma::ud_socket moved = std::move(w.a);
    rdma::ud_socket& empty = w.a;
    BOOST_TEST(!empty);
    BOOST_TEST((w.run(failure_of(empty.send_to(bytes_of("x"), there))) == std::errc::bad_file_descriptor));
    BOOST_TEST((w.run(failure_of(empty.receive_from())) == std::errc::bad_file_descriptor));
    BOOST_CHECK_EXCEPTION(empty.join(the_group), std::system_error, is_bad_descriptor);
    BOOST_CHECK_EXCEPTION(empty.local_address(), std::system_error, is_bad_descriptor);
    BOOST_CHECK_EXCEPTION(empty.largest_datagram(), std::system_error, is_bad_descriptor);
    BOOST_CHECK_EXCEPTION(empty.statistics(), std::system_error, is_bad_descriptor);
}

// ---- ways that nobody answers for ----

namespace {

rdma::ud_address nobody(std::uint8_t number) {
    rdma::ud_address a;
    a.gid.raw[10] = a.gid.raw[11] = 0xff;
    a.gid.raw[12] = 192, a.gid.raw[14] = 2, a.gid.raw[15] = number;
    a.queue_pair = 77;
    return a;
}

task<std::string> sentence_of_sending(rdma::ud_socket& from, rdma::ud_address to, wait_limits limits = {}) {
    try {
        co_await from.send_to(bytes_of("x"), to, limits);
    } catch (const std::system_error& e) {
        co_return e.what();
    }
    co_return "none";
}

} // namespace

BOOST_AUTO_TEST_CASE(a_destination_that_nobody_answers_for_holds_up_no_other_one_and_is_not_asked_for_again_at_once) {
    datagram_world w;
    const ways_let_go at_last{w.first()};
    BOOST_TEST(w.run(pass(w.a, w.b, "before")) == "before");
    std::vector<task<std::string>> vain;
    for (std::uint8_t i = 100; i < 106; ++i) {
        w.first().hold_way_to(nobody(i).gid);
        vain.push_back(sentence_of_sending(w.a, nobody(i)));
        vain.back().handle().resume();
    }
    auto second = sentence_of_sending(w.a, nobody(100)); // behind the first to it
    second.handle().resume();
    const wait_limits soon{.deadline = w.loop().read_clock() + std::chrono::milliseconds{1}};
    BOOST_TEST((w.run(failure_of(w.a.send_to(bytes_of("x"), nobody(105), soon))) == std::errc::timed_out));
    in_real_time([&] { w.turn(); }, [&] { return w.first().ways_awaited() == 4; });
    for (int i = 0; i < 50; ++i) BOOST_TEST(w.run(pass(w.a, w.b, std::to_string(i))) == std::to_string(i));
    BOOST_TEST(w.first().ways_awaited() == 4u);
    BOOST_TEST(w.a.statistics().waits_for_way == 8u);

    w.first().release_ways(ETIMEDOUT); // and the two that had to stand back are not held any more
    in_real_time([&] { w.turn(); }, [&] { return std::ranges::all_of(vain, [](auto& t) { return t.done(); }) && second.done(); });
    for (std::size_t i = 0; i < vain.size(); ++i) {
        const std::string sentence = vain[i].handle().promise().take();
        if (i < 4) BOOST_TEST(sentence.find("does it answer `ping`?") != std::string::npos, sentence);
        else BOOST_TEST(sentence == "none");
    }
    BOOST_TEST(second.handle().promise().take() != "none");
    w.first().hold_way_to(nobody(100).gid);
    BOOST_TEST(w.run(sentence_of_sending(w.a, nobody(100))).find("::ffff:192.0.2.100") != std::string::npos); // remembered
    BOOST_TEST(w.first().ways_awaited() == 0u);
    BOOST_TEST(w.a.statistics().unreachable == 4u);
}

BOOST_AUTO_TEST_CASE(a_socket_may_go_while_a_way_is_looked_for) {
    datagram_world w;
    const ways_let_go at_last{w.first()};
    const unsigned before = w.first().live_objects();
    w.first().hold_way_to(nobody(100).gid);
    auto vain = sentence_of_sending(w.a, nobody(100));
    vain.handle().resume();
    in_real_time([&] { w.turn(); }, [&] { return w.first().ways_awaited() == 1; });
    { const rdma::ud_socket gone = std::move(w.a); }
    w.turns(2);
    BOOST_REQUIRE(vain.done());
    BOOST_TEST(vain.handle().promise().take().find("canceled") != std::string::npos);
    w.first().release_ways(0);
    in_real_time([&] { w.turn(); }, [&] { return w.in.waits().under_way() == 0; });
    BOOST_TEST(w.first().live_objects() < before);
    w.a = rdma::ud_socket::bind(w.in, address_of_client);
    BOOST_TEST(w.run(pass(w.a, w.b, "again")) == "again");
}

BOOST_AUTO_TEST_SUITE_END()
