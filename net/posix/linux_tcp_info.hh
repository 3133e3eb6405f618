// A connection as Linux's struct tcp_info tells it (tcp(7), linux/tcp.h): the layout that programs compiled for Linux read.
#pragma once

#include <corewire/net/tcp/tcb.hh>

#include <linux/tcp.h>

namespace corewire::posix {

/// `now`: for the fields that count milliseconds since something. `ip_header`: bytes, 20 or 40.
/// What nobody counts, for it would be a count a segment, is 0: tcpi_segs_in, _segs_out, _data_segs_in, _data_segs_out, _delivered_ce,
/// _delivery_rate, _rcv_rtt, _busy_time, _rwnd_limited, _sndbuf_limited. tcpi_bytes_acked and the first transmissions in
/// tcpi_bytes_sent are modulo 2^32. Segments are counted as the scoreboard tells them apart (tcp::connection_info), tcpi_delivered as
/// full ones. tcpi_last_data_recv is kept with Linux's habits only.
tcp_info linux_tcp_info(const tcp::tcb& block, time_point now, unsigned ip_header) noexcept;
/// Linux's number of a state: TCP_ESTABLISHED is 1.
std::uint8_t linux_state(tcp::tcp_state s) noexcept;

} // namespace corewire::posix
