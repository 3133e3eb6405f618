// The two rings under a wire: records of a packet one way, tokens of borrowed frames back.
//
//   packet_ring, 64-byte lines, each stamped with its absolute number so that the reader polls the very line that
//   carries the data: delivery of a small packet costs the transfer of its own lines and nothing else.
//
//     first line    | stamp | inline size | lines | flags | pieces | piece descriptors (24 B each) | inline bytes ...
//     further lines | stamp | ----------------------- 56 inline bytes ----------------------- |
//
// Single producer, single consumer. The consumer publishes how far it has read only every quarter of a ring.
#pragma once

#include <corewire/net/frame/frame.hh>
#include <corewire/reactor/base/bytes.hh>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

namespace corewire::wire_detail {

inline constexpr std::uint32_t line_payload = 56;
inline constexpr std::uint32_t inline_limit = 192; ///< a piece up to this size travels inside the ring
inline constexpr std::uint32_t max_pieces = 2;
inline constexpr std::uint8_t handed_over = 0xff; ///< line::pieces: one piece, whose frame is the reader's from now on

/// Bytes that stay where they are: the reader gets a view of them and sends `token` home when it is done.
struct piece {
    const std::byte* bytes;
    frame* token;
    std::uint32_t size;
    std::uint32_t reserved;
};
static_assert(sizeof(piece) == 24);

struct alignas(64) line {
    std::atomic<std::uint32_t> stamp{0};
    std::uint8_t inline_size = 0; ///< bytes of the record that travel inside
    std::uint8_t lines = 0;       ///< of the whole record
    std::uint8_t flags = 0;
    std::uint8_t pieces = 0;
    std::byte bytes[line_payload];
};
static_assert(sizeof(line) == 64);

class packet_ring {
public:
    static constexpr std::uint32_t lines = 1024;
    static constexpr std::uint32_t mask = lines - 1;

    packet_ring() : lines_(std::make_unique<line[]>(lines)) {}

    // ---- producer ----
    static constexpr std::uint32_t lines_needed(std::uint32_t inline_size, std::uint32_t pieces) noexcept {
        const std::uint32_t bytes = inline_size + pieces * sizeof(piece);
        return (bytes + line_payload - 1) / line_payload;
    }
    bool room_for(std::uint32_t needed) noexcept {
        if (written_ + needed - read_cache_ <= lines) return true;
        read_cache_ = read_.load(std::memory_order_acquire);
        return written_ + needed - read_cache_ <= lines;
    }
    /// The everyday record, without pieces and of `count` lines, for which room_for() said yes: whole lines, by copies of a
    /// fixed size. The bytes behind `size`, up to a whole line, are read, copied and ignored.
    void write_whole_lines(const std::byte* from, std::uint32_t size, std::uint32_t count, std::uint8_t flags) noexcept {
        line* const all = lines_.get(); // a copy: the stores of bytes below may alias the member
        std::uint32_t index = written_;
        line& first = all[index++ & mask];
        first.inline_size = static_cast<std::uint8_t>(size);
        first.lines = static_cast<std::uint8_t>(count);
        first.flags = flags;
        first.pieces = 0;
        std::memcpy(first.bytes, from, line_payload);
        while (--count != 0) {
            from += line_payload;
            line& next = all[index & mask];
            next.stamp.store(++index, std::memory_order_relaxed);
            std::memcpy(next.bytes, from, line_payload);
        }
        // Release: whoever sees the first line's stamp sees every byte of the record.
        first.stamp.store(written_ + 1, std::memory_order_release);
        written_ = index;
    }
    /// One whole packet whose frame changes hands: both ends are one reactor's. room_for(1) said yes.
    void write_handed_over(const std::byte* bytes, frame* f, std::uint32_t size, std::uint8_t flags) noexcept {
        const std::uint32_t index = written_; // a copy: the stores of bytes below may alias the member
        line& first = at(index);
        written_ = index + 1;
        first.inline_size = 0;
        first.lines = 1;
        first.flags = flags;
        first.pieces = handed_over;
        // Field by field: a whole piece would be put together on the stack first.
        std::memcpy(first.bytes + offsetof(piece, bytes), &bytes, sizeof bytes);
        std::memcpy(first.bytes + offsetof(piece, token), &f, sizeof f);
        std::memcpy(first.bytes + offsetof(piece, size), &size, sizeof size);
        first.stamp.store(index + 1, std::memory_order_release);
    }
    /// Any record; room_for() said yes. `inline_bytes` may be empty when there are pieces. Reads nothing behind them.
    void write(byte_span inline_bytes, const piece* pieces, std::uint32_t piece_count, std::uint8_t flags) noexcept {
        line& first = at(written_);
        first.inline_size = static_cast<std::uint8_t>(inline_bytes.size());
        first.lines = static_cast<std::uint8_t>(
            lines_needed(static_cast<std::uint32_t>(inline_bytes.size()), piece_count));
        first.flags = flags;
        first.pieces = static_cast<std::uint8_t>(piece_count);
        const std::byte* from = inline_bytes.data();
        auto left = static_cast<std::uint32_t>(inline_bytes.size());
        std::uint32_t room = line_payload;
        std::byte* to = first.bytes;
        if (piece_count != 0) {
            const auto used = piece_count * static_cast<std::uint32_t>(sizeof(piece));
            std::memcpy(to, pieces, used);
            to += used;
            room -= used;
        }
        std::uint32_t index = written_ + 1;
        for (;;) {
            if (left != 0) std::memcpy(to, from, std::min(left, room));
            if (left <= room) break;
            from += room;
            left -= room;
            line& next = at(index);
            next.stamp.store(++index, std::memory_order_relaxed);
            to = next.bytes;
            room = line_payload;
        }
        first.stamp.store(written_ + 1, std::memory_order_release);
        written_ = index;
    }

