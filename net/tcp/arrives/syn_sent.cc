// SEGMENT ARRIVES in SYN-SENT, RFC 9293 3.10.7.3.
#include <corewire/net/tcp/arrives/steps.hh>
#include <corewire/net/tcp/receive/linux_delayed_acks.hh>
#include <corewire/net/tcp/send/acknowledge.hh>
#include <corewire/net/tcp/send/header.hh>

namespace corewire::tcp {

namespace {

/// Linux's habit: a SYN-ACK that echoes a time at which none of our SYNs can have left answers something else.
bool echoes_another_time(const control_block& c, const arrival& a) noexcept {
    if (!c.options->like_linux() || !a.seg.options.has_timestamps() || a.seg.options.timestamp_echo == 0) return false;
    const std::uint32_t offset = c.timestamp_offset;
    const std::uint32_t first = timestamp_echo::clock(c.sending.progress, offset);
    return a.seg.options.timestamp_echo - first > timestamp_echo::clock(a.now, offset) - first;
}

/// First: an ACK for something else than our SYN is answered with a reset.
verdict check_ack_of_syn(control_block& c, arrival& a) noexcept {
    if (!a.seg.has(tcp_flags::ack)) return verdict::go_on;
    // Whatever of a SYN's data was taken (RFC 7413 4.2.1).
    const bool refuses_fin = c.fin_goes_ahead() && a.seg.has(tcp_flags::rst);
    const bool known = c.sending.una < a.seg.ack && a.seg.ack <= c.sending.max + (refuses_fin ? 1u : 0u);
    if (known && !echoes_another_time(c, a)) return verdict::go_on;
    ++c.count->bad_acks;
    if (!known && c.options->like_linux() && c.sending.attempts == 0) { // the answer to something older; ours has made no impression
        constexpr duration soon = std::chrono::milliseconds{2};
        c.timers.arm(timer_slot::retransmit, a.now + soon);
    }
    if (!a.seg.has(tcp_flags::rst)) {
        c.reset = pending_reset::at(a.seg.ack);
        c.output_wanted = true;
    }
    return verdict::finished;
}

/// Second: a reset with an acceptable ACK refuses the connection; one without is nothing (RFC 5961 3.2).
verdict check_refusal(control_block& c, arrival& a) noexcept {
    if (!a.seg.has(tcp_flags::rst)) return verdict::go_on;
    if (a.seg.has(tcp_flags::ack)) {
        a.events |= die(c, std::errc::connection_refused, event::reset);
    } else {
        ++c.count->resets_ignored;
    }
    return verdict::finished;
}

/// Fourth: the SYN. With our own acknowledged the connection is established, else both sides opened at once.
verdict take_syn(control_block& c, arrival& a) noexcept {
    if (!a.syn) return verdict::finished; // fifth
    const std::uint32_t unit = first_window_unit(c); // of what our SYN has promised
    c.irs = a.seg.seq;
    c.receiving.start(a.seg.seq + 1, *c.options);
    agree_on_options(c, a.seg.options, a.now);
    c.receiving.window.advertise_unscaled(c.receiving.next, unit);
    c.sending.take_window(a.seg.window, a.seg.seq, a.seg.ack); // never scaled in a SYN
    if (!a.seg.has(tcp_flags::ack)) {
        c.move(transition::syn_received);
        c.syn_wanted = c.output_wanted = true; // SYN-ACK
        if (c.options->like_freebsd()) c.timers.arm(timer_slot::retransmit, a.now + c.sending.rto.current(*c.options));
        answer_ecn_offer(c, a.seg); // simultaneous open (RFC 3168 6.1.1, RFC 9768 3.1.2)
        return verdict::finished;
    }
    take_ecn_answer(c, a.seg);
    a.seq = a.seg.seq + 1;
    a.syn = false;
    if (c.fast_open.made()) {
        fast_open_state& fast = c.fast_open.own();
        fast.peer_mss = a.seg.options.has_mss() ? a.seg.options.mss : std::uint16_t{536};
        fast.answered = fast.asked && a.seg.options.has_fast_open() && a.seg.options.cookie_size != 0;
        if (fast.answered) fast.cookie = fast_open_cookie::of(a.seg.options);
    }
    establish(c, a);
    if (c.ecn.accurate != nullptr) settle_ecn_handshake(c, a, false);
    if (c.fast_open.get().writer_waits) { // tcp_rcv_synsent_state_process(): "save one ACK"
        constexpr duration longest_wait = std::chrono::milliseconds{200};
        hurry_acks(c, 16);
        if (c.receiving.acks.wait()) c.timers.arm(timer_slot::delayed_ack, a.now + longest_wait);
    } else {
        c.receiving.acks.acknowledge_now();
    }
    c.output_wanted = true;
    return verdict::go_on;
}

} // namespace

void on_syn_sent(control_block& c, arrival& a) noexcept {
    if (check_ack_of_syn(c, a) == verdict::finished) return;
    if (check_refusal(c, a) == verdict::finished) return;
    if (take_syn(c, a) == verdict::finished) return;
    if (c.options->like_linux()) return; // what came with the SYN-ACK has to come again
    // Data or FIN that came with the SYN-ACK go on at the sixth step (RFC 9293 3.10.7.3, last paragraph).
    if (check_urgent(c, a) == verdict::finished) return;
    if (trim_to_window(c, a) == verdict::finished) return;
    if (take_payload(c, a) == verdict::finished) return;
    check_fin(c, a);
}

} // namespace corewire::tcp
