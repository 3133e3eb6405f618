// Bare Ethernet frames for measuring a port with no protocol above it: what `--raw` sends and bounces.
//
//     | destination 6 | source 6 | 0x88B5 | payload .......... |      EtherType: IEEE 802 local experimental 1
#pragma once

#include <corewire/net/frame/buffer.hh>
#include <corewire/net/wire/address.hh>

#include <cstdint>
#include <cstring>

namespace corewire::raw {

inline constexpr std::uint16_t ether_type = 0x88b5;
inline constexpr std::uint32_t header_size = 14;
/// Ethernet's shortest frame, without its checksum; the sender pads.
inline constexpr std::uint32_t smallest_frame = 60;

inline bool is_ours(const buffer& frame) noexcept {
    return frame.size() >= header_size && load_be16(frame.data() + 12) == ether_type;
}
inline mac_address source_of(const buffer& frame) noexcept { return mac_address::load(frame.data() + 6); }

inline void write_header(std::byte* at, mac_address destination, mac_address source) noexcept {
    destination.store(at);
    source.store(at + 6);
    store_be16(at + 12, ether_type);
}
/// One-way streams (raw_sink.hh): a frame's number, and the sink's count of them, say in their upper bits which stream is meant.
inline constexpr unsigned stream_shift = 40;
inline constexpr std::uint64_t number_mask = (std::uint64_t{1} << stream_shift) - 1;

/// Sends it back where it came from.
inline void turn_round(std::byte* frame, mac_address own) noexcept {
    std::memcpy(frame, frame + 6, mac_address::size);
    own.store(frame + 6);
}

} // namespace corewire::raw
