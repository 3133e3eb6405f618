// The moves between the eleven states of RFC 9293 3.3.2, as a table. LISTEN belongs to the listener
// (arrives/listen.hh): a tcb is born in SYN-SENT, SYN-RECEIVED or (from a SYN cookie) ESTABLISHED.
#pragma once

#include <corewire/net/tcp/tcp_state.hh>

#include <cstdint>

namespace corewire::tcp {

/// What moves a connection from state to state (the arrows of RFC 9293 figure 5).
enum class transition : std::uint8_t {
    syn_received,      ///< a SYN in SYN-SENT without an acceptable ACK: simultaneous open
    handshake_done,    ///< our SYN is acknowledged and the peer's SYN is known
    fin_sent,          ///< the application closed: our FIN is queued
    fin_acknowledged,  ///< the peer has acknowledged our FIN
    fin_received,      ///< the peer's FIN, in order
    expired,           ///< 2 MSL have passed
    aborted,           ///< RST, time-out, or the application gave up
};
inline constexpr int transition_count = 7;

/// The state after `t`, or `from` itself where the RFC has no such arrow.
tcp_state next_state(tcp_state from, transition t) noexcept;

constexpr bool is_synchronized(tcp_state s) noexcept { return s >= tcp_state::established; }
/// States in which new data may still come in (RFC 9293 3.10.7.4, seventh).
constexpr bool may_receive(tcp_state s) noexcept {
    return s == tcp_state::established || s == tcp_state::fin_wait_1 || s == tcp_state::fin_wait_2;
}
/// The peer has sent its FIN: nothing more will come (or nothing is there at all).
constexpr bool at_or_after_fin(tcp_state s) noexcept {
    return s >= tcp_state::close_wait || s == tcp_state::closed;
}
/// States in which queued data may be sent.
constexpr bool may_send(tcp_state s) noexcept {
    return s >= tcp_state::established && s != tcp_state::fin_wait_2 && s != tcp_state::time_wait;
}

} // namespace corewire::tcp
