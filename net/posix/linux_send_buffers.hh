// What Linux's send queue looks like for the same bytes: buffers (sk_buff) that hold many segments and cost more than their bytes, and are
// filled before a limit is looked at again (tcp_sendmsg_locked()). What waits is in the buffers that were made for it, whatever the window
// is by now. An estimate: what has left is counted in packets of two segments.
// A plain value.
#pragma once

#include <corewire/net/tcp/info.hh>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace corewire::posix {

struct linux_send_buffers {
    static constexpr std::uint32_t overhead = 832; ///< bytes that a buffer of the send queue counts for without any data

    std::uint32_t size;         ///< bytes in one buffer (tcp_xmit_size_goal())
    std::uint32_t sent_size;    ///< and in one that has left
    std::uint32_t packet;       ///< that the first buffer is filled up to before it leaves
    std::uint32_t may_leave;    ///< bytes of what is unsent for which both windows have room now, in whole segments
    std::uint32_t segment_cost; ///< of one segment, as tcp_sndbuf_expand() counts

    /// `single`: no segments are put together (gso_max_segs 1). `peer_segment`: the largest that is taken by the peer, or asked for.
    linux_send_buffers(const tcp::connection_info& i, bool single, std::uint32_t peer_segment) noexcept {
        constexpr std::uint32_t most = 65'215, headers = 320, tail = 320, struct_size = 256; // sk_gso_max_size, MAX_TCP_HEADER, ...
        const std::uint32_t segment = std::max(i.segment_payload, 1u);
        size = single ? segment : std::max(std::min(most, i.largest_send_window / 2) / segment, 1u) * segment;
        sent_size = std::min(size, 2 * segment);
        packet = single ? segment : 2 * segment;
        const std::uint32_t congestion = i.cwnd - std::min(i.in_flight, i.cwnd);
        const std::uint32_t window = i.send_window - std::min(i.unacknowledged, i.send_window);
        may_leave = i.recovering ? 0 : std::min(congestion, window) / segment * segment;
        segment_cost = std::bit_ceil(std::max(i.packet_size - 40, peer_segment) + headers + tail) + struct_size;
    }
    /// sk_wmem_queued: of `queued` bytes `unsent` have not left, which lie in `waiting` buffers.
    std::uint32_t cost(std::uint32_t queued, std::uint32_t unsent, std::uint32_t waiting) const noexcept {
        const std::uint32_t sent = queued - std::min(unsent, queued);
        return queued + overhead * ((sent + sent_size - 1) / sent_size + waiting);
    }
};

} // namespace corewire::posix
