// The scoreboard: which sent bytes the peer lacks (RFC 6675), kept as the holes between what it has selectively
// acknowledged. After a time-out, and for peers without SACK, what is held for lost is entered as holes too, so every
// retransmission comes from here.
//
//     SND.UNA [hole: lost, half resent]####[hole]#####  covered()  ....sent, not spoken of....  SND.NXT
//                                        #: SACKed
//
// Owned by the sender of one tcb. Bounded: hole_limit holes; a SACK block that would need one more is not believed yet.
// In a connection without loss it is empty and costs one comparison an ACK. Else the work is O(holes).
#pragma once

#include <corewire/net/tcp/ring.hh>
#include <corewire/net/tcp/segment.hh>

namespace corewire::tcp {

class scoreboard {
public:
    static constexpr std::uint32_t hole_limit = 128;
    static constexpr std::uint32_t duplicate_threshold = 3; ///< DupThresh, RFC 6675 2

    void start(seq_number una) noexcept { una_ = covered_ = highest_sacked_ = una; }

    /// Nothing is known to be missing or selectively acknowledged.
    bool empty() const noexcept { return covered_ == una_; }
    std::uint32_t holes() const noexcept { return holes_.size(); }
    seq_number covered() const noexcept { return covered_; }
    seq_number highest_sacked() const noexcept { return highest_sacked_; }

    /// The cumulative ACK has moved to `una`.
    void acknowledge(seq_number una) noexcept {
        if (covered_ == una_) [[likely]] {
            start(una);
        } else {
            acknowledge_among(una);
        }
    }
    /// The peer holds these bytes. True if that was news. `max`: SND.MAX, beyond which a block is a lie.
    bool sack(sack_block block, seq_number max);
    /// Forgets what was selectively acknowledged and holds [una, max) for lost and not resent (time-out).
    /// `keep_sacked`: keep what was SACKed (RFC 6675 5.1), unless the peer turns out to have dropped it.
    void lose_everything(seq_number max, bool keep_sacked);
    /// Holds [una, end) for lost and not resent (NewReno; early retransmit). Holes that reach beyond are split.
    void lose_first(seq_number end);
    /// Holds every hole for lost.
    void lose_all_holes() noexcept;
    /// RFC 6675's IsLost() for all holes, and holes whose retransmission was overtaken: bytes sent after it have been
    /// SACKed by more than the threshold. True if anything was newly held for lost.
    bool mark_lost(std::uint32_t mss) noexcept;

    /// RFC 6675 NextSeg() rule (1): the first bytes that are lost and not resent; at most `size`. Empty: none.
    sack_block next_lost(std::uint32_t size) const noexcept;
    /// Rule (3): the first bytes of any hole that have not been resent.
    sack_block next_unsent(std::uint32_t size) const noexcept;
    /// [from, to), as next_lost() or next_unsent() returned it, was sent; SND.MAX was `max` then.
    void resent(sack_block bytes, seq_number max) noexcept;
    /// The first hole's bytes may be sent once more (a retransmission that nothing is heard of).
    void forget_first_resend() noexcept;

    /// RFC 6675's SetPipe(): bytes that are thought to be in the network, with everything up to `next` sent.
    std::uint32_t pipe(seq_number next) const noexcept;
    std::uint32_t sacked() const noexcept { return covered_ - una_ - missing(); }
    bool has_lost() const noexcept;
    std::uint64_t refused() const noexcept { return refused_; } ///< blocks beyond hole_limit
    std::uint64_t lost_retransmissions() const noexcept { return lost_again_; }

    void check_invariants(seq_number una, seq_number max) const;

private:
    struct hole {
        seq_number start;
        seq_number end;
        seq_number resent; ///< [start, resent) has been retransmitted
        seq_number mark;   ///< SND.MAX at the last retransmission
        bool lost = false;
    };
    void acknowledge_among(seq_number una) noexcept;
    std::uint32_t missing() const noexcept;
    bool sack_within(sack_block block);
    bool cut(std::uint32_t& i, sack_block block);

    seq_number una_;
    seq_number covered_;
    seq_number highest_sacked_;
    std::uint64_t refused_ = 0;
    std::uint64_t lost_again_ = 0;
    ring<hole, 4> holes_;
};

} // namespace corewire::tcp
