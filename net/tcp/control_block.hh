// The parts of one connection, side by side. The steps of arrives/ and send/ work on it; nothing outside net/tcp sees it
// but through tcb.hh. A plain struct: each part keeps its own promises, check_invariants() those between them.
#pragma once

#include <corewire/net/tcp/commons.hh>
#include <corewire/net/tcp/ecn.hh>
#include <corewire/net/tcp/events.hh>
#include <corewire/net/tcp/guard/buffer_budget.hh>
#include <corewire/net/tcp/guard/challenge_ack.hh>
#include <corewire/net/tcp/info.hh>
#include <corewire/net/tcp/lifecycle.hh>
#include <corewire/net/tcp/on_demand.hh>
#include <corewire/net/tcp/open/fast_open.hh>
#include <corewire/net/tcp/parameters.hh>
#include <corewire/net/tcp/receive/receiver.hh>
#include <corewire/net/tcp/segment.hh>
#include <corewire/net/tcp/send/sender.hh>
#include <corewire/net/tcp/timers.hh>
#include <corewire/net/tcp/urgent.hh>

#include <system_error>

namespace corewire::tcp {

/// A reset to be sent in answer to a segment, or for abort().
struct pending_reset {
    bool wanted = false;
    bool with_ack = false;
    seq_number seq{};
    seq_number ack{};

    /// In answer to a segment with an ACK, <SEQ=SEG.ACK><CTL=RST> (RFC 9293 3.5.2).
    static constexpr pending_reset at(seq_number acknowledged) noexcept { return {.wanted = true, .seq = acknowledged}; }
    /// <SEQ=seq><ACK=ack><CTL=RST,ACK>.
    static constexpr pending_reset acking(seq_number ack, seq_number seq = seq_number(0)) noexcept {
        return {.wanted = true, .with_ack = true, .seq = seq, .ack = ack};
    }
};

/// Whether the fast paths may be tried, in and out: the connection is established and nothing is out of the ordinary. If so, what all
/// its segments carry.
enum class prediction : std::uint8_t { none, unstamped, stamped };

/// Fast Open (RFC 7413) in the handshake of one connection. Nothing of it counts afterwards, but to those who ask how it went.
struct fast_open_state {
    bool asked = false;           ///< our SYN has the option, with `cookie` or without
    bool without_cookie = false;  ///< our SYN takes data along without the option
    bool waits_for_data = false;  ///< our SYN waits for the first write: it has a cookie, and could take data along
    bool give_cookie = false;     ///< our SYN-ACK hands `cookie` out
    bool writer_waits = false;    ///< Linux's habit: for our handshake to end, so its ACK rides on what comes
    bool serving = false;         ///< opened by a good cookie, in SYN-RECEIVED: data flows both ways already
    bool early = false;           ///< it was
    bool syn_lost = false;        ///< the SYN had to be repeated, without the option, before it was answered
    bool answered = false;        ///< the SYN-ACK brought a cookie: it is in `cookie` now
    bool data_acked = false;      ///< the data in our SYN, or in the peer's, was taken
    std::uint16_t peer_mss = 0;
    std::uint32_t syn_data = 0;   ///< bytes that our SYN took along
    fast_open_cookie cookie;
};

/// What a connection has met with.
struct troubles : counters {
    time_point challenged{};      ///< when an out-of-window segment was last answered; FreeBSD's: until when challenges_left counts
    std::uint8_t challenges_left = 0;
    std::errc soft_error{};       ///< what ICMP said last
};

struct control_block {
    explicit control_block(const parameters& p) : options(p) {}
    control_block(control_block&&) noexcept = default;
    ~control_block() {
        if (!share.empty()) share.give_back(options->budget);
    }

    tcp_state state = tcp_state::closed;
    bool output_wanted = false;   ///< next_segment() may have something
    prediction predictable = prediction::none;
    bool syn_wanted = false;      ///< SYN or SYN-ACK is to be sent (again)
    bool passive = false;         ///< opened by the peer
    bool timestamps = false;      ///< agreed on (RFC 7323)
    bool scaling = false;         ///< agreed on (RFC 7323)
    bool probe_wanted = false;    ///< the tail loss or window probe is due
    bool keepalive_wanted = false;
    bool orphaned : 1 = false;    ///< nobody will read
    bool reading_shut : 1 = false; ///< nor does its user wish to, who holds it still (SHUT_RD)
    bool answers_plainly : 1 = false; ///< FreeBSD's habit: the next pure ACK tells of the window as it is, not as it was promised
    bool ack_first : 1 = false;   ///< an ACK goes before whatever else is to be sent; in SYN-SENT FreeBSD's early FIN
    bool accepted : 1 = false;    ///< passive: accept() has handed it out
    bool syn_resent = false;
    bool user_timeout_untold = false; ///< keepalive_wanted is for an ACK with the user timeout option (RFC 5482)
    bool user_timeout_chosen = false; ///< by the application: the peer's wishes don't change it (CHANGEABLE is false)
    std::uint8_t keepalives_out = 0; ///< without an answer
    wire::tcp_option_set usual_options = wire::tcp_option_set::none; ///< what an ordinary segment carries

