// One AF_XDP socket and its four rings. Internal to the xdp port; the kernel is at the other end of each ring.
//
// The kernel's own calls make it (Documentation/networking/af_xdp.rst), and libxdp's accessors (xsk.h) work on the rings: libxdp 1.3
// cannot ask for the bytes in front of each frame in which a sender says what the device is to do (xsk-tx-metadata.rst).
#pragma once

#include <corewire/net/port/super_frame.hh>
#include <corewire/reactor/base/unique_fd.hh>

#include <array>
#include <cstddef>
#include <cstdint>
#include <sys/mman.h>
#include <xdp/xsk.h>

// Newer than the headers of Debian 12; harmless where the kernel does not know them.
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif
#ifndef XDP_TX_METADATA
#define XDP_TX_METADATA (1 << 1)
#endif
#ifndef XDP_TXMD_FLAGS_CHECKSUM
#define XDP_TXMD_FLAGS_CHECKSUM (1 << 1)
#endif
#ifndef XDP_UMEM_TX_METADATA_LEN
#define XDP_UMEM_TX_METADATA_LEN (1 << 2)
#endif
#ifndef XDP_MAX_TX_SKB_BUDGET
#define XDP_MAX_TX_SKB_BUDGET 9
#endif

namespace corewire {

class frame_pool;

/// In front of a frame whose descriptor says XDP_TX_METADATA (the kernel's struct xsk_tx_metadata).
struct xdp_transmit_metadata {
    std::uint64_t flags;
    std::uint16_t checksum_start;  ///< from the frame's first byte
    std::uint16_t checksum_offset; ///< from there
    std::uint32_t unused;
    std::uint64_t launch_time; ///< not asked for
};

/// Entries; powers of two.
struct xdp_ring_sizes {
    std::uint32_t receive, transmit, fill, completion;
};

struct xdp_queue {
    /// Each of these returns 0 or an errno. First open(), then register_memory() on the socket whose memory the others share,
    /// then make_rings(), then bind(), which may be tried again after EBUSY.
    int open() noexcept;
    /// EINVAL: this kernel does not know `metadata` bytes in front of each frame that is sent (before Linux 6.11); 0 may be tried then.
    int register_memory(const frame_pool& frames, std::uint32_t metadata) noexcept;
    int make_rings(const xdp_ring_sizes& sizes) noexcept;
    /// `memory`: of which socket; null: its own, and `flags` (XDP_COPY, ...) are for all who share it.
    int bind(unsigned interface, std::uint16_t flags, const xdp_queue* memory) noexcept;
    /// The driver reads and writes the frames where they are. After bind().
    bool zero_copy() const noexcept;

    xsk_ring_cons rx{};
    xsk_ring_prod tx{};
    xsk_ring_prod fill{};
    xsk_ring_cons completion{};
    unique_fd socket;
    unsigned index = 0;          ///< of the interface's queues
    std::uint32_t to_refill = 0; ///< frames the kernel is short of
    std::uint32_t unsent = 0;    ///< frames in the tx ring or beyond, not completed yet

    enum class pieces { none, passing_on, dropping } within = pieces::none; ///< in the middle of a packet in pieces
    super_frame cutter;

private:
    /// Memory shared with the kernel; unmapped when it goes.
    class mapping {
    public:
        mapping() = default;
        ~mapping() {
            if (at_ != nullptr) ::munmap(at_, size_);
        }
        mapping(const mapping&) = delete;
        mapping& operator=(const mapping&) = delete;
        int map(int fd, std::uint64_t offset, std::size_t size) noexcept;
        std::byte* at() const noexcept { return static_cast<std::byte*>(at_); }

    private:
        void* at_ = nullptr;
        std::size_t size_ = 0;
    };

    template <typename Ring>
    int make_ring(Ring& ring, mapping& memory, int option, std::uint64_t page, std::uint32_t entries, std::size_t entry_size,
                  const xdp_ring_offset& at) noexcept;

    std::array<mapping, 4> mapped_;
};

} // namespace corewire
