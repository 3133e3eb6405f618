// What tcp_listener::bind() and udp_socket::bind() throw: the address cannot be had. A program that serves cannot go on without
// it, which is another matter than an error of its work; corewire::app ends with exit code 2 and says what to do.
#pragma once

#include <corewire/net/socket/address.hh>

#include <system_error>

namespace corewire {

struct bind_error : std::system_error {
    /// With that error's code and message.
    explicit bind_error(const std::system_error& why) : std::system_error(why) {}
};

/// Throws EINVAL where both are asked for: IPv6 alone, and an address of IPv4. `what` is asked: "bind " or "connect ".
inline void require_family(const char* what, const socket_address& address, bool ipv6_only) {
    if (!ipv6_only || !address.is_v4()) return;
    throw std::system_error(std::make_error_code(std::errc::invalid_argument),
                            what + address.to_string() + ": ipv6_only, and an address of IPv4");
}

} // namespace corewire
