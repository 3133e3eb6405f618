#include <corewire/net/ip/identification.hh>

#include <cstring>

namespace corewire {

identification_source::identification_source(siphash_key secret) noexcept : secret_(secret) {}

std::uint16_t identification_source::next(ipv4 source, ipv4 destination, wire::ip_protocol protocol) noexcept {
    unsigned char key[12] = {};
    const std::uint32_t words[3] = {source.value(), destination.value(), static_cast<std::uint32_t>(protocol)};
    std::memcpy(key, words, sizeof key);
    const std::uint64_t hash = siphash(secret_, key);
    // RFC 7739 5.3: one part of the hash picks the counter, another offsets it.
    std::uint16_t& counter = counters_[hash % counters_.size()];
    return static_cast<std::uint16_t>((hash >> 32) + counter++);
}

} // namespace corewire
