// Segments as numbers: what the stack tells a tcb of a segment that came in, and what a tcb asks it to send.
// Plain values on the stack of one call. No bytes of payload are in here: they travel as buffers (in) or as a place in
// the send queue (out). Ports, addresses and checksums are the stack's affair.
#pragma once

#include <corewire/net/frame/buffer.hh>
#include <corewire/net/tcp/seq.hh>

#include <array>
#include <cstddef>
#include <cstdint>

namespace corewire::tcp {

/// The control bits as they stand in byte 13 of the header (RFC 9293 3.1).
using flag_set = std::uint8_t;
namespace flag {
inline constexpr flag_set fin = 0x01;
inline constexpr flag_set syn = 0x02;
inline constexpr flag_set rst = 0x04;
inline constexpr flag_set psh = 0x08;
inline constexpr flag_set ack = 0x10;
inline constexpr flag_set urg = 0x20;
inline constexpr flag_set ece = 0x40;
inline constexpr flag_set cwr = 0x80;
} // namespace flag

/// Bytes [left, right) that the receiver of data holds (RFC 2018 3).
struct sack_block {
    seq_number left;
    seq_number right;
    friend constexpr bool operator==(sack_block, sack_block) noexcept = default;
};

/// The options of a received segment. What is absent says so; nothing else is initialised that need not be.
struct segment_options {
    static constexpr std::size_t max_sack_blocks = 4;
    static constexpr std::uint8_t no_window_scale = 0xff;

    std::uint32_t ts_value = 0; ///< RFC 7323 TSval
    std::uint32_t ts_echo = 0;  ///< RFC 7323 TSecr
    bool has_timestamps = false;
    bool sack_permitted = false;                 ///< RFC 2018; SYN only
    std::uint8_t sack_count = 0;                 ///< valid entries of `sack`
    std::uint8_t window_scale = no_window_scale; ///< RFC 7323 shift count as sent (above 14 counts as 14); SYN only
    std::uint16_t mss = 0;                       ///< RFC 9293 3.7.1; 0: absent; SYN only
    std::array<sack_block, max_sack_blocks> sack;
};

/// A received segment. Header and checksum have been verified; the payload comes beside it as buffers.
struct segment {
    seq_number seq;
    seq_number ack;               ///< meaningful when flag::ack is set
    std::uint16_t window = 0;     ///< as on the wire, unscaled
    flag_set flags = 0;
    bool congestion_seen = false; ///< the IP header said CE (RFC 3168); counted, no more, today
    std::uint32_t payload_size = 0;
    segment_options options;

    constexpr bool has(flag_set f) const noexcept { return (flags & f) != 0; }
    /// SEG.LEN: payload and the two flags that take a number each (RFC 9293 3.4).
    constexpr std::uint32_t length() const noexcept {
        return payload_size + (has(flag::syn) ? 1u : 0u) + (has(flag::fin) ? 1u : 0u);
    }
};

/// A segment to be sent. The stack adds addresses, ports and checksum, and the payload from the send queue:
///     chunk != nullptr: the bytes [chunk_offset, chunk_offset + payload_size) of that buffer, by share() or by copy;
///     else: tcb::copy_payload(payload_offset, payload_size, destination).
/// `chunk` is valid until the next call of any member of the tcb that is not const.
struct outgoing_segment {
    seq_number seq;
    seq_number ack;
    std::uint16_t window;                ///< as on the wire
    flag_set flags;
    std::uint8_t option_size;            ///< a multiple of 4
    bool retransmission;
    std::uint32_t payload_offset;        ///< from the start of the send queue (the first unacknowledged byte)
    std::uint32_t payload_size;
    const buffer* chunk;                 ///< null: no payload, or not contiguous
    std::uint32_t chunk_offset;
    std::array<std::byte, 40> options;   ///< only the first option_size bytes are set
};

} // namespace corewire::tcp
