// The TCP header (RFC 9293 3.1). Options are tcp_options.hh's.
// The view borrows the segment's bytes for the length of a call; the struct is a plain value.
//
//     0               8               16                     31
//     |          source port          |   destination port    |
//     |                    sequence number                    |
//     |                 acknowledgment number                 |
//     | offset |rsv|      flags       |        window         |
//     |           checksum            |    urgent pointer     |
//     |                 options, 0 to 40 bytes                |
#pragma once

#include <corewire/net/wire/checksum.hh>
#include <corewire/net/wire/parse_error.hh>
#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/base/bytes.hh>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>

namespace corewire::wire {

/// The control bits, as they stand in the header. A set: tcp_flags::syn | tcp_flags::ack.
enum class tcp_flags : std::uint16_t {
    none = 0,
    fin = 0x01,
    syn = 0x02,
    rst = 0x04,
    psh = 0x08,
    ack = 0x10,
    urg = 0x20,
    ece = 0x40, ///< RFC 3168
    cwr = 0x80, ///< RFC 3168
    ae = 0x100, ///< RFC 9768; ECN-nonce's NS of old
};
constexpr tcp_flags operator|(tcp_flags a, tcp_flags b) noexcept {
    return static_cast<tcp_flags>(static_cast<std::uint16_t>(a) | static_cast<std::uint16_t>(b));
}
constexpr tcp_flags operator&(tcp_flags a, tcp_flags b) noexcept {
    return static_cast<tcp_flags>(static_cast<std::uint16_t>(a) & static_cast<std::uint16_t>(b));
}
constexpr tcp_flags operator~(tcp_flags a) noexcept { return static_cast<tcp_flags>(~static_cast<unsigned>(a) & 0x1ffu); }
constexpr tcp_flags& operator|=(tcp_flags& a, tcp_flags b) noexcept { return a = a | b; }
constexpr tcp_flags& operator&=(tcp_flags& a, tcp_flags b) noexcept { return a = a & b; }
/// Whether `set` has any of the bits in `any_of`.
constexpr bool has(tcp_flags set, tcp_flags any_of) noexcept { return (set & any_of) != tcp_flags::none; }

std::string to_string(tcp_flags flags); ///< "SYN|ACK", "none"
std::ostream& operator<<(std::ostream& out, tcp_flags flags);

class tcp_view {
public:
    static constexpr std::size_t min_header_size = 20; ///< bytes
    static constexpr std::size_t max_header_size = 60; ///< bytes

    /// `segment`: the payload of a whole IP datagram. Checks the data offset.
    /// The checksum is not looked at, since a port may have: see checksum_ok().
    [[nodiscard]] static parse_error parse(byte_span segment, tcp_view& out) noexcept {
        if (segment.size() < min_header_size) return parse_error::truncated;
        const std::size_t header_size = (load_u8(segment.data() + 12) >> 4) * std::size_t{4};
        if (header_size < min_header_size) return parse_error::bad_header_length;
        if (header_size > segment.size()) return parse_error::truncated;
        out.segment_ = segment;
        out.header_size_ = header_size;
        return parse_error::none;
    }

    std::uint16_t source_port() const noexcept { return load_be16(segment_.data()); }
    std::uint16_t destination_port() const noexcept { return load_be16(segment_.data() + 2); }
    std::uint32_t sequence() const noexcept { return load_be32(segment_.data() + 4); }
    std::uint32_t acknowledgment() const noexcept { return load_be32(segment_.data() + 8); }
    tcp_flags flags() const noexcept { return static_cast<tcp_flags>(load_be16(segment_.data() + 12) & 0x1ff); }
    std::uint8_t reserved() const noexcept { return load_u8(segment_.data() + 12) & 0xe; } ///< to be ignored
    std::uint16_t window() const noexcept { return load_be16(segment_.data() + 14); }      ///< not yet scaled
    std::uint16_t checksum() const noexcept { return load_be16(segment_.data() + 16); }
    std::uint16_t urgent_pointer() const noexcept { return load_be16(segment_.data() + 18); }

