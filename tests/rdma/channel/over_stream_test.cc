// Channels without rdma_cm, on two fake NICs and a virtual clock: who makes sense on the stream gets one, everybody else a sentence.
#include <corewire/reactor/task/as_result.hh>
#include <corewire/reactor/task/sleep.hh>

#include "tests/rdma/channel_world.hh"
#include "tests/rdma/fake_fabric.hh"
#include "tests/rdma/in_real_time.hh"

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

using stream_world = basic_channel_world<fake_fabric, over_streams>;
using rdma::rc_frame;
using rdma::rc_introduction;
using kind = rc_frame::kind;

struct pair_of_streams {
    tcp_stream client, server;
};

task<pair_of_streams> streams(over_streams& way) {
    tcp_listener listener = way.listen();
    pair_of_streams both;
    both.client = co_await way.stream_to(listener.local_address().port);
    both.server = co_await listener.accept();
    co_return both;
}

/// What connecting gives: the sentence and the code, or a channel.
struct made {
    rdma::rc_channel channel;
    std::string sentence;
    std::errc code{};
};

task<made> outcome(task<rdma::rc_channel> work) {
    made out;
    try {
        out.channel = co_await std::move(work);
    } catch (const std::system_error& e) {
        out.sentence = e.what();
        out.code = static_cast<std::errc>(e.code().value());
    }
    co_return out;
}

bool mentions(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

rc_introduction plausible() {
    rc_introduction i;
    i.end.queue_pair = 0x1234;
    i.end.gid.raw[10] = i.end.gid.raw[11] = 0xff;
    i.end.gid.raw[12] = 192, i.end.gid.raw[14] = 2, i.end.gid.raw[15] = 1;
    i.reads_as_responder = i.reads_as_initiator = 1;
    i.hello = {64, 4096, 1u << 20, 4};
    return i;
}

std::vector<std::byte> frame_of(kind what, byte_span body, std::uint16_t version = rc_frame::version) {
    const auto head = rc_frame{what, static_cast<std::uint8_t>(body.size()), version}.to_wire();
    std::vector<std::byte> out(head.begin(), head.end());
    out.insert(out.end(), body.begin(), body.end());
    return out;
}

std::vector<std::byte> introduced(const rc_introduction& i) { return frame_of(kind::introduction, i.to_wire()); }

/// Says `bytes`, and hears what comes until the end.
task<std::string> say_and_hear(tcp_stream stream, std::vector<std::byte> bytes) {
    co_await stream.write(byte_span(bytes));
    std::string heard;
    for (;;) {
        const auto more = co_await as_result(stream.read());
        if (!more || !*more) break;
        heard.append(reinterpret_cast<const char*>(more->data()), more->size());
    }
    co_return heard;
}

task<std::pair<made, made>> connected(stream_world& w, rdma::over_options of_client, rdma::over_options of_server) {
    auto both = co_await streams(w.way);
    auto [client, server] = co_await when_all(outcome(rdma::connect_over(w.in, std::move(both.client), of_client)),
                                              outcome(rdma::accept_over(w.in, std::move(both.server), of_server)));
    std::pair<made, made> ends{std::move(client), std::move(server)};
    co_return ends;
}

struct answer {
    made end;
    std::string heard; ///< by who spoke
};

/// One who says `bytes` to accept_over(), or (`connects`) to connect_over().
answer after(stream_world& w, std::vector<std::byte> bytes, bool connects = false) {
    auto both = w.run(streams(w.way));
    tcp_stream& ours = connects ? both.client : both.server;
    tcp_stream& theirs = connects ? both.server : both.client;
    auto work = connects ? rdma::connect_over(w.in, std::move(ours)) : rdma::accept_over(w.in, std::move(ours));
    auto all = when_all(outcome(std::move(work)), say_and_hear(std::move(theirs), std::move(bytes)));
    const auto both_ends = [](auto joined) -> task<answer> {
        auto [end, heard] = co_await std::move(joined);
        answer a{std::move(end), std::move(heard)};
        co_return a;
    };
    return w.run(both_ends(std::move(all)));
}

void expect_refusal(stream_world& w, const std::vector<std::byte>& bytes, std::string_view why) {
    const unsigned before = w.second().live_objects();
    const answer a = after(w, bytes);
    BOOST_TEST((a.end.code == std::errc::protocol_error));
    BOOST_TEST(mentions(a.end.sentence, why), a.end.sentence);
    BOOST_REQUIRE(a.heard.size() > rc_frame::wire_size);
    const auto head = rc_frame::from_wire(bytes_of(a.heard));
    BOOST_REQUIRE(head.has_value());
    BOOST_TEST((head->what == kind::refusal));
    BOOST_TEST(mentions(a.heard, why), a.heard); // the same sentence
    BOOST_TEST(w.second().live_objects() == before);
}

} // namespace

