// A connection as Linux's struct tcp_info tells it (tcp(7), linux/tcp.h): the layout that programs compiled for Linux read.
#pragma once

#include <corewire/net/tcp/tcb.hh>

#include <linux/tcp.h>

namespace corewire::posix {

/// `now`: for the fields that count milliseconds since something. Fields that we do not keep are 0.
tcp_info linux_tcp_info(const tcp::tcb& block, time_point now) noexcept;
/// Linux's number of a state: TCP_ESTABLISHED is 1.
std::uint8_t linux_state(tcp::tcp_state s) noexcept;

} // namespace corewire::posix
