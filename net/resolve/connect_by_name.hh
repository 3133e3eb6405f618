// Connecting to a name: Happy Eyeballs version 2 (RFC 8305), so that a family or an address that is broken costs a quarter of a
// second and not a minute.
//
//     cw::tcp_stream peer = co_await cw::connect_by_name(names, "www.example.com", 443);
//
//     AAAA, A asked together --> addresses (RFC 6724), families in turn --> one every 250 ms --> the first there; the rest are dropped
//
// One shard's. Bounded: by the number of addresses, and by its limits.
#pragma once

#include <corewire/net/resolve/resolver.hh>
#include <corewire/net/socket/tcp_stream.hh>

#include <chrono>
#include <string>

namespace corewire {

struct connect_by_name_options {
    tcp_options_set stream{}; ///< `fast_open` counts only for an address beside which no other waits, is tried or looked up
    /// RFC 8305 5: until the next address is tried beside those that have not answered; 10 ms at least, and 2 s at most.
    duration attempt_delay = std::chrono::milliseconds{250};
    /// RFC 8305 3: for how long the other answer may take the lead when that about IPv4 has come first.
    duration resolution_delay = std::chrono::milliseconds{50};
    address_family family = address_family::any;
};

/// A connection to `name`, which may be an address in text. Throws std::system_error: a resolve_error when there is no address, what the
/// last attempt failed with when none answers; ETIMEDOUT or ECANCELED when the limits come first. What is no
/// system_error comes as it is: std::logic_error on a shard without a network, std::bad_alloc.
task<tcp_stream> connect_by_name(resolver& names, std::string name, std::uint16_t port, connect_by_name_options options = {},
                                 wait_limits limits = {});

} // namespace corewire
