// sockaddr and back. IPv4 addresses in both families: as themselves, and mapped into IPv6 (RFC 4291 2.5.5.2); IPv6's in one.
#pragma once

#include <corewire/net/posix/outcome.hh>
#include <corewire/net/socket/address.hh>

#include <sys/socket.h>

namespace corewire::posix {

/// -EINVAL (too short, too long), -EFAULT (NULL), -EAFNOSUPPORT (another family than the socket's). A mapped address is read as the IPv4
/// address that it is.
outcome read_name(const sockaddr* name, socklen_t size, int family, socket_address& out) noexcept;
/// Writes what fits of `address` in the form of `family`, and its whole size into *size (accept(2)). Null is allowed.
void write_name(const socket_address& address, int family, sockaddr* name, socklen_t* size) noexcept;

} // namespace corewire::posix
