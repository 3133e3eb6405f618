// Where the sender stands in repairing losses: a few words beside the scoreboard. What is done with them is in loss.cc.
//
//     open --RACK, or 3 duplicates--> fast --SND.UNA reaches `point`--> open      (RFC 8985, 6675, 6582)
//       `-------- RTO -------------> timeout --SND.UNA reaches `point`--> open
//       `-- MTU probe lost, too big -> timeout, cwnd as it was --more is lost--> fast  (`blameless`; RFC 4821 7.6)
//                  any of them <--- it was spurious: loss.cc gives the window back
#pragma once

#include <corewire/net/tcp/seq.hh>

#include <algorithm>
#include <cstdint>

namespace corewire::tcp {

enum class recovery_phase : std::uint8_t { open, fast, timeout };

/// Proportional rate reduction (RFC 9937): during fast recovery the window follows what is delivered, so that it ends at
/// ssthresh without silence before and without a burst after. Bytes.
struct rate_reduction {
    std::uint64_t delivered = 0;   ///< since recovery began
    std::uint64_t out = 0;         ///< sent since
    std::uint32_t flight = 1;      ///< RecoverFS: in flight when it began
    std::uint32_t grain = 1;       ///< what is sent is rounded up to a multiple of this: 1, or, Linux's habit, a segment

    /// `unanswered`: acknowledged together with the ACK that begins it, and nothing has left for that.
    void start(std::uint32_t recover_flight, std::uint32_t unit, std::uint32_t unanswered = 0) noexcept {
        *this = {unanswered, 0, std::max(recover_flight, 1u), unit};
    }
    /// How much may be in flight from now on, after an ACK that delivered `news` bytes. `safe`: SND.UNA moved and nothing
    /// more was found lost.
    std::uint32_t window(std::uint32_t pipe, std::uint32_t ssthresh, std::uint32_t news, bool safe, std::uint32_t mss) noexcept {
        delivered += news;
        constexpr std::int64_t most = 1 << 30; // no window is larger, whatever is claimed to have been delivered
        std::int64_t quota;
        if (pipe > ssthresh) {
            const std::uint64_t unit = std::uint64_t{flight} * grain;
            quota = static_cast<std::int64_t>((delivered * ssthresh + unit - 1) / unit * grain) - static_cast<std::int64_t>(out);
        } else {
            quota = std::max(static_cast<std::int64_t>(delivered) - static_cast<std::int64_t>(out), std::int64_t{news});
            if (safe) quota += mss;
            quota = std::min(quota, std::int64_t{ssthresh - pipe});
        }
        if (out == 0) quota = std::max(quota, std::int64_t{mss}); // a fast retransmit at the start, whatever is in flight
        return pipe + static_cast<std::uint32_t>(std::clamp(quota, std::int64_t{0}, most));
    }
};

/// What is needed to find a recovery spurious: the peer had everything, only late.
struct undo_state {
    bool possible = false;
    seq_number from;               ///< SND.UNA when it began
    std::uint32_t resent = 0;      ///< bytes resent and not yet reported twice (RFC 2883)
    seq_number first, end;         ///< they lie between these
    bool any_resent = false;
    std::uint32_t stamp = 0;       ///< TSval of the first retransmission (Eifel, RFC 3522)
    bool owed_reduction = false;   ///< CWR was still to be said when it began, for a mark: that stays true
    bool marked = false;           ///< marks were told of since: what was taken is their answer, too, and is not given back
    seq_number reduced_until;      ///< ecn_state::reduced_until when it began

    /// From here on it may turn out that nothing was lost. `again`: bytes of [una, max) that were resent already, a probe's perhaps.
    static undo_state since(seq_number una, std::uint32_t again, seq_number max, bool owed_reduction, seq_number reduced_until) noexcept {
        return {.possible = true, .from = una, .resent = again, .first = una, .end = max, .owed_reduction = owed_reduction,
                .reduced_until = reduced_until};
    }
    /// [left, right) goes again.
    void note(seq_number left, seq_number right) noexcept {
        first = resent == 0 ? left : earlier(first, left);
        end = resent == 0 ? right : later(end, right);
        resent += right - left;
    }
};

struct recovery {
    recovery_phase phase = recovery_phase::open;
    bool reducing = false;         ///< Linux's habit: the window shrinks for a mark, one segment for each two or so that are acknowledged
    bool only_new = false;         ///< Linux's habit: what is lost waits for the next ACK, as this one puts it in doubt
    bool held = false;             ///< without SACK: it has ended at `point`; duplicate ACKs of that may be those of needless copies
    seq_number point;              ///< RecoveryPoint: SND.MAX when it began
    std::uint32_t duplicates = 0;  ///< duplicate ACKs since SND.UNA moved
    std::uint32_t left = 0;        ///< without SACK: bytes that duplicate ACKs say have left the network

    bool resend_at_once = false;   ///< the first retransmission of a recovery does not wait for cwnd, nor for its pace
    bool resend_next = false;      ///< the next one does not wait for cwnd (RFC 6582 3.2 step 3)
    std::uint8_t new_first = 0;    ///< so many new segments go before what is lost (F-RTO, RFC 5682 2.1 step 2b)
    bool doubting = false;         ///< F-RTO: the time-out may have been spurious
    bool blameless = false;        ///< phase `timeout` for a lost MTU probe: what is lost besides is a sign of congestion
    bool tail_probe_out = false;        ///< a tail loss probe is unanswered (RFC 8985 7)
    bool probe_repeats = false;    ///< and it was a retransmission
    bool by_numbers = false;       ///< FreeBSD's habit: in flight is all from SND.UNA on, whatever SACK says, but behind a time-out
    seq_number probe_end;          ///< TLP.end_seq
};

} // namespace corewire::tcp
