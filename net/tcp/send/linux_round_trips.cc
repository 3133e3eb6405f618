// Round trips and the time-out as Linux reckons them (tcp_ack_update_rtt(), tcp_rtt_estimator()). Off the usual path.
#include <corewire/net/tcp/send/loss.hh>

#include <algorithm>

namespace corewire::tcp {

void rto_estimator::sample_like_linux(duration rtt, round_trip_spread& spread, seq_number una, seq_number max,
                                      const parameters& p) noexcept {
    rtt = std::max(rtt, duration{1});
    if (srtt_ == duration{0}) {
        srtt_ = rtt;
        spread.deviation = 2 * rtt;
        spread.held = spread.largest = std::max(spread.deviation, p.min_rto);
        spread.round_end = max;
    } else {
        const duration error = rtt - srtt_;
        duration more = (error < duration{0} ? -error : error) - spread.deviation / 4;
        if (error < duration{0} && more > duration{0}) more /= 8; // a path that has become shorter is no reason for patience
        srtt_ += duration{error.count() >> 3};
        spread.deviation += more;
        spread.largest = std::max(spread.largest, spread.deviation);
        spread.held = std::max(spread.held, spread.largest);
        if (una > spread.round_end) {
            spread.held -= (spread.held - spread.largest) / 4;
            spread.largest = p.min_rto;
            spread.round_end = max;
        }
    }
    rttvar_ = spread.deviation / 4;
    base_ = std::min(srtt_ + spread.held, p.max_rto);
    backoff_ = 0;
}

namespace {

void take(control_block& c, duration rtt, duration least, time_point now, seq_number ack) noexcept {
    sender& s = c.sending;
    s.rto.sample_like_linux(rtt, s.need().spread, ack, s.max, *c.options);
    s.least_rtt.take(least, now);
    s.set_probe_after(*c.options);
}

} // namespace

void measure_like_linux(control_block& c, seq_number ack, const segment& seg, const delivery& d) noexcept {
    const delivery::sample& all = d.cumulative;
    const delivery::sample& some = d.selective;
    const bool whole = d.whole != 0;
    if (whole && all.taken && !all.resent) return take(c, d.now - all.first, d.now - (some.taken ? some.last : all.last), d.now, ack);
    if (some.taken) return take(c, d.now - some.first, d.now - some.last, d.now, ack);
    if (!whole || !c.timestamps || !seg.options.has_timestamps() || seg.options.timestamp_echo == 0) return;
    const std::uint32_t age = timestamp_echo::clock(d.now, c.timestamp_offset) - seg.options.timestamp_echo;
    const duration echoed = std::chrono::milliseconds{std::max(age, 1u)};
    if (age < 1u << 24) take(c, echoed, echoed, d.now, ack);
}

void measure_selectively(control_block& c, const segment& seg, const delivery& d) noexcept {
    if (!d.selective.taken) return;
    measure_like_linux(c, c.sending.una, seg, d);
    if (d.selective.first < c.sending.board.front_sent()) arm_retransmission(c, d.now);
}

} // namespace corewire::tcp
