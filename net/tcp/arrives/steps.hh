// SEGMENT ARRIVES, RFC 9293 3.10.7, as a list of steps. Read on_synchronized() in synchronized.cc first.
//
//     CLOSED                closed.hh      LISTEN        listen.hh     (no tcb: the stack asks)
//     SYN-SENT              syn_sent.cc
//     all other states      synchronized.cc -> acceptable.cc, acknowledgment.cc, payload.cc
#pragma once

#include <corewire/net/tcp/control_block.hh>

namespace corewire::tcp {

/// 3.10.7.3.
void on_syn_sent(control_block& c, arrival& a) noexcept;
/// 3.10.7.4: SYN-RECEIVED and the synchronized states.
void on_synchronized(control_block& c, arrival& a) noexcept;

/// Before them, with FreeBSD's habits (freebsd.cc): the half-open connections of a listener, and TIME-WAIT.
verdict freebsd_shortcuts(control_block& c, arrival& a) noexcept;
/// With Linux's (linux.cc): half-open connections, TIME-WAIT, and orphans in FIN-WAIT-2.
verdict linux_shortcuts(control_block& c, arrival& a) noexcept;
/// Linux's habit: the good ACK of our SYN-ACK does not end the handshake, as it brings nothing (TCP_DEFER_ACCEPT). It has been noted.
bool linux_defers(control_block& c, const arrival& a) noexcept;

// ---- the steps of 3.10.7.4, in order ----

/// First: check sequence number; and PAWS before it (RFC 7323 5.3 R1). R3 comes with the fifth step, when the segment is known to be good.
verdict check_timestamp(control_block& c, arrival& a) noexcept;
verdict check_sequence(control_block& c, arrival& a) noexcept;
/// Second: check the RST bit (RFC 5961 3).
verdict check_reset(control_block& c, arrival& a) noexcept;
/// Fourth: check the SYN bit (RFC 5961 4).
verdict check_syn(control_block& c, arrival& a) noexcept;
/// The peer of this connection seems to have sent it, and not somebody who knows no more than its 4-tuple: a number within a buffer of the
/// expected one (text that came before, the peer's keepalive, its answer to ours), an ACK as RFC 5961 5 wants it, and a clock that goes on.
bool shows_life(const control_block& c, time_point now, const segment& seg) noexcept;
/// Fifth: check the ACK field (RFC 5961 5).
verdict check_acknowledgment(control_block& c, arrival& a) noexcept;
/// Sixth: check the URG bit (RFC 6093).
verdict check_urgent(control_block& c, arrival& a) noexcept;
/// Keeps only what lies inside the window; not before, for what is urgent may lie beyond it.
verdict trim_to_window(control_block& c, arrival& a) noexcept;
/// Seventh: process the segment text.
verdict take_payload(control_block& c, arrival& a) noexcept;
/// Eighth: check the FIN bit.
verdict check_fin(control_block& c, arrival& a) noexcept;

// ---- shared by the steps ----

/// Answers with an ACK that says where we stand, if the limiters let it (RFC 5961 7).
void challenge(control_block& c, time_point now) noexcept;
/// Whether something out of place may be answered again: twice a second at most (parameters::answer_pause). Then it counts as answered.
bool pause_is_over(control_block& c, time_point now) noexcept;
/// Options and window of the peer's SYN: what the connection has agreed on.
void agree_on_options(control_block& c, const wire::tcp_options& theirs, time_point now) noexcept;
/// The peer tells of its user timeout; the option's field (RFC 5482 3.1).
void heed_user_timeout(control_block& c, std::uint16_t field) noexcept;
/// Ours is to be told, in an ACK of its own.
void tell_user_timeout(control_block& c) noexcept;
/// Both ends have agreed on ECN.
void begin_ecn(control_block& c) noexcept;
/// ECN: packets up to `ack` met congestion. At most one reduction a window, and none beside a recovery
/// (RFC 3168 6.1.2); true if it was one.
bool reduce_for_mark(control_block& c, time_point now, seq_number ack) noexcept;
/// The same for a mark on the handshake, when it is over.
void reduce_for_mark(control_block& c, time_point now) noexcept;
/// SYN-SENT or SYN-RECEIVED is over.
void establish(control_block& c, arrival& a) noexcept;

} // namespace corewire::tcp
