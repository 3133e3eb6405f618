// The options of a TCP header: MSS (RFC 9293 3.7.1), window scale and timestamps (RFC 7323), SACK (RFC 2018),
// the Fast Open cookie (RFC 7413; before it had a kind of its own, the shared one of RFC 6994), user timeout (RFC 5482), AccECN's
// byte counters (RFC 9768).
// A plain value of a fixed size, at most four SACK blocks and one cookie; owned by whoever handles the segment.
#pragma once

#include <corewire/net/wire/parse_error.hh>
#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/base/bytes.hh>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace corewire::wire {

/// Which options a tcp_options has: a set.
enum class tcp_option_set : std::uint8_t {
    none = 0,
    mss = 1 << 0,
    window_scale = 1 << 1,
    sack_permitted = 1 << 2,
    timestamps = 1 << 3,
    sack = 1 << 4,
    fast_open = 1 << 5,
    user_timeout = 1 << 6,
    accurate_ecn = 1 << 7,
};
constexpr tcp_option_set operator|(tcp_option_set a, tcp_option_set b) noexcept {
    return static_cast<tcp_option_set>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
constexpr tcp_option_set operator&(tcp_option_set a, tcp_option_set b) noexcept {
    return static_cast<tcp_option_set>(static_cast<std::uint8_t>(a) & static_cast<std::uint8_t>(b));
}
constexpr tcp_option_set& operator|=(tcp_option_set& a, tcp_option_set b) noexcept { return a = a | b; }
/// Whether `set` has any of the options in `any_of`.
constexpr bool has(tcp_option_set set, tcp_option_set any_of) noexcept {
    return (set & any_of) != tcp_option_set::none;
}

/// Bytes [left, right) have been received, in sequence numbers (RFC 2018 3).
struct sack_block {
    std::uint32_t left = 0;
    std::uint32_t right = 0;
    friend bool operator==(const sack_block&, const sack_block&) = default;
};

/// AccECN0 or AccECN1 (RFC 9768 3.2.3): echoes of how many bytes came with which mark, modulo 2^24.
struct accurate_ecn_option {
    bool order_1 = false;                    ///< kind 174, EE1B first; else kind 172, EE0B first. ECEB stands in the middle
    std::uint8_t fields = 0;                 ///< 0 to 3: so many are there, from the front
    std::array<std::uint32_t, 3> bytes{};    ///< in their order

    static constexpr std::size_t size_of(unsigned fields) noexcept { return 2 + 3 * std::size_t{fields}; }
    bool has_e0b() const noexcept { return fields > (order_1 ? 2 : 0); }
    bool has_ceb() const noexcept { return fields > 1; }
    bool has_e1b() const noexcept { return fields > (order_1 ? 0 : 2); }
    std::uint32_t e0b() const noexcept { return bytes[order_1 ? 2 : 0]; }
    std::uint32_t ceb() const noexcept { return bytes[1]; }
    std::uint32_t e1b() const noexcept { return bytes[order_1 ? 0 : 2]; }
    /// Writes size_of(fields) bytes; returns that.
    std::size_t emit(std::byte* out) const noexcept;
    friend bool operator==(const accurate_ecn_option&, const accurate_ecn_option&) = default;
};

/// The order in which emit() writes. Peers don't care; fingerprints and conformance scripts do.
/// (Not named plain `linux`: compilers in GNU mode define that as a macro.)
enum class option_order : std::uint8_t {
    /// MSS, SACK permitted (behind AccECN without timestamps), timestamps, AccECN, NOP, window scale, SACK, fast open, user timeout; padded
    /// with NOPs
    linux_kernel,
    freebsd,      ///< MSS, NOP, window scale, SACK permitted, timestamps, SACK, fast open, user timeout; padded with end-of-list
};

struct tcp_options {
    static constexpr std::size_t max_size = 40; ///< bytes of options that a TCP header has room for
    static constexpr std::size_t max_sack_blocks = 4;
    static constexpr std::size_t max_cookie_size = 16;      ///< bytes, RFC 7413 4.1.1
    static constexpr std::uint8_t max_window_scale = 14;    ///< RFC 7323 2.2
    static constexpr std::uint32_t timestamps_size = 12;    ///< bytes of the usual NOP, NOP, timestamps (RFC 7323 appendix A),
    static constexpr std::uint32_t nop_nop_timestamps = 0x0101'080a; ///< which begin so
    /// What an ordinary segment of a connection carries, that has agreed on timestamps or not; bytes.
    static constexpr std::uint32_t usual_size(bool stamped) noexcept { return stamped ? timestamps_size : 0; }

    tcp_option_set present = tcp_option_set::none; ///< the other members count only where this says so
    std::uint8_t window_scale = 0;                 ///< shift, 0 to 14
    std::uint16_t mss = 0;                         ///< bytes
    std::uint32_t timestamp_value = 0;             ///< TSval
    std::uint32_t timestamp_echo = 0;              ///< TSecr
    std::uint8_t sack_count = 0;                   ///< blocks in `sack`, with tcp_option_set::sack
    std::uint8_t cookie_size = 0;                  ///< bytes; 0 with tcp_option_set::fast_open asks for a cookie
    bool fast_open_is_experimental = false;        ///< it stands in kind 254 with the identifier 0xf989, as before RFC 7413
    std::uint16_t user_timeout = 0;                ///< as on the wire: the highest bit says minutes, else seconds (RFC 5482 3)
    std::array<sack_block, max_sack_blocks> sack{};
    std::array<std::byte, max_cookie_size> cookie{};
    accurate_ecn_option accurate_ecn;

    bool has(tcp_option_set any_of) const noexcept { return wire::has(present, any_of); }
    bool has_mss() const noexcept { return has(tcp_option_set::mss); }
    bool has_window_scale() const noexcept { return has(tcp_option_set::window_scale); }
    bool has_sack_permitted() const noexcept { return has(tcp_option_set::sack_permitted); }
    bool has_timestamps() const noexcept { return has(tcp_option_set::timestamps); }
    bool has_sack() const noexcept { return has(tcp_option_set::sack); }
    bool has_user_timeout() const noexcept { return has(tcp_option_set::user_timeout); }
    bool has_accurate_ecn() const noexcept { return has(tcp_option_set::accurate_ecn); }
    bool has_fast_open() const noexcept { return has(tcp_option_set::fast_open); }
    byte_span fast_open_cookie() const noexcept { return byte_span(cookie).first(cookie_size); }

    void set_mss(std::uint16_t bytes) noexcept {
        present |= tcp_option_set::mss;
        mss = bytes;
    }
    /// `shift` above 14 counts as 14.
    void set_window_scale(std::uint8_t shift) noexcept {
        present |= tcp_option_set::window_scale;
        window_scale = std::min(shift, max_window_scale);
    }
    void set_sack_permitted() noexcept { present |= tcp_option_set::sack_permitted; }
    void set_timestamps(std::uint32_t value, std::uint32_t echo) noexcept {
        present |= tcp_option_set::timestamps;
        timestamp_value = value;
        timestamp_echo = echo;
    }
    /// False, and nothing is done, when there are four already. The most recent block comes first (RFC 2018 4).
    bool add_sack_block(sack_block block) noexcept {
        if (sack_count == max_sack_blocks) return false;
        present |= tcp_option_set::sack;
        sack[sack_count++] = block;
        return true;
    }
    void set_user_timeout(std::uint16_t field) noexcept {
        present |= tcp_option_set::user_timeout;
        user_timeout = field;
    }
    void set_accurate_ecn(const accurate_ecn_option& counters) noexcept {
        present |= tcp_option_set::accurate_ecn;
        accurate_ecn = counters;
    }
    /// An empty cookie asks for one. Asserts an even size of 4 to 16 bytes otherwise (RFC 7413 4.1.1).
    void set_fast_open(byte_span bytes, bool experimental = false) noexcept;
    void clear() noexcept {
        present = tcp_option_set::none;
        sack_count = 0;
        cookie_size = 0;
    }

    /// Reads tcp_view::options(). An option of unknown kind is skipped by its length (RFC 9293 3.1 MUST-6), and so is
    /// one of a known kind whose length is not that kind's (RFC 7413 4.1.1 says it of the cookie, and kernels do it
    /// for all). A length below 2 or beyond the header ends the walk with bad_option (MUST-7): what stood before it is
    /// in `out`, and the caller decides. Of an option that is there twice the last counts. Never reads beyond the span.
    [[nodiscard]] static parse_error parse(byte_span options, tcp_options& out) noexcept {
        // What nearly every segment has: nothing, or the timestamps as RFC 7323 appendix A lays them out.
        if (options.size() == timestamps_size && load_be32(options.data()) == nop_nop_timestamps) {
            out.clear();
            out.present = tcp_option_set::timestamps;
            out.timestamp_value = load_be32(options.data() + 4);
            out.timestamp_echo = load_be32(options.data() + 8);
            return parse_error::none;
        }
        out.clear();
        if (options.empty()) return parse_error::none;
        return parse_any(options, out);
    }

    /// Writes the options that are present, padded to a multiple of 4 bytes, to the front of `out`; returns the bytes
    /// written, 0 to 40. SACK blocks that find no room beside the rest (the fourth beside timestamps) are left out.
    /// Asserts that the bytes fit into `out`.
    std::size_t emit(mutable_byte_span out, option_order order = option_order::linux_kernel) const noexcept {
        if (present == tcp_option_set::none) return 0;
        if (present == tcp_option_set::timestamps) {
            CW_ASSERT(out.size() >= timestamps_size, "no room for TCP options");
            store_be32(out.data(), nop_nop_timestamps);
            store_be32(out.data() + 4, timestamp_value);
            store_be32(out.data() + 8, timestamp_echo);
            return timestamps_size;
        }
        return emit_any(out, order);
    }
    /// What emit() would return, in bytes.
    std::size_t size(option_order order = option_order::linux_kernel) const noexcept {
        if (present == tcp_option_set::none) return 0;
        if (present == tcp_option_set::timestamps) return timestamps_size;
        std::byte scratch[max_size];
        return emit_any(scratch, order);
    }

    /// Members that `present` does not name are not compared.
    friend bool operator==(const tcp_options& a, const tcp_options& b) noexcept;

private:
    static parse_error parse_any(byte_span options, tcp_options& out) noexcept;
    std::size_t emit_any(mutable_byte_span out, option_order order) const noexcept;
};

} // namespace corewire::wire
