#include <corewire/net/tcp/receive/reassembler.hh>

#include <algorithm>
#include <cstring>

namespace corewire::tcp {

std::uint32_t reassembler::insert(seq_number at, buffer&& data) {
    if (data.empty()) return 0;
    if (held_ == nullptr) held_ = std::make_unique<rows>();
    // Nearly always: behind everything else.
    const ring<piece>& pieces = held_->pieces;
    if (pieces.empty() || pieces.back().end() <= at) {
        const std::uint32_t size = data.size();
        return store(pieces.size(), at, std::move(data)) ? size : 0;
    }
    return insert_among(at, std::move(data));
}

/// Fills the gaps between the pieces that are there with the parts of `data` that belong into them.
std::uint32_t reassembler::insert_among(seq_number at, buffer&& data) {
    const ring<piece>& pieces = held_->pieces;
    std::uint32_t stored = 0;
    for (std::uint32_t i = first_ending_after(at); !data.empty(); ++i) {
        const bool last = i == pieces.size();
        if (last || at + data.size() <= pieces[i].start) {
            const std::uint32_t size = data.size();
            if (store(i, at, std::move(data))) stored += size;
            break;
        }
        if (at < pieces[i].start) {
            const std::uint32_t gap = pieces[i].start - at;
            if (!store(i, at, data.share(0, gap))) break;
            stored += gap;
            data.remove_prefix(gap);
            at += gap;
            i = first_ending_after(at); // one more is before it, or none where the gap was gathered
        }
        const std::uint32_t overlap = pieces[i].end() - at;
        if (overlap >= data.size()) break;
        data.remove_prefix(overlap);
        at += overlap;
    }
    return stored;
}

/// Copies `data` behind the piece before it, or the piece behind it to its end, where one of the two is small and there is room: else many
/// small segments would hold a frame each. The range is told of it already.
bool reassembler::gather(std::uint32_t index, seq_number at, buffer& data) noexcept {
    constexpr std::uint32_t small = receive_queue::coalesce_size;
    ring<piece>& pieces = held_->pieces;
    const auto append = [](buffer& to, const buffer& from) {
        if (from.size() > small || !to.exclusive() || to.tailroom() < from.size()) return false;
        std::memcpy(to.append(from.size()), from.data(), from.size());
        return true;
    };
    if (index != 0 && pieces[index - 1].end() == at && append(pieces[index - 1].data, data)) {
        data = buffer{};
        return true;
    }
    if (index == pieces.size() || pieces[index].start != at + data.size()) return false;
    piece& after = pieces[index];
    if (!append(data, after.data)) return false;
    after.start = at;
    after.data = std::move(data);
    return true;
}

bool reassembler::store(std::uint32_t index, seq_number at, buffer&& data) {
    ring<piece>& pieces = held_->pieces;
    const std::uint32_t size = data.size();
    const bool joins = (index != 0 && pieces[index - 1].end() == at) || (index != pieces.size() && pieces[index].start == at + size);
    if (joins && gather(index, at, data)) {
        note(at, at + size); // it joins a range, and so needs no place for another
        size_ += size;
        return true;
    }
    if (pieces.size() >= piece_limit_ || !note(at, at + data.size())) {
        ++held_->dropped;
        return false;
    }
    size_ += data.size();
    piece& p = index == pieces.size() ? pieces.push_back() : pieces.insert(index);
    p.start = at;
    p.data = std::move(data);
    return true;
}

/// Adds [left, right), which overlaps no range, and joins the ranges that it touches.
bool reassembler::note(seq_number left, seq_number right) {
    ring<range>& ranges = held_->ranges;
    std::uint32_t i = ranges.size();
    while (i != 0 && ranges[i - 1].bytes.left > left) --i;
    const bool joins_before = i != 0 && ranges[i - 1].bytes.right == left;
    const bool joins_after = i != ranges.size() && ranges[i].bytes.left == right;
    const std::uint32_t clock = ++held_->clock;
    if (joins_before) {
        range& before = ranges[i - 1];
        before.bytes.right = joins_after ? ranges[i].bytes.right : right;
        before.stamp = clock;
        if (joins_after) ranges.erase(i);
        return true;
    }
    if (joins_after) {
        ranges[i].bytes.left = left;
        ranges[i].stamp = clock;
        return true;
    }
    if (ranges.size() >= range_limit) return false;
    range& fresh = i == ranges.size() ? ranges.push_back() : ranges.insert(i);
    fresh.bytes = {left, right};
    fresh.stamp = clock;
    return true;
}

void reassembler::touch(seq_number at) noexcept {
    if (held_ == nullptr) return;
    ring<range>& ranges = held_->ranges;
    for (std::uint32_t i = 0; i < ranges.size(); ++i)
        if (ranges[i].bytes.left <= at && at < ranges[i].bytes.right) ranges[i].stamp = ++held_->clock;
}

std::uint32_t reassembler::first_ending_after(seq_number at) const noexcept {
    const ring<piece>& pieces = held_->pieces;
    std::uint32_t low = 0;
    std::uint32_t high = pieces.size();
    while (low < high) {
        const std::uint32_t middle = (low + high) / 2;
        if (pieces[middle].end() <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

seq_number reassembler::drain(seq_number next, receive_queue& queue) {
    if (held_ == nullptr) return next;
    ring<piece>& pieces = held_->pieces;
    ring<range>& ranges = held_->ranges;
    while (!pieces.empty() && pieces.front().start <= next) {
        piece& first = pieces.front();
        size_ -= first.data.size();
        if (first.end() > next) {
            first.data.remove_prefix(next - first.start);
            next += first.data.size();
            queue.push(std::move(first.data));
        }
        pieces.pop_front();
    }
    while (!ranges.empty() && ranges.front().bytes.right <= next) ranges.pop_front();
    const auto passed = [next](const sack_block& b) { return b.left <= next; };
    sack_block* const recent = held_->recent;
    held_->recalled = static_cast<std::uint8_t>(std::remove_if(recent, recent + held_->recalled, passed) - recent);
    return next;
}

sack_block reassembler::first_held(seq_number left, seq_number right) const noexcept {
    if (held_ == nullptr) return {left, left};
    const ring<range>& ranges = held_->ranges;
    for (std::uint32_t i = 0; i < ranges.size() && ranges[i].bytes.left < right; ++i) {
        if (ranges[i].bytes.right > left) return {later(left, ranges[i].bytes.left), earlier(right, ranges[i].bytes.right)};
    }
    return {left, left};
}

/// tcp_sack_new_ofo_skb().
void reassembler::remember(seq_number left, seq_number right) {
    if (held_ == nullptr) held_ = std::make_unique<rows>();
    held_->recalls = true;
    sack_block* const recent = held_->recent;
    sack_block* end = recent + held_->recalled;
    sack_block fresh{left, right};
    const auto swallow = [&fresh](const sack_block& b) {
        if (fresh.right < b.left || b.right < fresh.left) return false;
        fresh = {earlier(fresh.left, b.left), later(fresh.right, b.right)};
        return true;
    };
    sack_block* const at = std::find_if(recent, end, swallow);
    if (at != end) {
        std::rotate(recent, at, at + 1); // to the front; what it has grown into goes
        end = std::remove_if(recent + 1, end, swallow);
    } else {
        if (held_->recalled < most_recalled) ++end;
        std::move_backward(recent, end - 1, end);
    }
    recent[0] = fresh;
    held_->recalled = static_cast<std::uint8_t>(end - recent);
}

bool reassembler::displaces_two(const sack_block& b) const noexcept {
    if (held_ == nullptr || held_->recalled < 2) return false;
    const auto touches = [&b](const sack_block& other) { return b.right >= other.left && other.right >= b.left; };
    return !touches(held_->recent[0]) && !touches(held_->recent[1]);
}

std::uint32_t reassembler::report(sack_block* out, std::uint32_t max) const noexcept {
    if (held_ == nullptr || size_ == 0) return 0;
    if (held_->recalls) {
        const std::uint32_t count = std::min<std::uint32_t>(max, held_->recalled);
        std::copy_n(held_->recent, count, out);
        return count;
    }
    const ring<range>& ranges = held_->ranges;
    std::uint32_t written = 0;
    std::uint32_t below = ~std::uint32_t{0};
    while (written < max && written < ranges.size()) {
        const range* newest = nullptr;
        for (std::uint32_t i = 0; i < ranges.size(); ++i) {
            const range& r = ranges[i];
            if (r.stamp < below && (newest == nullptr || r.stamp > newest->stamp)) newest = &r;
        }
        if (newest == nullptr) break;
        out[written++] = newest->bytes;
        below = newest->stamp;
    }
    return written;
}

std::uint32_t reassembler::leave_frames(small_blocks& blocks) noexcept {
    std::uint32_t given = 0;
    for (std::uint32_t i = 0; i < pieces(); ++i) given += blocks.take_over(held_->pieces[i].data);
    return given;
}

void reassembler::clear() noexcept {
    held_.reset();
    size_ = 0;
}

void reassembler::check_invariants(seq_number next) const {
    CW_ASSERT(held_ != nullptr || size_ == 0, "bytes that are nowhere");
    if (held_ == nullptr) return;
    const ring<piece>& pieces = held_->pieces;
    const ring<range>& ranges = held_->ranges;
    CW_ASSERT(pieces.size() <= piece_limit_ && ranges.size() <= range_limit, "the reassembler exceeds its bounds");
    std::uint32_t bytes = 0;
    std::uint32_t r = 0;
    for (std::uint32_t i = 0; i < pieces.size(); ++i) {
        const piece& p = pieces[i];
        CW_ASSERT(!p.data.empty(), "an empty piece");
        CW_ASSERT(p.start > next, "a piece that is not beyond a gap");
        CW_ASSERT(i == 0 || pieces[i - 1].end() <= p.start, "pieces overlap or are not sorted");
        while (r < ranges.size() && ranges[r].bytes.right <= p.start) ++r;
        CW_ASSERT(r < ranges.size() && ranges[r].bytes.left <= p.start && p.end() <= ranges[r].bytes.right,
                  "a piece lies in no range");
        bytes += p.data.size();
    }
    std::uint32_t covered = 0;
    for (std::uint32_t i = 0; i < ranges.size(); ++i) {
        CW_ASSERT(i == 0 || ranges[i - 1].bytes.right < ranges[i].bytes.left, "ranges touch or are not sorted");
        covered += ranges[i].bytes.size();
    }
    CW_ASSERT(bytes == size_ && covered == size_, "pieces and ranges disagree");
}

} // namespace corewire::tcp
