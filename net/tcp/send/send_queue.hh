// The send queue: everything the application wrote that the peer has not acknowledged, sent or not, as the chunks it
// was written in. Positions are sequence numbers.
//
//     first() == SND.UNA (data)                                   end()
//        | chunk | chunk | chunk      | chunk |
//            sent ............. SND.NXT ^ ... not yet sent
//
// Owned by the sender of one tcb. Bounded: room() is 0 from `limit` bytes or `chunk_limit` chunks on; one write may
// overshoot. Acknowledging frees whole chunks, O(chunks freed); finding a place is O(1) for the next segment to send
// (a cursor) and O(log chunks) elsewhere.
#pragma once

#include <corewire/net/frame/small_blocks.hh>
#include <corewire/net/tcp/ring.hh>
#include <corewire/net/tcp/seq.hh>

#include <algorithm>
#include <cstring>

namespace corewire::tcp {

class send_queue {
public:
    /// Where a byte is: `chunk` holds it `offset` bytes from its start.
    struct place {
        const buffer* chunk;
        std::uint32_t offset;
    };

    void start(seq_number first, std::uint32_t limit, std::uint32_t chunk_limit) noexcept {
        first_ = end_ = first;
        limit_ = limit;
        chunk_limit_ = static_cast<std::uint16_t>(std::min(chunk_limit, ring<chunk>::most / 2));
    }
    void set_limit(std::uint32_t limit) noexcept {
        limit_ = limit;
        note_fullness(); // a writer that finds no room now is told when there is some
    }
    std::uint32_t limit() const noexcept { return limit_; }
    /// FreeBSD's habit: a writer hears of any room, and knows what is too little.
    void tell_of_any_room() noexcept { was_full_ = tells_of_any_ = true; }

    seq_number first() const noexcept { return first_; }
    seq_number end() const noexcept { return end_; }
    std::uint32_t size() const noexcept { return end_ - first_; }
    std::uint32_t chunks() const noexcept { return chunks_.size(); }
    std::uint32_t room() const noexcept {
        const std::uint32_t used = size();
        return used >= limit_ || chunks_.size() >= chunk_limit_ ? 0 : limit_ - used;
    }

    /// Queues a whole buffer; not empty.
    void push(buffer&& data) {
        const seq_number start = end_; // copies: the stores into the chunk may alias the members
        const std::uint32_t size = data.size();
        chunk& c = chunks_.empty() ? chunks_.push_first() : chunks_.push_back();
        c.start = start;
        c.data.take(data);
        end_ = start + size;
        note_fullness();
    }
    /// Copies what fits behind the last chunk, if that chunk's frame is seen by nobody else. Returns the bytes taken.
    std::uint32_t append_copy(byte_span data) noexcept {
        if (chunks_.empty()) return 0;
        buffer& tail = chunks_.back().data;
        if (!tail.exclusive()) return 0;
        const std::uint32_t room = tail.tailroom();
        const std::uint32_t n = data.size() < room ? static_cast<std::uint32_t>(data.size()) : room;
        if (n == 0) return 0;
        std::memcpy(tail.append(n), data.data(), n);
        end_ += n;
        note_fullness();
        return n;
    }

    /// The peer has everything before `una`: frees whole chunks. True if a writer that found no room finds some now.
    [[gnu::always_inline]] bool acknowledge(seq_number una) noexcept {
        first_ = una;
        if (una == end_ && chunks_.size() == 1) [[likely]] { // one write, acknowledged as a whole
            release(*chunks_.front().data.detach());
            chunks_.drop_all();
            cursor_ = 0;
        } else {
            free_acknowledged(una);
        }
        return was_full_ && reopened();
    }
    void clear() noexcept {
        chunks_.clear();
        cursor_ = 0;
        first_ = end_;
    }

    /// Where the byte `at` is; first() <= at < end().
    place find(seq_number at) noexcept {
        if (cursor_ < chunks_.size() && holds(cursor_, at)) [[likely]] return place_in(cursor_, at);
        if (cursor_ + 1u < chunks_.size() && holds(cursor_ + 1u, at)) return place_in(++cursor_, at);
        cursor_ = static_cast<std::uint16_t>(search(at));
        return place_in(cursor_, at);
    }
    place find(seq_number at) const noexcept { return place_in(search(at), at); }
    /// The same if all bytes from `at`, which is before end(), lie in the last chunk; else its offset is beyond that chunk.
    place find_in_last(seq_number at) const noexcept { return {&chunks_.back().data, at - chunks_.back().start}; }
    /// Copies the bytes [at, at + size) out; they are all there.
    void copy(seq_number at, std::uint32_t size, std::byte* destination) const noexcept;
    /// Small chunks move into `blocks`; how many frames that gives back.
    std::uint32_t leave_frames(small_blocks& blocks) noexcept;

    void check_invariants() const;

private:
    struct chunk {
        [[no_unique_address]] buffer data; // whose last bytes are padding
        seq_number start;
    };
    bool holds(std::uint32_t i, seq_number at) const noexcept { return at - chunks_[i].start < chunks_[i].data.size(); }
    place place_in(std::uint32_t i, seq_number at) const noexcept { return {&chunks_[i].data, at - chunks_[i].start}; }
    void free_acknowledged(seq_number una) noexcept;
    /// Binary search for the chunk that holds `at`.
    std::uint32_t search(seq_number at) const noexcept;
    void note_fullness() noexcept {
        if (size() >= limit_ || chunks_.size() >= chunk_limit_) [[unlikely]] was_full_ = true;
    }
    /// A quarter of the buffer is free again: waking a writer for less would make it run for crumbs.
    bool reopened() noexcept {
        if (tells_of_any_) return true;
        if (size() > limit_ - limit_ / 4 || chunks_.size() > chunk_limit_ - chunk_limit_ / 4u) return false;
        was_full_ = false;
        return true;
    }

    seq_number first_;
    seq_number end_;
    std::uint32_t limit_ = 0;
    std::uint16_t chunk_limit_ = 0;
    std::uint16_t cursor_ = 0; ///< where the last find() ended
    bool was_full_ = false;
    bool tells_of_any_ = false;
    ring<chunk> chunks_;
};

} // namespace corewire::tcp
