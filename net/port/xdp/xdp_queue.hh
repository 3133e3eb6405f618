// One AF_XDP socket and its four rings. Internal to the xdp port; the kernel is at the other end of each ring.
#pragma once

#include <corewire/net/port/super_frame.hh>

#include <cstdint>
#include <xdp/xsk.h>

// Newer than the headers of Debian 12; harmless where the kernel does not know them.
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif
#ifndef XDP_MAX_TX_SKB_BUDGET
#define XDP_MAX_TX_SKB_BUDGET 9
#endif

namespace corewire {

struct xdp_queue {
    xsk_ring_cons rx{};
    xsk_ring_prod tx{};
    xsk_ring_prod fill{};
    xsk_ring_cons completion{};
    xsk_socket* socket = nullptr;
    int fd = -1;
    unsigned index = 0;
    std::uint32_t to_refill = 0; ///< frames the kernel is short of
    std::uint32_t unsent = 0;    ///< frames in the tx ring or beyond, not completed yet

    enum class pieces { none, passing_on, dropping } within = pieces::none; ///< in the middle of a packet in pieces
    super_frame cutter;
};

} // namespace corewire
