// Peers that announce what can't be, or fetch what they were not told to: each loses its own connection.
// Cases for whichever fabric `channel_world` stands on: the program that includes this says which.
#pragma once

#include "tests/rdma/channel_world.hh"
#include "tests/rdma/raw_peer.hh"

#include <atomic>

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

/// Puts one stretch into what send() sends.
void put_stretch(raw_peer& p, std::uint32_t number, std::uint64_t address, std::uint32_t key, std::uint32_t size) {
    std::byte* const at = p.memory() + 4 + 16 * number;
    store_be64(at, address);
    store_be32(at + 8, key);
    store_be32(at + 12, size);
    store_be32(p.memory(), number + 1);
}

std::uint64_t address_of(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

struct outcome {
    std::errc ended{};
    std::uint64_t violations = 0, fetches = 0, most_mapped = 0;
    std::vector<std::size_t> sizes;
};

rdma::rc_options of_a_megabyte() {
    rdma::rc_options o;
    o.largest_message = 1u << 20;
    return o;
}

/// Accepts a peer that does `work`, receives, and says how it ended.
outcome play(std::function<void(raw_peer&)> work, rdma::rc_options at_most = of_a_megabyte(), rdma::context_options of_both = {}) {
    channel_world w({}, at_most, of_both);
    raw_peer peer(w, raw_peer::good_hello(), std::move(work));
    auto victim = w.run(w.listening.accept());
    peer.go();
    outcome out;
    const auto take = [](rdma::rc_channel& on, outcome& o) -> task<> {
        try {
            while (auto m = co_await on.receive()) o.sizes.push_back(m->size());
        } catch (const std::system_error& e) {
            o.ended = static_cast<std::errc>(e.code().value());
        }
    };
    w.run(take(victim, out));
    out.violations = victim.statistics().violations;
    out.fetches = victim.statistics().fetches;
    w.until([&] { return peer.done(); });
    BOOST_TEST(!peer.stuck());
    victim = {};
    w.run([](channel_world& world) -> task<> { // the innocent notice nothing
        co_await world.client.send(bytes_of(std::string(10'000, 'i')));
        const auto m = co_await world.server.receive();
        BOOST_REQUIRE(m.has_value());
        BOOST_TEST(m->size() == 10'000u);
    }(w));
    out.most_mapped = w.in.adapter_for(address_of_server).memory().statistics().most_mapped;
    return out;
}

void expect_violation(const outcome& o, std::uint64_t fetches = 0) {
    BOOST_TEST((o.ended == std::errc::protocol_error));
    BOOST_TEST(o.violations == 1u);
    BOOST_TEST(o.fetches == fetches);
    BOOST_TEST(o.sizes.empty());
}

} // namespace

BOOST_AUTO_TEST_SUITE(rc_large_hostile)

BOOST_AUTO_TEST_CASE(a_peer_that_announces_by_the_rules_is_served_and_told) {
    std::optional<std::uint32_t> told;
    const outcome o = play([&](raw_peer& p) {
        put_stretch(p, 0, address_of(p.memory()), p.key(), 5000);
        put_stretch(p, 1, address_of(p.memory()) + 100, p.key(), 6000); // overlaps the first: the peer's own affair
        p.send(36, raw_peer::announcement_header | 2u << 16);
        told = p.receive();
    });
    BOOST_TEST((o.sizes == std::vector<std::size_t>{11'000}));
    BOOST_TEST(o.violations == 0u);
    BOOST_REQUIRE(told.has_value());
    BOOST_TEST((*told & 0xffff'0000u) == (raw_peer::fetched_header | 2u << 16));
}

BOOST_AUTO_TEST_CASE(a_size_beyond_what_we_take_ends_the_connection_before_there_is_memory_for_it) {
    for (const std::uint32_t size : {(1u << 20) + 1, 0xffff'ffffu}) {
        const outcome o = play([size](raw_peer& p) {
            put_stretch(p, 0, address_of(p.memory()), p.key(), size);
            p.send(20, raw_peer::announcement_header);
        });
        expect_violation(o);
        BOOST_TEST(o.most_mapped <= std::uint64_t{4} << 20); // the buffers of the connections
    }
    expect_violation(play([](raw_peer& p) { // in all
        for (std::uint32_t i = 0; i < 4; ++i) put_stretch(p, i, address_of(p.memory()), p.key(), 0xffff'ffff);
        p.send(68, raw_peer::announcement_header);
    }));
}

BOOST_AUTO_TEST_CASE(a_size_beyond_what_our_pool_let_us_say_we_take_ends_the_connection) {
    rdma::context_options bounded;
    bounded.memory.limit = std::size_t{6} << 20;
    for (const std::uint32_t size : {(2u << 20) + 1, 10u << 20}) {
        expect_violation(play([size](raw_peer& p) {
            put_stretch(p, 0, address_of(p.memory()), p.key(), size);
            p.send(20, raw_peer::announcement_header);
        }, {}, bounded));
    }
}

BOOST_AUTO_TEST_CASE(an_announcement_that_is_none_ends_the_connection) {
    const auto garbled = [](std::uint32_t count, std::uint32_t bytes, std::uint64_t address, std::uint32_t size) {
        return play([=](raw_peer& p) {
            put_stretch(p, 0, address, p.key(), size);
            store_be32(p.memory(), count);
            p.send(bytes, raw_peer::announcement_header);
        });
    };
    expect_violation(garbled(0, 4, 4096, 10));
    expect_violation(garbled(5, 84, 4096, 10));
    expect_violation(garbled(1, 19, 4096, 10));
    expect_violation(garbled(1, 0, 4096, 10));
    expect_violation(garbled(1, 20, 4096, 0));
    expect_violation(garbled(1, 20, ~std::uint64_t{0} - 8, 10)); // beyond the end of memory
}

BOOST_AUTO_TEST_CASE(a_slot_that_is_none_or_in_use_ends_the_connection) {
    expect_violation(play([](raw_peer& p) {
        put_stretch(p, 0, address_of(p.memory()), p.key(), 5000);
        p.send(20, raw_peer::announcement_header | 4u << 16);
    }));
    const outcome o = play([](raw_peer& p) {
        put_stretch(p, 0, address_of(p.memory()), p.key(), 5000);
        p.pour(1, 20, raw_peer::announcement_header);
        p.send(20, raw_peer::announcement_header); // comes before the first is fetched
    });
    BOOST_TEST((o.ended == std::errc::protocol_error));
}

BOOST_AUTO_TEST_CASE(a_key_that_opens_nothing_or_less_than_was_said_ends_the_connection) {
    expect_violation(play([](raw_peer& p) {
        put_stretch(p, 0, address_of(p.memory()), 0x12345678, 5000);
        p.send(20, raw_peer::announcement_header);
        p.receive();
    }), 1);
    expect_violation(play([](raw_peer& p) {
        put_stretch(p, 0, address_of(p.memory()), p.key(), 1u << 19);
        p.send(20, raw_peer::announcement_header);
        p.receive();
    }), 1);
}

BOOST_AUTO_TEST_CASE(a_peer_that_dies_when_it_has_announced_is_noticed) {
    const outcome o = play([](raw_peer& p) {
        put_stretch(p, 0, address_of(p.memory()), p.key(), 8000);
        p.send(20, raw_peer::announcement_header);
    });
    BOOST_TEST(o.violations == 0u); // it may have been fetched before
    BOOST_TEST((o.ended == std::errc::connection_reset || o.ended == std::errc::timed_out));
}

BOOST_AUTO_TEST_CASE(a_goodbye_before_what_was_announced_is_fetched_ends_the_connection) {
    rdma::rc_options none_fetched;
    none_fetched.large_messages = 1;
    channel_world w({}, none_fetched);
    raw_peer peer(w, raw_peer::good_hello(), [](raw_peer& p) {
        put_stretch(p, 0, address_of(p.memory()), p.key(), 8000);
        p.send(20, raw_peer::announcement_header);
        p.receive();
        p.send(20, raw_peer::announcement_header); // not fetched, as the first is kept
        p.send(0, raw_peer::goodbye_header);
    });
    auto victim = w.run(w.listening.accept());
    peer.go();
    const auto kept = w.run(next_of(victim));
    BOOST_TEST((w.run(failure_of(victim.receive())) == std::errc::protocol_error));
    w.until([&] { return peer.done(); });
}

BOOST_AUTO_TEST_CASE(fetched_for_what_was_never_announced_ends_the_connection) {
    for (const std::uint32_t slot : {0u, 3u, 4u, 0xfffu})
        expect_violation(play([slot](raw_peer& p) { p.send(0, raw_peer::fetched_header | slot << 16); }));
    expect_violation(play([](raw_peer& p) { p.send(10, raw_peer::fetched_header); }));
}

BOOST_AUTO_TEST_CASE(who_reads_again_what_it_has_fetched_loses_the_connection) {
    channel_world w;
    ibv_wc_status first = IBV_WC_GENERAL_ERR, again = IBV_WC_SUCCESS;
    std::atomic<bool> withdrawn{false};
    raw_peer peer(w, raw_peer::good_hello(), [&](raw_peer& p) {
        const auto header = p.receive();
        if (!header || *header >> 28 != 4) return;
        const std::uint64_t address = load_be64(p.received() + 4);
        const std::uint32_t key = load_be32(p.received() + 12);
        first = p.read(address, key, 6000);
        p.send(0, raw_peer::fetched_header | (*header & 0x0fff'0000));
        p.await([&] { return withdrawn.load(); }); // it is not told
        again = p.read(address, key, 6000);
    });
    auto victim = w.run(w.listening.accept());
    peer.go();
    const auto memory = victim.allocate(6000);
    BOOST_TEST((w.run(failure_of(victim.send_in_place(memory.all()))) == std::errc{}));
    withdrawn = true;
    w.until([&] { return peer.done(); });
    BOOST_TEST((first == IBV_WC_SUCCESS));
    BOOST_TEST((again == IBV_WC_REM_ACCESS_ERR));
}

BOOST_AUTO_TEST_CASE(a_peer_that_fetches_nothing_loses_the_connection_in_time_and_our_copies_are_free) {
    for (const bool copied : {true, false}) {
        rdma::rc_options impatient;
        impatient.fetch_within = 300ms;
        channel_world w({}, impatient);
        const auto& pool = w.in.adapter_for(address_of_server).memory().statistics();
        const std::uint64_t before = pool.used;
        std::atomic<bool> over{false};
        raw_peer peer(w, raw_peer::good_hello(), [&](raw_peer& p) {
            p.receive();
            p.await([&] { return over.load(); });
        });
        auto victim = w.run(w.listening.accept());
        auto memory = victim.allocate(100'000);
        const std::uint64_t used = pool.used;
        peer.go();
        if (copied) {
            BOOST_TEST((w.run(failure_of(victim.send(memory.bytes()))) == std::errc{}));
            BOOST_TEST(pool.used >= used + 100'000);
            BOOST_TEST((w.run(failure_of(victim.receive())) == std::errc::timed_out));
        } else {
            BOOST_TEST((w.run(failure_of(victim.send_in_place(memory.all()))) == std::errc::timed_out));
        }
        BOOST_TEST(victim.statistics().overdue == 1u);
        memory = {};
        victim = {};
        BOOST_TEST(pool.used == before);
        over = true;
        w.until([&] { return peer.done(); });
        w.run([](channel_world& world) -> task<> { // the innocent notice nothing
            co_await world.client.send(bytes_of(std::string(10'000, 'i')));
            const auto m = co_await world.server.receive();
            BOOST_REQUIRE(m.has_value());
        }(w));
    }
}

BOOST_AUTO_TEST_CASE(a_peer_that_confirms_all_but_the_oldest_loses_the_connection_in_time) {
    rdma::rc_options impatient;
    impatient.fetch_within = 500ms;
    channel_world w({}, impatient);
    raw_peer peer(w, raw_peer::good_hello(), [](raw_peer& p) {
        while (const auto header = p.receive())
            if (const std::uint32_t slot = *header & 0x0fff'0000; slot != 0) p.send(0, raw_peer::fetched_header | slot);
    });
    auto victim = w.run(w.listening.accept());
    peer.go();
    const std::string text(10'000, 't');
    int sent = 0;
    for (; sent < 20 && victim.statistics().overdue == 0; ++sent) {
        BOOST_TEST((w.run(failure_of(victim.send(bytes_of(text)))) == std::errc{}));
        BOOST_TEST((w.run(failure_of(victim.receive(w.within(50ms)))) == std::errc::timed_out)); // of the wait, or of the channel
    }
    BOOST_TEST(victim.statistics().overdue == 1u);
    BOOST_TEST(sent > 2); // one slot was confirmed and used again
    w.until([&] { return peer.done(); });
}

BOOST_AUTO_TEST_CASE(a_peer_that_never_answers_what_we_fetch_from_it_loses_the_connection_in_time) {
    rdma::rc_options impatient;
    impatient.fetch_within = 300ms;
    impatient.large_messages = 1;
    channel_world w({}, impatient);
    std::atomic<bool> over{false};
    std::atomic<bool> vanished{false};
    raw_peer peer(w, raw_peer::good_hello(), [&](raw_peer& p) {
        put_stretch(p, 0, address_of(p.memory()), p.key(), 8000);
        p.send(20, raw_peer::announcement_header);
        p.receive();
        p.send(20, raw_peer::announcement_header); // not fetched before the first is let go
        p.vanish();
        vanished = true;
        p.await([&] { return over.load(); });
    });
    auto victim = w.run(w.listening.accept());
    peer.go();
    auto kept = w.run(next_of(victim));
    w.until([&] { return vanished.load() && victim.statistics().large_received == 2; });
    kept.reset();
    BOOST_TEST((w.run(failure_of(victim.receive())) == std::errc::timed_out));
    BOOST_TEST(victim.statistics().overdue == 1u);
    over = true;
    w.until([&] { return peer.done(); });
}

BOOST_AUTO_TEST_CASE(without_memory_windows_too_the_key_of_a_connection_that_has_ended_opens_nothing) {
    rdma::context_options no_windows;
    no_windows.memory.windows = false;
    channel_world w({}, {}, no_windows);
    std::uint64_t address = 0;
    std::uint32_t key = 0;
    ibv_wc_status before = IBV_WC_GENERAL_ERR, after = IBV_WC_SUCCESS;
    raw_peer first(w, raw_peer::good_hello(), [&](raw_peer& p) {
        if (!p.receive()) return;
        address = load_be64(p.received() + 4);
        key = load_be32(p.received() + 12);
        before = p.read(address, key, 6000);
        p.send(10, 0); // garbage
    });
    auto victim = w.run(w.listening.accept());
    first.go();
    const auto memory = victim.allocate(6000);
    BOOST_TEST((w.run(failure_of(victim.send_in_place(memory.all()))) == std::errc::protocol_error));
    w.until([&] { return first.done(); });
    raw_peer second(w, raw_peer::good_hello(), [&](raw_peer& p) { after = p.read(address, key, 6000); });
    const auto other = w.run(w.listening.accept());
    second.go();
    w.until([&] { return second.done(); });
    BOOST_TEST((before == IBV_WC_SUCCESS));
    BOOST_TEST((after == IBV_WC_REM_ACCESS_ERR));
}

BOOST_AUTO_TEST_SUITE_END()
