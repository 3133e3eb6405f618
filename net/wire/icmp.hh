// ICMP for IPv4 (RFC 792; RFC 1191 for the next-hop MTU; RFC 4884 for the length of the quoted datagram).
// The view borrows the message's bytes for the length of a call; the struct is a plain value.
#pragma once

#include <corewire/net/wire/checksum.hh>
#include <corewire/net/wire/parse_error.hh>
#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/base/bytes.hh>

#include <cstddef>
#include <cstdint>

namespace corewire::wire {

/// Any octet is a valid value of the enum.
enum class icmp_type : std::uint8_t {
    echo_reply = 0,
    unreachable = 3,
    source_quench = 4, ///< deprecated (RFC 6633): to be ignored
    redirect = 5,
    echo_request = 8,
    time_exceeded = 11,
    parameter_problem = 12,
};

enum class icmp_unreachable : std::uint8_t {
    network = 0,
    host = 1,
    protocol = 2,
    port = 3,
    fragmentation_needed = 4,
    source_route_failed = 5,
    network_unknown = 6,
    host_unknown = 7,
    network_prohibited = 9,
    host_prohibited = 10,
    administratively_prohibited = 13,
};

enum class icmp_time_exceeded : std::uint8_t { ttl = 0, reassembly = 1 };

class icmp_view {
public:
    static constexpr std::size_t header_size = 8; ///< bytes, of every message we handle

    /// `message`: the payload of an IPv4 datagram. The checksum is not looked at: see checksum_ok().
    [[nodiscard]] static parse_error parse(byte_span message, icmp_view& out) noexcept {
        if (message.size() < header_size) return parse_error::truncated;
        out.message_ = message;
        return parse_error::none;
    }

    icmp_type type() const noexcept { return static_cast<icmp_type>(load_u8(message_.data())); }
    std::uint8_t code() const noexcept { return load_u8(message_.data() + 1); }
    std::uint16_t checksum() const noexcept { return load_be16(message_.data() + 2); }
    bool checksum_ok() const noexcept { return wire::checksum_ok(message_); }
    /// The second word, which each type uses in its own way.
    std::uint32_t rest() const noexcept { return load_be32(message_.data() + 4); }

    std::uint16_t identifier() const noexcept { return load_be16(message_.data() + 4); } ///< of an echo
    std::uint16_t sequence() const noexcept { return load_be16(message_.data() + 6); }   ///< of an echo
    /// Bytes, of unreachable/fragmentation_needed. Zero from a router older than RFC 1191.
    std::uint16_t next_hop_mtu() const noexcept { return load_be16(message_.data() + 6); }
    /// Of a parameter problem: the octet of the quoted datagram that is wrong.
    std::uint8_t pointer() const noexcept { return load_u8(message_.data() + 4); }
    ipv4_address gateway() const noexcept { return ipv4_address::load(message_.data() + 4); } ///< of a redirect

    bool is(icmp_unreachable c) const noexcept {
        return type() == icmp_type::unreachable && code() == static_cast<std::uint8_t>(c);
    }
    bool is(icmp_time_exceeded c) const noexcept {
        return type() == icmp_type::time_exceeded && code() == static_cast<std::uint8_t>(c);
    }
    /// It reports on a datagram that it quotes. RFC 1122 3.2.2: no ICMP error is ever sent about an ICMP error.
    bool is_error() const noexcept {
        switch (type()) {
        case icmp_type::unreachable:
        case icmp_type::source_quench:
        case icmp_type::redirect:
        case icmp_type::time_exceeded:
        case icmp_type::parameter_problem:
            return true;
        default:
            return false;
        }
    }

    byte_span message() const noexcept { return message_; }
    byte_span payload() const noexcept { return message_.subspan(header_size); }
    /// Of an error: the quoted datagram, for ipv4_view::parse_quoted(), without the extensions of RFC 4884 behind it.
    byte_span quoted() const noexcept {
        const byte_span all = payload();
        if (type() == icmp_type::redirect) return all; // there the octet is part of the gateway's address
        const std::size_t length = load_u8(message_.data() + 5) * std::size_t{4}; // RFC 4884 4: in 32-bit words
        // With extensions the quote has at least 128 octets (RFC 4884 4); less is an old router's garbage.
        return length < 128 || length > all.size() ? all : all.first(length);
    }

private:
    byte_span message_;
};

struct icmp_header {
    icmp_type type = icmp_type::echo_request;
    std::uint8_t code = 0;
    std::uint32_t rest = 0; ///< the second word

