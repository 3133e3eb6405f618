// Peers of an rc_channel that send garbage, flood, or die in the middle: each loses its own connection, and nobody else notices.
// Cases for whichever fabric `channel_world` stands on: the program that includes this says which.
#pragma once

#include "tests/rdma/channel_world.hh"
#include "tests/rdma/raw_peer.hh"

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

/// An innocent pair of channels, and one more connection to the same listener from a peer of the other kind.
struct hostile_world : channel_world {
    hostile_world() : channel_world({}, few()) {}
    static rdma::rc_options few() {
        rdma::rc_options o;
        o.receive_depth = 4;
        return o;
    }
    static task<std::errc> how_it_ends(rdma::rc_channel& on, unsigned& messages) {
        try {
            while (auto m = co_await on.receive()) ++messages;
        } catch (const std::system_error& e) {
            co_return static_cast<std::errc>(e.code().value());
        }
        co_return std::errc{};
    }
    static task<> exchange(channel_world& w) {
        for (unsigned i = 0; i < 20; ++i) {
            co_await w.client.send(bytes_of("innocent"));
            auto m = co_await w.server.receive();
            BOOST_REQUIRE(m.has_value());
            BOOST_TEST(text_of(m->bytes()) == "innocent");
        }
    }
    /// Accepts `peer`, receives what it sends, and gives the code with which its connection ended.
    std::errc play(std::function<void(raw_peer&)> work) {
        raw_peer peer(*this, raw_peer::good_hello(), std::move(work));
        auto victim = run(listening.accept());
        peer.go();
        const std::errc ended = run(how_it_ends(victim, messages));
        violations = victim.statistics().violations;
        run(exchange(*this));
        until([&] { return peer.done(); });
        BOOST_TEST(!peer.stuck());
        run(exchange(*this));
        return ended;
    }
    unsigned messages = 0;
    std::uint64_t violations = 0;
};

} // namespace

BOOST_AUTO_TEST_SUITE(rc_hostile)

BOOST_AUTO_TEST_CASE(a_peer_that_plays_by_the_rules_is_served) {
    hostile_world w;
    const std::errc ended = w.play([](raw_peer& p) {
        for (int i = 0; i < 3; ++i) p.send(100, raw_peer::data_header);
    });
    BOOST_TEST(w.messages == 3u);
    BOOST_TEST(w.violations == 0u);
    BOOST_TEST((ended == std::errc::connection_reset)); // it left without a goodbye
}

BOOST_AUTO_TEST_CASE(a_request_that_is_no_peers_of_ours_is_refused_before_anything_is_made_for_it) {
    hostile_world w;
    for (auto hello : {std::vector<std::byte>(16), std::vector<std::byte>(3), std::vector<std::byte>(56, std::byte{0xff})}) {
        const auto before = w.listening.statistics().rejected_foreign;
        raw_peer peer(w, hello, [](raw_peer&) {});
        w.until([&] { return peer.done() && w.listening.statistics().rejected_foreign == before + 1; });
        BOOST_TEST(!peer.connected());
    }
    w.run(hostile_world::exchange(w));
}

BOOST_AUTO_TEST_CASE(a_request_that_would_have_us_send_for_ever_is_refused) {
    hostile_world w;
    for (const auto counts : {raw_peer::habits{7, 0}, raw_peer::habits{6, 7}, raw_peer::habits{6, 1}}) {
        const auto before = w.listening.statistics().rejected_foreign;
        raw_peer peer(w, raw_peer::good_hello(), [](raw_peer&) {}, counts);
        w.until([&] { return peer.done() && w.listening.statistics().rejected_foreign == before + 1; });
        BOOST_TEST(!peer.connected());
    }
    w.run(hostile_world::exchange(w));
}

BOOST_AUTO_TEST_CASE(garbage_in_the_header_ends_the_connection) {
    for (const std::uint32_t header : {0u, 0xffff'ffffu, 0x1fff'0000u, 4u << 28}) {
        hostile_world w;
        BOOST_TEST((w.play([header](raw_peer& p) { p.send(10, header); }) == std::errc::protocol_error));
        BOOST_TEST(w.violations == 1u);
    }
}

BOOST_AUTO_TEST_CASE(a_message_without_a_header_ends_the_connection) {
    hostile_world w;
    BOOST_TEST((w.play([](raw_peer& p) { p.send(10, 0, IBV_WR_SEND); }) == std::errc::protocol_error));
}

