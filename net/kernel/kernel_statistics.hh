// What one shard's sockets of the kernel have done, in plain counters. Written where it happens, by the shard; kernel_metrics.hh
// gives them names.
#pragma once

#include <cstdint>

namespace corewire {

/// Of streams or of datagrams.
struct kernel_traffic {
    std::uint64_t received_bytes = 0;
    std::uint64_t receives = 0; ///< pieces that the kernel has filled, or datagrams
    std::uint64_t sent_bytes = 0;
    std::uint64_t sends = 0;      ///< calls of send(2), or requests of the ring, that the kernel took something of
    std::uint64_t send_waits = 0; ///< ... that found its buffer full
};

struct kernel_statistics {
    kernel_traffic tcp;
    kernel_traffic udp;
    std::uint64_t connected = 0;        ///< by connect()
    std::uint64_t accepted = 0;         ///< handed to whoever accepts
    std::uint64_t closed = 0;           ///< connections that nobody holds any more
    std::uint64_t connects_failed = 0;
    std::uint64_t accepts_failed = 0;   ///< for want of descriptors or memory
    std::uint64_t died_by_reset = 0;    ///< connections, once established
    std::uint64_t died_by_time_out = 0;
    std::uint64_t died_otherwise = 0;
    std::uint64_t datagrams_refused = 0; ///< sends that the kernel did not take
    std::uint64_t datagram_errors = 0;   ///< reported by the peer or on the way (ICMP)
};

} // namespace corewire
