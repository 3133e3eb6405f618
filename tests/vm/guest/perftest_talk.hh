// What perftest's programs tell each other over TCP, each end in turn, the client first:
//
//     version (16 bytes) -> size of a page, of a cache line (4 each) -> MTU (2) -> where it is (108: LID, READs, pair, sequence number,
//     key, address, GID, SRQ), three times (ib_write_bw: twice) -> again when its queue pair is ready -> messages to and fro, or
//     the client's writes -> again: done; of ib_write_bw then what was measured (5 numbers of 8 bytes), and again: good-bye
//     (linux-rdma/perftest, perftest_communication.c)
#pragma once

#include <corewire/reactor/base/bytes.hh>

#include "tests/vm/guest/child_program.hh"
#include "tests/vm/guest/loopback_tcp.hh"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>

namespace corewire::test::perftest {

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

inline std::string number(std::uint32_t value) {
    std::string out(4, '\0');
    store_be32(reinterpret_cast<std::byte*>(out.data()), value);
    return out;
}

/// What is told of an end: how to reach it, and the memory that may be written.
inline std::string place_of(const ibv_gid& gid, std::uint32_t queue_pair, std::uint32_t key = 0, std::uintptr_t address = 0) {
    std::string out = fmt::format("{:04x}:{:04x}:{:06x}:{:06x}:{:08x}:{:016x}:", 0, 1, queue_pair, our_sequence, key, address);
    for (const std::uint8_t byte : gid.raw) out += fmt::format("{:02x}:", byte);
    out += fmt::format("{:08x}:", 0);
    out.push_back('\0');
    BOOST_REQUIRE(out.size() == 108u);
    return out;
}

struct place {
    verbs::remote_end end;
    std::uint32_t key = 0;
    std::uint64_t address = 0;
};

inline place place_from(const std::string& text) {
    unsigned lid = 0, reads = 0;
    place there;
    BOOST_REQUIRE(std::sscanf(text.c_str(), "%x:%x:%x:%x:%x:%" SCNx64 ":", &lid, &reads, &there.end.queue_pair, &there.end.first_sequence,
                              &there.key, &there.address) == 6);
    for (std::size_t i = 0; i < 16; ++i) {
        unsigned byte = 0;
        BOOST_REQUIRE(std::sscanf(text.c_str() + 50 + 3 * i, "%2x", &byte) == 1);
        there.end.gid.raw[i] = static_cast<std::uint8_t>(byte);
    }
    return there;
}

/// Until both know where the other one is. `places`: how often they say it.
inline place greet(const talk& with, const std::string& ours, unsigned places) {
    std::string version = "6.06";
    version.resize(16);
    BOOST_TEST(std::atof(with.exchange(version).c_str()) >= 5.70); // older ones said other things
    with.exchange(number(4096));
    with.exchange(number(64));
    const std::string mtu = with.exchange(std::string("3\0", 2)); // 1,024 bytes
    BOOST_TEST(mtu[0] == '3');
    for (unsigned i = 1; i < places; ++i) with.exchange(ours);
    return place_from(with.exchange(ours));
}

/// One of the programs, on rxe1; with `connects` it connects to us.
inline std::vector<std::string> words(const char* program, std::uint16_t port, std::uint32_t bytes, bool connects,
                                      const std::vector<std::string>& more = {}) {
    std::vector<std::string> all{program, "-F", "-d", "rxe1", "-x", "1", "-m", "1024", "-n", std::to_string(rounds), "-s",
                                 std::to_string(bytes), "-p", std::to_string(port)};
    all.insert(all.end(), more.begin(), more.end());
    if (connects) all.emplace_back("127.0.0.1");
    return all;
}

} // namespace corewire::test::perftest
