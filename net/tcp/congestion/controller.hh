// Congestion control as a seam. A controller owns cwnd and ssthresh, and is told what happened to the flight:
//
//     sender --ack(sample)--> on_ack          an ACK of new data while cwnd is the limit; not in fast recovery, nor where the ACK
//                                             tells of a mark. One that wants_exact_marks() (DCTCP) hears of every one
//            --loss---------> on_loss         once per loss event (start of fast recovery): halve, or what you think fit
//            --recovered----> on_recovered    recovery is over
//            --needless-----> undo            it should never have begun
//            --timeout------> on_timeout      RTO: back to one segment
//            --mark---------> on_mark         the path is congested (ECN)
//            --restart------> on_idle         a pause is over that was longer than the time-out
//
// One that asks for it (samples_rate(); BBR) is told of the rate at which data is delivered, too:
//
//            --lost---------> on_lost         each piece that is held for lost
//            --rate---------> on_sample       each ACK that delivers something, after all the above
//            --restart------> on_restart      data leaves, nothing is in flight, and before there was nothing to send
//
// Connections that have told theirs nothing yet share one (congestion_slot.hh); others have one of their own. cwnd() and
// ssthresh() are plain loads: no virtual call on the path of a packet that is not limited by cwnd. RFC 5681 is congestion/reno.hh;
// CUBIC is congestion/cubic.hh.
#pragma once

#include <corewire/net/tcp/congestion/rate_sample.hh>
#include <corewire/net/tcp/seq.hh>
#include <corewire/reactor/base/time.hh>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>

namespace corewire::tcp {

struct ack_sample {
    time_point now;
    std::uint32_t acked;      ///< bytes newly acknowledged (cumulatively; with Linux's habits what was SACKed far out of order, too)
    std::uint32_t in_flight;  ///< bytes outstanding before this ACK
    duration srtt;            ///< 0: not measured yet
    duration rtt{0};          ///< measured by this ACK; 0: it was not
    seq_number una{};         ///< SND.UNA after it
    seq_number next{};        ///< SND.NXT
    std::uint32_t marked = 0; ///< of `acked`, bytes that met congestion (ECN)
    bool limited = true;      ///< cwnd held data back: it may grow
    bool paced = false;       ///< what cwnd lets go leaves at a pace, not as a burst
    std::uint32_t most = ~std::uint32_t{0}; ///< of `acked`, slow start opens by no more than this
};

/// What a controller believes of the path, for who asks (TCP_CC_INFO).
struct path_belief {
    bool kept = false;        ///< else it keeps no such thing
    std::uint64_t rate = 0;   ///< bytes a second; 0: not known
    duration min_rtt{0};      ///< 0: not known
    double pacing_gain = 0, window_gain = 0;
    float marked_share = 0;                ///< DCTCP.Alpha
    std::uint64_t acked = 0, marked = 0;   ///< bytes that the next one is made of
};

/// RFC 6928: the initial window, min(10 * MSS, max(2 * MSS, 14600)).
constexpr std::uint32_t initial_window(std::uint32_t mss) noexcept {
    const std::uint32_t bound = 2 * mss > 14600 ? 2 * mss : 14600;
    return 10 * mss < bound ? 10 * mss : bound;
}

inline constexpr std::uint32_t largest_window = 1u << 30; ///< bytes; RFC 7323 2.3: no window is larger

class congestion_controller {
public:
    static constexpr std::uint64_t not_paced = std::numeric_limits<std::uint64_t>::max();

