#include <corewire/net/port/wrap/vlan_port.hh>

#include <corewire/net/wire/vlan.hh>

#include <cstring>
#include <stdexcept>

namespace corewire {

namespace {

constexpr std::uint32_t both_macs = 12;
constexpr std::uint32_t tag_size = 4;
constexpr std::uint32_t tagged_header = wire::ethernet_header::size + tag_size;

bool is_tagged(byte_span frame) noexcept {
    return frame.size() >= tagged_header && load_be16(frame.data() + both_macs) == static_cast<std::uint16_t>(wire::ether_type::vlan);
}
std::uint16_t vlan_of(byte_span tagged) noexcept { return load_be16(tagged.data() + both_macs + 2) & 0xfff; }

/// Bytes that may be written, with room for a tag before them. False, and nothing has changed: there is no frame for a copy.
bool copy_head(packet& p, frame_pool& pool) noexcept {
    buffer copy = pool.allocate_buffer();
    if (copy.underlying_frame() == nullptr || p.head.size() > copy.tailroom()) return false;
    std::memcpy(copy.append(p.head.size()), p.head.data(), p.head.size());
    p.head = std::move(copy);
    return true;
}

} // namespace

bool is_priority_tagged(byte_span frame) noexcept {
    return is_tagged(frame) && vlan_of(frame) == 0 && load_be16(frame.data() + both_macs + tag_size) != load_be16(frame.data() + both_macs);
}

bool remove_vlan_tag(packet& p, frame_pool& pool) noexcept {
    if (!p.head.exclusive() && !copy_head(p, pool)) return false;
    std::byte* at = p.head.mutable_data();
    std::memmove(at + tag_size, at, both_macs);
    p.head.remove_prefix(tag_size);
    return true;
}

vlan_port::vlan_port(std::unique_ptr<port> inner, std::uint16_t id) : wrapped_port(std::move(inner)), id_(id) {
    if (id == 0 || id > 4094) throw std::invalid_argument("a VLAN has a number from 1 to 4094, not " + std::to_string(id));
    name_ += "." + std::to_string(id);
}

std::size_t vlan_port::receive(std::span<packet> out) {
    const std::size_t n = wrapped_port::receive(out);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < n; ++i) {
        if (!take_in(out[i])) {
            out[i].head.clear();
            out[i].body.clear();
            continue;
        }
        if (kept != i) out[kept] = std::move(out[i]);
        ++kept;
    }
    return kept;
}

bool vlan_port::take_in(packet& p) noexcept {
    const byte_span frame = p.head.bytes();
    std::uint64_t* reason = nullptr;
    if (frame.size() < wire::ethernet_header::size) reason = &counts_.malformed;
    else if (load_be16(frame.data() + both_macs) != static_cast<std::uint16_t>(wire::ether_type::vlan)) reason = &counts_.untagged;
    else if (!is_tagged(frame)) reason = &counts_.malformed;
    else if (vlan_of(frame) != id_) reason = vlan_of(frame) == 0 ? &counts_.untagged : &counts_.other_vlan;
    else if (!remove_vlan_tag(p, pool())) reason = &counts_.no_frame;
    if (reason == nullptr) return true;
    ++*reason;
    return false;
}

/// What the port inside does not take is the caller's still, as it was.
std::size_t vlan_port::transmit(std::span<packet> burst) {
    std::size_t done = 0;
    while (done < burst.size()) {
        std::size_t tagged = done;
        while (tagged < burst.size() && tag(burst[tagged])) ++tagged;
        const std::size_t taken = wrapped_port::transmit(burst.subspan(done, tagged - done));
        for (std::size_t i = done + taken; i < tagged; ++i) untag(burst[i]);
        done += taken;
        if (done != tagged || done == burst.size()) break;
        ++counts_.no_frame; // lost, as on the way: what can't be tagged must not stop the rest
        burst[done].head.clear();
        burst[done].body.clear();
        ++done;
    }
    return done;
}

bool vlan_port::tag(packet& p) noexcept {
    const frame* f = p.head.underlying_frame();
    // Before an Ethernet header nothing is anybody's: others may hold payload of the same frame, which lies behind.
    const bool in_place = f != nullptr && p.head.headroom() >= tag_size && f->owner->writable;
    if (!in_place && !copy_head(p, pool())) return false;
    std::byte* at = p.head.prepend(tag_size);
    std::memmove(at, at + tag_size, both_macs);
    store_be32(at + both_macs, std::uint32_t{static_cast<std::uint16_t>(wire::ether_type::vlan)} << 16 | id_);
    p.l4_offset = static_cast<std::uint16_t>(p.l4_offset + tag_size);
    return true;
}

void vlan_port::untag(packet& p) noexcept {
    std::byte* at = p.head.mutable_data();
    std::memmove(at + tag_size, at, both_macs);
    p.head.remove_prefix(tag_size);
    p.l4_offset = static_cast<std::uint16_t>(p.l4_offset - tag_size);
}

} // namespace corewire
