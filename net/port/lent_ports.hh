// Which local ports the connections that we open have in shared mode. Each is held in the kernel (owned_ports), which then chooses it for
// no connection of its own, whatever the destination: of the ports that the kernel chooses from it keeps half at least.
//
//     32768        ip_local_port_range        60999 61000  65535
//     [ some, drawn at the start; the rest kernel's ][   all   ]      16,384 together, or more
//
// RFC 6056: from these the port is chosen as it would be from all (tcp/open/port_selection.hh), for each destination by itself. None is
// preferred because it is held already: who has seen one of our ports could guess those of connections to others by it. They are lent to
// all destinations, so that what many connections hold is bounded all the same.
//
// One a process, drawn when it is made and never changed: any thread.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace corewire {

struct port_range {
    std::uint16_t first = 32'768, last = 60'999; ///< Linux's default
    bool contains(std::uint16_t port) const noexcept { return port >= first && port <= last; }
    friend bool operator==(const port_range&, const port_range&) = default;
};

/// Two numbers, as /proc/sys/net/ipv4/ip_local_port_range has them. Whatever else it is: the default.
port_range parse_port_range(std::string_view text) noexcept;
/// The one that the kernel chooses from for itself, in the calling thread's network namespace.
port_range kernel_port_range() noexcept;

class lent_ports {
public:
    static constexpr std::uint32_t first = 32'768;    ///< port_selector's
    static constexpr std::size_t enough = 16'384;     ///< of the kernel's range no more are taken than make up for this many
    /// Throws std::system_error if the kernel has no random bytes, std::bad_alloc.
    explicit lent_ports(const port_range& kernels);
    bool contains(std::uint16_t port) const noexcept { return port >= first && lent_[port - first]; }
    std::size_t count() const noexcept { return lent_.count(); }

private:
    std::bitset<65'536 - first> lent_;
};

} // namespace corewire
