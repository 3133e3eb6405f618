#include <corewire/rdma/ud_link/link_address.hh>

#include <fmt/format.h>

#include <algorithm>

namespace corewire {

namespace {

constexpr std::uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/// The finalizer of splitmix64: every bit of the input reaches every bit of the output.
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

} // namespace

bool is_group(const ibv_gid& gid) noexcept {
    return gid.raw[0] == 0xff || (std::equal(mapped_prefix, mapped_prefix + 12, gid.raw) && gid.raw[12] >> 4 == 0xe);
}

ibv_gid mapped(ipv4 address) noexcept {
    ibv_gid gid{};
    std::copy_n(mapped_prefix, 12, gid.raw);
    store_be32(reinterpret_cast<std::byte*>(gid.raw + 12), address.value());
    return gid;
}

bool link_address::is_host() const noexcept {
    const bool unset = std::all_of(std::begin(gid.raw), std::end(gid.raw), [](std::uint8_t b) { return b == 0; });
    return !unset && !is_group(gid) && queue_pair > 1 && queue_pair != group_pair;
}

mac_address link_address::mac() const noexcept {
    std::uint64_t halves[2];
    std::memcpy(halves, gid.raw, sizeof halves);
    const std::uint64_t h = mix(mix(mix(halves[0]) + halves[1]) + queue_pair);
    constexpr std::uint64_t local_unicast = 0x02'00'00'00'00'00;
    return mac_address(local_unicast | h >> 24);
}

std::string to_string(const link_address& a) { return fmt::format("{:#x} at {}", a.queue_pair, verbs::to_string(a.gid)); }

} // namespace corewire
