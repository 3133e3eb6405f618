// The eleven states of RFC 9293 3.3.2, for everybody who names one: the protocol, the sockets of both providers, the metrics.
#pragma once

#include <cstdint>
#include <string_view>

namespace corewire::tcp {

enum class tcp_state : std::uint8_t {
    closed,
    listen,
    syn_sent,
    syn_received,
    established,
    fin_wait_1,
    fin_wait_2,
    close_wait,
    closing,
    last_ack,
    time_wait,
};
inline constexpr int tcp_state_count = 11;

/// "ESTABLISHED", as the RFC writes it.
std::string_view name_of(tcp_state s) noexcept;

} // namespace corewire::tcp
