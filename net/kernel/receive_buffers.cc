#include <corewire/net/kernel/receive_buffers.hh>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <sys/mman.h>
#include <system_error>

namespace corewire {

namespace {

std::byte* map_region(std::uint64_t bytes, const char* what) {
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), what);
    return static_cast<std::byte*>(at);
}

} // namespace

receive_buffers::receive_buffers(uring& ring, std::uint16_t group, std::uint32_t frame_size, std::uint32_t initial,
                                 std::uint32_t limit)
    : ring_(ring), group_(group), frame_size_(frame_size), initial_(initial), limit_(limit),
      region_size_(std::uint64_t{frame_size} * limit), frames_(std::make_unique<frame[]>(limit)) {
    CW_ASSERT(std::has_single_bit(limit) && limit <= 32768, "a buffer ring has a power of two of slots");
    CW_ASSERT(initial <= limit, "a buffer ring begins with at most as many buffers as it may have");
    recycle = recycle_frame;
    region_ = map_region(region_size_, "cannot reserve memory for receive buffers");
    slots_ = reinterpret_cast<io_uring_buf_ring*>(map_region(limit * sizeof(io_uring_buf), "cannot map a buffer ring"));
    io_uring_buf_ring_init(slots_);
    if (const int rc = ring.register_buffers(group, *slots_, limit); rc < 0) {
        ::munmap(slots_, limit * sizeof(io_uring_buf));
        ::munmap(region_, region_size_);
        throw std::system_error(-rc, std::generic_category(), "cannot lend receive buffers to io_uring (io_uring_register_buf_ring)");
    }
    make_frames(initial);
}

receive_buffers::~receive_buffers() {
    ring_.unregister_buffers(group_);
    ::munmap(slots_, limit_ * sizeof(io_uring_buf));
    ::munmap(region_, region_size_);
}

void receive_buffers::make_frames(std::uint32_t count) noexcept {
    for (; count != 0 && made_ < limit_; --count, ++made_) {
        frame& f = frames_[made_];
        f.bytes = region_ + std::uint64_t{made_} * frame_size_;
        f.capacity = frame_size_;
        f.owner = this;
        add_to_ring(f);
    }
}

void receive_buffers::add_to_ring(frame& f) noexcept {
    const auto id = static_cast<std::uint16_t>(&f - frames_.get());
    io_uring_buf_ring_add(slots_, f.bytes, frame_size_, id, static_cast<int>(limit_ - 1), 0);
    io_uring_buf_ring_advance(slots_, 1);
    ++in_ring_;
}

frame& receive_buffers::take(unsigned flags) noexcept {
    frame& f = frames_[flags >> IORING_CQE_BUFFER_SHIFT];
    --in_ring_;
    f.references = 1;
    return f;
}

bool receive_buffers::replenish() noexcept {
    if (in_ring_ == 0) make_frames(std::max(initial_, made_));
    return in_ring_ != 0;
}

void receive_buffers::recycle_frame(frame_owner& owner, frame& f) noexcept {
    auto& self = static_cast<receive_buffers&>(owner);
    self.add_to_ring(f);
    while (!self.starving_.empty()) [[unlikely]] {
        starved_receiver& receiver = self.starving_.pop_front();
        if (receiver.on_buffers_(receiver)) return;
    }
}

} // namespace corewire
