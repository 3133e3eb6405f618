// RACK: telling by time which segments were lost (RFC 8985 6). A few words of those connections that have lost something (seldom.hh),
// beside the scoreboard, which keeps the time each byte was last sent; used when SACK was agreed on. What is done with a loss is in
// loss.cc.
//
//     something was delivered that was sent at 9 us  -->  what was sent before, and `window` ago, is lost
#pragma once

#include <corewire/net/tcp/send/scoreboard.hh>

#include <algorithm>

namespace corewire::tcp {

/// The least round trip of the last minutes (RFC 8985 6.2 step 1).
class least_round_trip {
public:
    void take(duration rtt, time_point now) noexcept {
        if (rtt <= least_ || now > until_) {
            least_ = rtt;
            until_ = now + memory;
        }
    }
    duration get() const noexcept { return least_; } ///< duration::max(): none was measured

private:
    static constexpr duration memory = std::chrono::seconds{300};
    duration least_ = duration::max();
    time_point until_{}; ///< when it is forgotten
};

class rack {
public:
    seq_number farthest() const noexcept { return farthest_; }
    bool reordering_seen() const noexcept { return reordering_seen_; }
    /// How far from the start of a segment to the end of those that had overtaken it, at most. Bytes.
    std::uint32_t overtaken_by() const noexcept { return overtaken_by_; }
    duration round_trip() const noexcept { return rtt_; }
    /// The last take() told of something that says how long a round trip is.
    bool advanced() const noexcept { return advanced_; }
    void start(seq_number una) noexcept {
        farthest_ = newest_end_ = round_ = una;
        newest_sent_ = {};
        rtt_ = duration{0};
    }

    /// Steps 2 and 3: what was delivered, and whether the network reorders. The round trip is that of what was sent last, or, with
    /// `last_counts`, as Linux has it, of what was taken last (tcp_rack_advance()).
    void take(const delivery& d, bool last_counts = false) noexcept {
        if (d.reordered) note_overtaken(d.overtaken, later(d.farthest, d.highest));
        advanced_ = false;
        if (!d.newest_known) return;
        farthest_ = later(d.farthest, d.highest); // ours may be so old that it seems to lie ahead
        rtt_ = d.now - (last_counts ? d.last_taken : d.newest_sent);
        advanced_ = true;
        if (!sent_after(d.newest_sent, d.newest_end, newest_sent_, newest_end_)) return;
        newest_sent_ = d.newest_sent;
        newest_end_ = d.newest_end;
        newest_again_ = d.newest_again;
    }
    /// A recovery was needless: what seemed to be the newest, if it was a retransmission, was an original after all, and proves nothing.
    void forget_copy() noexcept {
        if (!newest_again_) return;
        newest_again_ = false;
        newest_sent_ = {};
        rtt_ = duration{0};
    }
    /// What begins at `start` was not lost but late: what ends at `end` had overtaken it.
    void note_overtaken(seq_number start, seq_number end) noexcept {
        reordering_seen_ = true;
        overtaken_by_ = std::max(overtaken_by_, end - start);
    }
    /// What was delivered long ago must not seem to lie ahead when the numbers have come round.
    void forget_passed(seq_number una) noexcept { farthest_ = later(farthest_, una); }
    /// Without SACK: duplicate ACKs tell of so much.
    void set_overtaken(std::uint32_t by) noexcept {
        reordering_seen_ = true;
        overtaken_by_ = by;
    }
    /// Step 4: the peer got something twice, so patience was too short. Once a round trip.
    void on_dsack(seq_number una, seq_number next) noexcept {
        if (una < round_ && round_ <= next) return; // else it is from long ago, and numbers have come round
        round_ = next;
        multiplier_ = static_cast<std::uint8_t>(std::min(multiplier_ + 1, 255));
        recoveries_left_ = persistence;
    }
    void on_recovered() noexcept {
        if (recoveries_left_ != 0 && --recoveries_left_ == 0) multiplier_ = 1;
    }
    /// How long a segment may be overtaken before it is lost. `sure`: three were SACKed, or recovery is on.
    duration patience(bool sure, duration least_rtt, duration srtt, duration floor) const noexcept {
        if (!reordering_seen_ && sure) return rtt_;
        const duration most = std::max(srtt, duration{0}), step = least_rtt / 4; // which is without bound before one was measured
        const duration window = step > most / multiplier_ ? most : multiplier_ * step;
        return rtt_ + std::max(window, floor);
    }
    /// Step 5. `wait`: when to look again, if not 0.
    bool find_losses(scoreboard& board, time_point now, duration patience, duration& wait) const {
        return board.lose_overtaken(newest_sent_, newest_end_, now, patience, wait);
    }

private:
    static constexpr std::uint8_t persistence = 16;

    time_point newest_sent_{}; ///< RACK.xmit_ts
    seq_number newest_end_;    ///< RACK.end_seq
    seq_number farthest_;      ///< RACK.fack
    seq_number round_;         ///< RACK.dsack_round
    duration rtt_{0};          ///< RACK.rtt
    std::uint8_t multiplier_ = 1;      ///< RACK.reo_wnd_mult
    std::uint8_t recoveries_left_ = 0; ///< RACK.reo_wnd_persist
    bool reordering_seen_ = false;
    bool advanced_ = false;
    bool newest_again_ = false;
    std::uint32_t overtaken_by_ = 0;
};

} // namespace corewire::tcp
