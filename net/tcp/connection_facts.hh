// What a connection tells in types that everybody uses: the protocol, the sockets of both providers, TCP_INFO.
#pragma once

#include <cstdint>

namespace corewire::tcp {

/// What became of the data that was to go along with our SYN (RFC 7413; Linux: tcpi_fastopen_client_fail).
enum class fast_open_failure : std::uint8_t {
    none,         ///< nothing was to go along, it was taken, or it is not known yet
    no_cookie,    ///< none went along: no cookie is known of that server
    not_taken,    ///< the SYN-ACK acknowledged the SYN alone
    syn_repeated, ///< the SYN was lost, and went without data then
};

/// What came with which mark, and what the peer says that did: AccECN's counters (RFC 9768 3.2.1), from 0 on.
struct mark_tally {
    std::uint32_t received = 0, delivered = 0;                                ///< packets with CE
    std::uint32_t received_ect_1 = 0, received_ect_0 = 0, received_ce = 0;    ///< bytes
    std::uint32_t delivered_ect_1 = 0, delivered_ect_0 = 0, delivered_ce = 0; ///< bytes; only with AccECN
    std::uint8_t option_seen = 0;  ///< of AccECN, of the peer: 1 empty, 2 with counters, 3 zeroed
    std::uint8_t failures = 0;     ///< 1 ours may not be heard, 2 the peer's is mangled; 4 and 8: so are options
};

} // namespace corewire::tcp