    std::size_t header_size() const noexcept { return header_size_; } ///< bytes, options included
    byte_span segment() const noexcept { return segment_; }
    byte_span options() const noexcept { return segment_.subspan(min_header_size, header_size_ - min_header_size); }
    byte_span payload() const noexcept { return segment_.subspan(header_size_); }
    /// SEG.LEN (RFC 9293 3.4): the payload's bytes, and one each for SYN and FIN.
    std::uint32_t sequence_length() const noexcept {
        return static_cast<std::uint32_t>(segment_.size() - header_size_) + (has(flags(), tcp_flags::syn) ? 1 : 0) +
               (has(flags(), tcp_flags::fin) ? 1 : 0);
    }

    /// RFC 9293 3.1 (MUST-3): the receiver checks it.
    template <typename Address> // ipv4_address or ipv6_address
    bool checksum_ok(const Address& source, const Address& destination) const noexcept {
        return pseudo_header_sum(source, destination, ip_protocol::tcp, segment_.size()).add(segment_).verifies();
    }

private:
    byte_span segment_;
    std::size_t header_size_ = 0;
};

struct tcp_header {
    std::uint16_t source_port = 0;
    std::uint16_t destination_port = 0;
    std::uint32_t sequence = 0;
    std::uint32_t acknowledgment = 0;
    tcp_flags flags = tcp_flags::none;
    std::uint16_t window = 0;   ///< already scaled down
    std::uint16_t checksum = 0; ///< for a port that completes it, pseudo_header_sum(...).folded()
    std::uint16_t urgent_pointer = 0;

    static constexpr std::size_t min_size = tcp_view::min_header_size;
    static constexpr std::size_t checksum_offset = 16; ///< bytes from the start of the header

    static tcp_header from(const tcp_view& v) noexcept {
        return {v.source_port(), v.destination_port(), v.sequence(), v.acknowledgment(),
                v.flags(),       v.window(),           v.checksum(), v.urgent_pointer()};
    }

    /// Writes the fixed 20 bytes to the front of `out`, with a data offset that covers `options_size` bytes (a multiple
    /// of 4, at most 40), which the caller writes behind them:
    ///     const auto size = header.emit(out, options.emit(out.subspan(tcp_header::min_size)));
    /// Returns 20 + options_size. The checksum is stored as it stands. Asserts that everything fits.
    std::size_t emit(mutable_byte_span out, std::size_t options_size = 0) const noexcept {
        const std::size_t size = min_size + options_size;
        CW_ASSERT(out.size() >= size, "no room for a TCP header");
        CW_ASSERT(options_size % 4 == 0 && options_size <= 40, "TCP options of an impossible size");
        std::byte* p = out.data();
        store_be32(p, std::uint32_t{source_port} << 16 | destination_port);
        store_be32(p + 4, sequence);
        store_be32(p + 8, acknowledgment);
        store_be32(p + 12,
                   static_cast<std::uint32_t>(size / 4) << 28 | static_cast<std::uint32_t>(flags) << 16 | window);
        store_be32(p + 16, std::uint32_t{checksum} << 16 | urgent_pointer);
        return size;
    }

    friend bool operator==(const tcp_header&, const tcp_header&) = default;
};

/// Stores the checksum of a whole segment, header first and checksum field zero, that lies in one piece. For one in
/// several pieces: pseudo_header_sum(...), add() each piece, store_be16(header + checksum_offset, sum.checksum()).
template <typename Address> // ipv4_address or ipv6_address
void store_tcp_checksum(mutable_byte_span segment, const Address& source, const Address& destination) noexcept {
    CW_ASSERT(segment.size() >= tcp_header::min_size, "a TCP segment below 20 bytes");
    internet_sum sum = pseudo_header_sum(source, destination, ip_protocol::tcp, segment.size());
    // The header on its own: it has just been written, see detail::word_sum_limit.
    const std::size_t header = std::min((load_u8(segment.data() + 12) >> 4) * std::size_t{4}, segment.size());
    sum.add(segment.first(header)).add(segment.subspan(header));
    store_be16(segment.data() + tcp_header::checksum_offset, sum.checksum());
}

} // namespace corewire::wire
