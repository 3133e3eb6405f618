// What libibverbs' examples, ibv_rc_pingpong and ibv_ud_pingpong, tell each other over TCP, in a line of text:
//
//     "LID:QPN:PSN:GID" of the client -> that of the server -> "done" -> ping, pong, ping ... (rdma-core, libibverbs/examples)
#pragma once

#include "tests/vm/guest/child_program.hh"
#include "tests/vm/guest/loopback_tcp.hh"

#include <cstdio>
#include <fmt/format.h>

namespace corewire::test::pingpong {

constexpr unsigned rounds = 50;
constexpr std::uint32_t size = 512;
constexpr std::uint32_t key = 0x11111111; ///< theirs, of datagrams

struct where {
    unsigned lid = 0, pair = 0, sequence = 0;
    ibv_gid gid{};
};

inline std::string to_text(const where& w) {
    std::string text = fmt::format("{:04x}:{:06x}:{:06x}:", w.lid, w.pair, w.sequence);
    for (const std::uint8_t byte : w.gid.raw) text += fmt::format("{:02x}", byte);
    text.push_back('\0'); // it is sent as well
    return text;
}

inline where from_text(const std::string& text) {
    where w;
    char gid[33] = {};
    BOOST_REQUIRE(std::sscanf(text.c_str(), "%x:%x:%x:%32s", &w.lid, &w.pair, &w.sequence, gid) == 4);
    for (unsigned i = 0; i < 16; ++i) {
        unsigned byte = 0;
        std::sscanf(gid + 2 * i, "%2x", &byte);
        w.gid.raw[i] = static_cast<std::uint8_t>(byte);
    }
    return w;
}

/// One of the examples, on rxe1; with `connects` it connects to us.
inline child_program example(const std::string& program, std::uint16_t port, bool connects) {
    std::vector<std::string> words{program, "-d", "rxe1", "-g", "1", "-n", std::to_string(rounds), "-s", std::to_string(size),
                                   "-p", std::to_string(port)};
    if (connects) words.emplace_back("127.0.0.1");
    return child_program(std::move(words));
}

} // namespace corewire::test::pingpong
