// The 802.1Q tag (IEEE 802.1Q 9.6). It stands where the EtherType would, so that what follows an Ethernet header of
// type 0x8100 is: 16 bits of tag control information, then the EtherType of the payload.
// The view borrows the frame's bytes for the length of a call; the struct is a plain value.
#pragma once

#include <corewire/net/wire/ethernet.hh>

namespace corewire::wire {

class vlan_view {
public:
    static constexpr std::size_t header_size = 4; ///< bytes behind the 0x8100

    /// `bytes`: the payload of an Ethernet header (or of an outer tag) of type vlan or provider_vlan.
    [[nodiscard]] static parse_error parse(byte_span bytes, vlan_view& out) noexcept {
        if (bytes.size() < header_size) return parse_error::truncated;
        out.bytes_ = bytes;
        return parse_error::none;
    }

    /// VLAN identifier, 12 bits. 0 carries a priority only; 4095 is reserved.
    std::uint16_t id() const noexcept { return control() & 0xfff; }
    /// Priority code point, 0 to 7.
    std::uint8_t priority() const noexcept { return static_cast<std::uint8_t>(control() >> 13); }
    bool drop_eligible() const noexcept { return (control() & 0x1000) != 0; }
    ether_type type() const noexcept { return static_cast<ether_type>(load_be16(bytes_.data() + 2)); }
    byte_span payload() const noexcept { return bytes_.subspan(header_size); }

private:
    std::uint16_t control() const noexcept { return load_be16(bytes_.data()); }
    byte_span bytes_;
};

struct vlan_tag {
    std::uint16_t id = 0;      ///< 12 bits
    std::uint8_t priority = 0; ///< 3 bits
    bool drop_eligible = false;
    ether_type type = ether_type::ipv4; ///< of what follows

    static constexpr std::size_t size = vlan_view::header_size;

    static vlan_tag from(const vlan_view& v) noexcept { return {v.id(), v.priority(), v.drop_eligible(), v.type()}; }
    /// Writes 4 bytes to the front of `out`; returns 4. Asserts that they fit.
    std::size_t emit(mutable_byte_span out) const noexcept {
        CW_ASSERT(out.size() >= size, "no room for a VLAN tag");
        const std::uint32_t control = (priority & 7u) << 13 | (drop_eligible ? 0x1000u : 0u) | (id & 0xfffu);
        store_be32(out.data(), control << 16 | static_cast<std::uint16_t>(type));
        return size;
    }

    friend bool operator==(const vlan_tag&, const vlan_tag&) = default;
};

} // namespace corewire::wire
