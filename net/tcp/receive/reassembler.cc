#include <corewire/net/tcp/receive/reassembler.hh>

namespace corewire::tcp {

std::uint32_t reassembler::insert(seq_number at, buffer&& data) {
    if (data.empty()) return 0;
    // Nearly always: behind everything else.
    if (pieces_.empty() || pieces_.back().end() <= at) {
        const std::uint32_t size = data.size();
        return store(pieces_.size(), at, std::move(data)) ? size : 0;
    }
    return insert_among(at, std::move(data));
}

/// Fills the gaps between the pieces that are there with the parts of `data` that belong into them.
std::uint32_t reassembler::insert_among(seq_number at, buffer&& data) {
    std::uint32_t stored = 0;
    for (std::uint32_t i = first_ending_after(at); !data.empty(); ++i) {
        const bool last = i == pieces_.size();
        if (last || at + data.size() <= pieces_[i].start) {
            const std::uint32_t size = data.size();
            if (store(i, at, std::move(data))) stored += size;
            break;
        }
        if (at < pieces_[i].start) {
            const std::uint32_t gap = pieces_[i].start - at;
            if (!store(i, at, data.share(0, gap))) break;
            stored += gap;
            data.remove_prefix(gap);
            at += gap;
            ++i;
        }
        const std::uint32_t overlap = pieces_[i].end() - at;
        if (overlap >= data.size()) break;
        data.remove_prefix(overlap);
        at += overlap;
    }
    return stored;
}

bool reassembler::store(std::uint32_t index, seq_number at, buffer&& data) {
    if (pieces_.size() >= piece_limit_ || !note(at, at + data.size())) {
        ++dropped_;
        return false;
    }
    size_ += data.size();
    piece& p = index == pieces_.size() ? pieces_.push_back() : pieces_.insert(index);
    p.start = at;
    p.data = std::move(data);
    return true;
}

/// Adds [left, right), which overlaps no range, and joins the ranges that it touches.
bool reassembler::note(seq_number left, seq_number right) {
    std::uint32_t i = ranges_.size();
    while (i != 0 && ranges_[i - 1].bytes.left > left) --i;
    const bool joins_before = i != 0 && ranges_[i - 1].bytes.right == left;
    const bool joins_after = i != ranges_.size() && ranges_[i].bytes.left == right;
    ++clock_;
    if (joins_before) {
        range& before = ranges_[i - 1];
        before.bytes.right = joins_after ? ranges_[i].bytes.right : right;
        before.stamp = clock_;
        if (joins_after) ranges_.erase(i);
        return true;
    }
    if (joins_after) {
        ranges_[i].bytes.left = left;
        ranges_[i].stamp = clock_;
        return true;
    }
    if (ranges_.size() >= range_limit) return false;
    range& fresh = i == ranges_.size() ? ranges_.push_back() : ranges_.insert(i);
    fresh.bytes = {left, right};
    fresh.stamp = clock_;
    return true;
}

std::uint32_t reassembler::first_ending_after(seq_number at) const noexcept {
    std::uint32_t low = 0;
    std::uint32_t high = pieces_.size();
    while (low < high) {
        const std::uint32_t middle = (low + high) / 2;
        if (pieces_[middle].end() <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

seq_number reassembler::drain(seq_number next, receive_queue& queue) {
    while (!pieces_.empty() && pieces_.front().start <= next) {
        piece& first = pieces_.front();
        size_ -= first.data.size();
        if (first.end() > next) {
            first.data.remove_prefix(next - first.start);
            next += first.data.size();
            queue.push(std::move(first.data));
        }
        pieces_.pop_front();
    }
    while (!ranges_.empty() && ranges_.front().bytes.right <= next) ranges_.pop_front();
    return next;
}

std::uint32_t reassembler::report(sack_block* out, std::uint32_t max) const noexcept {
    std::uint32_t written = 0;
    std::uint32_t below = ~std::uint32_t{0};
    while (written < max && written < ranges_.size()) {
        const range* newest = nullptr;
        for (std::uint32_t i = 0; i < ranges_.size(); ++i) {
            const range& r = ranges_[i];
            if (r.stamp < below && (newest == nullptr || r.stamp > newest->stamp)) newest = &r;
        }
        if (newest == nullptr) break;
        out[written++] = newest->bytes;
        below = newest->stamp;
    }
    return written;
}

void reassembler::clear() noexcept {
    pieces_.clear();
    ranges_.clear();
    size_ = 0;
}

void reassembler::check_invariants(seq_number next) const {
    CW_ASSERT(pieces_.size() <= piece_limit_ && ranges_.size() <= range_limit, "the reassembler exceeds its bounds");
    std::uint32_t bytes = 0;
    std::uint32_t r = 0;
    for (std::uint32_t i = 0; i < pieces_.size(); ++i) {
        const piece& p = pieces_[i];
        CW_ASSERT(!p.data.empty(), "an empty piece");
        CW_ASSERT(p.start > next, "a piece that is not beyond a gap");
        CW_ASSERT(i == 0 || pieces_[i - 1].end() <= p.start, "pieces overlap or are not sorted");
        while (r < ranges_.size() && ranges_[r].bytes.right <= p.start) ++r;
        CW_ASSERT(r < ranges_.size() && ranges_[r].bytes.left <= p.start && p.end() <= ranges_[r].bytes.right,
                  "a piece lies in no range");
        bytes += p.data.size();
    }
    std::uint32_t covered = 0;
    for (std::uint32_t i = 0; i < ranges_.size(); ++i) {
        CW_ASSERT(i == 0 || ranges_[i - 1].bytes.right < ranges_[i].bytes.left, "ranges touch or are not sorted");
        covered += ranges_[i].bytes.size();
    }
    CW_ASSERT(bytes == size_ && covered == size_, "pieces and ranges disagree");
}

} // namespace corewire::tcp
