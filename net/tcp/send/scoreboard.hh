// The scoreboard: every byte in flight, as ranges that share one fate. Each range knows when it was last sent, which is
// what RACK (RFC 8985) and the round-trip time are made of, and whether it is flying, SACKed (RFC 2018) or lost.
//
//     SND.UNA [flying, resent at 7 us][SACKed      ][lost      ][flying, sent at 5 us][flying, sent at 6 us] SND.MAX
//
// What is sent at one time is one range, so a burst costs one entry; neighbours that become alike are joined. Every
// retransmission comes from here: what time-outs, duplicate ACKs without SACK and RACK hold for lost is marked lost. But for
// probes of the tail and of a window, which are told here only (probed()).
//
// Owned by the sender of one tcb. Bounded: range_limit ranges; a SACK block that would need more is not believed yet,
// and new data joins the last range if that flies (its time moves forward, so it is held for lost later, not sooner).
// While nothing is SACKed, lost or resent it is quiet(), and an ACK costs a few instructions; else O(ranges).
#pragma once

#include <corewire/net/tcp/ring.hh>
#include <corewire/net/tcp/segment.hh>
#include <corewire/net/tcp/send/delivery_rate.hh>
#include <corewire/reactor/base/time.hh>

#include <memory>

namespace corewire::tcp {

enum class fate : std::uint8_t { flying, sacked, lost };

/// Why bytes were sent again: none, they were not; needless, as a probe, or because they seemed to be lost and were not; repair, because
/// they were held for lost; forgiven, the same, and then it turned out that nothing was lost.
enum class copy : std::uint8_t { none, needless, repair, forgiven };

/// Whether (time, end) was sent after (other_time, other_end): RACK_sent_after() of RFC 8985 6.2.
constexpr bool sent_after(time_point time, seq_number end, time_point other_time, seq_number other_end) noexcept {
    return time > other_time || (time == other_time && end > other_end);
}

/// What one ACK delivered, cumulatively and selectively. `now`, `least_rtt`, `farthest`, `point` and `echoed` go in.
struct delivery {
    time_point now;
    duration least_rtt{0};   ///< an ACK of a retransmission sooner than this is one of the original
    seq_number farthest;     ///< RACK.fack: the highest number delivered before
    seq_number point;        ///< what counts as `original` ends here
    time_point echoed = time_point::max(); ///< what was sent again from here on it does not speak of, says its TSecr

    std::uint32_t bytes = 0;             ///< newly delivered
    std::uint32_t counted = 0;           ///< with Linux's habits: the same in segments, each as a full one
    std::uint32_t unit = 0;              ///< of so many bytes; 0: none were counted
    bool newest_known = false;
    time_point newest_sent{};            ///< the range sent last among them
    seq_number newest_end{};
    bool newest_again = false;           ///< it was a retransmission
    time_point last_taken{};             ///< when that was sent which has the highest number, of the cumulative part if there is one
    bool timed = false;
    time_point first_sent{};             ///< the range sent first among those never resent
    time_point last_sent{};              ///< and the one sent last
    bool original = false;               ///< bytes up to `point` that were never resent
    bool resent = false;                 ///< bytes that were
    bool reordered = false;              ///< bytes below `farthest` that were never resent
    seq_number overtaken{};              ///< where the first of those begins
    // With Linux's habits, which tell what SACK speaks of from what SEG.ACK does:
    struct sample {
        bool taken = false, resent = false;
        time_point first{}, last{};      ///< when the lowest and the highest number were sent of those never resent
    };
    sample selective{}, cumulative{};
    std::uint32_t whole = 0;             ///< segments that SEG.ACK covers to their end
    seq_number highest{};                ///< the end of all of it

    /// [start, end) was delivered.
    void take(seq_number start, seq_number end, time_point sent, bool again) noexcept;
};

class scoreboard {
public:
    static constexpr std::uint32_t range_limit = 1024;

