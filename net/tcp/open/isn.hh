// Initial sequence numbers: ISN = M + F(4-tuple, key), RFC 6528 3. M is a clock of 4 microseconds (RFC 9293 3.4.1, MUST-8),
// F is SipHash under a key that the stack draws at its start. A pure function; addresses and ports in host order.
#pragma once

#include <corewire/net/tcp/seq.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/base/time.hh>

#include <cstdint>

namespace corewire::tcp {

/// SipHash of a 4-tuple and two more words under `key`.
std::uint64_t hash_flow(const siphash_key& key, std::uint32_t local_address, std::uint16_t local_port,
                        std::uint32_t remote_address, std::uint16_t remote_port, std::uint32_t extra = 0,
                        std::uint32_t more = 0) noexcept;

inline seq_number initial_sequence_number(const siphash_key& key, time_point now, std::uint32_t local_address,
                                          std::uint16_t local_port, std::uint32_t remote_address,
                                          std::uint16_t remote_port) noexcept {
    const auto clock = static_cast<std::uint32_t>(static_cast<std::uint64_t>(to_ns(now)) / 4'000u);
    const std::uint64_t offset = hash_flow(key, local_address, local_port, remote_address, remote_port);
    return seq_number(clock + static_cast<std::uint32_t>(offset));
}

} // namespace corewire::tcp
