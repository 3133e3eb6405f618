#include <corewire/net/tcp/send/scoreboard.hh>

#include <algorithm>

namespace corewire::tcp {

void delivery::take(seq_number start, seq_number end, time_point sent, bool again) noexcept {
    highest = timed || resent ? later(highest, end) : end;
    if (!again) {
        if (!timed || sent < first_sent) first_sent = sent;
        if (!timed || sent > last_sent) last_sent = sent;
        timed = true;
        if (end <= point) original = true;
        if (end < farthest) {
            overtaken = reordered ? earlier(overtaken, start) : start;
            reordered = true;
        }
    } else {
        resent = true;
        if (sent >= echoed || now - sent < least_rtt) return; // RFC 8985 6.2 step 2: an ACK of the first transmission, most likely
    }
    last_taken = sent;
    if (!newest_known || sent_after(sent, end, newest_sent, newest_end)) {
        newest_known = true;
        newest_sent = sent;
        newest_end = end;
        newest_again = again;
    }
}

void scoreboard::start(seq_number una) noexcept {
    ranges_.clear();
    una_ = end_ = resent_end_ = una;
    sacked_ = lost_ = 0;
}

void scoreboard::sample_rate(bool wanted) {
    if (wanted == (rate_ != nullptr)) return;
    rate_ = wanted ? std::make_unique<delivery_rate>() : nullptr;
}

time_point scoreboard::oldest() const noexcept {
    time_point t = ranges_.front().sent;
    if (quiet()) return t;
    for (std::uint32_t i = 1; i < ranges_.size(); ++i) t = std::min(t, ranges_[i].sent);
    return t;
}

std::uint32_t scoreboard::resent_in_flight() const noexcept {
    std::uint32_t bytes = 0;
    for (std::uint32_t i = 0; i < ranges_.size(); ++i) {
        if (ranges_[i].again() && ranges_[i].what == fate::flying) bytes += ranges_[i].size();
    }
    return bytes;
}

bool scoreboard::repairs_out() const noexcept {
    if (quiet()) return false;
    for (std::uint32_t i = 0; i < ranges_.size(); ++i)
        if (ranges_[i].sent_again == copy::repair && ranges_[i].what == fate::flying) return true;
    return false;
}

scoreboard::tally scoreboard::segments(std::uint32_t size) const noexcept {
    tally t;
    for (std::uint32_t i = 0; i < ranges_.size(); ++i) {
        const range& r = ranges_[i];
        const std::uint32_t n = (r.size() + size - 1) / size;
        t.all += n;
        if (r.what == fate::sacked) t.sacked += n;
        if (r.what == fate::lost) t.lost += n;
        if (r.what == fate::flying && r.again()) t.resent += n;
    }
    return t;
}

bool scoreboard::sacks_any(seq_number left, seq_number right) const noexcept {
    for (std::uint32_t i = find(left); i < ranges_.size() && ranges_[i].start < right; ++i)
        if (ranges_[i].what == fate::sacked) return true;
    return false;
}

std::uint32_t scoreboard::sacked_below(seq_number at) const noexcept {
    std::uint32_t bytes = 0;
    if (sacked_ == 0) return bytes;
    for (std::uint32_t i = 0; i < ranges_.size() && ranges_[i].start < at; ++i) {
        if (ranges_[i].what == fate::sacked) bytes += earlier(ranges_[i].end, at) - ranges_[i].start;
    }
    return bytes;
}

/// The first range that ends behind `at`.
std::uint32_t scoreboard::find(seq_number at) const noexcept {
    std::uint32_t low = 0;
    std::uint32_t high = ranges_.size();
    while (low < high) {
        const std::uint32_t middle = (low + high) / 2;
        if (ranges_[middle].end <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/// Cuts range i in two at `at`, which lies inside. False: there are too many.
bool scoreboard::split(std::uint32_t i, seq_number at, std::uint32_t limit) {
    if (ranges_.size() >= limit) {
        ++refused_;
        return false;
    }
    const range whole = ranges_[i];
    ranges_.insert(i + 1) = whole;
    ranges_[i].end = at;
    ranges_[i + 1].start = at;
    return true;
}

/// At the limit a last range that was SACKed or lost must not give new data its fate: one more range is made, within what resent() may
/// need, too; beyond that the last one is held for flying, which a later ACK or time-out puts right.
[[gnu::cold, gnu::noinline]] void scoreboard::extend_fated(seq_number end, time_point now) {
    if (ranges_.size() < 2 * range_limit) return fill(ranges_.push_back(), end, now);
    range& last = ranges_.back();
    (last.what == fate::lost ? lost_ : sacked_) -= last.size();
    last.what = fate::flying;
    extend_last(end, now);
}

void scoreboard::acknowledge(seq_number una, delivery& d) noexcept {
    if (una <= una_) return;
    delivery::sample& c = d.cumulative;
    while (!ranges_.empty() && ranges_.front().start < una) {
        range& first = ranges_.front();
        const seq_number end = earlier(first.end, una);
        const std::uint32_t size = end - first.start;
        if (first.what == fate::sacked) {
            sacked_ -= size;
        } else {
            if (first.what == fate::lost) lost_ -= size;
            d.bytes += size;
            d.take(first.start, end, first.sent, first.again());
            if (first.again()) {
                c.resent = true;
            } else {
                if (!c.taken) c.first = first.sent;
                c.last = first.sent;
                c.taken = true;
            }
        }
        if (first.end > una) {
            first.start = una;
            break;
        }
        ranges_.drop_front();
    }
    una_ = una;
    end_ = later(end_, una);
    resent_end_ = later(resent_end_, una);
}

bool scoreboard::sack(sack_block block, delivery& d) {
    if (block.left >= block.right || block.right > end_ || block.right <= una_) return false;
    block.left = later(block.left, una_);
    bool news = false;
    for (std::uint32_t i = find(block.left); i < ranges_.size() && ranges_[i].start < block.right;) {
        if (take_from(i, block, d)) news = true;
    }
    return news;
}

/// SACKs what range i, which meets the block, has in common with it, and moves i to the next one to look at.
bool scoreboard::take_from(std::uint32_t& i, sack_block block, delivery& d) {
    if (ranges_[i].what == fate::sacked || (ranges_[i].start < block.left && !split(i, block.left))) {
        ++i;
        return false;
    }
    if (ranges_[i].start < block.left) ++i; // the part behind the cut
    range& r = ranges_[i];
    const seq_number end = earlier(r.end, block.right);
    const std::uint32_t size = end - r.start;
    const bool grows = i > 0 && ranges_[i - 1].what == fate::sacked;
    if (end != r.end && !grows && !split(i, end)) {
        ++i;
        return false;
    }
    range& taken = ranges_[i];
    d.bytes += size;
    d.take(taken.start, end, taken.sent, taken.again());
    sacked_ += size;
    if (taken.what == fate::lost) lost_ -= size;
    if (grows) { // the usual case: the block before becomes longer
        ranges_[i - 1].end = end;
        taken.start = end;
        if (taken.start == taken.end) ranges_.erase(i);
        i = join(i - 1);
    } else {
        taken.what = fate::sacked;
        i = join(i);
    }
    return true;
}

/// Joins range i with a SACKed one behind it. Returns the next index.
std::uint32_t scoreboard::join(std::uint32_t i) noexcept {
    if (i + 1 < ranges_.size() && ranges_[i + 1].what == fate::sacked) {
        ranges_[i].end = ranges_[i + 1].end;
        ranges_.erase(i + 1);
    }
    return i + 1;
}

void scoreboard::lose(std::uint32_t i) noexcept {
    range& r = ranges_[i];
    r.what = fate::lost;
    lost_ += r.size();
    if (rate_ != nullptr) [[unlikely]] rate_->on_lost(r.sent, r.size());
}

void scoreboard::lose_everything(bool keep_sacked) {
    const bool dropped = reneged();
    for (std::uint32_t i = 0; i < ranges_.size(); ++i) {
        range& r = ranges_[i];
        if (r.what == fate::sacked) {
            if (keep_sacked && !dropped) continue;
            sacked_ -= r.size();
        }
        if (r.what != fate::lost) lose(i);
    }
}

void scoreboard::lose_between(seq_number left, seq_number right) {
    for (std::uint32_t i = find(left); i < ranges_.size() && ranges_[i].start < right; ++i) {
        if (ranges_[i].what != fate::flying) continue;
        if (ranges_[i].start < left && split(i, left)) continue; // the part behind the cut is next
        if (ranges_[i].end > right) split(i, right);
        lose(i);
    }
}

void scoreboard::lose_originals(seq_number end) {
    for (std::uint32_t i = 0; i < ranges_.size() && ranges_[i].start < end; ++i) {
        if (ranges_[i].what != fate::flying || ranges_[i].again()) continue;
        if (ranges_[i].end > end) split(i, end);
        lose(i);
    }
}

void scoreboard::lose_sent_before(time_point time, std::uint32_t first) {
    if (ranges_.empty()) return;
    if (reneged()) return lose_everything(false);
    lose_first(earlier(una_ + first, end_));
    for (std::uint32_t i = 0; i < ranges_.size(); ++i) {
        if (ranges_[i].what == fate::flying && ranges_[i].sent <= time) lose(i);
    }
}

bool scoreboard::lose_overtaken(time_point newest, seq_number end, time_point now, duration patience, duration& wait) {
    bool news = false;
    wait = duration{0};
    for (std::uint32_t i = 0; i < ranges_.size(); ++i) {
        const range& r = ranges_[i];
        if (r.what != fate::flying || r.sent > newest) continue;
        if (r.sent == newest && (r.start >= end || r.again())) continue; // resent in the same instant: not overtaken
        // A burst is one range. What of it lies behind `end` was sent later and is not spoken of.
        if (r.sent == newest && r.end > end && !split(i, end)) continue;
        const duration left = (ranges_[i].sent + patience) - now;
        if (left > duration{0}) {
            wait = std::max(wait, left);
        } else {
            lose(i);
            news = true;
        }
    }
    return news;
}

void scoreboard::forgive(bool all) noexcept {
    for (std::uint32_t i = 0; i < ranges_.size(); ++i) {
        range& r = ranges_[i];
        const bool repaired = r.what == fate::flying && r.sent_again == copy::repair;
        if (all && r.again()) r.sent_again = repaired ? copy::forgiven : copy::needless;
        if (r.what != fate::lost || (r.again() && !all)) continue;
        r.what = fate::flying;
        lost_ -= r.size();
    }
}

void scoreboard::forget_first_resend(std::uint32_t size) {
    if (ranges_.empty() || ranges_.front().what != fate::flying) return;
    if (ranges_.front().size() > size && !split(0, una_ + size, 2 * range_limit + 1)) return;
    lose(0);
}

sack_block scoreboard::next_lost(std::uint32_t size) const noexcept {
    for (std::uint32_t i = 0; lost_ != 0 && i < ranges_.size(); ++i) {
        const range& r = ranges_[i];
        if (r.what != fate::lost) continue;
        seq_number end = r.end; // neighbours that are lost as well go in the same segment
        for (std::uint32_t k = i + 1; k < ranges_.size() && ranges_[k].what == fate::lost && end - r.start < size; ++k) {
            end = ranges_[k].end;
        }
        return {r.start, earlier(end, r.start + size)};
    }
    return {una_, una_};
}

void scoreboard::resent(sack_block bytes, time_point now) {
    for (std::uint32_t i = find(bytes.left); i < ranges_.size() && ranges_[i].start < bytes.right;) {
        if (ranges_[i].what != fate::lost) {
            ++i;
            continue;
        }
        const seq_number end = earlier(ranges_[i].end, bytes.right);
        const std::uint32_t size = end - ranges_[i].start;
        const bool grows = i > 0 && ranges_[i - 1].what == fate::flying && ranges_[i - 1].sent_again == copy::repair &&
                           (ranges_[i - 1].sent == now || ranges_.size() >= range_limit);
        lost_ -= size;
        if (grows) {
            ranges_[i - 1].end = end;
            ranges_[i - 1].sent = now;
            ranges_[i].start = end;
            if (ranges_[i].start == ranges_[i].end) ranges_.erase(i);
        } else {
            // One range more than the limit for each hole at most: what was resent must not be resent for ever.
            if (end != ranges_[i].end) split(i, end, 2 * range_limit + 1);
            ranges_[i].what = fate::flying;
            ranges_[i].sent_again = copy::repair;
            ranges_[i].sent = now;
            ++i;
        }
    }
    resent_end_ = later(resent_end_, bytes.right);
}

void scoreboard::probed(std::uint32_t size, time_point now) {
    if (ranges_.empty()) return;
    const seq_number from = later(end_ - size, una_);
    std::uint32_t i = find(from);
    if (ranges_[i].start < from && ranges_[i].what != fate::sacked && split(i, from)) ++i;
    for (; i < ranges_.size(); ++i) {
        range& r = ranges_[i];
        if (r.what == fate::sacked) continue;
        if (r.what == fate::lost) lost_ -= r.size();
        r.what = fate::flying;
        if (r.sent_again == copy::none) r.sent_again = copy::needless;
        r.sent = now;
    }
    resent_end_ = end_;
}

void scoreboard::check_invariants(seq_number una, seq_number max) const {
    CW_ASSERT(una_ == una && end_ == max, "the scoreboard does not cover what was sent");
    CW_ASSERT(una_ <= resent_end_ && resent_end_ <= end_, "what was resent was never sent");
    CW_ASSERT(ranges_.size() <= 2 * range_limit + 1, "too many ranges");
    seq_number at = una_;
    std::uint32_t sacked = 0;
    std::uint32_t lost = 0;
    for (std::uint32_t i = 0; i < ranges_.size(); ++i) {
        const range& r = ranges_[i];
        CW_ASSERT(r.start == at && r.start < r.end, "the ranges do not follow each other");
        at = r.end;
        if (r.what == fate::sacked) sacked += r.size();
        if (r.what == fate::lost) lost += r.size();
    }
    CW_ASSERT(at == end_, "the ranges do not reach SND.MAX");
    CW_ASSERT(sacked == sacked_ && lost == lost_, "the scoreboard has lost count");
}

} // namespace corewire::tcp