    void start(seq_number una) noexcept;
    /// Whether the rate of delivery is sampled from now on: a controller wants to know.
    void sample_rate(bool wanted);
    delivery_rate* rate() const noexcept { return rate_.get(); } ///< null: nobody wants to know
    /// When the first sent of what is in flight was sent. Something is. O(ranges), but O(1) while quiet().
    time_point oldest() const noexcept;
    /// When the first byte in flight was last sent. Something is.
    time_point front_sent() const noexcept { return ranges_.front().sent; }
    bool front_again() const noexcept { return ranges_.front().again(); } ///< it was sent more than once

    /// Nothing is SACKed, held for lost or resent.
    bool quiet() const noexcept { return (sacked_ | lost_) == 0 && resent_end_ == una_; }
    std::uint32_t ranges() const noexcept { return ranges_.size(); }
    std::uint32_t sacked() const noexcept { return sacked_; } ///< bytes
    std::uint32_t lost() const noexcept { return lost_; }     ///< bytes held for lost and not resent
    /// Bytes in flight that were sent more than once. O(ranges); for those who only look.
    std::uint32_t resent_in_flight() const noexcept;
    /// Something was held for lost, resent, and is not known to have arrived. O(ranges), but O(1) while quiet().
    bool repairs_out() const noexcept;
    bool has_lost() const noexcept { return lost_ != 0; }
    /// What the peer said that it had it does not acknowledge: it has dropped it (RFC 2018 8).
    bool reneged() const noexcept { return !ranges_.empty() && ranges_.front().what == fate::sacked; }
    /// Segments of `size` bytes by their fate, a range's last one being perhaps shorter. O(ranges); for those who only look.
    struct tally {
        std::uint32_t all = 0, sacked = 0, lost = 0, resent = 0;
    };
    tally segments(std::uint32_t size) const noexcept;
    /// Calls `f(left, right, fate, copy)` for each range, in order.
    template <typename F>
    void each(F&& f) const {
        for (std::uint32_t i = 0; i < ranges_.size(); ++i) f(ranges_[i].start, ranges_[i].end, ranges_[i].what, ranges_[i].sent_again);
    }
    /// A part of [left, right) is SACKed. O(ranges).
    bool sacks_any(seq_number left, seq_number right) const noexcept;
    /// SACKed bytes before `at`. O(ranges), but O(1) where nothing is SACKed.
    std::uint32_t sacked_below(seq_number at) const noexcept;
    /// When the byte at `at` was last sent again; time_point::min(): it was not, or is not in flight.
    time_point resent_at(seq_number at) const noexcept {
        const std::uint32_t i = find(at);
        const bool again = i < ranges_.size() && ranges_[i].start <= at && ranges_[i].again();
        return again ? ranges_[i].sent : time_point::min();
    }
    seq_number end() const noexcept { return end_; }
    /// New bytes up to `end` leave now. Bytes that are in here already stay as they are.
    [[gnu::always_inline]] void sent(seq_number end, time_point now) {
        if (end > end_) sent_anew(end, now);
    }
    /// The same when all of them are new.
    [[gnu::always_inline]] void sent_anew(seq_number end, time_point now) {
        if (!ranges_.empty()) {
            if (joins_last(now)) {
                extend_last(end, now);
            } else {
                fill(ranges_.push_back(), end, now);
            }
            return;
        }
        fill(ranges_.push_first(), end, now);
    }

    struct send_times {
        time_point first;
        time_point last;
    };
    /// The cumulative ACK has moved to `una`, beyond SND.UNA, while quiet(). Returns when the acknowledged bytes were sent.
    send_times acknowledge_quietly(seq_number una) noexcept {
        send_times t{ranges_.front().sent, ranges_.front().sent};
        una_ = resent_end_ = una;
        if (ranges_.size() == 1 && una == end_) [[likely]] { // all that was in flight, sent at one time
            ranges_.drop_all();
            return t;
        }
        while (ranges_.front().end <= una) {
            t.last = ranges_.front().sent;
            ranges_.drop_front();
            if (ranges_.empty()) return t;
        }
        ranges_.front().start = una;
        return t;
    }
    /// The cumulative ACK has moved to `una`.
    void acknowledge(seq_number una, delivery& d) noexcept;
    /// The peer holds these bytes. True if that was news. A block beyond what was sent is a lie and ignored.
    bool sack(sack_block block, delivery& d);

