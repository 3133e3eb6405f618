// Segments as numbers: what the stack tells a tcb of a segment that came in, and what a tcb asks it to send.
// Plain values on the stack of one call. No bytes of payload are in here: they travel as buffers (in) or as a place in
// the send queue (out). Ports, addresses and checksums are the stack's affair.
#pragma once

#include <corewire/net/frame/buffer.hh>
#include <corewire/net/tcp/seq.hh>
#include <corewire/net/wire/ecn.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/net/wire/tcp_options.hh>

#include <array>
#include <cstddef>
#include <cstdint>

namespace corewire::tcp {

using wire::tcp_flags;

/// Bytes [left, right) that the receiver of data holds (RFC 2018 3).
struct sack_block {
    seq_number left;
    seq_number right;
    std::uint32_t size() const noexcept { return right - left; }
    friend constexpr bool operator==(sack_block, sack_block) noexcept = default;
};

/// A received segment. Header and checksum have been verified; the payload comes beside it as buffers.
struct segment {
    seq_number seq;
    seq_number ack;               ///< meaningful when tcp_flags::ack is set
    std::uint16_t window = 0;     ///< as on the wire, unscaled
    tcp_flags flags = tcp_flags::none;
    wire::ecn_codepoint ecn = wire::ecn_codepoint::not_ect; ///< what the IP header said (RFC 3168 5)
    std::uint32_t payload_size = 0;
    std::uint16_t urgent = 0;     ///< the urgent pointer; meaningful when tcp_flags::urg is set
    bool cut = false;             ///< it had text or a FIN, but there is no frame for it: no duplicate ACK (RFC 5681 2 (b), (c))
    wire::tcp_options options;    ///< tcp_options::parse() straight into here

    bool has(tcp_flags any_of) const noexcept { return wire::has(flags, any_of); }
    bool congestion_seen() const noexcept { return ecn == wire::ecn_codepoint::ce; }
    /// SEG.LEN: payload and the two flags that take a number each (RFC 9293 3.4).
    std::uint32_t length() const noexcept {
        return payload_size + (has(tcp_flags::syn) ? 1u : 0u) + (has(tcp_flags::fin) ? 1u : 0u);
    }
};

/// A segment to be sent. The stack adds addresses, ports and checksum, and the payload from the send queue:
///     chunk != nullptr: the bytes [chunk_offset, chunk_offset + payload_size) of that buffer, by share() or by copy;
///     else: tcb::copy_payload(payload_offset, payload_size, destination).
/// `chunk` is valid until the next call of any member of the tcb that is not const.
struct outgoing_segment {
    outgoing_segment() noexcept {} // filled by next_segment(); nothing is cleared before
    seq_number seq;
    seq_number ack;
    std::uint16_t window;              ///< as on the wire
    std::uint16_t urgent = 0;          ///< the urgent pointer
    tcp_flags flags;
    std::uint8_t option_size;          ///< a multiple of 4
    bool retransmission;
    std::uint8_t special;              ///< what few segments are, of the two below
    std::uint32_t payload_offset;      ///< from the start of the send queue (the first unacknowledged byte)
    std::uint32_t payload_size;
    std::uint32_t chunk_offset;
    const buffer* chunk;               ///< null: no payload, or not contiguous
    std::array<std::byte, 40> options; ///< only the first option_size bytes are set

    static constexpr std::uint8_t ect = 1;   ///< the IP header says ECT(0) (RFC 3168)
    static constexpr std::uint8_t joined = 2; ///< it belongs to one packet with the segment before it (super_segment_habits)
    void no_payload() noexcept {
        payload_offset = payload_size = chunk_offset = 0;
        chunk = nullptr;
    }
    /// A bare segment, an ACK or a reset: <SEQ=seq><CTL=control>, for the first time, not ECN-capable (RFC 3168 6.1.4), without payload.
    /// ACK, window and options are not touched.
    void make_bare(seq_number seq_is, tcp_flags control) noexcept {
        seq = seq_is;
        flags = control;
        retransmission = false;
        special = 0;
        no_payload();
    }
    bool ecn_capable() const noexcept { return (special & ect) != 0; }
    bool joins() const noexcept { return (special & joined) != 0; }
};

/// "No window scale option" where a shift count is expected.
inline constexpr std::uint8_t no_window_scale = 0xff;

} // namespace corewire::tcp
