// What a NIC does to frames: checksums completed and checked, large TCP segments cut. Plain functions over bytes.
#pragma once

#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/bytes.hh>

#include <cstdint>
#include <functional>
#include <vector>

namespace corewire::fake {

/// Fills in the IPv4 header's checksum, and that of TCP or UDP behind it or behind an IPv6 header, whatever the fields hold. Other
/// frames stay as they are.
void complete_checksums(mutable_byte_span frame);
/// True if `frame` is IPv4 with TCP or UDP in one piece, and all its checksums are right. Of IPv6 nothing is said, as by mlx5.
bool checksums_are_good(byte_span frame);
/// Cuts the payload into segments of `size` bytes behind copies of `headers` (Ethernet, IPv4 or IPv6, TCP), with sequence numbers,
/// lengths, identifications, flags and checksums as TSO leaves them. False if the headers are no such headers.
bool cut_segments(byte_span headers, byte_span payload, std::uint32_t size, const std::function<void(byte_span)>& emit);

struct flow_fields {
    bool ipv4 = false, ipv6 = false, tcp = false, udp = false, fragment = false;
    net_address source, destination;
    std::uint8_t protocol = 0;
    std::uint16_t source_port = 0, destination_port = 0;
};
/// What steering and hashing look at; whatever the frame is too short for stays unset.
flow_fields fields_of(byte_span frame);

} // namespace corewire::fake