    sender sending;
    receiver receiving;
    timer_set timers;
    ecn_state ecn;
    urgent_state urgent;
    std::uint32_t timestamp_offset = 0; ///< added to our TSval, so that it does not tell our uptime
    time_point heard{};           ///< when a segment last arrived (keepalive)
    seq_number irs;               ///< the peer's initial number
    pending_reset reset;
    on_demand<fast_open_state> fast_open;
    std::errc error{};
    budget_share share;           ///< what its buffers have grown by
    on_demand<troubles> count;    ///< most connections know nothing of it
    shared_parameters options;    ///< shared with others: options.set() changes this connection's

    /// Bytes that our SYN may take along: what fits beside any options, and into what the peer is known to take (RFC 7413 4.2.1).
    std::uint32_t syn_room() const noexcept {
        const fast_open_state& f = fast_open.get();
        if (!f.without_cookie && (!f.asked || f.cookie.empty())) return 0;
        const std::uint32_t presumed = options->like_linux() ? options->mss : 536;
        const std::uint32_t ours = std::min(options->mss, options->path_mss);
        const std::uint32_t segment = std::min<std::uint32_t>(ours, f.peer_mss != 0 ? f.peer_mss : presumed);
        return segment - std::min<std::uint32_t>(segment, wire::tcp_options::max_size);
    }
    /// FreeBSD's habit: a FIN in SYN-SENT that no data waits before goes ahead, and with each SYN. Fast Open's waits.
    bool fin_goes_ahead() const noexcept {
        const fast_open_state& f = fast_open.get();
        return options->like_freebsd() && state == tcp_state::syn_sent && sending.fin_queued && sending.queue.size() == 0 && !f.asked &&
               !f.without_cookie;
    }
    /// Classic ECN: ECE tells of congestion (RFC 3168 6.1.2), and nothing finer.
    bool echoes_marks() const noexcept {
        return ecn.on && ecn.accurate == nullptr && !ecn.exact && options->habits == personality::standard;
    }
    /// Of an ordinary segment.
    std::uint32_t option_bytes() const noexcept { return wire::tcp_options::usual_size(timestamps); }
    void move(transition t) noexcept { state = next_state(state, t); }
    void check_invariants() const;
};

/// A segment on its way through the steps of arrives/. Trimming changes seq, size and fin, never the segment itself.
struct arrival {
    time_point now;
    const segment& seg;
    buffer& head;
    buffer& body;
    seq_number seq;      ///< of the first byte that is still of interest
    std::uint32_t size;  ///< payload bytes from there
    bool syn;
    bool fin;            ///< the FIN lies in the window
    event events = event::none;

    arrival(time_point t, const segment& s, buffer& h, buffer& b) noexcept
        : now(t), seg(s), head(h), body(b), seq(s.seq), size(s.payload_size), syn(s.has(tcp_flags::syn)),
          fin(s.has(tcp_flags::fin)) {}
    std::uint32_t length() const noexcept { return size + (syn ? 1u : 0u) + (fin ? 1u : 0u); }
    seq_number end() const noexcept { return seq + length(); }
};

/// What a step says: let the next one look at the segment, or this one is finished.
enum class verdict : std::uint8_t { go_on, finished };

// ---- control_block.cc and its neighbours: what more than one folder needs ----

/// Ends the connection at once: timers off, nothing more to send (a reset may be pending), error() as given.
event die(control_block& c, std::errc why, event how) noexcept;
/// The peer lives.
inline void note_life(control_block& c, time_point now) noexcept {
    c.heard = now;
    c.keepalives_out = 0;
}
/// Enters TIME-WAIT, or restarts it.
void wait_two_lifetimes(control_block& c, time_point now) noexcept;
/// Whether the fast paths may be tried from now on. Asked after every segment that went by the steps; what else brings
/// something out of the ordinary (a timer, a command) clears control_block::predictable itself.
void predict(control_block& c) noexcept;

} // namespace corewire::tcp