BOOST_AUTO_TEST_SUITE(over_stream)

BOOST_AUTO_TEST_CASE(both_ends_agree_on_the_lesser_of_what_they_can_and_know_each_other_by_the_stream) {
    rdma::rc_options few;
    few.reads = 2;
    few.receive_depth = 8;
    stream_world w(few, {});
    BOOST_TEST(w.server.connection().credits() == 8u);
    BOOST_TEST(w.client.connection().credits() == 64u);
    BOOST_TEST((w.client.peer_address() == socket_address(address_of_server, w.listening.port())));
    BOOST_TEST(w.server.peer_address().v4() == address_of_client);
    for (ibv_qp* const pair : {w.client.connection().pair(), w.server.connection().pair()}) {
        ibv_qp_attr a{};
        ibv_qp_init_attr made_with{};
        BOOST_REQUIRE(w.verbs().query_qp(pair, &a, IBV_QP_MAX_QP_RD_ATOMIC, &made_with) == 0);
        BOOST_TEST((a.qp_state == IBV_QPS_RTS));
        BOOST_TEST(a.max_rd_atomic == 2u);
        BOOST_TEST(a.max_dest_rd_atomic == 2u);
        BOOST_TEST(a.retry_cnt == rdma::retries);
        BOOST_TEST(a.rnr_retry == rdma::not_ready_retries);
        BOOST_TEST((a.path_mtu == IBV_MTU_1024));
        BOOST_TEST(a.ah_attr.grh.sgid_index == 1u); // the stream's own address, and not the first
    }
}

BOOST_AUTO_TEST_CASE(device_port_and_address_are_chosen_by_name_or_refused_with_what_there_is) {
    stream_world w;
    const auto connect = [&](rdma::over_options o) {
        auto both = w.run(streams(w.way));
        auto end = outcome(rdma::connect_over(w.in, std::move(both.client), std::move(o)));
        return w.run(std::move(end));
    };
    BOOST_TEST(mentions(connect({.device = "mlx5_7"}).sentence, "fake_a"));
    BOOST_TEST(mentions(connect({.device = "fake_a", .port = 2}).sentence, "port 2"));
    BOOST_TEST(mentions(connect({.gid_index = 7}).sentence, "find GID index 7 on port 1 of fake_a"));

    auto across = w.run(connected(w, {.device = "fake_b"}, {.device = "fake_a"}));
    BOOST_TEST(across.first.sentence == "");
    BOOST_TEST(across.second.sentence == "");
}

BOOST_AUTO_TEST_CASE(who_accepts_takes_an_address_that_the_peers_reaches_and_two_that_cannot_talk_are_refused) {
    stream_world w;
    const auto index_of = [&](const made& end) {
        ibv_qp_attr a{};
        ibv_qp_init_attr made_with{};
        BOOST_REQUIRE(w.verbs().query_qp(end.channel.connection().pair(), &a, IBV_QP_AV, &made_with) == 0);
        return unsigned{a.ah_attr.grh.sgid_index};
    };
    for (const unsigned chosen : {0u, 1u, 2u}) { // IPv6, IPv4, and that of RoCE version 1
        auto [client, server] = w.run(connected(w, {.gid_index = chosen}, {}));
        BOOST_REQUIRE(static_cast<bool>(client.channel));
        BOOST_REQUIRE(static_cast<bool>(server.channel));
        BOOST_TEST(index_of(client) == chosen);
        BOOST_TEST(index_of(server) == chosen);
        BOOST_TEST((w.run(failure_of(client.channel.send(bytes_of("there")))) == std::errc{}));
        const auto got = w.run(next_of(server.channel));
        BOOST_TEST(text_of(got->bytes()) == "there");
    }
    for (const auto& [ours, theirs, said] : {std::tuple{0u, 1u, "IPv6"}, {2u, 1u, "version 1"}, {1u, 2u, "version 2"}, {1u, 0u, "IPv4"}}) {
        const auto [client, server] = w.run(connected(w, {.gid_index = ours}, {.gid_index = theirs}));
        BOOST_TEST((client.code == std::errc::connection_refused));
        BOOST_TEST((server.code == std::errc::protocol_error));
        for (const std::string& sentence : {client.sentence, server.sentence}) {
            BOOST_TEST(mentions(sentence, "the addresses of the two ports do not reach each other"), sentence);
            BOOST_TEST(mentions(sentence, said), sentence);
            BOOST_TEST(mentions(sentence, "over_options::gid_index chooses"), sentence);
        }
    }
}

