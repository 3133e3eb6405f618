// What happened in a tcb, for whoever waits on the connection: a set of bits, returned by each on_*() call.
#pragma once

#include <cstdint>

namespace corewire::tcp {

enum class event : std::uint16_t {
    none = 0,
    established = 1 << 0,        ///< the handshake is complete (once)
    readable = 1 << 1,           ///< readable() has grown
    writable = 1 << 2,           ///< writable() was 0 and there is room again (at least a quarter of the buffer)
    all_acknowledged = 1 << 3,   ///< nothing that was written (FIN included) is unacknowledged any more
    end_of_stream = 1 << 4,      ///< the peer's FIN is in: at_end() once everything has been read
    reset = 1 << 5,              ///< dead by RST or a hard ICMP error; error() says which
    timed_out = 1 << 6,          ///< dead by R2, user timeout or keepalive; error() says which
    closed = 1 << 7,             ///< state() is closed: the tcb may be deleted (after next_segment() says false)
    path_mtu_fell = 1 << 9,      ///< ICMP's word on the path's MTU was believed: segment_payload() is smaller
    urgent = 1 << 10,            ///< the peer has marked bytes as urgent: tcb::urgent_ahead() (RFC 6093)
    delivery_trouble = 1 << 8,   ///< R1 retransmissions of one segment: look for another route (RFC 9293 MUST-20, SHLD-9)
};
constexpr event operator|(event a, event b) noexcept {
    return static_cast<event>(static_cast<std::uint16_t>(a) | static_cast<std::uint16_t>(b));
}
constexpr event& operator|=(event& a, event b) noexcept { return a = a | b; }
/// Whether `set` holds any of `some`.
constexpr bool has(event set, event some) noexcept {
    return (static_cast<std::uint16_t>(set) & static_cast<std::uint16_t>(some)) != 0;
}

} // namespace corewire::tcp
