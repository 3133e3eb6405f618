// What SEGMENT ARRIVES answers: worked out here from RFC 9293 3.10.7 as RFC 5961 changes it, by code that shares nothing with
// net/tcp/arrives. Where we deviate the line says so (docs/rfc/9293.md lists the same). For the matrices of the tcb alone
// (tests/net/tcp/arrival_matrix_test.cc) and of the whole stack over both families (tests/net/stack/both_families_test.cc).
#pragma once

#include <corewire/net/tcp/tcb.hh>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace corewire::test::arrival {

using tcp::tcp_state;
using enum tcp::tcp_state;

/// Where a connection stands. Our numbers count from our ISN, the peer's from theirs.
struct standing {
    tcp_state state;
    std::int64_t una, nxt; ///< ours: SND.UNA, SND.NXT
    std::int64_t rcv;      ///< the peer's: RCV.NXT
};
inline constexpr standing standings[] = {
    {syn_sent, 0, 1, 0},   {syn_received, 0, 1, 1}, {established, 1, 1, 1}, {fin_wait_1, 1, 2, 1}, {fin_wait_2, 2, 2, 1},
    {close_wait, 1, 1, 2}, {closing, 1, 2, 2},      {last_ack, 1, 2, 2},    {time_wait, 2, 2, 2},
};
/// Without a connection: nothing has a number.
inline constexpr standing without_connection[] = {{closed, 0, 0, 0}, {listen, 0, 0, 0}};
inline constexpr std::int64_t largest_send_window = 65'535; ///< MAX.SND.WND (RFC 5961 5): what the peers of the tests offer

struct arriving {
    bool syn, fin, rst, ack;
    std::int64_t seq, ack_number, text;
};

enum class reply : std::uint8_t { nothing, ack, ack_now_or_later, syn_ack, reset };
inline const char* name_of(reply r) {
    const char* const names[] = {"nothing", "ACK", "ACK now or later", "SYN-ACK", "RST"};
    return names[static_cast<int>(r)];
}

struct answer {
    reply sent = reply::nothing;
    tcp_state to;
    std::int64_t taken = 0; ///< bytes given to the reader
    std::int64_t rcv = 0;   ///< RCV.NXT afterwards: what an ACK acknowledges
    std::int64_t kept = 0;  ///< bytes beyond a gap
    std::optional<std::int64_t> reset_acknowledges{}; ///< what an RST with number 0 acknowledges; else it stands at SEG.ACK, without ACK
};

inline bool was_closed_by_peer(tcp_state s) { return s == close_wait || s == closing || s == last_ack || s == time_wait; }

/// Text and FIN of a segment that has passed all checks: the seventh and eighth step. `edge`: RCV.NXT + RCV.WND.
inline answer text_and_fin(tcp_state state, std::int64_t rcv, std::int64_t edge, std::int64_t seq, std::int64_t text, bool fin,
                           bool acknowledge) {
    answer a{.to = state, .rcv = rcv};
    const bool open = !was_closed_by_peer(state);
    const bool partly_old = seq < rcv;
    if (partly_old && text + fin > 0) acknowledge = true; // at once, with a D-SACK (RFC 2883)
    if (seq + text + fin > edge) { // what lies beyond is cut off, the FIN first; and the peer is told where the edge is
        acknowledge = true;
        fin = false;
        text = std::min(text, edge - seq);
    }
    const std::int64_t end = seq + text;
    bool later = false;
    if (open && text > 0) {
        if (seq <= rcv) {
            a.taken = end - rcv;
            a.rcv = end;
            later = true;
        } else {
            a.kept = text;
            acknowledge = true; // beyond a gap (RFC 5681 4.2)
        }
    }
    if (open && fin) { // a FIN behind the FIN is no peer's of ours: ignored
        acknowledge = true;
        if (end == a.rcv) {
            ++a.rcv;
            a.to = state == established ? close_wait : state == fin_wait_1 ? closing : time_wait;
        }
    }
    a.sent = acknowledge ? reply::ack : later ? reply::ack_now_or_later : reply::nothing;
    return a;
}

/// 3.10.7.3.
inline answer on_syn_sent(const standing& s, const arriving& seg, std::int64_t edge) {
    answer a{.to = syn_sent};
    const bool acceptable = s.una < seg.ack_number && seg.ack_number <= s.nxt;
    if (seg.ack && !acceptable) { // first
        if (!seg.rst) a.sent = reply::reset;
        return a;
    }
    if (seg.rst) { // second
        if (seg.ack) a.to = closed;
        return a;
    }
    if (!seg.syn) return a; // fifth
    if (!seg.ack) return {.sent = reply::syn_ack, .to = syn_received, .rcv = seg.seq + 1}; // text of a SYN: sent again by the peer
    return text_and_fin(established, seg.seq + 1, seg.seq + edge, seg.seq + 1, seg.text, seg.fin, true); // the edge counts from the SYN
}