BOOST_AUTO_TEST_CASE(what_is_no_peer_of_ours_or_out_of_bounds_is_refused_with_a_sentence) {
    stream_world w;
    expect_refusal(w, std::vector<std::byte>(8, std::byte{'G'}), "no RDMA peer of ours");
    expect_refusal(w, frame_of(kind::introduction, std::vector<std::byte>(10)), "no RDMA peer of ours");
    expect_refusal(w, frame_of(kind::ready, {}), "does not say who it is");
    expect_refusal(w, introduced({}), "does not say who it is");
    auto for_ever = plausible();
    for_ever.retries = 7;
    expect_refusal(w, introduced(for_ever), "for ever");
    auto infiniband = plausible();
    infiniband.link = IBV_LINK_LAYER_INFINIBAND;
    infiniband.end.lid = 5;
    infiniband.gid_type = IBV_GID_TYPE_IB;
    expect_refusal(w, introduced(infiniband), "the peer's port is on InfiniBand, ours on Ethernet");
    auto elsewhere = plausible();
    elsewhere.partition = 0x8001;
    expect_refusal(w, introduced(elsewhere), "partition 0x8001");
    auto twice = introduced(plausible());
    const auto once = twice;
    twice.insert(twice.end(), once.begin(), once.end());
    const answer a = after(w, twice);
    BOOST_TEST(mentions(a.end.sentence, "who it is twice"));
}

BOOST_AUTO_TEST_CASE(another_version_is_refused_and_a_refusal_of_another_version_is_understood) {
    stream_world w;
    const auto later = frame_of(kind::introduction, std::vector<std::byte>(77), 9);
    expect_refusal(w, later, "version 9 of the exchange over a stream, this end version 2");
    for (const bool connects : {true, false}) {
        const answer a = after(w, frame_of(kind::refusal, bytes_of("too old for \x1b[2Jme"), 9), connects);
        BOOST_TEST((a.end.code == std::errc::connection_refused));
        BOOST_TEST(mentions(a.end.sentence, "the RDMA peer refuses: too old for ?[2Jme"), a.end.sentence);
    }
}

BOOST_AUTO_TEST_CASE(a_peer_that_leaves_in_the_middle_or_says_nothing_is_given_up) {
    stream_world w;
    const auto half = introduced(plausible());
    for (const std::size_t size : {std::size_t{0}, std::size_t{3}, half.size() - 1, half.size()}) { // the whole: and is not ready
        auto both = w.run(streams(w.way));
        const auto leave = [](tcp_stream s, std::vector<std::byte> bytes) -> task<> { co_await s.write(byte_span(bytes)); };
        w.r.root_group().spawn(leave(std::move(both.client), {half.begin(), half.begin() + static_cast<std::ptrdiff_t>(size)}));
        auto end = outcome(rdma::accept_over(w.in, std::move(both.server)));
        const std::errc code = w.run(std::move(end)).code;
        BOOST_TEST((code == std::errc::connection_aborted || (size == half.size() && code == std::errc::connection_reset)));
    }
    auto silent = w.run(streams(w.way));
    const time_point before = w.r.read_clock();
    auto in_time = outcome(rdma::accept_over(w.in, std::move(silent.server), {.within = 300ms}));
    BOOST_TEST((w.run(std::move(in_time)).code == std::errc::timed_out));
    BOOST_TEST((w.r.read_clock() - before < 400ms));
    silent = w.run(streams(w.way));
    stop_source stop;
    stop.request_stop();
    auto stopped = outcome(rdma::connect_over(w.in, std::move(silent.client), {}, {.stop = stop.token()}));
    BOOST_TEST((w.run(std::move(stopped)).code == std::errc::operation_canceled));
    silent = w.run(streams(w.way));
    auto late = outcome(rdma::connect_over(w.in, std::move(silent.client), {}, w.within(200ms)));
    BOOST_TEST((w.run(std::move(late)).code == std::errc::timed_out));
}

BOOST_AUTO_TEST_CASE(an_end_that_cannot_make_its_queue_pair_says_so_to_the_other) {
    stream_world w;
    for (const char* call : {"create_qp", "modify_qp"}) {
        w.second().fail_calls(call, ENOMEM);
        const auto end = w.run(outcome(w.dial()));
        BOOST_TEST((end.code == std::errc::connection_refused));
        BOOST_TEST(mentions(end.sentence, "it cannot make its end: Cannot allocate memory"), end.sentence);
    }
    w.until([&] { return w.listening.statistics().rejected_for_want == 2; });
    w.first().fail_calls("modify_qp", EINVAL);
    BOOST_TEST((w.run(outcome(w.dial())).code == std::errc::invalid_argument));
    auto again = w.run(w.dial());
    BOOST_TEST(static_cast<bool>(again));
}