BOOST_AUTO_TEST_CASE(credits_for_what_was_never_sent_end_the_connection) {
    hostile_world w;
    BOOST_TEST((w.play([](raw_peer& p) { p.send(0, raw_peer::credits_header | 1); }) == std::errc::protocol_error));
}

BOOST_AUTO_TEST_CASE(credits_of_nothing_which_could_come_for_ever_end_the_connection) {
    hostile_world w;
    BOOST_TEST((w.play([](raw_peer& p) { p.pour(60, 0, raw_peer::credits_header); }) == std::errc::protocol_error));
    BOOST_TEST(w.violations == 1u);
}

BOOST_AUTO_TEST_CASE(what_comes_behind_a_goodbye_is_against_the_rules) {
    for (const int what : {0, 1, 2}) {
        hostile_world w;
        raw_peer peer(w, raw_peer::good_hello(), [what](raw_peer& p) {
            p.send(0, raw_peer::goodbye_header);
            if (what == 0) p.send(0, raw_peer::goodbye_header);
            else if (what == 1) p.send(0, 0xcafe, IBV_WR_RDMA_WRITE_WITH_IMM);
            else p.send(1, raw_peer::data_header);
        });
        const auto victim = w.run(w.listening.accept());
        peer.go();
        w.until([&] { return victim.statistics().violations == 1; });
        w.run(hostile_world::exchange(w));
        w.until([&] { return peer.done(); });
    }
}

BOOST_AUTO_TEST_CASE(credits_with_a_body_end_the_connection) {
    hostile_world w;
    BOOST_TEST((w.play([](raw_peer& p) { p.send(10, raw_peer::credits_header); }) == std::errc::protocol_error));
}

BOOST_AUTO_TEST_CASE(a_message_longer_than_we_receive_ends_the_connection) {
    hostile_world w;
    BOOST_TEST((w.play([](raw_peer& p) { p.send(4097, raw_peer::data_header); }) != std::errc{}));
    BOOST_TEST(w.messages == 0u);
}

BOOST_AUTO_TEST_CASE(a_flood_without_credits_ends_the_connection_at_its_bound) {
    hostile_world w;
    raw_peer peer(w, raw_peer::good_hello(), [](raw_peer& p) {
        p.pour(100, 64);
        p.send(1, raw_peer::data_header);
    });
    auto victim = w.run(w.listening.accept());
    peer.go();
    // Nobody receives: the first four have credits, the fifth has none.
    w.until([&] { return victim.connection().phase() == rdma::rc_connection::state::broken; });
    BOOST_TEST((victim.connection().why() == std::errc::protocol_error));
    BOOST_TEST(victim.statistics().messages_received == 4u);
    w.run(hostile_world::exchange(w));
    w.until([&] { return peer.done(); });
}

BOOST_AUTO_TEST_CASE(a_peer_that_gives_credits_and_posts_no_receive_ends_its_own_connection) {
    hostile_world w;
    std::atomic<bool> over{false};
    raw_peer peer(w, raw_peer::good_hello(), [&](raw_peer& p) { p.await([&] { return over.load(); }); }, {.receives = 0});
    auto victim = w.run(w.listening.accept());
    peer.go();
    BOOST_TEST((w.run(failure_of(victim.send(bytes_of("into the void")))) == std::errc{})); // posted, which is all that a send says
    BOOST_TEST((w.run(failure_of(victim.receive())) == std::errc::no_buffer_space));
    BOOST_TEST((w.run(failure_of(victim.send(bytes_of("more")))) == std::errc::no_buffer_space));
    BOOST_TEST((w.run(failure_of(victim.close())) == std::errc::no_buffer_space));
    BOOST_TEST(victim.statistics().violations == 0u);
    w.run(hostile_world::exchange(w));
    over = true;
    w.until([&] { return peer.done(); });
    w.run(hostile_world::exchange(w));
}

BOOST_AUTO_TEST_CASE(a_peer_that_dies_in_the_middle_of_a_stream_is_noticed) {
    hostile_world w;
    const std::errc ended = w.play([](raw_peer& p) { p.pour(3, 4096); });
    BOOST_TEST((ended == std::errc::connection_reset));
    BOOST_TEST(w.messages <= 3u);
}

BOOST_AUTO_TEST_CASE(a_peer_that_misbehaves_before_it_is_accepted_is_never_handed_out) {
    hostile_world w;
    raw_peer peer(w, raw_peer::good_hello(), [](raw_peer& p) { p.send(10, 0); });
    peer.go();
    w.until([&] { return peer.done(); });
    BOOST_TEST((w.run(failure_of(w.listening.accept(w.within(100ms)))) == std::errc::timed_out));
    BOOST_TEST(w.listening.statistics().died_early == 1u);
    w.run(hostile_world::exchange(w));
}

