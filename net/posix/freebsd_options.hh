// What FreeBSD's SOL_SOCKET options have otherwise (sosetopt(), sogetopt()). Pure functions.
#pragma once

#include <corewire/net/posix/outcome.hh>

#include <cerrno>
#include <cstdint>
#include <sys/socket.h>

namespace corewire::posix {

/// FreeBSD's SO_RCVBUF and SO_SNDBUF: as they are asked for, within kern.ipc.maxsockbuf less what keeping the bytes costs.
inline outcome take_size(int asked, std::uint32_t& into) noexcept {
    constexpr int most = 1'864'135;
    if (asked < 1) return -EINVAL;
    if (asked > most) return -ENOBUFS;
    into = static_cast<std::uint32_t>(asked);
    return 0;
}

/// FreeBSD's SO_RCVLOWAT and SO_SNDLOWAT: no more than the buffer holds.
inline outcome take_low_water(int asked, std::uint32_t buffer, std::uint32_t& into) noexcept {
    if (asked < 1) return -EINVAL;
    into = static_cast<std::uint32_t>(asked) < buffer ? static_cast<std::uint32_t>(asked) : buffer;
    return 0;
}

/// FreeBSD tells a flag by the bit that it keeps it in.
inline int freebsd_flag(int name) noexcept {
    switch (name) {
    case SO_ACCEPTCONN: return 0x2;
    case SO_REUSEADDR: return 0x4;
    case SO_KEEPALIVE: return 0x8;
    case SO_DONTROUTE: return 0x10;
    case SO_BROADCAST: return 0x20;
    case SO_LINGER: return 0x80;
    case SO_OOBINLINE: return 0x100;
    case SO_REUSEPORT: return 0x200;
    default: return 1;
    }
}

} // namespace corewire::posix
