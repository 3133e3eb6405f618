// What ICMP said that ended an attempt to open a connection, as the error queue of its socket tells it (ip(7), IP_RECVERR). Kept by
// tcp_layer, of connections that follow Linux's habits, until the socket takes it or is gone. A plain value.
#pragma once

#include <corewire/net/ip/icmp.hh>

#include <cstddef>
#include <system_error>
#include <vector>

namespace corewire {

struct opening_report {
    std::errc error{};             ///< what the attempt ended with
    icmp_report what;              ///< without `transport`
    std::vector<std::byte> quoted; ///< in its place
};

} // namespace corewire
