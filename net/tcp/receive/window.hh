// The receive window: what we have promised to take, and when to promise more.
// Silly window avoidance of the receiver: RFC 9293 3.8.6.2.2 (MUST-39). The right edge never moves left (SHLD-14),
// but by take_back().
// Owned by the receiver of one tcb.
#pragma once

#include <corewire/net/tcp/seq.hh>

#include <algorithm>
#include <cstdint>

namespace corewire::tcp {

class receive_window {
public:
    void start(seq_number next, std::uint32_t buffer, std::uint32_t mss) noexcept {
        edge_ = next;
        unit_ = static_cast<std::uint16_t>(std::min<std::uint32_t>(mss, 0xffff));
        set_scale(0);
        set_buffer(buffer);
    }
    void set_scale(std::uint8_t shift) noexcept {
        shift_ = scale_ = shift;
        grain_ = (1u << shift) - 1;
    }
    void set_buffer(std::uint32_t buffer) noexcept {
        buffer_ = buffer;
        if (rule_ == rule::own) step_ = std::min<std::uint32_t>(buffer / 2, unit_);
        wide_ = rule_ != rule::own || withheld_ ? ~std::uint32_t{0} : std::max(buffer - buffer / 2, 2 * step_);
    }
    /// What was promised finds no place: nothing is announced until grant(), so that the peer asks in time (RFC 9293 3.8.6.1) and does not
    /// take for lost what is refused. Others' habits have rules of their own.
    void withhold() noexcept {
        if (rule_ != rule::own) return;
        withheld_ = true;
        wide_ = ~std::uint32_t{0};
        shift_ = all_away; // so advertise() says nothing, and need not ask
        grain_ = 0;
    }
    void grant() noexcept {
        withheld_ = false;
        set_scale(scale_);
        set_buffer(buffer_);
    }
    bool withheld() const noexcept { return withheld_; }
    /// Linux's habits: what is promised is chosen elsewhere (receive/linux_window.hh), and told by reach().
    void leave_choice() noexcept {
        rule_ = rule::elsewhere;
        step_ = ~std::uint32_t{0};
        wide_ = ~std::uint32_t{0};
    }
    /// FreeBSD's habits: the buffer that the handshake finds comes to hold whole segments of `unit` bytes, what becomes free is announced
    /// with whatever is sent, and an update goes for a quarter of the buffer.
    void follow_freebsd(std::uint16_t unit) noexcept {
        rule_ = rule::freebsd;
        unit_ = unit;
        step_ = 1;
        set_buffer(buffer_ > unit ? (buffer_ + unit - 1) / unit * unit : buffer_);
    }

    /// RCV.NXT + RCV.WND as promised: nothing beyond it is taken, but with others' habits by reach().
    seq_number edge() const noexcept { return edge_; }
    /// Others' habits: what was taken reaches beyond the edge. It is as if that had been promised.
    void reach(seq_number next) noexcept { edge_ = later(edge_, next); }
    /// Linux's habit where it is asked for: the edge is there now, though further was promised, and so is what is taken (against SHLD-14).
    /// FreeBSD's: what was just written promises nothing.
    void take_back(seq_number edge) noexcept { edge_ = edge; }
    /// RCV.WND.
    std::uint32_t size(seq_number next) const noexcept { return edge_ - next; }
    std::uint32_t buffer() const noexcept { return buffer_; }
    /// Of the buffer, `queued` bytes being unread.
    std::uint32_t free(std::uint32_t queued) const noexcept { return queued < buffer_ ? buffer_ - queued : 0; }
    std::uint8_t scale() const noexcept { return scale_; }

