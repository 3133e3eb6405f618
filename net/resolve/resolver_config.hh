// What a resolver knows before it asks anybody: servers, search list, the host's own table of names.
// A plain value; from the system's files when the program starts, or from whoever makes it.
#pragma once

#include <corewire/net/socket/address.hh>
#include <corewire/reactor/base/time.hh>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace corewire {

struct known_host {
    std::string name;
    ip_address address;
};

struct resolver_config {
    std::vector<socket_address> servers{};       ///< asked in this order; none: only what is in `hosts` can be resolved
    std::vector<std::string> search{};           ///< domains to try behind a short name
    unsigned dots = 1;                           ///< a name with fewer is short
    duration timeout = std::chrono::seconds{2};  ///< for one server's answer
    unsigned attempts = 2;                       ///< times round all servers
    bool follow_network = false;                 ///< servers and search list are those that the network tells (DHCP), if it tells any
    std::vector<known_host> hosts{};             ///< found before anybody is asked
    std::size_t cache_entries = 1024;            ///< answers remembered; the one used longest ago makes room
    std::size_t questions_at_once = 64;          ///< more wait

    /// resolv.conf(5), by c-ares, and hosts(5). Reads files: before the shards run, or once a shard at its start.
    /// Throws std::system_error when there is no memory for it; a file that is not there says nothing.
    static resolver_config from_system();
};

/// The lines of hosts(5): "ADDRESS NAME ALIAS..."; what is no such line is left out, and so is all after the first `most`.
std::vector<known_host> parse_hosts(std::string_view text, std::size_t most = 4096);

} // namespace corewire
