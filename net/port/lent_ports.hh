// Which local ports the connections that we open, and UDP sockets, have in shared mode. Each is held in the kernel (owned_ports), which
// then chooses it for none of its own, whatever the destination: of those that the kernel chooses from each process of ours leaves it half.
//
//     32768        ip_local_port_range        60999 61000  65535
//     [ some, drawn at the start; the rest kernel's ][   all   ]      16,384 together, or more
//
// None of those that ip_local_reserved_ports keeps for services (as the kernel chooses none of them), whatever it says later.
//
// RFC 6056: from these the port is chosen as it would be from all (tcp/open/port_selection.hh), for each destination by itself. None is
// preferred because it is held already: who has seen one of our ports could guess those of connections to others by it. They are lent to
// all destinations, so that what many connections hold is bounded all the same.
//
// One a process, drawn when it is made and never changed: any thread.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

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

using port_set = std::bitset<65'536>;
/// "8080,9148-9150", as /proc/sys/net/ipv4/ip_local_reserved_ports has them. What follows something else is not read.
port_set parse_port_list(std::string_view text) noexcept;
/// Those that the kernel gives to nobody who names none, in the calling thread's network namespace. Throws std::bad_alloc.
port_set kernel_reserved_ports();

class lent_ports {
public:
    static constexpr std::uint32_t first = 32'768;    ///< port_selector's
    static constexpr std::size_t enough = 16'384;     ///< of the kernel's range no more are taken than make up for this many
    /// Throws std::system_error if the kernel has no random bytes, std::bad_alloc.
    explicit lent_ports(const port_range& kernels, const port_set& reserved = {});
    bool contains(std::uint16_t port) const noexcept { return std::ranges::binary_search(lent_, port); }
    /// The smallest one first.
    std::span<const std::uint16_t> all() const noexcept { return lent_; }
    std::size_t count() const noexcept { return lent_.size(); }

private:
    std::vector<std::uint16_t> lent_;
};

} // namespace corewire
