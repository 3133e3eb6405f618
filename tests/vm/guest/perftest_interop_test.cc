// Our queue pairs against perftest's ib_send_lat, as client and as server. Over TCP each end says in turn, the client first:
//
//     version (16 bytes) -> size of a page, of a cache line (4 each) -> MTU (2) -> where it is (108: LID, READs, pair, sequence number,
//     key, address, GID, SRQ), three times -> again when its queue pair is ready -> messages to and fro -> again: done
//     (linux-rdma/perftest, perftest_communication.c)
#include <corewire/reactor/base/bytes.hh>

#include "tests/vm/guest/child_program.hh"
#include "tests/vm/guest/loopback_tcp.hh"

#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>

using namespace corewire;
using namespace corewire::test;

namespace {

constexpr unsigned rounds = 50;
constexpr std::uint32_t size = 64;
constexpr std::uint32_t our_sequence = 7;

struct talk {
    unique_fd line;
    bool first = true; ///< the client

    std::string exchange(const std::string& ours) const {
        if (first) say(line, ours);
        const std::string theirs = hear(line, ours.size());
        if (!first) say(line, ours);
        return theirs;
    }
};

std::string number(std::uint32_t value) {
    std::string out(4, '\0');
    store_be32(reinterpret_cast<std::byte*>(out.data()), value);
    return out;
}

std::string place_of(const rxe_end& end) {
    std::string out = fmt::format("{:04x}:{:04x}:{:06x}:{:06x}:{:08x}:{:016x}:", 0, 1, end.pair.number(), our_sequence, 0, 0);
    for (const std::uint8_t byte : end.address.gid.raw) out += fmt::format("{:02x}:", byte);
    out += fmt::format("{:08x}:", 0);
    out.push_back('\0');
    BOOST_REQUIRE(out.size() == 108u);
    return out;
}

verbs::remote_end place_from(const std::string& text) {
    unsigned lid = 0, reads = 0, pair = 0, sequence = 0;
    BOOST_REQUIRE(std::sscanf(text.c_str(), "%x:%x:%x:%x:", &lid, &reads, &pair, &sequence) == 4);
    verbs::remote_end there{.queue_pair = pair, .first_sequence = sequence};
    for (std::size_t i = 0; i < 16; ++i) {
        unsigned byte = 0;
        BOOST_REQUIRE(std::sscanf(text.c_str() + 50 + 3 * i, "%2x", &byte) == 1);
        there.gid.raw[i] = static_cast<std::uint8_t>(byte);
    }
    return there;
}

/// Each end sends `rounds` messages, the client first, and the other one upon each.
void play(const talk& with) {
    rxe_end end("rxe0", address_of_rxe0);
    std::string version = "6.06";
    version.resize(16);
    BOOST_TEST(std::atof(with.exchange(version).c_str()) >= 5.70); // older ones said other things
    with.exchange(number(4096));
    with.exchange(number(64));
    const std::string mtu = with.exchange(std::string("3\0", 2)); // 1,024 bytes
    BOOST_TEST(mtu[0] == '3');
    const std::string ours = place_of(end);
    with.exchange(ours); // twice before the one that counts
    with.exchange(ours);
    const verbs::remote_end there = place_from(with.exchange(ours));
    verbs::connection_parameters p;
    p.gid_index = static_cast<std::uint8_t>(end.address.index);
    p.first_sequence = our_sequence;
    end.pair.activate(there, p);
    for (int i = 0; i < 8; ++i) BOOST_REQUIRE(end.receive(4096, size) == 0);
    with.exchange(ours);
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
    with.exchange(ours);
}

std::vector<std::string> words(std::uint16_t port) {
    return {"ib_send_lat", "-F", "-d", "rxe1", "-x", "1", "-m", "1024", "-n", std::to_string(rounds), "-s", std::to_string(size), "-p",
            std::to_string(port)};
}

} // namespace

BOOST_AUTO_TEST_SUITE(perftest_interop)

BOOST_AUTO_TEST_CASE(we_measure_with_a_server_of_ib_send_lat) {
    child_program they(words(18711));
    const talk with{connection_to(18711)};
    play(with);
    BOOST_TEST(they.status() == 0);
}

BOOST_AUTO_TEST_CASE(a_client_of_ib_send_lat_measures_with_us) {
    const unique_fd door = door_at(18712);
    auto line = words(18712);
    line.emplace_back("127.0.0.1");
    child_program they(line);
    const talk with{who_comes_in(door), false};
    play(with);
    BOOST_TEST(they.status() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
