#include <corewire/net/port/xdp/xdp_queue.hh>

#include <corewire/net/frame/frame_pool.hh>

#include <cerrno>
#include <concepts>
#include <sys/socket.h>

namespace corewire {

namespace {

/// struct xdp_umem_reg as Linux 6.8 and later have it; earlier ones read what they know of it.
struct memory_registration {
    std::uint64_t address, size;
    std::uint32_t frame_size, headroom, flags, transmit_metadata_size;
};

template <typename T>
int set_option(int fd, int option, const T& value) noexcept {
    return ::setsockopt(fd, SOL_XDP, option, &value, sizeof value) == 0 ? 0 : errno;
}

} // namespace

int xdp_queue::mapping::map(int fd, std::uint64_t offset, std::size_t size) noexcept {
    void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, static_cast<off_t>(offset));
    if (at == MAP_FAILED) return errno;
    at_ = at;
    size_ = size;
    return 0;
}

int xdp_queue::open() noexcept {
    socket.reset(::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
    return socket ? 0 : errno;
}

int xdp_queue::register_memory(const frame_pool& frames, std::uint32_t metadata) noexcept {
    const memory_registration all{
        .address = reinterpret_cast<std::uintptr_t>(frames.region()),
        .size = frames.region_size(),
        .frame_size = frames.frame_size(),
        .headroom = 0, // beyond the 256 bytes that the kernel leaves in front of what it received
        .flags = metadata != 0 ? XDP_UMEM_TX_METADATA_LEN : 0u,
        .transmit_metadata_size = metadata,
    };
    return set_option(socket.get(), XDP_UMEM_REG, all);
}

/// Has the kernel make one ring of `entries`, and maps it.
template <typename Ring>
int xdp_queue::make_ring(Ring& ring, mapping& memory, int option, std::uint64_t page, std::uint32_t entries, std::size_t entry_size,
                         const xdp_ring_offset& at) noexcept {
    int error = set_option(socket.get(), option, entries);
    if (error == 0) error = memory.map(socket.get(), page, at.desc + entries * entry_size);
    if (error != 0) return error;
    const auto word = [&](std::uint64_t offset) { return reinterpret_cast<__u32*>(memory.at() + offset); };
    ring.mask = entries - 1;
    ring.size = entries;
    ring.producer = word(at.producer);
    ring.consumer = word(at.consumer);
    ring.flags = word(at.flags);
    ring.ring = memory.at() + at.desc;
    ring.cached_prod = *ring.producer;
    ring.cached_cons = *ring.consumer + (std::same_as<Ring, xsk_ring_prod> ? entries : 0); // as xsk_prod_nb_free() counts
    return 0;
}

int xdp_queue::make_rings(const xdp_ring_sizes& sizes) noexcept {
    xdp_mmap_offsets at{};
    socklen_t size = sizeof at;
    if (::getsockopt(socket.get(), SOL_XDP, XDP_MMAP_OFFSETS, &at, &size) != 0) return errno;
    if (size != sizeof at) return EOPNOTSUPP; // before Linux 5.4: rings without flags
    int error = make_ring(fill, mapped_[0], XDP_UMEM_FILL_RING, XDP_UMEM_PGOFF_FILL_RING, sizes.fill, sizeof(std::uint64_t), at.fr);
    if (error == 0) {
        error = make_ring(completion, mapped_[1], XDP_UMEM_COMPLETION_RING, XDP_UMEM_PGOFF_COMPLETION_RING, sizes.completion,
                          sizeof(std::uint64_t), at.cr);
    }
    if (error == 0) error = make_ring(rx, mapped_[2], XDP_RX_RING, XDP_PGOFF_RX_RING, sizes.receive, sizeof(xdp_desc), at.rx);
    if (error == 0) error = make_ring(tx, mapped_[3], XDP_TX_RING, XDP_PGOFF_TX_RING, sizes.transmit, sizeof(xdp_desc), at.tx);
    return error;
}

int xdp_queue::bind(unsigned interface, std::uint16_t flags, const xdp_queue* memory) noexcept {
    sockaddr_xdp at{};
    at.sxdp_family = AF_XDP;
    at.sxdp_ifindex = interface;
    at.sxdp_queue_id = index;
    at.sxdp_flags = flags;
    if (memory != nullptr) {
        at.sxdp_flags = XDP_SHARED_UMEM;
        at.sxdp_shared_umem_fd = static_cast<__u32>(memory->socket.get());
    }
    return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0 ? 0 : errno;
}

bool xdp_queue::zero_copy() const noexcept {
    xdp_options options{};
    socklen_t size = sizeof options;
    return ::getsockopt(socket.get(), SOL_XDP, XDP_OPTIONS, &options, &size) == 0 && (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
}

} // namespace corewire
