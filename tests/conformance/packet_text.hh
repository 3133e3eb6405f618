// Packets of a script as bytes and back: IPv4 or IPv6 with TCP or ICMP, and what a live packet says in the script's words.
// Pure functions of plain values.
#pragma once

#include "drill_script.hh"

#include <corewire/net/wire/net_address.hh>

#include <array>
#include <cstddef>
#include <span>

namespace corewire::conformance {

/// Where a connection's two ends are, and what its script's numbers are on the wire.
struct connection_text {
    net_address local = ipv4(192, 168, 0, 1), remote = ipv4(192, 0, 2, 1); ///< packetdrill's
    std::uint16_t local_port = 8080, remote_port = 53'055;
    std::uint32_t local_isn = 0, remote_isn = 0x1000'0000; ///< the script's 0
    bool stamps_known = false;
    std::uint32_t stamp_offset = 0;                        ///< live TSval less the script's
};

struct live_packet {
    bool is_tcp = false;
    std::uint8_t ecn = 0, type_of_service = 0, hops = 0; ///< IPv6: traffic class, hop limit
    bool dont_fragment = true;            ///< IPv6: always
    std::uint16_t source_port = 0, destination_port = 0, window = 0, urgent = 0;
    std::uint32_t sequence = 0, acknowledgment = 0, payload = 0;
    net_address source, destination;
    std::string flags;
    std::vector<tcp_option_text> options; ///< numbers as they are on the wire
    bool checksums_good = false;
};

std::vector<std::byte> build(const packet_step& p, const connection_text& c);
/// Of the connection's family. An MTU is IPv4's: over IPv6 it is 20 bytes more, so that the segments are the same.
std::vector<std::byte> build(const icmp_step& p, const connection_text& c);
/// Throws std::runtime_error for what is no whole IP packet.
live_packet parse_packet(std::span<const std::byte> bytes);
std::string to_text(const live_packet& p, const connection_text& c);
std::string to_text(const std::vector<tcp_option_text>& options);

} // namespace corewire::conformance