    virtual ~congestion_controller() = default;
    virtual void on_ack(const ack_sample& sample) noexcept = 0;
    /// `in_flight`: bytes outstanding when the loss was found.
    virtual void on_loss(std::uint32_t in_flight) noexcept = 0;
    /// ECN: congestion was met and nothing lost (RFC 3168 6.1.2). Once a window.
    virtual void on_mark(time_point now, std::uint32_t in_flight) noexcept;
    virtual void on_recovered() noexcept;
    /// `in_flight`: FlightSize (RFC 5681 2), all that is not cumulatively acknowledged.
    virtual void on_timeout(std::uint32_t in_flight, bool first_of_this_segment) noexcept = 0;
    /// The recovery since remember() was needless: gives back what it took.
    virtual void undo(time_point now) noexcept;
    /// The connection sent nothing for `idle`, which is longer than the time-out: cwnd falls back to the initial window (RFC 5681 4.1).
    /// Linux's habit: it halves once a time-out on its way there, and ssthresh remembers (RFC 2861 2.1).
    virtual void on_idle(time_point now, duration idle, duration rto) noexcept;
    /// Linux's habit: for a time-out no more than `used` bytes were in flight, though cwnd would have let more go: it comes half of the way
    /// down, and ssthresh remembers (RFC 2861 3.2; RFC 7661 has a gentler rule).
    void on_unused(std::uint32_t used) noexcept;
    /// For five minutes less than half of the window was used: half is left, at least the initial one (RFC 7661 4.4.3).
    virtual void on_period_over() noexcept;
    /// RFC 7661 4.4.1: a recovery is over that began while little of the window was used.
    void settle(std::uint32_t cwnd) noexcept {
        cwnd_ = std::max(std::min(cwnd, cwnd_), mss_);
        ssthresh_ = std::max(cwnd_, 2 * mss_);
    }
    virtual void on_sample(const rate_sample&) noexcept {}
    virtual void on_lost(const loss_sample&) noexcept {}
    virtual void on_restart(time_point) noexcept {}
    /// A round trip is known, for those who need one before the first sample: the handshake's.
    virtual void on_round_trip(duration) noexcept {}
    /// With Linux's habits: what an ACK during a repair, or of SACK alone, measured.
    virtual void on_repair_round_trip(time_point, duration) noexcept {}
    virtual std::string_view name() const noexcept = 0;
    virtual path_belief belief() const noexcept { return {}; }
    /// A new one of the same kind, for segments of the same size.
    virtual congestion_controller* another() const = 0;
    virtual void check_invariants() const;

