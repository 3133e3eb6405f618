// The other way of super_frame.hh: TCP segments of one flow that go out one behind the other, handed on as one frame of up to 64 KiB: to a
// local kernel, which cuts it again where it must (struct virtio_net_hdr, gso_size), or to a NIC, which always does (TSO).
//
//     [ Ethernet IP TCP | payload ][ Ethernet IP TCP | payload ][ Ethernet IP TCP | payload ]     segments of a burst
//     [ Ethernet IP TCP | payload   payload   payload ]                                           as handed over, by reference
//
// Belongs to the port that sends, for the length of a call: it refers to the packets' bytes. Bounded: 64 segments.
#pragma once

#include <corewire/net/frame/packet.hh>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <sys/uio.h>

namespace corewire {

/// What a port is asked to do for a packet, but for the sender's wish to join, as who joins looks for himself.
constexpr offload work_of(const packet& p) noexcept {
    return static_cast<offload>(static_cast<unsigned>(p.flags) & ~static_cast<unsigned>(offload::joins));
}

class joined_segments {
public:
    static constexpr std::size_t most_segments = 64;
    static constexpr std::uint32_t largest = 65'535; ///< bytes of IP packet

    /// Begins with `p`, whose TCP checksum is left to the port. False if nothing can be joined to it: not TCP right behind the header of
    /// IPv4 or IPv6, without payload, or with flags other than ACK and PSH.
    bool begin(const packet& p) noexcept;
    /// Joins `p` behind what is there. False, and nothing has changed: it is not the next segment of the same flow with the same
    /// acknowledgment, window and options, or there is no room.
    bool add(const packet& p) noexcept;
    std::size_t segments() const noexcept { return segments_; }
    /// What finish() will give, but for its first two; a segment more is at most two more.
    std::size_t pieces() const noexcept { return parts_count_ - 2; }

    /// The headers for all of it, made right, then the pieces of payload, in order. `parts[0]` is left to the caller.
    std::span<iovec> finish() noexcept;
    std::uint32_t size() const noexcept { return header_size_ + payload_; } ///< bytes, from the Ethernet header on
    std::uint32_t header_size() const noexcept { return header_size_; }
    std::uint16_t segment_size() const noexcept { return static_cast<std::uint16_t>(segment_size_); } ///< payload of all but the last
    std::uint16_t tcp_offset() const noexcept { return static_cast<std::uint16_t>(tcp_); }
    bool over_ipv6() const noexcept { return ip_size_ != 20; }

private:
    static constexpr std::uint32_t max_headers = 18 + 40 + 60;
    bool same_flow(const std::byte* headers) const noexcept;
    void take_payload(const packet& p) noexcept;

    std::array<std::byte, max_headers> headers_;
    std::uint32_t tcp_ = 0;          ///< offset of the TCP header
    std::uint32_t ip_size_ = 20;     ///< 20 or 40 bytes
    std::uint32_t header_size_ = 0;  ///< bytes up to the payload
    std::uint32_t segment_size_ = 0;
    std::uint32_t payload_ = 0;
    std::uint32_t last_ = 0;         ///< payload of the last segment
    std::uint8_t flags_ = 0;         ///< of the last segment
    std::size_t segments_ = 0;
    std::size_t parts_count_ = 0;
    std::array<iovec, 2 + 2 * most_segments> parts_;
};

} // namespace corewire
