// A wrapper that speaks one VLAN (IEEE 802.1Q): the user above sees an Ethernet without tags, the port inside one with.
//
//     transmit:  | to | from | type ...          ->   | to | from | 0x8100 | VID, PCP 0 | type ...
//     receive:   the other way round; frames without our tag are dropped and counted
//
// The tag goes into the 4 bytes of headroom before the frame, so no payload moves; only a head that may not be written is
// copied. Made when a stack is told its VLAN, so a stack without one does not know that it exists. On the shard of the
// port inside. The MTU is the inner port's: every port takes frames of 18 bytes more than that.
#pragma once

#include <corewire/net/port/wrap/wrapped_port.hh>

namespace corewire {

/// Frames that went no further, by reason.
struct vlan_counts {
    std::uint64_t untagged = 0;   ///< received without a tag, or with one that carries a priority only (VID 0)
    std::uint64_t other_vlan = 0; ///< received with the tag of another VLAN
    std::uint64_t malformed = 0;  ///< shorter than an Ethernet header and a tag
    std::uint64_t no_frame = 0;   ///< had to be copied, and the pool was empty or its frames too small
};

class vlan_port final : public wrapped_port {
public:
    /// 1 to 4094: 0 and 4095 name no VLAN (802.1Q table 9-2). Throws std::invalid_argument for others.
    vlan_port(std::unique_ptr<port> inner, std::uint16_t id);

    std::size_t receive(std::span<packet> out) override;
    std::size_t transmit(std::span<packet> burst) override;

    std::uint16_t id() const noexcept { return id_; }
    const vlan_counts& counts() const noexcept { return counts_; }

private:
    bool take_in(packet& p) noexcept;
    bool tag(packet& p) noexcept;
    static void untag(packet& p) noexcept;

    std::uint16_t id_;
    vlan_counts counts_;
};

/// True for a frame whose tag carries a priority only, which means the same as no tag (802.1Q 6.9.1), with no tag behind it.
bool is_priority_tagged(byte_span frame) noexcept;
/// Takes the tag (18 bytes are there) out of a received frame. False, and nothing has changed: there is no frame for the copy.
[[nodiscard]] bool remove_vlan_tag(packet& p, frame_pool& pool) noexcept;

} // namespace corewire
