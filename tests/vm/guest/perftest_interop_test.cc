// Our queue pairs against perftest's ib_send_lat and ib_write_bw, as client and as server. Of rdma/channel: channel_interop_test.cc.
#include "tests/vm/guest/perftest_talk.hh"

#include <algorithm>
#include <bit>

using namespace corewire;
using namespace corewire::test;
using namespace corewire::test::perftest;

namespace {

std::string place_of(const rxe_end& end) {
    return perftest::place_of(end.address.gid, end.pair.number(), end.region.remote_key(),
                              reinterpret_cast<std::uintptr_t>(end.memory.data()));
}

/// Until both queue pairs are ready. `places`: how often they say where they are before.
place meet(const talk& with, rxe_end& end, unsigned places) {
    const std::string ours = place_of(end);
    const place there = greet(with, ours, places);
    verbs::connection_parameters p;
    p.gid_index = static_cast<std::uint8_t>(end.address.index);
    p.first_sequence = our_sequence;
    p.remote_access = IBV_ACCESS_REMOTE_WRITE;
    end.pair.activate(there.end, p);
    for (int i = 0; i < 8; ++i) BOOST_REQUIRE(end.receive(4096, size) == 0);
    with.exchange(ours);
    return there;
}

/// Each end sends `rounds` messages, the client first, and the other one upon each.
void play_latency(const talk& with) {
    rxe_end end("rxe0", address_of_rxe0);
    meet(with, end, 3);
    if (with.first) BOOST_REQUIRE(end.send(0, size) == 0);
    for (unsigned sent = 0, received = 0; sent < rounds || received < rounds;) {
        const ibv_wc done = end.next();
        BOOST_REQUIRE(done.status == IBV_WC_SUCCESS);
        if (done.opcode != IBV_WC_RECV) {
            ++sent;
            continue;
        }
        BOOST_REQUIRE(done.byte_len == size);
        BOOST_REQUIRE(end.receive(4096, size) == 0);
        if (++received < rounds || !with.first) BOOST_REQUIRE(end.send(0, size) == 0);
    }
    with.exchange(place_of(end));
}

/// What both say of a run when it is over: bytes, writes, then peak and mean bandwidth and rate (of doubles, big-endian).
void exchange_reports(const talk& with, std::uint32_t bytes) {
    const auto field = [](std::uint64_t value) {
        std::string out(8, '\0');
        store_be64(reinterpret_cast<std::byte*>(out.data()), value);
        return out;
    };
    const auto heard = [&](std::uint64_t value) {
        const std::string theirs = with.exchange(field(value));
        return load_be64(reinterpret_cast<const std::byte*>(theirs.data()));
    };
    const std::uint64_t their_bytes = heard(bytes), their_writes = heard(rounds);
    if (!with.first) { // the client's say what it did; a server has nothing to report
        BOOST_TEST(their_bytes == bytes);
        BOOST_TEST(their_writes == rounds);
    }
    for (int i = 0; i < 3; ++i) heard(std::bit_cast<std::uint64_t>(1.0));
}

/// The client writes `rounds` times into the memory of the other end, which only looks on.
void play_bandwidth(const talk& with) {
    constexpr std::uint32_t bytes = 4096; // of the client's memory, and of what the server lets be written
    constexpr std::byte untouched{0x5a};
    rxe_end end("rxe0", address_of_rxe0, verbs::access::local_write | verbs::access::remote_write);
    std::ranges::fill(end.memory, untouched);
    const place there = meet(with, end, 2);
    if (with.first) {
        for (unsigned posted = 0, done = 0; done < rounds;) {
            for (; posted < rounds && posted < done + 8; ++posted)
                BOOST_REQUIRE(end.send(0, bytes, [&](ibv_send_wr& wr) {
                    wr.opcode = IBV_WR_RDMA_WRITE;
                    wr.wr.rdma = {there.address, there.key};
                }) == 0);
            const ibv_wc one = end.next();
            BOOST_REQUIRE(one.status == IBV_WC_SUCCESS);
            BOOST_REQUIRE(one.opcode == IBV_WC_RDMA_WRITE);
            ++done;
        }
    }
    with.exchange(place_of(end)); // the client has done
    if (!with.first) {
        BOOST_TEST((std::ranges::count(end.memory.begin(), end.memory.begin() + bytes, untouched) < bytes / 2)); // it sends random bytes
        BOOST_TEST((std::ranges::count(end.memory.begin() + bytes, end.memory.end(), untouched) == bytes));
    }
    exchange_reports(with, bytes);
    with.exchange(place_of(end)); // good-bye
}

void we_are_the_client(const char* program, std::uint16_t port, std::uint32_t bytes, void (*play)(const talk&)) {
    child_program they(words(program, port, bytes, false));
    const talk with{connection_to(port)};
    play(with);
    BOOST_TEST(they.status() == 0);
}

void we_are_the_server(const char* program, std::uint16_t port, std::uint32_t bytes, void (*play)(const talk&)) {
    const unique_fd door = door_at(port);
    child_program they(words(program, port, bytes, true));
    const talk with{who_comes_in(door), false};
    play(with);
    BOOST_TEST(they.status() == 0);
}

} // namespace

BOOST_AUTO_TEST_SUITE(perftest_interop)

BOOST_AUTO_TEST_CASE(we_measure_with_a_server_of_ib_send_lat) { we_are_the_client("ib_send_lat", 18711, size, play_latency); }

BOOST_AUTO_TEST_CASE(a_client_of_ib_send_lat_measures_with_us) { we_are_the_server("ib_send_lat", 18712, size, play_latency); }

BOOST_AUTO_TEST_CASE(we_write_into_the_memory_of_a_server_of_ib_write_bw) {
    we_are_the_client("ib_write_bw", 18713, 4096, play_bandwidth);
}

BOOST_AUTO_TEST_CASE(a_client_of_ib_write_bw_writes_into_our_memory) {
    we_are_the_server("ib_write_bw", 18714, 4096, play_bandwidth);
}

BOOST_AUTO_TEST_SUITE_END()