    static constexpr std::size_t size = icmp_view::header_size;

    static icmp_header from(const icmp_view& v) noexcept { return {v.type(), v.code(), v.rest()}; }
    static icmp_header echo_request(std::uint16_t identifier, std::uint16_t sequence) noexcept {
        return {icmp_type::echo_request, 0, std::uint32_t{identifier} << 16 | sequence};
    }
    static icmp_header echo_reply(std::uint16_t identifier, std::uint16_t sequence) noexcept {
        return {icmp_type::echo_reply, 0, std::uint32_t{identifier} << 16 | sequence};
    }
    static icmp_header unreachable(icmp_unreachable code) noexcept {
        return {icmp_type::unreachable, static_cast<std::uint8_t>(code), 0};
    }
    /// `next_hop_mtu` in bytes (RFC 1191 4).
    static icmp_header fragmentation_needed(std::uint16_t next_hop_mtu) noexcept {
        return {icmp_type::unreachable, static_cast<std::uint8_t>(icmp_unreachable::fragmentation_needed),
                next_hop_mtu};
    }
    static icmp_header time_exceeded(icmp_time_exceeded code) noexcept {
        return {icmp_type::time_exceeded, static_cast<std::uint8_t>(code), 0};
    }
    /// `pointer`: the octet of the quoted datagram that is wrong.
    static icmp_header parameter_problem(std::uint8_t pointer) noexcept {
        return {icmp_type::parameter_problem, 0, std::uint32_t{pointer} << 24};
    }

    /// Writes the header and a copy of `payload` (the echoed data; for an error the offending IPv4 header and what
    /// follows it, RFC 1812 4.3.2.3: as much as keeps the whole datagram within 576 bytes), with the checksum over
    /// both. Returns the bytes written, 8 + payload. Asserts that they fit.
    std::size_t emit(mutable_byte_span out, byte_span payload = {}) const noexcept {
        CW_ASSERT(out.size() >= size + payload.size(), "no room for an ICMP message");
        const std::uint32_t first = static_cast<std::uint32_t>(type) << 24 | std::uint32_t{code} << 16;
        internet_sum sum = copy_and_checksum(out.subspan(size), payload);
        sum.add_u32(first).add_u32(rest);
        store_be32(out.data(), first | sum.checksum());
        store_be32(out.data() + 4, rest);
        return size + payload.size();
    }

    friend bool operator==(const icmp_header&, const icmp_header&) = default;
};

/// Turns an echo request (already parsed, checksum verified) into its reply where it stands: type and checksum change,
/// identifier, sequence number and data are returned as they came (RFC 1122 3.2.2.6 MUST).
inline void make_echo_reply(mutable_byte_span message) noexcept {
    CW_ASSERT(message.size() >= icmp_header::size, "an ICMP message below 8 bytes");
    std::byte* p = message.data();
    const std::uint16_t before = load_be16(p);
    const auto after = static_cast<std::uint16_t>(before & 0xff); // type 0
    store_be16(p, after);
    const std::uint16_t updated = update_checksum(load_be16(p + 2), before, after);
    store_be16(p + 2, updated != 0 ? updated : 0xffff); // both are zero, but beside nothing but zeros only this one is right
}

/// What the first 8 bytes of a quoted TCP or UDP header tell (RFC 792 quotes no more than that).
struct quoted_transport {
    std::uint16_t source_port = 0;
    std::uint16_t destination_port = 0;
    std::uint32_t sequence = 0; ///< TCP's; for UDP length and checksum

    /// `payload`: that of the quoted datagram.
    [[nodiscard]] static parse_error parse(byte_span payload, quoted_transport& out) noexcept {
        if (payload.size() < 8) return parse_error::truncated;
        out = {load_be16(payload.data()), load_be16(payload.data() + 2), load_be32(payload.data() + 4)};
        return parse_error::none;
    }

    friend bool operator==(const quoted_transport&, const quoted_transport&) = default;
};

} // namespace corewire::wire
