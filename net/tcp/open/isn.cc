#include <corewire/net/tcp/open/isn.hh>

#include <cstring>

namespace corewire::tcp {

std::uint64_t hash_flow(const siphash_key& key, std::uint32_t local_address, std::uint16_t local_port,
                        std::uint32_t remote_address, std::uint16_t remote_port, std::uint32_t extra,
                        std::uint32_t more) noexcept {
    const std::uint32_t words[] = {local_address, remote_address,
                                   static_cast<std::uint32_t>(local_port) << 16 | remote_port, extra, more};
    unsigned char bytes[sizeof words];
    std::memcpy(bytes, words, sizeof words);
    return siphash(key, bytes);
}

} // namespace corewire::tcp