    /// What goes into the header of a segment that is sent now, `queued` bytes being unread. Moves the edge when there is
    /// enough to gain. A scaled window is rounded up, so that the edge the peer computes is not behind ours; but where the buffer
    /// has no room for that, down: else the edge would move with every ACK, and what is unread know no bound. What was promised once is
    /// taken all the same (RFC 7323 2.4).
    [[gnu::always_inline]] std::uint16_t advertise(seq_number next, std::uint32_t queued) noexcept {
        const std::uint32_t most = free(queued);
        std::uint32_t window = edge_ - next;
        if (most > window && most - window >= step_ && !too_little(most)) window = std::min(most, 0xffffu << shift_);
        return promise(next, window, queued);
    }
    /// FreeBSD's habit: what is free, for the field of a segment that promises nothing.
    std::uint16_t unpromised(std::uint32_t queued) const noexcept {
        return static_cast<std::uint16_t>(std::min(free(queued) >> shift_, 0xffffu));
    }
    /// The window of a SYN or SYN-ACK, which is never scaled (RFC 7323 2.2).
    std::uint16_t advertise_unscaled(seq_number next, std::uint32_t unit = 1) noexcept {
        const std::uint16_t window = unscaled(buffer_, unit);
        edge_ = later(edge_, next + window);
        return window;
    }
    /// The same for our own SYN, whose numbers the peer has not chosen yet. A multiple of `unit` if the buffer holds one.
    static std::uint16_t unscaled(std::uint32_t buffer, std::uint32_t unit) noexcept {
        const std::uint32_t whole = buffer > unit ? buffer - buffer % unit : buffer;
        return static_cast<std::uint16_t>(std::min<std::uint32_t>(whole, 0xffff));
    }
    /// The reader has drained so much that the peer should hear of it without being asked: half the buffer, or the end
    /// of a window that was too small to send into.
    bool worth_an_update(seq_number next, std::uint32_t queued) const noexcept {
        const std::uint32_t window = edge_ - next;
        if (window > wide_) [[likely]] return false;
        if (rule_ == rule::elsewhere || withheld_) return true; // it may be
        std::uint32_t most = free(queued);
        if (rule_ == rule::freebsd) most = std::min(most, 0xffffu << shift_); // no more can be told
        if (most <= window) return false;
        const std::uint32_t gain = most - window;
        if (rule_ == rule::freebsd) { // tcp_output()
            const bool much = gain >= buffer_ / 4 || most <= buffer_ / 8 || buffer_ <= 8u * unit_ || gain >= 0xffffu << shift_;
            return window >> shift_ < most >> shift_ && ((gain >= 2u * unit_ && much) || 2 * gain >= buffer_);
        }
        return gain >= buffer_ / 2 || (window < 2 * step_ && gain >= step_);
    }

    /// The smallest shift with which the whole buffer can be announced (RFC 7323 2.2).
    static std::uint8_t scale_for(std::uint32_t buffer) noexcept {
        std::uint8_t shift = 0;
        while (shift < 14 && (std::uint32_t{0xffff} << shift) < buffer) ++shift;
        return shift;
    }

private:
    /// FreeBSD's way to avoid silly windows.
    bool too_little(std::uint32_t free) const noexcept { return rule_ == rule::freebsd && free < buffer_ / 4 && free < unit_; }
    [[gnu::noinline]] bool has_no_room_for(std::uint32_t all) const noexcept { return rule_ == rule::own && all > buffer_ + grain_; }
    /// `window` fits into the field: it is what was promised before, or cut to that.
    [[gnu::always_inline]] std::uint16_t promise(seq_number next, std::uint32_t window, std::uint32_t queued) noexcept {
        std::uint32_t field = (window + grain_) >> shift_;
        const seq_number promised = next + (field << shift_);
        if (promised > edge_) {
            if (queued != 0 && has_no_room_for(queued + (field << shift_))) [[unlikely]] field = window >> shift_;
            else edge_ = promised;
        }
        return static_cast<std::uint16_t>(field);
    }

    static constexpr std::uint8_t all_away = 31; ///< shifts a window away: none is as large
    seq_number edge_;
    std::uint32_t buffer_ = 0;
    std::uint32_t step_ = 1; ///< min(half the buffer, a segment): less is not worth announcing
    std::uint32_t wide_ = 0; ///< max(half the buffer, two steps): a larger window needs no update, however much is free
    std::uint32_t grain_ = 0; ///< 2^shift - 1: what the field can't tell
    std::uint8_t shift_ = 0;
    enum class rule : std::uint8_t { own, freebsd, elsewhere };
    rule rule_ : 3 = rule::own; ///< who chooses what is promised
    bool withheld_ : 1 = false;
    std::uint8_t scale_ : 4 = 0; ///< what was agreed on; shift_ but for a window that is withheld
    std::uint16_t unit_ = 0; ///< a segment's bytes: own: as start() was told; FreeBSD's: what the buffer is a multiple of
};

} // namespace corewire::tcp
