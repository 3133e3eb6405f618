// Where the sender stands in repairing losses: a few words beside the scoreboard. What is done with them is in loss.cc.
//
//     open --3 duplicates or IsLost()--> fast --SND.UNA reaches `point`--> open      (RFC 5681, 6582, 6675)
//       `--------- RTO ---------------> timeout --SND.UNA reaches `point`--> open
#pragma once

#include <corewire/net/tcp/seq.hh>

#include <cstdint>

namespace corewire::tcp {

enum class recovery_phase : std::uint8_t { open, fast, timeout };

struct recovery {
    recovery_phase phase = recovery_phase::open;
    seq_number point;              ///< RecoveryPoint: SND.MAX when it began
    std::uint32_t duplicates = 0;  ///< duplicate ACKs since SND.UNA moved
    std::uint32_t left = 0;        ///< without SACK: bytes that duplicate ACKs say have left the network

    bool resend_at_once = false;   ///< the first retransmission of a recovery does not wait for cwnd
    bool probe_out = false;                ///< a tail loss probe is unanswered (RFC 8985 7)
    bool probe_repeats = false;            ///< and it was a retransmission
    seq_number probe_end;                  ///< TLP.end_seq
};

} // namespace corewire::tcp
