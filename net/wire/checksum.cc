#include <corewire/net/wire/checksum.hh>

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Per vector v of 64-bit lanes two sums are kept: `all` of the lanes (modulo 2^64) and `high` of their upper halves
// (exact: 2^32 vectors would have to be added before it overflows). The sum of the lower halves is then
// all - 2^32 * high, modulo 2^64 and so exactly, which saves masking every vector.

namespace corewire::wire::detail {

namespace {

/// The last bytes, fewer than a vector.
template <bool Copy>
std::uint64_t sum_tail(std::byte* to, const std::byte* from, std::size_t size) noexcept {
    std::uint64_t sum = 0;
    if constexpr (Copy) {
        if (size != 0) std::memcpy(to, from, size);
    }
    for (; size >= 8; from += 8, size -= 8) {
        const auto v = load_native<std::uint64_t>(from);
        sum += (v & 0xffffffff) + (v >> 32);
    }
    if ((size & 4) != 0) {
        sum += load_native<std::uint32_t>(from);
        from += 4;
    }
    if ((size & 2) != 0) {
        sum += load_native<std::uint16_t>(from);
        from += 2;
    }
    if ((size & 1) != 0) sum += load_u8(from);
    return sum;
}

// 128-bit vectors in the compilers' own notation: SSE2, NEON, whatever the machine has.
using vector128 [[gnu::vector_size(16)]] = std::uint64_t;

template <bool Copy>
std::uint64_t sum_128(std::byte* to, const std::byte* from, std::size_t size) noexcept {
    vector128 all[2] = {};
    vector128 high[2] = {};
    for (; size >= 32; from += 32, size -= 32) {
        vector128 v[2];
        std::memcpy(v, from, 32);
        if constexpr (Copy) {
            std::memcpy(to, v, 32);
            to += 32;
        }
        for (int i = 0; i < 2; ++i) {
            all[i] += v[i];
            high[i] += v[i] >> 32;
        }
    }
    const vector128 total = all[0] + all[1];
    const vector128 upper = high[0] + high[1];
    const vector128 sum = total - (upper << 32) + upper; // lane by lane: lower halves plus upper halves
    return sum[0] + sum[1] + sum_tail<Copy>(to, from, size);
}

#if defined(__x86_64__)

template <bool Copy>
[[gnu::target("avx2")]] std::uint64_t sum_avx2(std::byte* to, const std::byte* from, std::size_t size) noexcept {
    __m256i all_a = _mm256_setzero_si256();
    __m256i all_b = all_a;
    __m256i high_a = all_a;
    __m256i high_b = all_a;
    for (; size >= 128; from += 128, size -= 128) {
        const auto* in = reinterpret_cast<const __m256i_u*>(from);
        const __m256i v0 = _mm256_loadu_si256(in);
        const __m256i v1 = _mm256_loadu_si256(in + 1);
        const __m256i v2 = _mm256_loadu_si256(in + 2);
        const __m256i v3 = _mm256_loadu_si256(in + 3);
        if constexpr (Copy) {
            auto* out = reinterpret_cast<__m256i_u*>(to);
            _mm256_storeu_si256(out, v0);
            _mm256_storeu_si256(out + 1, v1);
            _mm256_storeu_si256(out + 2, v2);
            _mm256_storeu_si256(out + 3, v3);
            to += 128;
        }
        all_a = _mm256_add_epi64(all_a, v0);
        all_b = _mm256_add_epi64(all_b, v1);
        high_a = _mm256_add_epi64(high_a, _mm256_srli_epi64(v0, 32));
        high_b = _mm256_add_epi64(high_b, _mm256_srli_epi64(v1, 32));
        all_a = _mm256_add_epi64(all_a, v2);
        all_b = _mm256_add_epi64(all_b, v3);
        high_a = _mm256_add_epi64(high_a, _mm256_srli_epi64(v2, 32));
        high_b = _mm256_add_epi64(high_b, _mm256_srli_epi64(v3, 32));
    }
    for (; size >= 32; from += 32, size -= 32) {
        const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(from));
        if constexpr (Copy) {
            _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(to), v);
            to += 32;
        }
        all_a = _mm256_add_epi64(all_a, v);
        high_a = _mm256_add_epi64(high_a, _mm256_srli_epi64(v, 32));
    }
    const __m256i all = _mm256_add_epi64(all_a, all_b);
    const __m256i high = _mm256_add_epi64(high_a, high_b);
    // Lane by lane: lower halves plus upper halves.
    const __m256i sum4 = _mm256_add_epi64(_mm256_sub_epi64(all, _mm256_slli_epi64(high, 32)), high);
    const __m128i sum2 = _mm_add_epi64(_mm256_castsi256_si128(sum4), _mm256_extracti128_si256(sum4, 1));
    const std::uint64_t sum =
        static_cast<std::uint64_t>(_mm_cvtsi128_si64(sum2)) + static_cast<std::uint64_t>(_mm_extract_epi64(sum2, 1));
    return sum + sum_tail<Copy>(to, from, size);
}

/// Read before its initialisation (from another static initialiser) it says false, which is slower and still right.
const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;

#endif

template <bool Copy>
std::uint64_t sum_vectors(std::byte* to, const std::byte* from, std::size_t size) noexcept {
#if defined(__x86_64__)
    if (has_avx2) return sum_avx2<Copy>(to, from, size);
#endif
    return sum_128<Copy>(to, from, size);
}

} // namespace

std::uint64_t sum_any(const std::byte* p, std::size_t size) noexcept {
    return size <= word_sum_limit ? sum_words(p, size) : sum_vectors<false>(nullptr, p, size);
}

std::uint64_t copy_and_sum_any(std::byte* to, const std::byte* from, std::size_t size) noexcept {
    return size < 32 ? sum_tail<true>(to, from, size) : sum_vectors<true>(to, from, size);
}

std::uint64_t sum_portable(const std::byte* p, std::size_t size) noexcept { return sum_128<false>(nullptr, p, size); }

std::uint64_t copy_and_sum_portable(std::byte* to, const std::byte* from, std::size_t size) noexcept {
    return sum_128<true>(to, from, size);
}

} // namespace corewire::wire::detail
