#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/base/random_from.hh>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/random.h>
#include <system_error>
#include <utility>

namespace corewire {

namespace {
thread_local constinit random_generator* in_place_of_the_kernel = nullptr;
} // namespace

random_from::random_from(random_generator& source) noexcept : previous_(std::exchange(in_place_of_the_kernel, &source)) {}
random_from::~random_from() { in_place_of_the_kernel = previous_; }

void random_bytes(std::span<unsigned char> out) {
    if (in_place_of_the_kernel != nullptr) {
        while (!out.empty()) {
            const std::uint64_t word = in_place_of_the_kernel->next();
            const std::size_t n = std::min(out.size(), sizeof word);
            std::memcpy(out.data(), &word, n);
            out = out.subspan(n);
        }
        return;
    }
    while (!out.empty()) {
        const ssize_t n = ::getrandom(out.data(), out.size(), 0);
        if (n < 0) {
            if (errno == EINTR) continue;
            throw std::system_error(errno, std::generic_category(), "getrandom");
        }
        out = out.subspan(static_cast<std::size_t>(n));
    }
}

std::uint64_t random_seed() {
    unsigned char raw[8];
    random_bytes(raw);
    std::uint64_t seed;
    std::memcpy(&seed, raw, sizeof seed);
    return seed;
}

siphash_key siphash_key::random() { return {random_seed(), random_seed()}; }

namespace {

struct sip_state {
    std::uint64_t v0, v1, v2, v3;
    static std::uint64_t rotl(std::uint64_t x, int b) noexcept { return (x << b) | (x >> (64 - b)); }
    void round() noexcept {
        v0 += v1; v1 = rotl(v1, 13); v1 ^= v0; v0 = rotl(v0, 32);
        v2 += v3; v3 = rotl(v3, 16); v3 ^= v2;
        v0 += v3; v3 = rotl(v3, 21); v3 ^= v0;
        v2 += v1; v1 = rotl(v1, 17); v1 ^= v2; v2 = rotl(v2, 32);
    }
    void absorb(std::uint64_t m) noexcept {
        v3 ^= m;
        round();
        round();
        v0 ^= m;
    }
};

} // namespace

std::uint64_t siphash(const siphash_key& key, std::span<const unsigned char> data) noexcept {
    sip_state s{key.k0 ^ 0x736f6d6570736575ull, key.k1 ^ 0x646f72616e646f6dull, key.k0 ^ 0x6c7967656e657261ull,
                key.k1 ^ 0x7465646279746573ull};
    const std::uint64_t length_byte = static_cast<std::uint64_t>(data.size() & 0xff) << 56;
    while (data.size() >= 8) {
        std::uint64_t m;
        std::memcpy(&m, data.data(), 8);
        s.absorb(m);
        data = data.subspan(8);
    }
    std::uint64_t last = length_byte;
    for (std::size_t i = 0; i < data.size(); ++i) last |= static_cast<std::uint64_t>(data[i]) << (8 * i);
    s.absorb(last);
    s.v2 ^= 0xff;
    for (int i = 0; i < 4; ++i) s.round();
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

} // namespace corewire
