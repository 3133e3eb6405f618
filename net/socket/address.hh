// Where a socket is: an IP address of either family and a port.
#pragma once

#include <corewire/net/wire/net_address.hh>

#include <compare>
#include <cstdint>
#include <string>
#include <variant>

namespace corewire {

using ip_address = std::variant<ipv4, ipv6>;

struct socket_address {
    ip_address address = ipv4::any();
    std::uint16_t port = 0;

    socket_address() = default;
    socket_address(ipv4 a, std::uint16_t p) : address(a), port(p) {}
    socket_address(ipv6 a, std::uint16_t p) : address(a), port(p) {}
    socket_address(const net_address& a, std::uint16_t p);
    /// The IPv4 address; asserts that it is one.
    ipv4 v4() const;
    /// The address in the form that serves both families.
    net_address net() const noexcept;
    bool is_v4() const noexcept { return std::holds_alternative<ipv4>(address); }
    bool operator==(const socket_address&) const = default;

    /// "192.0.2.1:7777" (or "[2001:db8::1]:7777"). Throws std::invalid_argument with a sentence that says what is wrong.
    static socket_address parse(std::string_view text);
    std::string to_string() const;
};

} // namespace corewire
