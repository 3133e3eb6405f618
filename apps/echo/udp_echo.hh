// UDP echo (RFC 862): one coroutine a shard; every datagram goes back as the buffer it came in.
#pragma once

#include <corewire/net/socket/udp_socket.hh>

namespace corewire::echo {

enum class udp_format : std::uint8_t {
    plain,    ///< every datagram goes back as it is
    sockperf, ///< sockperf's requests go back as replies, others are dropped
};

/// Echoes until the socket is closed. A reply that cannot be sent (no route, too long) is lost; that ends nothing.
task<> serve_datagrams(udp_socket& socket, udp_format format);

} // namespace corewire::echo