BOOST_AUTO_TEST_CASE(nor_is_one_whose_garbage_nobody_has_looked_at_yet) {
    hostile_world w;
    std::atomic<bool> sent{false}, over{false};
    raw_peer peer(w, raw_peer::good_hello(), [&](raw_peer& p) {
        p.send(10, 0);
        sent = true;
        p.await([&] { return over.load(); });
    });
    w.until([&] { return peer.connected(); });
    for (unsigned turns = 0; turns < 20; ++turns) w.turn(); // the listener has heard that it is there
    peer.go();
    for (unsigned turns = 0; turns < 10'000 && !sent; ++turns) w.turn_beside();
    BOOST_REQUIRE(sent);
    BOOST_TEST((w.run(failure_of(w.listening.accept(w.within(100ms)))) == std::errc::timed_out));
    BOOST_TEST(w.listening.statistics().died_early == 1u);
    over = true;
    w.until([&] { return peer.done(); });
}

BOOST_AUTO_TEST_CASE(a_key_that_was_made_up_opens_nothing) {
    hostile_world w;
    auto memory = w.client.allocate(4096);
    const rdma::remote_region made_up{reinterpret_cast<std::uintptr_t>(memory.data()), 4096, 0x12345678};
    BOOST_TEST((w.run(failure_of(w.client.write(memory.at(0, 8), made_up))) == std::errc::permission_denied));
}

namespace {

enum class ending : std::uint8_t { destroyed, closed, broken };

/// A key that a peer has used is tried again when its channel has ended: by that peer, and by another one.
void use_a_key_too_late(bool windows, ending how) {
    BOOST_TEST_CONTEXT((windows ? "memory windows" : "registrations") << ", ending " << static_cast<int>(how)) {
        rdma::context_options options;
        options.memory.windows = windows;
        channel_world w({}, {}, options);
        ibv_wc_status before = IBV_WC_GENERAL_ERR, after = IBV_WC_SUCCESS, another = IBV_WC_SUCCESS;
        rdma::remote_region told;
        std::atomic<bool> read{false}, over{false};
        raw_peer first(w, raw_peer::good_hello(), [&](raw_peer& p) {
            before = p.read(told.address, told.key, 64);
            read = true;
            if (how == ending::broken) p.send(10, 0); // garbage
            p.await([&] { return over.load(); });     // without a look at what rdma_cm says: its queue pair stays as it is
            after = p.read(told.address, told.key, 64);
        });
        auto victim = w.run(w.listening.accept());
        auto memory = victim.allocate(4096);
        const auto readable = verbs::access::remote_read;
        const rdma::exposed_region kept = w.run(victim.expose(memory, 0, 4096, readable));
        told = kept.region();
        first.go();
        w.until([&] { return read.load(); });
        if (how == ending::destroyed) victim = {};
        else if (how == ending::closed) w.run(victim.close());
        else BOOST_TEST((w.run(failure_of(victim.receive())) == std::errc::protocol_error));
        over = true;
        w.until([&] { return first.done(); });
        raw_peer second(w, raw_peer::good_hello(), [&](raw_peer& p) { another = p.read(told.address, told.key, 64); });
        const auto other = w.run(w.listening.accept());
        second.go();
        w.until([&] { return second.done(); });
        BOOST_TEST((before == IBV_WC_SUCCESS));
        BOOST_TEST((after != IBV_WC_SUCCESS));
        BOOST_TEST(!first.stuck());
        BOOST_TEST((another == IBV_WC_REM_ACCESS_ERR));
        if (how == ending::destroyed) return;
        const std::errc late = w.run(failure_of(victim.expose(memory, 0, 4096, readable))); // what would never be shut again
        BOOST_TEST((late == (how == ending::closed ? std::errc::broken_pipe : std::errc::protocol_error)));
    }
}

} // namespace

BOOST_AUTO_TEST_CASE(what_a_channel_exposed_is_shut_when_it_ends_however_it_ends) {
    for (const ending how : {ending::destroyed, ending::closed, ending::broken}) use_a_key_too_late(true, how);
}

BOOST_AUTO_TEST_CASE(without_memory_windows_too_what_a_channel_exposed_is_shut_when_it_ends_however_it_ends) {
    for (const ending how : {ending::destroyed, ending::closed, ending::broken}) use_a_key_too_late(false, how);
}

BOOST_AUTO_TEST_SUITE_END()
