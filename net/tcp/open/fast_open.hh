// Fast Open (RFC 7413): data in the SYN of a client that has proved before that its address is its own, by a cookie that the
// server gave to it. What both ends need beyond the handshake itself.
//
//     client                              server
//       | SYN, "a cookie, please"  ----->  |   fast_open_keys::cookie_for(client, server): a keyed hash, nothing is kept
//       | <-- SYN-ACK, cookie              |
//     fast_open_cache: learn()             |
//       | SYN, cookie, data        ----->  |   judge(): good -> the data is read before the handshake is over
//
// Pure values and a bounded table; the stack owns the keys and the cache, the listener its limit.
#pragma once

#include <corewire/net/tcp/segment.hh>
#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/base/time.hh>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace corewire::tcp {

using wire::net_address;

/// 4 to 16 bytes, an even number (RFC 7413 4.1.1); or empty.
struct fast_open_cookie {
    std::uint8_t size = 0;
    bool experimental = false; ///< told in the option's older form: no part of the cookie
    std::array<std::byte, wire::tcp_options::max_cookie_size> value{};

    byte_span bytes() const noexcept { return byte_span(value).first(size); }
    bool empty() const noexcept { return size == 0; }
    static fast_open_cookie of(byte_span bytes) noexcept;
    static fast_open_cookie of(const wire::tcp_options& options) noexcept; ///< of those that have one
    friend bool operator==(const fast_open_cookie& a, const fast_open_cookie& b) noexcept;
};

/// The server's secrets. The older one is still taken, so that it can be changed without refusing anybody (RFC 7413 4.1.2).
struct fast_open_keys {
    siphash_key current;
    std::optional<siphash_key> older;

    /// Of the addresses of client and server, which are of one family: 8 bytes, by SipHash, as Linux makes them.
    fast_open_cookie cookie_for(const net_address& client, const net_address& server) const noexcept;
    enum class verdict : std::uint8_t { good, old, bad };
    verdict check(const fast_open_cookie& shown, const net_address& client, const net_address& server) const noexcept;

    /// 16 bytes in memory order, as TCP_FASTOPEN_KEY and net.ipv4.tcp_fastopen_key have them.
    static siphash_key key_of(std::span<const std::byte, 16> bytes) noexcept;
    static void bytes_of(const siphash_key& key, std::span<std::byte, 16> into) noexcept;
};

/// The keys of a server that was told none. They change every day (RFC 7413 4.1.2: periodically), and yesterday's cookies are taken for one
/// day more. All are made from one secret and the time, so that shards that have the same secret give the same cookies.
class fast_open_key_chain {
public:
    static constexpr duration period = std::chrono::hours{24};

    explicit fast_open_key_chain(const siphash_key& secret = {}) noexcept : secret_(secret) {}
    const fast_open_keys& at(time_point now) noexcept;
    /// From now on these, for good.
    void fix(const fast_open_keys& keys) noexcept {
        keys_ = keys;
        day_ = always;
    }

private:
    static constexpr std::int64_t none = -1, always = -2;
    siphash_key key_of_day(std::int64_t day) const noexcept;

    siphash_key secret_;
    fast_open_keys keys_{};
    std::int64_t day_ = none; ///< of keys_
};

/// What our SYN is to say of it.
struct fast_open_request {
    bool asked = false;        ///< with an empty cookie: ask for one
    bool without_cookie = false; ///< data goes along though there is none, and no option: for closed networks
    fast_open_cookie cookie;
    std::uint16_t peer_mss = 0; ///< what the peer's SYN-ACK said last; 0: unknown, 536 then (RFC 7413 4.2.1)
};

/// What the SYN-ACK is to say, and whether the SYN's data is taken.
struct fast_open_answer {
    bool take_data = false;
    bool give_cookie = false;
    fast_open_cookie cookie;
};

/// The client's memory of servers: cookie, segment size, and where SYNs with data vanish. Bounded: `limit` servers, the one not used
/// for longest is forgotten, and before it one that never gave a cookie. O(limit) a look-up, once a connection that asks for Fast Open.
class fast_open_cache {
public:
    static constexpr std::size_t limit = 64;
    static constexpr duration first_pause = std::chrono::minutes{1}; ///< after a SYN with data that vanished; doubles each time
    static constexpr duration longest_pause = std::chrono::hours{1};

    /// What a SYN to this server says now.
    fast_open_request request_for(time_point now, const net_address& server) noexcept;
    /// Its SYN-ACK gave a cookie (or not: empty) and this segment size.
    /// `in_vain`: it was asked for one, in the form that `cookie` says. Then it is asked in the older form, once; then in this one
    /// for good.
    void learn(time_point now, const net_address& server, const fast_open_cookie& cookie, std::uint16_t mss, bool in_vain = false);
    /// A SYN with a cookie or data was not answered, one without them was (RFC 7413 4.1.3, 7.1): for a while none is sent there.
    void on_lost_syn(time_point now, const net_address& server);
    /// A SYN's data was taken at the first try: what was lost before was chance, and counts no more.
    void on_taken_syn(const net_address& server) noexcept;
    /// It has given a cookie that may be used now.
    bool knows(time_point now, const net_address& server) const noexcept;
    bool paused(time_point now, const net_address& server) const noexcept;
    std::size_t size() const noexcept { return entries_.size(); }
    void clear() noexcept { entries_.clear(); }

private:
    struct entry {
        net_address server;
        std::uint16_t mss = 0;
        std::uint8_t losses = 0;
        bool was_asked_otherwise = false; ///< in the older form, too: neither was answered
        fast_open_cookie cookie;
        time_point used{};
        time_point paused_until{};
    };
    const entry* find(const net_address& server) const noexcept;
    entry* find(const net_address& server) noexcept { return const_cast<entry*>(std::as_const(*this).find(server)); }
    entry& make(time_point now, const net_address& server);
    std::vector<entry> entries_;
};

} // namespace corewire::tcp
