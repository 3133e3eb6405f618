// Initial sequence numbers (RFC 6528, RFC 9293 3.4.1 MUST-8): ISN = M + F(4-tuple, secret), where M is a 4 microsecond
// timer and F a keyed hash. New incarnations of a 4-tuple begin above the old ones, and nobody outside can guess.
// And the offset of our timestamps' clock, by the same means.
// Pure functions; the secrets are the stack's.
#pragma once

#include <corewire/net/tcp/seq.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/base/time.hh>

#include <cstdint>
#include <cstring>

namespace corewire::tcp {

/// A connection's addresses and ports, host order, from our side.
struct four_tuple {
    std::uint32_t local_address = 0;
    std::uint32_t remote_address = 0;
    std::uint16_t local_port = 0;
    std::uint16_t remote_port = 0;
};

/// SipHash of the 4-tuple and one more number.
inline std::uint64_t keyed_hash(const siphash_key& key, const four_tuple& flow, std::uint64_t extra) noexcept {
    unsigned char bytes[20];
    std::memcpy(bytes, &flow.local_address, 4);
    std::memcpy(bytes + 4, &flow.remote_address, 4);
    std::memcpy(bytes + 8, &flow.local_port, 2);
    std::memcpy(bytes + 10, &flow.remote_port, 2);
    std::memcpy(bytes + 12, &extra, 8);
    return siphash(key, bytes);
}

inline seq_number initial_sequence_number(const siphash_key& secret, time_point now, const four_tuple& flow) noexcept {
    const auto timer = static_cast<std::uint32_t>(to_ns(now) / 4'000);
    return seq_number(timer + static_cast<std::uint32_t>(keyed_hash(secret, flow, 0)));
}

/// RFC 7323 5.4, 7.1: added to our TSval towards this host, so that it does not tell how long ours has been up. One for each pair of
/// addresses: whoever tells connections by their clock, across ports (RFC 6191), finds it going on.
template <typename Octets>
std::uint32_t timestamp_offset(const siphash_key& secret, const Octets& local, const Octets& remote) noexcept {
    unsigned char bytes[2 * sizeof(Octets)];
    std::memcpy(bytes, &local, sizeof local);
    std::memcpy(bytes + sizeof local, &remote, sizeof remote);
    return static_cast<std::uint32_t>(siphash(secret, bytes));
}

} // namespace corewire::tcp
