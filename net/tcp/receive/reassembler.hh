// The reassembler: segments that arrived beyond a gap, sorted and disjoint, until the gap closes; and the ranges they
// form, for the SACK option.
//
//     RCV.NXT ...gap... [piece][piece] ...gap... [piece]
//                       `- range 1 --'           `range 2
//
// Owned by the receiver of one tcb. Bounded: bytes by the window (the receiver trims), pieces by `piece_limit`, ranges by
// range_limit; what exceeds a bound is dropped as if the network had lost it. Small pieces that touch are copied together where their
// frames allow it, so that they do not hold a frame each. Of overlapping bytes the first to come
// stay, so a later segment cannot change what an earlier one said.
#pragma once

#include <corewire/net/tcp/receive/receive_queue.hh>
#include <corewire/net/tcp/segment.hh>

#include <memory>

namespace corewire::tcp {

class reassembler {
public:
    static constexpr std::uint32_t range_limit = 64;

    /// What is held stays.
    void limit(std::uint32_t piece_limit) noexcept { piece_limit_ = std::max(piece_limit, pieces()); }

    bool empty() const noexcept { return size_ == 0; }
    std::uint32_t pieces() const noexcept { return held_ != nullptr ? held_->pieces.size() : 0; }
    std::uint32_t ranges() const noexcept { return held_ != nullptr ? held_->ranges.size() : 0; }
    /// Behind the last byte held. Not of an empty one.
    seq_number end() const noexcept { return held_->pieces.back().end(); }
    /// Bytes held.
    std::uint32_t size() const noexcept { return size_; }

    /// Stores what is new of the payload that starts at `at`. Returns the bytes stored: 0 means we had it all already,
    /// or that it was dropped (dropped() tells).
    std::uint32_t insert(seq_number at, buffer&& data);
    /// A copy of the byte at `at` has come: the range that holds it, if it is held still, changed last.
    void touch(seq_number at) noexcept;
    /// Moves what has become contiguous with `next` into `queue` and returns the new next.
    seq_number drain(seq_number next, receive_queue& queue);
    /// The first of [left, right) that is held, as far as it goes without a gap; empty: none of it. For D-SACK (RFC 2883 4).
    sack_block first_held(seq_number left, seq_number right) const noexcept;
    /// The ranges, the one that changed last first (RFC 2018 4). Returns how many were written.
    std::uint32_t report(sack_block* out, std::uint32_t max) const noexcept;
    /// How many report() has. O(1).
    std::uint32_t reportable() const noexcept {
        if (held_ == nullptr || size_ == 0) return 0;
        return held_->recalls ? held_->recalled : held_->ranges.size();
    }
    /// Linux's habit: from now on report() tells of what was remembered alone, and that is forgotten when four newer blocks are. [left,
    /// right) came, beyond a gap; it may end with a FIN.
    void remember(seq_number left, seq_number right);
    /// It would come before two blocks or more that it has nothing to do with.
    bool displaces_two(const sack_block& b) const noexcept;
    /// Pieces refused because of a bound, since clear().
    std::uint64_t dropped() const noexcept { return held_ != nullptr ? held_->dropped : 0; }
    /// Small pieces move into `blocks`; how many frames that gives back.
    std::uint32_t leave_frames(small_blocks& blocks) noexcept;
    void clear() noexcept;

    void check_invariants(seq_number next) const;

private:
    struct piece {
        [[no_unique_address]] buffer data; // whose last bytes are padding
        seq_number start;
        seq_number end() const noexcept { return start + data.size(); }
    };
    struct range {
        sack_block bytes;
        std::uint32_t stamp = 0;
    };
    std::uint32_t insert_among(seq_number at, buffer&& data);
    bool store(std::uint32_t index, seq_number at, buffer&& data);
    bool gather(std::uint32_t index, seq_number at, buffer& data) noexcept;
    bool note(seq_number left, seq_number right);
    std::uint32_t first_ending_after(seq_number at) const noexcept;

    std::uint32_t size_ = 0;
    std::uint32_t piece_limit_ = 0;
    static constexpr std::uint32_t most_recalled = 4;
    struct rows {
        std::uint32_t clock = 0;
        bool recalls = false;          ///< remember() was called
        std::uint8_t recalled = 0;
        sack_block recent[most_recalled]; ///< the newest first
        std::uint64_t dropped = 0;
        ring<piece> pieces;
        ring<range> ranges;
    };
    std::unique_ptr<rows> held_; ///< made for the first piece: most connections never lose one
};

} // namespace corewire::tcp
