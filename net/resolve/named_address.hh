// Who is meant, before it has been looked up: "www.example.com:80", "192.0.2.1:80", "[2001:db8::1]:80". A plain value.
#pragma once

#include <corewire/net/resolve/resolver.hh>

#include <cstdint>
#include <string>
#include <string_view>

namespace corewire {

struct named_address {
    std::string host; ///< a name, or an address in text without brackets
    std::uint16_t port = 0;

    /// Throws std::invalid_argument with a sentence that says what is wrong. A host of digits and dots alone is an address, and must be a
    /// right one.
    static named_address parse(std::string_view text);
    /// One address of the host, an IPv4 address if it has one: for who can't try all of them (connect_by_name() does).
    /// Throws as resolver::resolve().
    task<socket_address> resolve(resolver& names, wait_limits limits = {}) const;
};

} // namespace corewire
