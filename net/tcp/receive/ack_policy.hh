// When to acknowledge: at once, or in a while in the hope that data will carry it (RFC 9293 3.8.6.3, RFC 5681 4.2).
// Owned by the receiver of one tcb.
#pragma once

#include <corewire/net/tcp/seq.hh>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace corewire::tcp {

class ack_policy {
public:
    /// `eager`: Linux's habit, an ACK as soon as more than one full-sized segment waits for it.
    void start(seq_number next, std::uint8_t quick_acks, bool eager = false) noexcept {
        last_sent_ = next;
        quick_ = quick_acks;
        eager_ = eager;
        if (eager) quick_ = 0; // they begin with the first data
        settle();
    }

    /// `bytes` arrived in order, and RCV.NXT is now `next`. True: the delayed-ACK timer should run.
    /// An ACK goes at once for every second full-sized segment (SHLD-18), where "full-sized" is the largest the peer has
    /// sent; and for each of the first segments, while the peer's window is opening and nothing flows back.
    bool on_data(seq_number next, std::uint32_t bytes) noexcept {
        if (bytes > largest_) [[unlikely]] {
            if (!every_second_) largest_ = bytes;
            settle();
        }
        if (next - last_sent_ >= enough_ || (every_second_ && pending())) {
            now_ = true;
            asked_ = true;
            return false;
        }
        const bool first = pending_ == 0; // later ones must not push the deadline back
        if (!first && shows_size(next, bytes)) [[unlikely]] return false;
        pending_ = 1;
        return first;
    }
    /// FreeBSD's habit: the ACK of a segment waits, unless it is longer than ours may be; that of a second one does not, however small
    /// they are.
    void acknowledge_every_second(std::uint32_t most) noexcept {
        every_second_ = true;
        quick_ = 0;
        largest_ = most;
        settle();
    }
    /// Linux's habit: what counts as full-sized until a larger one comes.
    void expect_segments(std::uint32_t bytes) noexcept {
        largest_ = bytes;
        settle();
    }
    void acknowledge_now() noexcept { now_ = true; }
    bool now() const noexcept { return now_; }
    bool pending() const noexcept { return pending_ != 0; }

    /// A segment with this ACK leaves. One that carries data ends the quick ACKs, if data has come before it: then this is an
    /// answer, and the ACKs have something to ride on.
    void on_sent(seq_number next, bool with_data) noexcept {
        if (quick_ != 0) [[unlikely]] use_quick(with_data);
        last_sent_ = next;
        now_ = false;
        pending_ = 0;
    }
    /// FreeBSD's habit: what has just left took no part in it, and what waits is acknowledged in its time.
    void wait_on() noexcept { pending_ = 1; }
    /// Linux's TCP_QUICKACK: on, so many segments more are acknowledged at once, and what waits too; off: none.
    void set_quick(std::uint8_t count) noexcept {
        if (eager_) interactive_ = count == 0;
        else quick_ = count;
        settle();
        if (count != 0 && pending() && !eager_) now_ = true;
    }
    bool quick() const noexcept { return eager_ ? !interactive_ : quick_ != 0; }

    // ---- Linux's habits (linux_delayed_acks.cc): quick ACKs are counted, and suspended while data flows both ways ----
    void set_interactive(bool on) noexcept {
        interactive_ = on;
        settle();
    }
    bool interactive() const noexcept { return interactive_; }
    /// So many more at once, unless there are as many already.
    void add_quick(std::uint8_t count) noexcept {
        quick_ = std::max(quick_, count);
        settle();
    }
    /// One more, if it is the last otherwise (tcp_grow_window()).
    void keep_odd() noexcept { add_quick(static_cast<std::uint8_t>(quick_ | 1u)); }
    void no_more_quick() noexcept {
        quick_ = 0;
        settle();
    }
    bool quick_now() const noexcept { return quick_ != 0 && !interactive_; }
    /// What has come waits for its ACK. True: the first of it.
    bool wait() noexcept {
        const bool first = pending_ == 0;
        if (first) pending_ = 1;
        return first;
    }
    /// So does one more segment beyond a gap, of which the next SACK tells. True: the first of those.
    bool leave_out() noexcept {
        pending_ = static_cast<std::uint8_t>(std::clamp(pending_ + 1, 2, 255));
        return pending_ == 2;
    }
    unsigned left_out() const noexcept { return pending_ > 1 ? pending_ - 1u : 0u; }
    /// A segment came that ends a write of the peer's, before it is noted as data. A small one is the second such: nothing more is to be
    /// waited for.
    void note_end_of_write(bool small) noexcept { pushed_ = small && pushed_ != 0 ? 2 : std::max<std::uint8_t>(pushed_, 1); }
    void forget_ends_of_writes() noexcept {
        if (!pending()) pushed_ = 0;
    }
    bool waits_for_reader() const noexcept { return pushed_ != 0; }
    /// The reader has taken something, or `all`: whether the ACK that waits goes now.
    bool due_when_read(seq_number next, bool all) const noexcept {
        return pending() && (next - last_sent_ > largest_ || (all && (pushed_ == 2 || (pushed_ == 1 && !interactive_))));
    }
    std::uint32_t largest_segment() const noexcept { return largest_; }
    seq_number last_sent() const noexcept { return last_sent_; } ///< RFC 7323's Last.ACK.sent

private:
    /// Two of the same size wait: the peer's segments have become so small (its path's MTU fell), and this is the second one.
    [[gnu::noinline]] bool shows_size(seq_number next, std::uint32_t bytes) noexcept {
        if (eager_ || bytes < least_segment || next - last_sent_ != 2 * bytes) return false;
        largest_ = bytes;
        settle();
        return now_ = asked_ = true;
    }
    /// Linux counts those that acknowledge something; others are used up by all that leaves, and end with the first answer.
    void use_quick(bool with_data) noexcept {
        if (eager_) quick_ = static_cast<std::uint8_t>(quick_ - (pending() || now_ ? 1 : 0));
        else quick_ = with_data && asked_ ? 0 : static_cast<std::uint8_t>(quick_ - 1);
        if (quick_ == 0) settle();
    }
    void settle() noexcept {
        const bool quickly = !every_second_ && quick_ != 0 && !interactive_;
        enough_ = quickly ? 0 : every_second_ || eager_ ? largest_ + 1 : 2 * largest_;
    }
    static constexpr std::uint32_t least_segment = 536; ///< the default MSS
    seq_number last_sent_;
    std::uint32_t enough_ = 2 * least_segment; ///< bytes: so many unacknowledged ask for an ACK at once; 0 while ACKs are quick
    std::uint32_t largest_ = least_segment;    ///< bytes: the largest segment seen, or the size of two in a row that came later
    bool now_ = false;
    std::uint8_t pending_ = 0;     ///< something waits for an ACK; and so many but one SACKs were left out
    bool eager_ = false;
    bool asked_ = false;           ///< data came while ACKs were quick
    bool every_second_ = false;    ///< see acknowledge_every_second()
    std::uint8_t quick_ = 0;
    bool interactive_ = false;     ///< Linux's: data flows back, and ACKs may ride on it
    std::uint8_t pushed_ = 0;      ///< Linux's: ends of writes among what waits for an ACK, at most two
};

} // namespace corewire::tcp
