// xoshiro256** (Blackman and Vigna, public domain algorithm): fast, seeded, repeatable. Not for secrets:
// keys and initial sequence numbers come from random_bytes() and siphash.
#pragma once

#include <cstdint>
#include <span>

namespace corewire {

/// Fills `out` from getrandom(2). Throws std::system_error if the kernel refuses.
void random_bytes(std::span<unsigned char> out);
/// A seed from getrandom(2).
std::uint64_t random_seed();

/// SipHash-2-4 of up to any length under a 128-bit key: keyed, for hash tables and sequence numbers that an
/// attacker must not predict (Aumasson and Bernstein, 2012).
struct siphash_key {
    std::uint64_t k0 = 0;
    std::uint64_t k1 = 0;
    static siphash_key random();
};
std::uint64_t siphash(const siphash_key& key, std::span<const unsigned char> data) noexcept;

class random_generator {
public:
    explicit random_generator(std::uint64_t seed) noexcept {
        for (auto& word : state_) word = splitmix(seed);
    }
    std::uint64_t next() noexcept {
        const std::uint64_t out = rotl(state_[1] * 5, 7) * 9;
        const std::uint64_t t = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= t;
        state_[3] = rotl(state_[3], 45);
        return out;
    }
    /// Uniform in [0, bound); bound > 0.
    std::uint64_t below(std::uint64_t bound) noexcept {
        return static_cast<std::uint64_t>((static_cast<wide>(next()) * bound) >> 64);
    }
    /// True with the given probability (0 to 1).
    bool chance(double probability) noexcept {
        return static_cast<double>(next() >> 11) * 0x1p-53 < probability;
    }

private:
    __extension__ typedef unsigned __int128 wide; // not in ISO C++; both compilers have it
    static std::uint64_t rotl(std::uint64_t x, int k) noexcept { return (x << k) | (x >> (64 - k)); }
    static std::uint64_t splitmix(std::uint64_t& s) noexcept {
        std::uint64_t z = (s += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    std::uint64_t state_[4];
};

} // namespace corewire
