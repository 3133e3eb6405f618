#include <corewire/net/frame/frame_pool.hh>

#include <algorithm>
#include <cerrno>
#include <sys/mman.h>
#include <system_error>

namespace corewire {

namespace {

constexpr std::uint64_t huge_page = 2u << 20;

std::uint64_t mapped_size(std::uint64_t bytes) { return (bytes + huge_page - 1) / huge_page * huge_page; }

/// Anonymous memory for frames: reserved huge pages if there are any, else ordinary pages with transparent ones asked for.
std::byte* map_region(std::uint64_t bytes) {
    const std::uint64_t size = mapped_size(bytes);
    void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (at == MAP_FAILED) {
        at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) {
            throw std::system_error(errno, std::generic_category(), "cannot map memory for the frame pool");
        }
        ::madvise(at, size, MADV_HUGEPAGE);
    }
    return static_cast<std::byte*>(at);
}

} // namespace

frame_pool::frame_pool(std::uint32_t count, std::uint32_t frame_size)
    : region_(map_region(std::uint64_t{count} * frame_size)), owns_region_(true), count_(count), frame_size_(frame_size),
      frames_(std::make_unique<frame[]>(count)) {
    carve();
}

frame_pool::frame_pool(std::byte* region, std::uint32_t count, std::uint32_t frame_size)
    : region_(region), count_(count), frame_size_(frame_size), frames_(std::make_unique<frame[]>(count)) {
    carve();
}

frame_pool::~frame_pool() {
    if (owns_region_) ::munmap(region_, mapped_size(region_size()));
}

void frame_pool::carve() noexcept {
    for (std::uint32_t i = count_; i-- > 0;) {
        frame& f = frames_[i];
        f.bytes = region_ + std::uint64_t{i} * frame_size_;
        f.capacity = frame_size_;
        f.owner = this;
        f.token = std::uint64_t{i} * frame_size_;
        f.next_free = free_list;
        free_list = &f;
    }
    free_count = count_;
    reserve = std::min(count_ / 4, 128u);
}

} // namespace corewire
