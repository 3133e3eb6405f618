#include <corewire/net/tcp/send/scoreboard.hh>

#include <algorithm>

namespace corewire::tcp {

void scoreboard::acknowledge_among(seq_number una) noexcept {
    una_ = una;
    if (covered_ < una) covered_ = una;
    if (highest_sacked_ < una) highest_sacked_ = una;
    while (!holes_.empty() && holes_.front().end <= una) holes_.drop_front();
    if (holes_.empty()) return;
    hole& first = holes_.front();
    if (first.start < una) {
        first.start = una;
        first.resent = later(first.resent, una);
    }
}

bool scoreboard::sack(sack_block block, seq_number max) {
    if (block.left >= block.right || block.right > max || block.right <= una_) return false;
    block.left = later(block.left, una_);
    bool news = false;
    if (block.right > covered_) {
        const seq_number from = later(block.left, covered_);
        if (from != covered_) {
            if (holes_.size() >= hole_limit) {
                ++refused_;
                return false;
            }
            holes_.push_back() = {covered_, from, covered_, covered_, false};
        }
        covered_ = block.right;
        news = true;
    }
    if (sack_within(block)) news = true;
    if (news) highest_sacked_ = later(highest_sacked_, block.right);
    return news;
}

/// Removes the block from the holes that it meets. Holes are few, and new ones are near the end.
bool scoreboard::sack_within(sack_block block) {
    bool news = false;
    for (std::uint32_t i = 0; i < holes_.size() && holes_[i].start < block.right;) {
        if (holes_[i].end <= block.left) {
            ++i;
        } else if (cut(i, block)) {
            news = true;
        }
    }
    return news;
}

/// Takes `block` out of hole i, which it meets, and moves i to the next hole to look at. False: refused.
bool scoreboard::cut(std::uint32_t& i, sack_block block) {
    hole& h = holes_[i];
    if (block.left <= h.start && h.end <= block.right) {
        holes_.erase(i);
        return true;
    }
    if (block.left <= h.start) {
        h.start = block.right;
        h.resent = later(h.resent, h.start);
        ++i;
        return true;
    }
    if (block.right < h.end) { // in the middle: two holes
        if (holes_.size() >= hole_limit) {
            ++refused_;
            ++i;
            return false;
        }
        hole rest = h;
        rest.start = block.right;
        rest.resent = later(rest.resent, rest.start);
        holes_.insert(i + 1) = rest;
    }
    hole& front = holes_[i];
    front.end = block.left;
    front.resent = earlier(front.resent, front.end);
    ++i;
    return true;
}

void scoreboard::lose_everything(seq_number max, bool keep_sacked) {
    // RFC 2018 8: a peer that has data at SND.UNA has dropped what it SACKed, and must not be believed.
    const bool reneged = covered_ > una_ && (holes_.empty() || holes_.front().start != una_);
    if (!keep_sacked || reneged || holes_.size() >= hole_limit) {
        holes_.clear();
        covered_ = highest_sacked_ = una_;
    }
    if (covered_ < max) {
        if (!holes_.empty() && holes_.back().end == covered_) {
            holes_.back().end = max;
        } else {
            holes_.push_back() = {covered_, max, covered_, covered_, true};
        }
        covered_ = max;
    }
    for (std::uint32_t i = 0; i < holes_.size(); ++i) {
        holes_[i].lost = true;
        holes_[i].resent = holes_[i].start;
    }
}

void scoreboard::lose_first(seq_number end) {
    if (covered_ < end) {
        if (!holes_.empty() && holes_.back().end == covered_) {
            holes_.back().end = end;
        } else {
            holes_.push_back() = {covered_, end, covered_, covered_, false};
        }
        covered_ = end;
    }
    for (std::uint32_t i = 0; i < holes_.size() && holes_[i].start < end; ++i) {
        hole& h = holes_[i];
        if (h.end > end && holes_.size() < hole_limit) {
            hole rest = h;
            rest.start = end;
            rest.resent = later(rest.resent, end);
            h.end = end;
            h.resent = earlier(h.resent, end);
            holes_.insert(i + 1) = rest;
        }
        holes_[i].lost = true;
    }
}

void scoreboard::lose_all_holes() noexcept {
    for (std::uint32_t i = 0; i < holes_.size(); ++i) holes_[i].lost = true;
}

bool scoreboard::mark_lost(std::uint32_t mss) noexcept {
    const std::uint32_t threshold = (duplicate_threshold - 1) * mss;
    bool news = false;
    std::uint32_t missing_above = 0;
    for (std::uint32_t i = holes_.size(); i-- > 0;) {
        hole& h = holes_[i];
        const std::uint32_t above = covered_ - h.end - missing_above;
        const std::uint32_t ranges_above = holes_.size() - i;
        missing_above += h.end - h.start;
        if (!h.lost && (above > threshold || ranges_above >= duplicate_threshold + 0)) {
            h.lost = true;
            news = true;
        } else if (h.lost && h.resent != h.start && highest_sacked_ > h.mark + threshold) {
            h.resent = h.start;
            ++lost_again_;
            news = true;
        }
    }
    return news;
}

sack_block scoreboard::next_lost(std::uint32_t size) const noexcept {
    for (std::uint32_t i = 0; i < holes_.size(); ++i) {
        const hole& h = holes_[i];
        if (h.lost && h.resent != h.end) return {h.resent, earlier(h.end, h.resent + size)};
    }
    return {una_, una_};
}

sack_block scoreboard::next_unsent(std::uint32_t size) const noexcept {
    for (std::uint32_t i = 0; i < holes_.size(); ++i) {
        const hole& h = holes_[i];
        if (h.resent != h.end) return {h.resent, earlier(h.end, h.resent + size)};
    }
    return {una_, una_};
}

void scoreboard::resent(sack_block bytes, seq_number max) noexcept {
    for (std::uint32_t i = 0; i < holes_.size(); ++i) {
        hole& h = holes_[i];
        if (bytes.left < h.start || bytes.left >= h.end) continue;
        h.resent = bytes.right;
        h.mark = max;
        h.lost = true;
        return;
    }
}

void scoreboard::forget_first_resend() noexcept {
    if (holes_.empty()) return;
    holes_.front().resent = holes_.front().start;
    holes_.front().lost = true;
}

std::uint32_t scoreboard::missing() const noexcept {
    std::uint32_t bytes = 0;
    for (std::uint32_t i = 0; i < holes_.size(); ++i) bytes += holes_[i].end - holes_[i].start;
    return bytes;
}

bool scoreboard::has_lost() const noexcept {
    for (std::uint32_t i = 0; i < holes_.size(); ++i) {
        if (holes_[i].lost && holes_[i].resent != holes_[i].end) return true;
    }
    return false;
}

std::uint32_t scoreboard::pipe(seq_number next) const noexcept {
    std::uint32_t bytes = covered_ < next ? next - covered_ : 0;
    for (std::uint32_t i = 0; i < holes_.size(); ++i) {
        const hole& h = holes_[i];
        if (!h.lost) bytes += h.end - h.start;
        bytes += h.resent - h.start;
    }
    return bytes;
}

void scoreboard::check_invariants(seq_number una, seq_number max) const {
    CW_ASSERT(una_ == una && covered_ <= max && una_ <= covered_, "the scoreboard lies outside what was sent");
    CW_ASSERT(highest_sacked_ <= covered_, "SACKed beyond what is covered");
    CW_ASSERT(holes_.size() <= hole_limit + 1, "too many holes");
    for (std::uint32_t i = 0; i < holes_.size(); ++i) {
        const hole& h = holes_[i];
        CW_ASSERT(h.start < h.end && h.start <= h.resent && h.resent <= h.end, "a hole is inside out");
        CW_ASSERT(una_ <= h.start && h.end <= covered_, "a hole lies outside the scoreboard");
        CW_ASSERT(i == 0 || holes_[i - 1].end <= h.start, "holes overlap or are not sorted");
    }
}

} // namespace corewire::tcp
