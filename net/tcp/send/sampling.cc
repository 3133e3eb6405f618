#include <corewire/net/tcp/send/sampling.hh>

namespace corewire::tcp {

void note_transmission(control_block& c, time_point now, std::uint32_t size) {
    sender& s = c.sending;
    delivery_rate& rate = *s.board.rate();
    const std::uint32_t before = s.in_flight();
    if (before == 0 && rate.limited_by_application() && s.congestion->samples_rate()) {
        s.congestion.own().on_restart(now);
        s.set_pace(*c.options);
    }
    if (rate.full() && s.board.ranges() != 0) rate.forget_before(s.board.oldest());
    const bool idle = c.options->like_linux() ? !s.anything_outstanding() : before == 0; // there what is lost is out, too
    rate.on_sent(now, before + size, idle);
}

void note_lack_of_data(control_block& c) noexcept {
    sender& s = c.sending;
    if (s.in_flight(*c.options) >= s.congestion->cwnd() || s.board.has_lost()) return;
    s.board.rate()->limit_by_application(s.in_flight());
}

void tell_losses(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    delivery_rate& rate = *s.board.rate();
    if (!s.congestion->samples_rate()) return rate.fresh_losses().clear();
    for (loss_sample& l : rate.fresh_losses()) {
        l.now = now;
        l.total = rate.delivered();
        l.selective = s.sack;
        s.congestion.own().on_lost(l);
    }
    rate.fresh_losses().clear();
}

void sample_delivery(control_block& c, const delivery& d) noexcept {
    sender& s = c.sending;
    delivery_rate& rate = *s.board.rate();
    tell_losses(c, d.now);
    if (d.bytes != 0) {
        rate_sample r;
        r.now = d.now;
        rate.on_delivered(d.now, d.bytes, d.newest_known ? &d.newest_sent : nullptr, d.timed ? d.now - d.last_sent : duration{-1}, r);
        r.in_flight = s.in_flight();
        r.window_limited = s.una < s.limited_until;
        r.selective = s.sack;
        r.recovering = s.repair.phase == recovery_phase::fast;
        r.repairing = s.repair.phase != recovery_phase::open;
        if (s.congestion->samples_rate()) s.congestion.own().on_sample(r);
        if (s.congestion->holds_back()) rate.limit_by_application(r.in_flight);
        if (s.board.quiet()) { // else when there is no more room
            if (s.board.ranges() != 0) rate.forget_before(s.board.oldest());
            else rate.forget_before(never);
        }
    }
    if (s.congestion->samples_rate()) s.set_pace(*c.options);
}

void sample_timeout(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    tell_losses(c, now);
    if (!s.congestion->samples_rate()) return;
    s.congestion.own().limit(s.in_flight() + s.mss);
    s.set_pace(*c.options);
}

} // namespace corewire::tcp
