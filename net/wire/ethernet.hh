// The Ethernet II header (IEEE 802.3, RFC 894): destination, source, EtherType. The frame check sequence is the NIC's.
// The view borrows the frame's bytes for the length of a call; the struct is a plain value.
#pragma once

#include <corewire/net/wire/address.hh>
#include <corewire/net/wire/parse_error.hh>
#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/base/bytes.hh>

#include <cstddef>
#include <cstdint>

namespace corewire::wire {

/// IANA "IEEE 802 Numbers". Any 16-bit number is a valid value of the enum; below 0x0600 it is an 802.3 length.
enum class ether_type : std::uint16_t {
    ipv4 = 0x0800,
    arp = 0x0806,
    vlan = 0x8100, ///< 802.1Q
    ipv6 = 0x86dd,
    provider_vlan = 0x88a8, ///< 802.1ad
    experimental = 0x88b5,  ///< IEEE 802 local experimental 1: what `--raw` frames use
};

class ethernet_view {
public:
    static constexpr std::size_t header_size = 14; ///< bytes

    [[nodiscard]] static parse_error parse(byte_span frame, ethernet_view& out) noexcept {
        if (frame.size() < header_size) return parse_error::truncated;
        out.frame_ = frame;
        return parse_error::none;
    }

    mac_address destination() const noexcept { return mac_address::load(frame_.data()); }
    mac_address source() const noexcept { return mac_address::load(frame_.data() + 6); }
    ether_type type() const noexcept { return static_cast<ether_type>(load_be16(frame_.data() + 12)); }
    /// All behind the header, with the padding that short frames carry: the next header knows its own length.
    byte_span payload() const noexcept { return frame_.subspan(header_size); }

private:
    byte_span frame_;
};

struct ethernet_header {
    mac_address destination;
    mac_address source;
    ether_type type = ether_type::ipv4;

    static constexpr std::size_t size = ethernet_view::header_size;

    static ethernet_header from(const ethernet_view& v) noexcept { return {v.destination(), v.source(), v.type()}; }
    /// Writes 14 bytes to the front of `out`; returns 14. Asserts that they fit.
    std::size_t emit(mutable_byte_span out) const noexcept {
        CW_ASSERT(out.size() >= size, "no room for an Ethernet header");
        destination.store(out.data());
        source.store(out.data() + 6);
        store_be16(out.data() + 12, static_cast<std::uint16_t>(type));
        return size;
    }

    friend bool operator==(const ethernet_header&, const ethernet_header&) = default;
};

} // namespace corewire::wire