BOOST_AUTO_TEST_CASE(the_streams_end_is_the_channels_and_a_word_on_it_breaks_the_rules) {
    for (const bool speaks : {false, true}) {
        stream_world w;
        auto both = w.run(streams(w.way));
        auto accepted = outcome(rdma::accept_over(w.in, std::move(both.server)));
        const auto play = [](tcp_stream s, bool word) -> task<> {
            const auto bytes = introduced(plausible());
            co_await s.write(byte_span(bytes));
            std::array<std::byte, rc_frame::wire_size + rc_introduction::wire_size> theirs{};
            co_await s.read_exactly(theirs);
            const auto ready = frame_of(kind::ready, {});
            co_await s.write(byte_span(ready));
            co_await sleep_for(50ms);
            if (word) co_await s.write("and another thing");
            co_await sleep_for(50ms);
        };
        w.r.root_group().spawn(play(std::move(both.client), speaks));
        made end = w.run(std::move(accepted));
        BOOST_REQUIRE(static_cast<bool>(end.channel));
        BOOST_TEST((w.run(failure_of(end.channel.receive())) == (speaks ? std::errc::protocol_error : std::errc::connection_reset)));
        BOOST_TEST(end.channel.statistics().violations == (speaks ? 1u : 0u));
    }
}

BOOST_AUTO_TEST_CASE(a_listener_makes_channels_beside_peers_that_say_nothing_and_ends_with_its_tcp_listener) {
    rdma::rc_options two;
    two.accept_backlog = 2;
    stream_world w({}, two);
    std::vector<tcp_stream> silent;
    silent.push_back(w.run(w.way.stream_to(w.listening.port())));
    auto beside = w.run(w.dial());
    auto taken = w.run(w.listening.accept());
    silent.push_back(w.run(w.way.stream_to(w.listening.port())));
    BOOST_TEST(mentions(w.run(outcome(w.dial())).sentence, "its backlog is full"));
    BOOST_TEST(w.listening.statistics().rejected_full == 1u);
    w.until([&] { return w.listening.statistics().died_early == 2; }); // given up in time
    auto after_all = w.run(w.dial());
    BOOST_TEST(static_cast<bool>(after_all));

    auto made_before = w.run(w.listening.accept());
    w.way.server.close_listeners();
    BOOST_TEST((w.run(failure_of(w.listening.accept())) == std::errc::operation_canceled));
}

BOOST_AUTO_TEST_CASE(an_introduction_of_nobody_stops_neither_the_channels_of_the_shard_nor_those_that_are_made) {
    stream_world w;
    const ways_let_go at_last{w.second()};
    auto nobody = plausible();
    nobody.end.gid.raw[15] = 66;
    w.second().hold_way_to(nobody.end.gid);
    const auto introduce = [](over_streams& way, std::uint16_t port, std::vector<std::byte> bytes) -> task<tcp_stream> {
        tcp_stream made = co_await way.stream_to(port);
        co_await made.write(byte_span(bytes));
        co_return made;
    };
    std::vector<tcp_stream> strangers;
    for (int i = 0; i < 3; ++i) strangers.push_back(w.run(introduce(w.way, w.listening.port(), introduced(nobody))));
    in_real_time([&] { w.turn(); }, [&] { return w.second().ways_awaited() == 3; });
    for (const std::string text : {"one", "two", "three"}) {
        BOOST_TEST((w.run(failure_of(w.client.send(bytes_of(text)))) == std::errc{}));
        const auto got = w.run(next_of(w.server));
        BOOST_TEST(text_of(got->bytes()) == text);
    }
    {
        auto beside = w.run(w.dial());
        const auto taken = w.run(w.listening.accept());
        BOOST_TEST(static_cast<bool>(beside));
    }
    // Given up in time, though the calls still wait; what stands on the device goes when they have come back.
    w.until([&] { return w.listening.statistics().died_early == 3; });
    BOOST_TEST(w.second().ways_awaited() == 3u);
    const unsigned waiting = w.second().live_objects();
    w.second().release_ways(ETIMEDOUT);
    in_real_time([&] { w.turn(); }, [&] { return w.in.waits().under_way() == 0; });
    BOOST_TEST(w.second().live_objects() <= waiting - 3); // the queue pairs have gone

    // One that waits until there is an answer; and one that is left over when everything goes.
    w.second().hold_way_to(nobody.end.gid);
    strangers.push_back(w.run(introduce(w.way, w.listening.port(), introduced(nobody))));
    in_real_time([&] { w.turn(); }, [&] { return w.second().ways_awaited() == 1; });
    w.second().release_ways(0);
    w.until([&] { return w.listening.statistics().died_early == 4; });
    w.second().hold_way_to(nobody.end.gid);
    strangers.push_back(w.run(introduce(w.way, w.listening.port(), introduced(nobody))));
    in_real_time([&] { w.turn(); }, [&] { return w.second().ways_awaited() == 1; });
    w.until([&] { return w.listening.statistics().died_early == 5; });
    w.second().release_ways(0);
}

BOOST_AUTO_TEST_SUITE_END()
