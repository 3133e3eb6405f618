// How much new data the next segment takes, and why it may take none: the peer's window with silly-window avoidance
// (RFC 9293 3.8.6.2.1), the congestion window (RFC 5681), Nagle's algorithm in Minshall's variant (RFC 9293 3.7.4).
// Pure functions of a sender.
#pragma once

#include <corewire/net/tcp/send/sender.hh>

namespace corewire::tcp {

enum class hold : std::uint8_t {
    no,         ///< send
    nothing,    ///< there is nothing to send
    window,     ///< the peer has no room, or too little to be worth a segment
    congestion, ///< enough is in flight
    pacing,     ///< the next burst is not due yet
    nagle,      ///< a small segment is in flight already: gather
};

struct portion {
    hold why;
    bool fin;            ///< the FIN goes with it
    std::uint32_t size;  ///< payload bytes
};

/// The next new data, in segments of at most `limit` payload bytes. `by_segments`: the congestion window counts them (Linux's habit).
template <bool by_segments = false>
inline portion next_portion(const sender& s, std::uint32_t limit, bool no_delay) noexcept {
    const std::int32_t unsent = static_cast<std::int32_t>(s.queue.end() - s.next);
    if (unsent < 0 || (unsent == 0 && !s.fin_queued)) return {hold::nothing, false, 0};
    const auto available = static_cast<std::uint32_t>(unsent);
    const std::uint32_t room = s.usable_window() > 0 ? static_cast<std::uint32_t>(s.usable_window()) : 0;
    const std::uint32_t size = std::min(std::min(available, limit), room);
    const bool fin = s.fin_queued && size == available && (size < room || s.repair.by_numbers); // FreeBSD's needs no room
    if (size == 0 && !fin) return {hold::window, false, 0};
    if (size < limit && !fin) {
        if (size == available) {
            // Where a FIN is to follow nothing more can be gathered. It finds no room itself when these bytes fill the window.
            // FreeBSD's habit: half of the peer's window is no crumb.
            const bool gathers = (s.corked || (!no_delay && s.small_in_flight())) && !s.fin_queued;
            if (gathers && (!s.repair.by_numbers || size < s.max_window / 2)) return {hold::nagle, false, 0};
        } else if (by_segments || size < s.max_window / 2) { // Linux sends whole segments alone (tcp_snd_wnd_test())
            return {hold::window, false, 0};
        }
    }
    if constexpr (by_segments) {
        const std::uint32_t flight = s.counted_flight(); // a FIN counts as well
        return {flight != 0 && flight + s.payload_limit > s.congestion->cwnd() ? hold::congestion : hold::no, fin, size};
    }
    const std::uint32_t flight = s.in_flight();
    if (flight != 0 && flight + size > s.congestion->cwnd()) {
        const bool only_for_syn = s.una == s.iss && flight - 1 + size <= s.congestion->cwnd(); // its number is no byte (RFC 7413)
        if (!only_for_syn && (size != 0 || !s.repair.by_numbers)) return {hold::congestion, false, 0};
    }
    return {hold::no, fin, size};
}

/// What a tail loss probe may take of it: the peer's window counts, cwnd, Nagle and a cork do not (RFC 8985 7.3).
template <bool by_segments = false>
inline portion probing_portion(const sender& s, std::uint32_t limit) noexcept {
    const portion p = next_portion<by_segments>(s, limit, true);
    if (p.why != hold::congestion && p.why != hold::nagle) return p;
    const std::uint32_t available = s.queue.end() - s.next;
    const auto room = static_cast<std::uint32_t>(s.usable_window()); // some, or the window would be what holds it
    const std::uint32_t size = std::min({available, limit, room});
    return {hold::no, s.fin_queued && size == available && size < room, size};
}

} // namespace corewire::tcp
