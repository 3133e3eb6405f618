// SYN cookies (RFC 4987 3.6): the answer to a SYN when there is no room to remember it. What must be known later is in our
// initial sequence number and, if the peer sends timestamps, in the low bits of the one we send.
//
//     ISN:    | minute, 5 bits | MSS index, 3 bits | keyed hash of 4-tuple, peer's ISN, minute and index, 24 bits |
//     TSval:  | clock, 26 bits | SACK 1 bit | window scale 4 bits (15: none) | 1 |     never ahead of the clock
//
// A "minute" is 64 s; a cookie lives for one to two. One per listener's stack; no state but the key. A forged ACK passes
// with a chance of about 1 in 8 million.
#pragma once

#include <corewire/net/tcp/open/isn.hh>
#include <corewire/net/tcp/tcb.hh>

#include <optional>

namespace corewire::tcp {

/// A 4-tuple as this host sees it, in host order.
struct cookie_flow {
    std::uint32_t local_address = 0;
    std::uint32_t remote_address = 0;
    std::uint16_t local_port = 0;
    std::uint16_t remote_port = 0;
};

class syn_cookies {
public:
    /// Largest MSS not above the peer's is what the connection gets.
    static constexpr std::uint16_t mss_table[8] = {216, 536, 1024, 1220, 1380, 1440, 1460, 8960};
    static constexpr duration lifetime_step = std::chrono::seconds{64};

    explicit syn_cookies(const siphash_key& key) noexcept : key_(key) {}

    /// The SYN-ACK for `syn`, as outgoing_segment.
    void answer(time_point now, const cookie_flow& flow, const segment& syn, const parameters& ours,
                outgoing_segment& out) const noexcept;
    /// Whether this ACK brings one of our cookies home; if so, what to open the tcb with (then on_segment() the ACK).
    std::optional<cookie_open> accept(time_point now, const cookie_flow& flow, const segment& ack,
                                      const parameters& ours) const noexcept;

    seq_number encode(time_point now, const cookie_flow& flow, seq_number irs, std::uint16_t peer_mss) const noexcept;
    /// The MSS in the cookie, or nothing if it is not ours or too old.
    std::optional<std::uint16_t> decode(time_point now, const cookie_flow& flow, seq_number irs,
                                        seq_number cookie) const noexcept;

private:
    std::uint32_t hash(std::uint64_t minute, const cookie_flow& flow, seq_number irs, std::uint32_t index) const noexcept;
    siphash_key key_;
};

} // namespace corewire::tcp
