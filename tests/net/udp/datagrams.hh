// UDP datagrams for the tests of net/udp.
#pragma once

#include "tests/net/ip/datagrams.hh"

#include <corewire/net/udp/udp_demux.hh>
#include <corewire/net/udp/udp_output.hh>

namespace corewire::test {

/// A whole packet, head starting at its IPv4 header, UDP checksum right.
inline packet udp_packet(frame_pool& pool, udp_address from, udp_address to, byte_span payload,
                         std::size_t payload_in_head = SIZE_MAX) {
    std::vector<std::byte> bytes(8 + payload.size());
    wire::udp_header{from.port, to.port, static_cast<std::uint16_t>(bytes.size()), 0}.emit(bytes);
    std::copy(payload.begin(), payload.end(), bytes.begin() + 8);
    wire::store_udp_checksum(bytes, from.address, to.address);
    return datagram(pool, {.protocol = wire::ip_protocol::udp, .source = from.address.v4(), .destination = to.address.v4()}, bytes, {},
                    payload_in_head == SIZE_MAX ? SIZE_MAX : payload_in_head + 8);
}

} // namespace corewire::test
