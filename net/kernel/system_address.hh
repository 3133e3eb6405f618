// Between Corewire's addresses and errors and those of the system calls. Stateless.
#pragma once

#include <corewire/net/socket/provider.hh>
#include <corewire/reactor/base/unique_fd.hh>

#include <netinet/in.h>
#include <sys/socket.h>

namespace corewire {

/// A sockaddr of either family, and how long it is.
struct system_address {
    union {
        sockaddr generic;
        sockaddr_in v4;
        sockaddr_in6 v6;
    };
    socklen_t size;

    system_address() noexcept : v6{}, size(sizeof v6) {}
    explicit system_address(const socket_address& from) noexcept;
    socket_address decoded() const noexcept;
};

/// Where this socket is (who is its peer); any:0 if there is none.
socket_address local_address_of(int fd) noexcept;
socket_address peer_address_of(int fd) noexcept;

/// A new blocking socket of the address's family: io_uring waits by itself, and everybody else says MSG_DONTWAIT.
unique_fd open_socket(const socket_address& family_of, int type);

/// bind(2) so that other shards may bind the same address too (SO_REUSEPORT). `ipv6_only`: `::` leaves IPv4 to others; else it is for both
/// families, whatever net.ipv6.bindv6only says. Throws std::system_error with the address.
void bind_shared(int fd, const socket_address& at, bool ipv6_only);

/// What differs from the kernel's defaults. On a listener: for the streams it accepts, too.
void apply_options(int fd, const tcp_options_set& options, const tcp_options_set& before = {}) noexcept;

/// TCP_INFO's: TCP_ESTABLISHED...
int state_of(int fd) noexcept;
/// Closing this descriptor sends RST instead of FIN (socket(7), SO_LINGER).
void resets_on_close(int fd) noexcept;

/// TCP_CONGESTION (tcp(7)); `standard`: what the kernel gives to a new socket. ENOENT: the kernel has no such module. EPERM: it is for
/// root alone.
std::errc apply_congestion(int fd, congestion_algorithm how);
/// The same for a socket that is being made, where `standard` is what it has: throws std::system_error with a sentence.
void require_congestion(int fd, congestion_algorithm how);
/// In force, by our names where we have one.
std::string congestion_of(int fd);

[[noreturn]] void throw_errno(int error, const std::string& what);

} // namespace corewire
