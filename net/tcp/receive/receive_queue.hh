// The receive queue: bytes in order that the application has not read, as the pieces they arrived in (zero-copy).
//
// Owned by the receiver of one tcb. Bounded in bytes by the window the receiver promises, and in pieces: many small pieces are
// copied together where their frames allow it, and from `piece_limit` on the network's segments are refused. What the reassembler
// holds may still join them when its gap closes, since it has been told to the sender (SACK).
#pragma once

#include <corewire/net/frame/small_blocks.hh>
#include <corewire/net/tcp/ring.hh>

#include <algorithm>
#include <cstring>

namespace corewire::tcp {

class receive_queue {
public:
    /// From so many pieces on, a small piece is copied behind the one before it and its frame goes home.
    static constexpr std::uint32_t coalesce_from = 8;
    static constexpr std::uint32_t coalesce_size = 512;

    /// Pieces that hold `buffer` bytes, since small ones are copied together; `chosen`, if somebody has.
    static std::uint32_t pieces_for(std::uint32_t buffer, std::uint32_t chosen) noexcept {
        return std::min(chosen != 0 ? chosen : std::max(buffer / coalesce_size, 2048u), ring<corewire::buffer>::most / 2);
    }
    /// `joining`: pieces of the reassembler, at most.
    void limit(std::uint32_t piece_limit, std::uint32_t joining = 0) noexcept {
        piece_limit_ = static_cast<std::uint16_t>(std::min(piece_limit, ring<buffer>::most / 2));
        most_ = static_cast<std::uint16_t>(std::max(piece_limit_ + std::min(joining, ring<buffer>::most / 2), pieces()));
    }

    std::uint32_t size() const noexcept { return size_; } ///< bytes
    std::uint32_t pieces() const noexcept { return pieces_.size(); }
    /// Whether two more pieces would find room.
    bool has_room() const noexcept { return pieces_.size() + 2 <= piece_limit_; }
    /// Whether, after there was none, it is worth saying so.
    bool has_much_room() const noexcept { return pieces_.size() <= piece_limit_ / 2; }

    /// Takes the bytes over. An empty buffer is ignored.
    void push(buffer&& data) {
        if (data.empty()) return;
        size_ += data.size();
        if (pieces_.size() >= coalesce_from && coalesce(data)) return;
        pieces_.push_back().take(data);
    }
    /// The next piece, or its first `max_size` bytes; empty when there is none.
    buffer pop(std::uint32_t max_size) noexcept {
        if (pieces_.empty()) return {};
        buffer& first = pieces_.front();
        if (first.size() > max_size) [[unlikely]] {
            buffer part = first.share(0, max_size);
            first.remove_prefix(max_size);
            size_ -= max_size;
            return part;
        }
        buffer whole = std::move(first);
        pieces_.drop_front();
        size_ -= whole.size();
        return whole;
    }
    /// Copies the bytes from `offset` on, as many as there are and fit; the queue keeps them. O(pieces).
    std::uint32_t peek(std::uint32_t offset, mutable_byte_span into) const noexcept;
    /// Small pieces move into `blocks`; how many frames that gives back.
    std::uint32_t leave_frames(small_blocks& blocks) noexcept;
    void clear() noexcept {
        pieces_.clear();
        size_ = 0;
    }
    void check_invariants() const;

private:
    bool coalesce(buffer& data) noexcept;

    std::uint32_t size_ = 0;
    std::uint16_t piece_limit_ = 0;
    std::uint16_t most_ = 0;
    ring<buffer> pieces_;
};

} // namespace corewire::tcp
