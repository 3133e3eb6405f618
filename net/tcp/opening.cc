// How a connection begins: the three constructors, and what the two ends agree on in their SYNs.
#include <corewire/net/tcp/arrives/steps.hh>
#include <corewire/net/tcp/receive/linux_window.hh>
#include <corewire/net/tcp/send/header.hh>
#include <corewire/net/tcp/send/loss.hh>
#include <corewire/net/tcp/send/path_search.hh>
#include <corewire/net/tcp/send/super_segments.hh>
#include <corewire/net/tcp/tcb.hh>
#include <corewire/net/tcp/user_timeout.hh>

#include <utility>

namespace corewire::tcp {

namespace {

void begin(control_block& c, seq_number iss, time_point now) noexcept {
    c.heard = now;
    c.user_timeout_chosen = c.options->user_timeout > duration{0};
    c.sending.start(iss, *c.options);
    c.receiving.limit_pieces(c.options->receive_buffer, *c.options);
}

/// The peer's number is known: everything that counts from it.
void begin_receiving(control_block& c, seq_number irs) noexcept {
    c.irs = irs;
    c.receiving.start(irs + 1, *c.options);
}

} // namespace

tcb::tcb(time_point now, const active_open& how, const parameters& p) : c_(p) {
    begin(c_, how.iss, now);
    c_.state = tcp_state::syn_sent;
    if (how.older_timestamp != 0) c_.receiving.timestamps.enable(how.older_timestamp, now);
    if (how.fast_open.asked || how.fast_open.without_cookie) {
        fast_open_state& fast = c_.fast_open.own();
        fast.asked = how.fast_open.asked;
        fast.cookie = how.fast_open.cookie;
        fast.peer_mss = how.fast_open.peer_mss;
        fast.without_cookie = how.fast_open.without_cookie;
        fast.waits_for_data = c_.syn_room() != 0;
    }
    c_.syn_wanted = c_.output_wanted = true;
}

tcb::tcb(time_point now, const passive_open& how, const parameters& p) : c_(p) {
    begin(c_, how.iss, now);
    c_.passive = true;
    c_.state = tcp_state::syn_received;
    begin_receiving(c_, how.syn.seq);
    agree_on_options(c_, how.syn.options, now);
    answer_ecn_offer(c_, how.syn);
    if (c_.options->like_linux()) c_.sending.need().tally.in = 1; // the SYN counts
    c_.sending.take_window(how.syn.window, how.syn.seq, how.iss); // never scaled in a SYN (RFC 7323 2.2)
    if (how.fast_open.give_cookie) {
        c_.fast_open->give_cookie = true;
        c_.fast_open->cookie = how.fast_open.cookie;
    }
    c_.syn_wanted = c_.output_wanted = true;
}

event tcb::take_syn_data(buffer& head, buffer& body) noexcept {
    receiver& r = c_.receiving;
    const std::uint32_t size = head.size() + body.size();
    c_.fast_open->serving = c_.fast_open->early = true;
    const std::uint32_t unit = first_window_unit(c_);
    r.window.advertise_unscaled(r.next, unit); // as if it had been promised: it is there
    if (size == 0 || size > r.room() || !r.queue.has_room()) return event::none; // the SYN-ACK says that it was not taken
    r.queue.push(std::move(head));
    r.queue.push(std::move(body));
    r.next += size;
    r.bytes += size;
    if (c_.options->like_linux()) r.window.advertise_unscaled(r.next, unit); // what is sent before the SYN-ACK says the same
    if (c_.options->counts()) ++c_.sending.need().tally.data_in;
    if (c_.ecn.accurate != nullptr) count_syn_data(c_, size);
    c_.fast_open->data_acked = true;
    return event::readable;
}

void tcb::hurry_syn() noexcept {
    if (waits_for_data()) c_.fast_open->waits_for_data = false;
    if (c_.syn_wanted) c_.output_wanted = true;
}

tcb::tcb(time_point now, const cookie_open& how, const parameters& p) : c_(p) {
    begin(c_, how.iss, now);
    c_.passive = true;
    c_.state = tcp_state::syn_received;
    begin_receiving(c_, how.irs);
    if (c_.options->like_linux()) c_.sending.need().tally.in = 1; // the SYN counts
    wire::tcp_options agreed;
    agreed.set_mss(how.peer_mss);
    if (how.sack_permitted) agreed.set_sack_permitted();
    if (how.timestamps) agreed.set_timestamps(how.peer_timestamp, 0);
    if (how.window_scale != no_window_scale) agreed.set_window_scale(how.window_scale);
    agree_on_options(c_, agreed, now);
    if (how.ecn && !how.accurate_ecn) begin_ecn(c_);
    if (how.accurate_ecn) answer_ecn_offer(c_, {.flags = tcp_flags::syn | tcp_flags::ae | tcp_flags::cwr | tcp_flags::ece});
    // The SYN-ACK went out without us; the ACK that is coming finds us in SYN-RECEIVED and completes the handshake.
    c_.receiving.window.advertise_unscaled(c_.receiving.next, p.like_linux() ? std::max<std::uint32_t>(how.peer_mss, 1) : 1);
    c_.sending.take_window(how.window, how.irs, how.iss);
    c_.sending.next = c_.sending.max = how.iss + 1;
    c_.sending.board.sent(how.iss + 1, now);
    c_.sending.small_end = c_.sending.limited_until = c_.sending.last_start = c_.sending.next;
    c_.sending.waiting_for = awaited::timeout;
    if (c_.options->like_linux()) c_.sending.rto.restart_after_syn_loss(std::chrono::seconds{3}); // when the SYN-ACK left is not known
    c_.timers.arm(timer_slot::retransmit, now + c_.sending.rto.current(*c_.options));
}

void agree_on_options(control_block& c, const wire::tcp_options& theirs, time_point now) noexcept {
    const parameters& p = *c.options;
    c.timestamps = p.timestamps && theirs.has_timestamps();
    if (c.timestamps) c.receiving.timestamps.enable(theirs.timestamp_value, now);
    c.usual_options = c.timestamps ? wire::tcp_option_set::timestamps : wire::tcp_option_set::none;
    c.sending.sack = c.receiving.sack = p.sack && theirs.has_sack_permitted();
    c.sending.probes_tail = c.sending.sack && p.tail_loss_probe;
    c.scaling = p.window_scaling && theirs.has_window_scale();
    c.sending.shift = c.scaling ? theirs.window_scale : 0;
    c.receiving.window.set_scale(c.scaling ? receive_window::scale_for(p.largest_window()) : 0);
    // RFC 9293 3.7.1 (MUST-15): no option means 536; for FreeBSD a size of 0, too.
    const bool named = theirs.has_mss() && !(theirs.mss == 0 && p.like_freebsd());
    c.sending.agree(named ? theirs.mss : 536, c.timestamps, c.passive, p, now);
    if (p.like_freebsd()) {
        c.receiving.window.follow_freebsd(c.sending.mss);
        c.receiving.acks.acknowledge_every_second(c.sending.mss);
    }
    if (p.like_linux()) { // tcp_initialize_rcv_mss(): the peer's segments are as ours, until it shows others
        const std::uint32_t half_window = std::min(c.receiving.window.buffer(), 0xffffu) / 2;
        c.receiving.window.leave_choice();
        c.receiving.acks.expect_segments(std::clamp(std::min(c.sending.payload_limit, half_window), 88u, 536u));
    }
    if (theirs.has_user_timeout()) heed_user_timeout(c, theirs.user_timeout); // `p` is another set of parameters from here on
}

void heed_user_timeout(control_block& c, std::uint16_t field) noexcept {
    const duration remote = user_timeout_of(field);
    if (c.options->advertised_user_timeout <= duration{0} || c.user_timeout_chosen || remote <= duration{0}) return;
    c.options.set(&parameters::user_timeout, agreed_user_timeout(*c.options, remote));
}

void tell_user_timeout(control_block& c) noexcept {
    c.user_timeout_untold = c.keepalive_wanted = c.output_wanted = true;
    c.predictable = prediction::none;
}

void begin_ecn(control_block& c) noexcept {
    c.ecn.on = true;
    c.ecn.exact = c.sending.congestion->wants_exact_marks();
    c.ecn.reduced_until = c.sending.una - 1;
}

namespace {

/// Linux's habit: what a SYN took along in vain, up to SND.MAX, is lost, and sent again like any other. No congestion is to blame.
void lose_syn_data(control_block& c, time_point now) {
    sender& s = c.sending;
    s.board.sent(s.max, now);
    s.board.lose_everything(false);
    s.note_end(s.una, s.max, true);
    s.repair = recovery{.phase = recovery_phase::timeout, .point = s.max};
}

/// Linux's habit: a SYN-ACK was repeated, so what was sent beside it is lost, and so is the window (tcp_fastopen_synack_timer()).
void lose_early_data(control_block& c) {
    sender& s = c.sending;
    s.congestion.own().remember();
    s.congestion.own().on_timeout(s.congestion->cwnd(), true);
    s.congestion.own().limit(s.payload_limit);
    s.board.lose_everything(false);
    s.repair = recovery{.phase = recovery_phase::timeout, .point = s.max, .resend_at_once = true, .doubting = c.options->forward_rto};
    s.need().undo = {.possible = true, .from = s.una};
}

/// What was sent beside the SYN or before its acknowledgement (RFC 7413). Of the data in our SYN, what the SYN-ACK does not acknowledge
/// counts as never sent (4.2.1). What a server sent in SYN-RECEIVED is in flight.
void settle_syn_data(control_block& c, arrival& a) noexcept {
    sender& s = c.sending;
    if (c.fast_open.get().serving) {
        delivery of_syn = expected_delivery(c, a.now);
        s.board.acknowledge(s.una, of_syn);
        c.fast_open->serving = false;
        if (c.options->like_linux() && s.attempts != 0 && s.una != s.max) lose_early_data(c);
        return;
    }
    if (s.max != s.una) {
        const seq_number taken = later(s.una, earlier(a.seg.ack, s.max));
        const bool untold = c.state == tcp_state::syn_received && c.options->like_linux(); // where both open it does not ask
        c.fast_open->data_acked = taken == s.max && !untold;
        s.una = taken;
        if (!c.options->like_linux()) s.next = s.max = taken;
        s.small_end = s.limited_until = s.last_start = taken;
        if (s.queue.acknowledge(taken)) a.events |= event::writable;
        if (s.queue.size() == 0) a.events |= event::all_acknowledged;
    }
    s.board.start(s.una);
    if (s.max != s.una) lose_syn_data(c, a.now);
}

/// Which of several SYNs (or SYN-ACKs) was answered says only its echo (RFC 7323 4.1). That of the first may also stand in an answer to
/// a later one, when the first answer was lost, and the peer's own repetitions echo what it heard long ago: time-outs are measured as
/// well then. Linux puts up with that; else such a time has to be shorter than any time-out of a SYN.
void take_echoed_rtt(control_block& c, const arrival& a) noexcept {
    if (!c.timestamps || !a.seg.options.has_timestamps()) return;
    const std::uint32_t age = timestamp_echo::clock(a.now, c.timestamp_offset) - a.seg.options.timestamp_echo;
    const duration rtt = std::chrono::milliseconds{std::max(age, 1u)};
    const duration since_first = a.now - c.sending.progress - std::chrono::milliseconds{1}; // the clock's grain
    const bool plausible = rtt <= since_first && rtt < c.options->initial_rto;
    if (age < 1u << 24 && (c.options->habits != personality::standard || plausible)) take_rtt(c, rtt, a.now, c.sending.una);
}

/// FreeBSD's SYN cache answers, and times nothing but what is echoed.
bool is_timed(const control_block& c) noexcept {
    const bool cached = c.options->like_freebsd() && c.passive && !c.timestamps && !c.fast_open.get().early;
    return c.sending.timing && !cached;
}

/// RFC 6298 5.7: behind a SYN that was repeated, unless the round trip is known by now. FreeBSD goes on with the time-out as it is.
void settle_time_out(control_block& c, bool cautious) noexcept {
    rto_estimator& rto = c.sending.rto;
    if (c.options->like_freebsd()) {
        if (c.passive || rto.srtt() != duration{0}) rto.reset_back_off();
        if (rto.srtt() != duration{0}) c.sending.congestion.own().on_round_trip(rto.srtt());
        if (rto.srtt() != duration{0} && c.count.get().soft_error != std::errc{}) c.count->soft_error = {};
        return;
    }
    if (cautious) rto.restart_after_syn_loss(std::chrono::seconds{3});
    rto.reset_back_off();
}

/// Linux's habit: what was half open was no socket yet. The window of the SYN counts for nothing, nor do segments that came between.
void forget_request(control_block& c, const arrival& a) noexcept {
    sender& s = c.sending;
    s.max_window = 0;
    s.need().tally.in = 2; // the SYN, and what ends the handshake
    s.seldom->tally.data_in = a.seg.payload_size != 0 ? 1 : 0;
    s.seldom->handshake = {};
}

} // namespace

void establish(control_block& c, arrival& a) noexcept {
    sender& s = c.sending;
    s.una = s.una + 1;
    const bool early = c.fast_open.get().serving;
    settle_syn_data(c, a);
    s.end_time_outs(a.now);
    // By our timer; a SYN that the peer repeats tells of nothing lost.
    const unsigned repeats = std::exchange(s.attempts, std::uint16_t{0}) - s.known().handshake.silent;
    s.waiting_for = awaited::nothing;
    c.timers.disarm(timer_slot::retransmit);
    c.syn_wanted = false;
    // Linux's habit: of who was served early the data that is acknowledged measures the round trip, if there is some.
    const bool by_data = early && c.options->like_linux() && a.seg.ack > s.una && repeats == 0;
    if (is_timed(c) && !by_data) take_rtt(c, a.now - s.progress, a.now, s.una);
    else if (!by_data && (c.syn_resent || (c.passive && c.options->like_linux()))) take_echoed_rtt(c, a); // a SYN cookie's: its echo
    s.timing = false;
    settle_time_out(c, repeats != 0 || (early && c.options->like_linux())); // Linux: and whoever was served early
    // RFC 5681 3.1: the initial window is one segment then. RFC 6928 2: but not for one repetition, which may have been haste.
    // FreeBSD allows for none.
    const bool lost_early = early && c.options->like_linux() && s.repairing();
    // Linux's habit: the first of them was answered, says its echo (tcp_try_undo_spurious_syn()).
    const bool needless = c.options->like_linux() && c.timestamps && a.seg.options.has_timestamps() &&
                          a.seg.options.timestamp_echo == timestamp_echo::clock(s.progress, c.timestamp_offset);
    if (repeats > (c.options->like_freebsd() ? 0u : 1u) && !lost_early && !needless) s.congestion.own().on_timeout(0, false);
    if (s.paced) s.set_pace(*c.options); // the round trip is known now
    s.progress = a.now;
    if (c.options->counts()) s.need().use.payload_at = s.need().use.established_at = a.now;
    if (c.options->like_linux()) {
        begin_linux_window(c);
        if (const std::uint16_t asked = asked_size(c); asked != c.options->mss) c.options.set(&parameters::mss, asked);
        s.begin_window_use(a.now);
        s.seldom->leaving.pushed = later(s.seldom->leaving.pushed, s.una);
        note_packet_pace(c);
        if (c.passive && !early) forget_request(c, a);
        else s.fit_window(c.timestamps);
    }
    if (c.options->like_freebsd() && c.passive && !early) s.max_window = 0; // that of the SYN counts for nothing
    if (s.anything_outstanding()) arm_retransmission(c, a.now);
    c.move(transition::handshake_done);
    if (s.fin_queued) c.move(transition::fin_sent);
    if (c.options->keepalive) c.timers.arm(timer_slot::keepalive, a.now + c.options->keepalive_idle);
    // RFC 5482 3.3: once more, for a peer that has answered our SYN with a cookie has forgotten what the SYN said.
    if (c.options->advertised_user_timeout > duration{0}) tell_user_timeout(c);
    c.output_wanted = true;
    a.events |= event::established;
}

} // namespace corewire::tcp
