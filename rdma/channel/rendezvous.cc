#include <corewire/rdma/channel/rendezvous.hh>

namespace corewire::rdma {

std::uint32_t rc_announcement::to_wire(std::byte* out) const noexcept {
    store_be32(out, count);
    std::byte* at = out + 4;
    for (std::uint32_t i = 0; i < count; ++i, at += stretch_size) {
        store_be64(at, stretches[i].address);
        store_be32(at + 8, stretches[i].key);
        store_be32(at + 12, stretches[i].size);
    }
    return static_cast<std::uint32_t>(at - out);
}

std::optional<rc_announcement> rc_announcement::from_wire(byte_span bytes) noexcept {
    if (bytes.size() < 4) return std::nullopt;
    rc_announcement a;
    a.count = load_be32(bytes.data());
    if (a.count == 0 || a.count > most_regions || bytes.size() != 4 + a.count * stretch_size) return std::nullopt;
    const std::byte* at = bytes.data() + 4;
    for (std::uint32_t i = 0; i < a.count; ++i, at += stretch_size) {
        const stretch s{load_be64(at), load_be32(at + 8), load_be32(at + 12)};
        if (s.size == 0 || s.address + s.size < s.address) return std::nullopt;
        a.stretches[i] = s;
    }
    return a;
}

} // namespace corewire::rdma