/// 3.10.7.4.
inline answer on_synchronized(const standing& s, arriving seg, std::int64_t edge) {
    const answer ignored{.to = s.state, .rcv = s.rcv};
    const answer acknowledged{.sent = reply::ack, .to = s.state, .rcv = s.rcv};
    const std::int64_t number = seg.seq;
    bool acknowledge = false;
    if (s.state == syn_received && seg.syn && !seg.rst && seg.seq == 0) { // the handshake's SYN again
        if (!seg.ack) return {.sent = reply::syn_ack, .to = s.state, .rcv = s.rcv}; // deviation: not a bare ACK
        seg.syn = false; // SYN-ACK of a simultaneous open
        seg.seq = 1;
        acknowledge = true;
    }
    // First: table 6.
    const auto inside = [&](std::int64_t n) { return s.rcv <= n && n < edge; };
    const std::int64_t length = seg.text + seg.syn + seg.fin;
    const bool at_edge = length == 0 && seg.seq == edge && !seg.rst; // deviation: a peer that has filled the window stands there
    const bool reaches_in = inside(seg.seq) || (length != 0 && inside(seg.seq + length - 1));
    if (!reaches_in && !at_edge) return seg.rst ? ignored : acknowledged;
    // Second, RFC 5961 3.2.
    if (seg.rst) {
        if (number == s.rcv) return {.to = closed};
        return inside(number) ? acknowledged : ignored;
    }
    // Fourth, RFC 5961 4. Deviation: in SYN-RECEIVED as in the other states, so that a stranger can't send us back to LISTEN.
    if (seg.syn) return acknowledged;
    // Fifth.
    if (!seg.ack) return ignored;
    tcp_state state = s.state;
    if (state == syn_received) {
        if (!(s.una < seg.ack_number && seg.ack_number <= s.nxt)) return {.sent = reply::reset, .to = state};
        state = established;
    } else {
        if (seg.ack_number > s.nxt || seg.ack_number < s.una - largest_send_window) return acknowledged; // RFC 5961 5.2
        const bool fin_acknowledged = seg.ack_number == s.nxt;
        if (state == fin_wait_1 && fin_acknowledged) state = fin_wait_2;
        else if (state == closing && fin_acknowledged) state = time_wait;
        else if (state == last_ack && fin_acknowledged) return {.to = closed};
    }
    return text_and_fin(state, s.rcv, edge, seg.seq, seg.text, seg.fin, acknowledge); // sixth: URG is ignored
}

/// 3.10.7.1: all but a reset is answered with a reset, which the sender will find acceptable.
inline answer on_closed(const arriving& seg) {
    answer a{.to = closed};
    if (seg.rst) return a;
    a.sent = reply::reset;
    if (!seg.ack) a.reset_acknowledges = seg.seq + seg.text + seg.syn + seg.fin;
    return a;
}

/// 3.10.7.2. Deviation: SYN and FIN together open nothing. Text of a SYN: sent again by the peer.
inline answer on_listen(const arriving& seg) {
    if (seg.rst) return {.to = listen};
    if (seg.ack) return {.sent = reply::reset, .to = listen};
    if (!seg.syn || seg.fin) return {.to = listen};
    return {.sent = reply::syn_ack, .to = syn_received, .rcv = seg.seq + 1};
}

/// `edge`: RCV.NXT + RCV.WND as the peer knows it; in SYN-SENT as if its first byte were 1.
inline answer expected(const standing& s, const arriving& seg, std::int64_t edge) {
    return s.state == closed     ? on_closed(seg)
           : s.state == listen   ? on_listen(seg)
           : s.state == syn_sent ? on_syn_sent(s, seg, edge)
                                 : on_synchronized(s, seg, edge);
}

/// Where a segment begins: so far from RCV.NXT, or from the window's right edge.
struct place {
    std::int64_t offset;
    bool from_edge = false;
    std::int64_t of(const standing& s, std::int64_t edge) const { return (from_edge ? edge : s.rcv) + offset; }
};
/// Old, the number of the handshake's SYN or of a keepalive probe, in order, beyond a gap; the last that fits, one that straddles the
/// window's right edge, the first number beyond it; far beyond.
inline constexpr place places[] = {{-100}, {-1}, {0}, {300}, {-10, true}, {-5, true}, {0, true}, {3'000'000}};

/// What a segment acknowledges: too old to be believed, the oldest that is (RFC 5961 5.2), old, current, future.
inline std::vector<std::int64_t> acknowledgments(const standing& s) {
    std::vector<std::int64_t> acks{s.una - largest_send_window - 1, s.una - largest_send_window};
    for (std::int64_t ack = s.una - 1; ack <= s.nxt + 1; ++ack) acks.push_back(ack);
    return acks;
}

} // namespace corewire::test::arrival
