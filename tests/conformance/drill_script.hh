// A conformance script: timed system calls and packets in a notation like packetdrill's. What it means is in player.hh.
//
//     0      socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
//     +0     < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7>
//     +.04   > . 1:1(0) ack 1001
//     +0...0.2 read(4, ..., 1000) = 1000                     (a call that blocks: when it begins, and when it ends)
//     +0     %{ assert tcpi_snd_cwnd == 10 }%
//     +0     < icmp unreachable frag_needed mtu 1200 [1:1461(1460)]
//
// Plain values, made from text by parse_script(), which throws std::runtime_error with the line's number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace corewire::conformance {

/// Microseconds.
using script_time = std::int64_t;

struct tcp_option_text {
    std::string name;                  ///< mss, wscale, sackOK, nop, eol, TS, sack, FO, md5, AO, ACC0, ACC1 (AccECN's two orders)
    std::vector<std::int64_t> numbers; ///< the value; TS: val, ecr; sack: left, right, left, right...; ACC0, ACC1: as they stand
    bool operator==(const tcp_option_text&) const = default;
};

struct packet_step {
    bool inbound = false;
    std::string flags;                 ///< of S F R P . E W U A (AE, RFC 9768)
    std::int64_t first = 0, end = 0;
    std::optional<std::int64_t> ack;
    std::optional<std::int64_t> window;
    std::optional<std::int64_t> urgent; ///< the pointer
    std::vector<tcp_option_text> options;
    bool any_options = false;          ///< `<...>`
    unsigned ecn = 0;                  ///< 0 not capable, 1 ect1, 2 ect0, 3 ce
    unsigned type_of_service = 0;      ///< `[tos 0x20]`, of IPv6 the traffic class; outbound
    unsigned hops = 64;                ///< `[ttl 7]`, of IPv6 the hop limit
    unsigned feigned_hops = 0;         ///< `[feign 255]`: IP options that read like another header with so many
};

struct icmp_step {
    std::string kind;                  ///< host_unreachable, net_unreachable, port_unreachable, prohibited, frag_needed, time_exceeded
    std::uint32_t mtu = 0;
    std::int64_t first = 0, end = 0;   ///< numbers of the segment of ours that it quotes
};

struct call_step {
    std::string name;
    std::vector<std::string> arguments; ///< as written
    std::int64_t result = 0;
    std::string error;                  ///< "EAGAIN", or empty
    std::optional<script_time> until;   ///< blocking: when it returns, relative like the step's own time
};

struct check_step {
    std::string name;                   ///< a field of struct tcp_info
    std::string comparison;             ///< == != < <= > >=
    std::int64_t value = 0;
};

struct step {
    int line = 0;
    std::string text;
    bool relative = true;               ///< to the step before
    bool any_time = false;              ///< `*`
    script_time at = 0;
    std::variant<packet_step, icmp_step, call_step, std::vector<check_step>> what;
};

std::vector<step> parse_script(const std::string& text);
/// What the library is to be told: of a line `// flags: ...`, or `otherwise`.
std::string flags_of_script(const std::string& text, const std::string& otherwise);
/// Whether it can be played in this mode (ipv4, mapped, ipv6): a line `// only: ...` names those that it is for. Any other word in it, or
/// none, throws std::runtime_error: such a script would be played nowhere, and nobody would miss it.
bool is_for_mode(const std::string& text, const std::string& mode);

} // namespace corewire::conformance