    /// Holds every byte for lost (RTO without RACK; a smaller path MTU). `keep_sacked`: what was SACKed is not
    /// (RFC 6675 5.1), unless the peer turns out to have dropped it (RFC 2018 8).
    void lose_everything(bool keep_sacked);
    /// Holds [una, end) for lost (NewReno).
    void lose_first(seq_number end) { lose_between(una_, end); }
    /// Holds what flies of [left, right) for lost.
    void lose_between(seq_number left, seq_number right);
    /// Holds what flies before `end` for lost, unless it was sent again.
    void lose_originals(seq_number end);
    /// RTO with RACK (RFC 8985 6.3): the first range, and all that were sent at or before `time`.
    void lose_sent_before(time_point time, std::uint32_t first);
    /// RACK_detect_loss(): flying ranges that were sent before (newest, end), `patience` or longer ago. `wait` becomes how
    /// long until the last of the younger ones is to be held for lost; 0: there are none. True: something was lost.
    bool lose_overtaken(time_point newest, seq_number end, time_point now, duration patience, duration& wait);
    /// What was held for lost and never resent is in flight after all (a spurious recovery); `all`: nor is anything a repair any more.
    void forgive(bool all = false) noexcept;
    /// The first range was resent, and nothing is heard of it: its first `size` bytes may be sent once more.
    void forget_first_resend(std::uint32_t size);

    /// The first bytes that are lost and not resent; at most `size`. Empty: none.
    sack_block next_lost(std::uint32_t size) const noexcept;
    /// `bytes`, as next_lost() returned it, or any range that begins there, leaves once more.
    void resent(sack_block bytes, time_point now);
    /// The last `size` bytes leave once more, as a tail loss probe or behind a window probe.
    void probed(std::uint32_t size, time_point now);

    /// RFC 6675's SetPipe(): bytes thought to be in the network.
    std::uint32_t pipe() const noexcept { return (end_ - una_) - sacked_ - lost_; }
    std::uint32_t refused() const noexcept { return refused_; } ///< blocks beyond range_limit, modulo 2^32

    void check_invariants(seq_number una, seq_number max) const;

private:
    struct range {
        seq_number start;
        seq_number end;
        time_point sent{}; ///< last time
        fate what = fate::flying;
        copy sent_again = copy::none;
        bool again() const noexcept { return sent_again != copy::none; }
        std::uint32_t size() const noexcept { return end - start; }
    };
    /// Whether what is sent at `now` shares the last range's fate, or has to.
    bool joins_last(time_point now) const noexcept {
        const range& last = ranges_.back();
        return (last.sent == now && last.what == fate::flying && !last.again()) || ranges_.size() >= range_limit;
    }
    /// `r`, which is new, holds the bytes from SND.MAX up to `end`.
    [[gnu::always_inline]] void fill(range& r, seq_number end, time_point now) noexcept {
        r.start = end_;
        r.end = end_ = end;
        r.sent = now;
        r.what = fate::flying;
        r.sent_again = copy::none;
    }
    [[gnu::noinline]] void extend_last(seq_number end, time_point now) {
        range& last = ranges_.back();
        if (last.what != fate::flying) [[unlikely]] return extend_fated(end, now);
        last.end = end_ = end;
        last.sent = now;
        if (last.sent_again == copy::repair) [[unlikely]] last.sent_again = copy::needless; // what is new is no repair: range_limit
    }
    void extend_fated(seq_number end, time_point now);
    std::uint32_t find(seq_number at) const noexcept;
    bool split(std::uint32_t i, seq_number at, std::uint32_t limit = range_limit);
    bool take_from(std::uint32_t& i, sack_block block, delivery& d);
    void lose(std::uint32_t i) noexcept;
    std::uint32_t join(std::uint32_t i) noexcept;

    seq_number una_;
    seq_number end_;        ///< SND.MAX
    seq_number resent_end_; ///< highest number ever resent; SND.UNA if that is higher
    std::uint32_t sacked_ = 0;
    std::uint32_t lost_ = 0;
    std::uint32_t refused_ = 0;
    std::unique_ptr<delivery_rate> rate_;
    ring<range> ranges_;
};

} // namespace corewire::tcp
