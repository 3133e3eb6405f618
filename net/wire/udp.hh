// The UDP header (RFC 768).
// The view borrows the datagram's bytes for the length of a call; the struct is a plain value.
#pragma once

#include <corewire/net/wire/checksum.hh>
#include <corewire/net/wire/parse_error.hh>
#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/base/bytes.hh>

#include <cstddef>
#include <cstdint>

namespace corewire::wire {

class udp_view {
public:
    static constexpr std::size_t header_size = 8; ///< bytes

    /// `datagram`: the payload of a whole (reassembled) IP datagram. Bytes behind the UDP length are cut off.
    /// The checksum is not looked at, since a port may have: see checksum_ok().
    [[nodiscard]] static parse_error parse(byte_span datagram, udp_view& out) noexcept {
        if (datagram.size() < header_size) return parse_error::truncated;
        const std::uint16_t length = load_be16(datagram.data() + 4);
        if (length < header_size) return parse_error::bad_length;
        if (length > datagram.size()) return parse_error::truncated;
        out.p_ = datagram.data();
        out.length_ = length;
        return parse_error::none;
    }

    std::uint16_t source_port() const noexcept { return load_be16(p_); } ///< 0: no reply wanted
    std::uint16_t destination_port() const noexcept { return load_be16(p_ + 2); }
    std::uint16_t length() const noexcept { return length_; } ///< bytes, header included
    std::uint16_t checksum() const noexcept { return load_be16(p_ + 6); }
    bool has_checksum() const noexcept { return checksum() != 0; } ///< RFC 768: zero means that none was computed

    byte_span datagram() const noexcept { return {p_, length_}; }
    byte_span payload() const noexcept { return {p_ + header_size, static_cast<std::size_t>(length_ - header_size)}; }

    /// RFC 1122 4.1.3.4: a wrong checksum is discarded, an absent one accepted.
    bool checksum_ok(ipv4_address source, ipv4_address destination) const noexcept {
        return !has_checksum() ||
               pseudo_header_sum(source, destination, ip_protocol::udp, length_).add(datagram()).verifies();
    }
    /// Over IPv6 it must be there (RFC 8200 8.1).
    bool checksum_ok(const ipv6_address& source, const ipv6_address& destination) const noexcept {
        return has_checksum() &&
               pseudo_header_sum(source, destination, ip_protocol::udp, length_).add(datagram()).verifies();
    }

private:
    const std::byte* p_ = nullptr;
    std::uint16_t length_ = 0;
};

struct udp_header {
    std::uint16_t source_port = 0;
    std::uint16_t destination_port = 0;
    std::uint16_t length = 8;   ///< bytes, header included
    std::uint16_t checksum = 0; ///< 0: none; for a port that completes it, pseudo_header_sum(...).folded()

    static constexpr std::size_t size = udp_view::header_size;
    static constexpr std::size_t checksum_offset = 6; ///< bytes from the start of the header

    static udp_header from(const udp_view& v) noexcept {
        return {v.source_port(), v.destination_port(), v.length(), v.checksum()};
    }

    /// Writes 8 bytes to the front of `out`, the checksum as it stands; returns 8. Asserts that they fit.
    std::size_t emit(mutable_byte_span out) const noexcept {
        CW_ASSERT(out.size() >= size, "no room for a UDP header");
        store_be32(out.data(), std::uint32_t{source_port} << 16 | destination_port);
        store_be32(out.data() + 4, std::uint32_t{length} << 16 | checksum);
        return size;
    }

    friend bool operator==(const udp_header&, const udp_header&) = default;
};

/// Stores the checksum of a whole datagram, header first and checksum field zero, that lies in one piece. For one in
/// several pieces: pseudo_header_sum(...), add() each piece, store_be16(header + checksum_offset, sum.udp_checksum()).
template <typename Address>
void store_udp_checksum(mutable_byte_span datagram, const Address& source, const Address& destination) noexcept {
    CW_ASSERT(datagram.size() >= udp_header::size, "a UDP datagram below 8 bytes");
    internet_sum sum = pseudo_header_sum(source, destination, ip_protocol::udp, datagram.size());
    // The header on its own: it has just been written, see detail::word_sum_limit.
    sum.add(datagram.first(udp_header::size)).add(datagram.subspan(udp_header::size));
    store_be16(datagram.data() + udp_header::checksum_offset, sum.udp_checksum());
}

} // namespace corewire::wire