    // ---- consumer ----
    /// The first line of the next record, or null.
    const line* peek() const noexcept {
        const std::uint32_t position = position_; // a copy: the load of the stamp orders others behind it
        const line& l = at(position);
        return l.stamp.load(std::memory_order_acquire) == position + 1 ? &l : nullptr;
    }
    /// Copies a record without pieces to `into`, which has room for its bytes rounded up to whole lines.
    void copy_whole_lines(const line& first, std::byte* into) const noexcept {
        const line* const all = lines_.get();
        std::uint32_t index = position_;
        std::memcpy(into, first.bytes, line_payload);
        for (std::uint32_t left = first.lines; --left != 0;) {
            into += line_payload;
            std::memcpy(into, all[++index & mask].bytes, line_payload);
        }
    }
    /// The same for a record that may have pieces: copies its inline bytes.
    void copy_inline(const line& first, std::byte* into) const noexcept {
        const std::uint32_t used = first.pieces * static_cast<std::uint32_t>(sizeof(piece));
        std::uint32_t left = first.inline_size;
        const std::uint32_t n = line_payload - used;
        if (used == 0) [[likely]] {
            std::memcpy(into, first.bytes, line_payload);
        } else {
            std::memcpy(into, first.bytes + used, std::min(n, left));
        }
        if (left <= n) return;
        into += n;
        left -= n;
        for (std::uint32_t index = position_ + 1;; ++index) {
            std::memcpy(into, at(index).bytes, line_payload);
            if (left <= line_payload) return;
            into += line_payload;
            left -= line_payload;
        }
    }
    /// What write_handed_over() has written.
    piece handed_over_piece(const line& first) const noexcept {
        piece p{};
        std::memcpy(&p.bytes, first.bytes + offsetof(piece, bytes), sizeof p.bytes);
        std::memcpy(&p.token, first.bytes + offsetof(piece, token), sizeof p.token);
        std::memcpy(&p.size, first.bytes + offsetof(piece, size), sizeof p.size);
        return p;
    }
    void prefetch_rest() const noexcept {
        __builtin_prefetch(&at(position_ + 1));
        __builtin_prefetch(&at(position_ + 2));
    }
    void pop(const line& first) noexcept {
        position_ += first.lines;
        if (position_ - published_ >= lines / 4) publish();
    }
    void publish() noexcept {
        published_ = position_;
        read_.store(position_, std::memory_order_release);
    }

private:
    line& at(std::uint32_t index) noexcept { return lines_[index & mask]; }
    const line& at(std::uint32_t index) const noexcept { return lines_[index & mask]; }

    std::unique_ptr<line[]> lines_;
    alignas(64) std::uint32_t written_ = 0;    // producer's
    std::uint32_t read_cache_ = 0;             // producer's
    alignas(64) std::uint32_t position_ = 0;   // consumer's
    std::uint32_t published_ = 0;              // consumer's
    alignas(64) std::atomic<std::uint32_t> read_{0};
};

/// Tokens on their way home, up to seven a line. Sized so that it can be full only when the home core has not looked
/// for a long time; then tokens wait with the borrower.
class token_ring {
public:
    static constexpr std::uint32_t lines = 512;
    static constexpr std::uint32_t per_line = 7;

    token_ring() : lines_(std::make_unique<token_line[]>(lines)) {}

    /// Borrower: writes one line of `count` (1..7) tokens. False when the ring is full.
    bool write(frame* const* tokens, std::uint32_t count) noexcept {
        if (written_ - read_cache_ == lines) {
            read_cache_ = read_.load(std::memory_order_acquire);
            if (written_ - read_cache_ == lines) return false;
        }
        token_line& l = lines_[written_ % lines];
        l.count = count;
        std::copy_n(tokens, count, l.tokens);
        l.stamp.store(++written_, std::memory_order_release);
        return true;
    }
    /// Home: the next line's tokens, given to `take(frame&)`. False when there is none.
    template <typename Take>
    bool read(Take&& take) noexcept {
        token_line& l = lines_[position_ % lines];
        if (l.stamp.load(std::memory_order_acquire) != position_ + 1) return false;
        for (std::uint32_t i = 0; i < l.count; ++i) take(*l.tokens[i]);
        ++position_;
        read_.store(position_, std::memory_order_release);
        return true;
    }

private:
    struct alignas(64) token_line {
        std::atomic<std::uint32_t> stamp{0};
        std::uint32_t count = 0;
        frame* tokens[per_line];
    };
    std::unique_ptr<token_line[]> lines_;
    alignas(64) std::uint32_t written_ = 0;
    std::uint32_t read_cache_ = 0;
    alignas(64) std::uint32_t position_ = 0;
    alignas(64) std::atomic<std::uint32_t> read_{0};
};

} // namespace corewire::wire_detail