    std::uint32_t cwnd() const noexcept { return cwnd_; }         ///< bytes
    std::uint32_t ssthresh() const noexcept { return ssthresh_; } ///< bytes
    std::uint64_t pacing_rate() const noexcept { return pacing_rate_; } ///< bytes a second; not_paced
    std::uint32_t mss() const noexcept { return mss_; }
    bool in_slow_start() const noexcept { return cwnd_ < ssthresh_; }
    /// A loss event is about to be reported: what undo() goes back to.
    virtual void remember() noexcept {
        prior_cwnd_ = cwnd_;
        prior_ssthresh_ = ssthresh_;
    }
    /// Fast recovery's window (RFC 9937).
    void limit(std::uint32_t cwnd) noexcept { cwnd_ = std::max(cwnd, mss_); }
    /// DCTCP: the receiver's ECE tells of each segment, and on_ack() is called for every ACK.
    bool wants_exact_marks() const noexcept { return wants_exact_marks_; }
    /// Linux's habit: slow start opens by all that was acknowledged, until a loss ends it.
    /// And windows are whole segments: ten at first, and what is taken away is rounded up.
    void follow_linux() noexcept {
        opens_fully_ = true;
        if (cwnd_ == initial_window(mss_)) cwnd_ = 10 * mss_;
    }
    /// It keeps its own window during recovery: no proportional rate reduction.
    bool repairs_itself() const noexcept { return repairs_itself_; }
    /// It is told of rates: on_sample() and its like. Such a one names a pace, too.
    bool samples_rate() const noexcept { return samples_rate_; }
    /// It sends less than the path would take, on purpose: what is measured meanwhile says nothing of the path.
    bool holds_back() const noexcept { return holds_back_; }
    /// In the place of another, which has come so far.
    struct reached {
        std::uint32_t cwnd, ssthresh, prior_cwnd, prior_ssthresh;
    };
    reached so_far() const noexcept { return {cwnd_, ssthresh_, prior_cwnd_, prior_ssthresh_}; }
    void go_on_from(const reached& r) noexcept {
        cwnd_ = r.cwnd;
        ssthresh_ = r.ssthresh;
        prior_cwnd_ = r.prior_cwnd;
        prior_ssthresh_ = r.prior_ssthresh;
    }
    /// Connections look at it (commons.hh), so nobody may tell it anything.
    bool shared() const noexcept { return users_ != 0; }
    std::uint32_t users() const noexcept { return users_; }
    void join() noexcept { ++users_; }
    void leave() noexcept { --users_; }
    /// For a user that leaves, one of its own: another().
    congestion_controller* part();
    /// Segments are of this size from now on, and the windows count as many of them: Linux's habit.
    void resize(std::uint32_t mss) noexcept {
        cwnd_ = cwnd_ / mss_ * mss;
        if (ssthresh_ < std::numeric_limits<std::uint32_t>::max() / 4) ssthresh_ = ssthresh_ / mss_ * mss;
        mss_ = mss;
    }
    /// The path's segment size has changed (path MTU).
    virtual void set_mss(std::uint32_t mss) noexcept {
        mss_ = mss;
        cwnd_ = std::max(cwnd_, mss);
        ssthresh_ = std::max(ssthresh_, 2 * mss);
    }

protected:
    /// Slow start: `growth` bytes, as far as ssthresh, but a segment if that is near. Returns how much of it was used.
    std::uint32_t grow_quickly(std::uint32_t growth) noexcept {
        const std::uint32_t before = cwnd_;
        cwnd_ = std::min(cwnd_ + growth, std::max(ssthresh_, cwnd_ + mss_));
        return cwnd_ - before;
    }
    /// How far an ACK opens slow start. RFC 3465 2.2 counts bytes, two segments of an ACK at most (L); one behind a time-out (2.3:
    /// `most`). Linux counts them all.
    std::uint32_t opening(const ack_sample& sample) const noexcept {
        return std::min({sample.acked, sample.most, opens_fully_ ? sample.acked : 2 * mss_});
    }
    /// What a time-out is to reduce: FlightSize (RFC 5681 (4)), but no more than the window that a recovery had in mind already, since the
    /// loss of a retransmission is a second sign of congestion (4.3). cwnd_ says little then: it follows what was delivered.
    std::uint32_t timed_out_flight(std::uint32_t in_flight) const noexcept { return std::min(in_flight, std::max(cwnd_, ssthresh_)); }
    /// What ssthresh is to be when cwnd is lowered without a loss: slow start leads back to three quarters.
    void remember_window() noexcept {
        const std::uint32_t n = cwnd_ / mss_;
        ssthresh_ = std::max(ssthresh_, opens_fully_ ? (n / 2 + n / 4) * mss_ : cwnd_ / 4 * 3);
    }
    /// A window of so many bytes, as this one counts.
    std::uint32_t whole_segments(std::uint32_t bytes) const noexcept { return opens_fully_ ? bytes - bytes % mss_ : bytes; }
    /// Congestion was met before: slow start knows where it ends.
    bool knows_threshold() const noexcept { return ssthresh_ != no_threshold; }
    explicit congestion_controller(std::uint32_t mss) noexcept : mss_(mss) {}
    congestion_controller(const congestion_controller&) noexcept = default;

    static constexpr std::uint32_t no_threshold = std::numeric_limits<std::uint32_t>::max() / 2;
    std::uint32_t cwnd_ = 0;
    std::uint32_t ssthresh_ = no_threshold;
    std::uint32_t mss_;
    std::uint32_t prior_cwnd_ = 0;
    std::uint32_t prior_ssthresh_ = 0;
    bool repairs_itself_ = false;
    bool opens_fully_ = false;
    bool wants_exact_marks_ = false;
    bool samples_rate_ = false;
    bool holds_back_ = false;
    std::uint32_t users_ = 0; ///< of one that is shared; 0: it is a connection's own, or nobody's
    std::uint64_t pacing_rate_ = not_paced;
};

/// Makes a controller for segments of `mss` bytes, on the heap.
using congestion_factory = congestion_controller* (*)(std::uint32_t mss);

congestion_controller* reno_congestion(std::uint32_t mss);
congestion_controller* dctcp_congestion(std::uint32_t mss);
congestion_controller* cubic_congestion(std::uint32_t mss);
congestion_controller* linux_cubic_congestion(std::uint32_t mss);
congestion_controller* freebsd_newreno_congestion(std::uint32_t mss);
congestion_controller* freebsd_cubic_congestion(std::uint32_t mss);
congestion_controller* bbr_congestion(std::uint32_t mss);

} // namespace corewire::tcp
