// SEGMENT ARRIVES in SYN-RECEIVED and the synchronized states, RFC 9293 3.10.7.4: the list of steps.
#include <corewire/net/tcp/arrives/steps.hh>

namespace corewire::tcp {

namespace {

using step = verdict (*)(control_block&, arrival&) noexcept;

constexpr step steps[] = {
    check_timestamp,      // RFC 7323 5.3 R1
    check_sequence,       // first
    check_reset,          // second (third, security, is not implemented: nobody does)
    check_syn,            // fourth
    check_acknowledgment, // fifth
    check_urgent,         // sixth
    trim_to_window,       // the rest of the first: what is dropped at the fifth is not answered for its old text
    take_payload,         // seventh
    check_fin,            // eighth
};

/// A SYN of the same handshake again, in SYN-RECEIVED: a SYN whose answer was lost, or the SYN-ACK of a simultaneous open.
verdict repeated_handshake(control_block& c, arrival& a) noexcept {
    if (c.state != tcp_state::syn_received || !a.syn || a.seg.seq != c.irs || a.seg.has(tcp_flags::rst)) {
        return verdict::go_on;
    }
    ++c.count->handshake_repeats;
    if (!a.seg.has(tcp_flags::ack)) {
        if (c.options->like_linux() && !c.passive) { // both have opened: ours is known to have arrived
            challenge(c, a.now);
            return verdict::finished;
        }
        if (!accept_repeated_offer(c, a.seg)) { // RFC 9768 3.1.5: nobody could tell which of the two counts
            c.reset = pending_reset::acking(c.receiving.next, c.sending.next);
            a.events |= die(c, std::errc::connection_reset, event::reset);
            return verdict::finished;
        }
        timestamp_echo& clock = c.receiving.timestamps; // RFC 7323 5.3 R3: so that the peer learns which SYN was answered
        const bool stamped = c.timestamps && a.seg.options.has_timestamps() && !c.options->like_linux();
        if (stamped && !clock.too_early(a.seg.options.timestamp_value, a.now)) {
            clock.update(a.seg.options.timestamp_value, a.seg.seq, c.receiving.next, a.now);
        }
        if (c.options->like_linux() && !pause_is_over(c, a.now)) return verdict::finished;
        c.syn_wanted = c.syn_resent = c.output_wanted = true;
        return verdict::finished;
    }
    a.syn = false;
    a.seq += 1;
    if (a.seg.ack == c.sending.max) { // else the fifth step answers with a reset, and with that alone
        if (c.options->like_linux()) c.receiving.note_duplicate(a.seg.seq, a.seg.seq + 1);
        c.receiving.acks.acknowledge_now();
        c.output_wanted = true;
    }
    return verdict::go_on;
}

} // namespace

void on_synchronized(control_block& c, arrival& a) noexcept {
    if (c.options->like_freebsd() && freebsd_shortcuts(c, a) == verdict::finished) return;
    if (c.options->like_linux() && c.state != tcp_state::established && linux_shortcuts(c, a) == verdict::finished) return;
    if (repeated_handshake(c, a) == verdict::finished) return;
    for (const step s : steps) {
        if (s(c, a) == verdict::finished) return;
    }
}

} // namespace corewire::tcp
