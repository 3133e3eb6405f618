#include <corewire/net/tcp/control_block.hh>

namespace corewire::tcp {

event die(control_block& c, std::errc why, event how) noexcept {
    c.state = tcp_state::closed;
    c.error = why;
    c.predictable = prediction::none;
    c.syn_wanted = c.probe_wanted = c.keepalive_wanted = false;
    c.timers.disarm_all();
    c.sending.queue.clear();
    const bool told_of = c.options->like_linux() && c.reset.wanted && c.reset.with_ack; // by the reset, which leaves soon
    if (!told_of) c.receiving.ahead.clear();
    c.output_wanted = c.reset.wanted;
    return how | event::closed;
}

void wait_two_lifetimes(control_block& c, time_point now) noexcept {
    c.timers.disarm(timer_slot::retransmit);
    c.timers.disarm(timer_slot::keepalive);
    c.sending.waiting_for = awaited::nothing;
    c.timers.arm(timer_slot::life, now + c.options->time_wait);
}

namespace {

/// Marks in the stream mean nothing any more once they are passed; 2 GiB later they would seem to lie ahead. The fast paths look at
/// none of them, so they are not taken while there is one.
bool any_mark_ahead(control_block& c) noexcept {
    sender& s = c.sending;
    if (c.urgent.sending && s.una >= c.urgent.send_end) c.urgent.sending = false;
    path_search* const path = s.search();
    if (path != nullptr && path->report_waits && s.una > path->report_seq) path->report_waits = false;
    return c.urgent.sending || c.urgent.known || (path != nullptr && path->report_waits);
}

} // namespace

void predict(control_block& c) noexcept {
    const sender& s = c.sending;
    const receiver& r = c.receiving;
    const bool calm_sender = !s.repairing() && !c.ecn.on && s.next == s.max && s.waiting_for != awaited::window_probe &&
                             s.settled_at() == never && s.rto.backoff() == 0 && s.attempts == 0 && !s.fin_queued && !s.path_probe_out();
    const bool marked = any_mark_ahead(c);
    // An ACK that came before the text in front of it has told the window: the text tells none (RFC 9293 3.10.7.4, SND.WL1).
    const bool calm_receiver = r.ahead.empty() && !r.fin_ahead && !r.has_duplicate && s.wl1 <= r.next;
    if (s.corked || s.paced || c.options->counts() || c.answers_plainly || c.reading_shut) { // for the general way
        c.predictable = prediction::none;
        return;
    }
    const bool unusual = c.reset.wanted || c.syn_wanted || c.probe_wanted || c.keepalive_wanted || c.keepalives_out != 0;
    const bool calm = c.options->fast_path && c.state == tcp_state::established && calm_sender && calm_receiver && !unusual &&
                      !marked && !c.orphaned;
    c.predictable = !calm ? prediction::none : c.timestamps ? prediction::stamped : prediction::unstamped;
}

void control_block::check_invariants() const {
    if (state == tcp_state::closed) {
        CW_ASSERT(timers.next() == never, "a closed connection still has a timer");
        CW_ASSERT(sending.queue.size() == 0, "a closed connection still has something to send");
        return;
    }
    sending.check_invariants(options->like_linux());
    if (state != tcp_state::syn_sent) receiving.check_invariants();
    CW_ASSERT(sending.waiting_for == awaited::nothing || timers.armed(timer_slot::retransmit),
              "the sender waits for a timer that is off");
    CW_ASSERT(sending.next == sending.una || !is_synchronized(state) || sending.waiting_for != awaited::nothing,
              "data is in flight and no timer runs");
    CW_ASSERT(!receiving.acks.pending() || receiving.acks.now() || timers.armed(timer_slot::delayed_ack),
              "an ACK is delayed for ever");
    CW_ASSERT(state != tcp_state::time_wait || timers.armed(timer_slot::life), "TIME-WAIT without an end");
    CW_ASSERT(!receiving.fin_received || state >= tcp_state::close_wait, "a FIN was received and the state is unmoved");
    CW_ASSERT(!sending.fin_queued || state != tcp_state::established, "a FIN is queued and the state is unmoved");
    CW_ASSERT(error == std::errc{}, "a connection that lives has failed");
    CW_ASSERT(state != tcp_state::established || !fast_open.get().waits_for_data, "a SYN waits for data that was acknowledged");
    const bool general = predictable == prediction::none;
    CW_ASSERT(general || state == tcp_state::established, "the fast path is for ESTABLISHED");
    CW_ASSERT(!sending.repair.blameless || sending.repair.phase == recovery_phase::timeout, "a lost probe is not being repaired");
    CW_ASSERT(general || (!sending.repairing() && sending.next == sending.max), "the fast path repairs nothing");
    CW_ASSERT(general || !(reset.wanted || syn_wanted || probe_wanted || keepalive_wanted || sending.fin_queued),
              "the fast path does nothing urgent");
    CW_ASSERT(general || (receiving.ahead.empty() && !receiving.has_duplicate && sending.rto.backoff() == 0),
              "the fast path knows nothing of gaps and back-off");
    CW_ASSERT(general || sending.wl1 <= receiving.next, "the fast path asks not whether a window is old");
    CW_ASSERT(general || timestamps == (predictable == prediction::stamped), "the fast path knows whether segments are stamped");
    CW_ASSERT(general || !options->counts(), "the fast path follows no habits and counts nothing");
    CW_ASSERT(general || (sending.attempts == 0 && keepalives_out == 0), "the fast path resets no count of attempts");
}

} // namespace corewire::tcp
