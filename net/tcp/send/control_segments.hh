// Segments that open a connection, or end it at once: SYN, SYN-ACK, RST; and the one FIN that does not wait for the handshake. output.cc
// asks for them before anything else. Each fills `out`, or says that it is not wanted: false.
#pragma once

#include <corewire/net/tcp/control_block.hh>

namespace corewire::tcp {

/// control_block::reset.
[[gnu::cold]] bool emit_reset(control_block& c, time_point now, outgoing_segment& out) noexcept;
/// A SYN with a Fast Open cookie takes data along, and may wait for it.
[[gnu::cold]] bool emit_syn(control_block& c, time_point now, outgoing_segment& out) noexcept;
/// FreeBSD's habit: in SYN-SENT a FIN does not wait for the handshake, behind which it goes again.
[[gnu::cold]] bool emit_early_fin(control_block& c, time_point now, outgoing_segment& out) noexcept;

} // namespace corewire::tcp
