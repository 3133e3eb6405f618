#include <corewire/rdma/channel/mapped_memory.hh>

#include <corewire/rdma/verbs/error.hh>
#include <corewire/reactor/base/huge_pages.hh>

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>

namespace corewire::rdma {

namespace {

constexpr int access_wanted = PROT_READ | PROT_WRITE;
constexpr int shared_with_nobody = MAP_PRIVATE | MAP_ANONYMOUS;

constexpr std::size_t round_up(std::size_t n, std::size_t to) noexcept { return (n + to - 1) / to * to; }

/// Whether madvise() is listened to: it succeeds where the administrator has said "never", too.
bool transparent_pages_allowed() noexcept {
    const int fd = ::open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    std::array<char, 64> text{};
    const ssize_t n = ::read(fd, text.data(), text.size());
    ::close(fd);
    return n > 0 && std::string_view(text.data(), static_cast<std::size_t>(n)).find("[never]") == std::string_view::npos;
}

} // namespace

mapped_memory::mapped_memory(std::size_t size, page_kind best) {
    const bool large = size >= huge_page;
    const std::size_t whole = round_up(size == 0 ? 1 : size, large ? huge_page : page);
    void* at = MAP_FAILED;
    if (large && best == page_kind::huge) {
        at = ::mmap(nullptr, whole, access_wanted, shared_with_nobody | MAP_HUGETLB, -1, 0);
        if (at != MAP_FAILED) pages_ = page_kind::huge;
    }
    if (at == MAP_FAILED) {
        std::byte* const begin = large ? map_at_huge_page(whole) : nullptr;
        at = begin != nullptr ? begin : ::mmap(nullptr, whole, access_wanted, shared_with_nobody, -1, 0);
        if (at == MAP_FAILED) verbs::fail(verbs::operation::map_memory, errno, fmt::format("map {} bytes for RDMA", whole));
        if (begin != nullptr && best != page_kind::small && transparent_pages_allowed() && ::madvise(at, whole, MADV_HUGEPAGE) == 0)
            pages_ = page_kind::transparent;
    }
    ::madvise(at, whole, MADV_DONTFORK);
    bytes_ = {static_cast<std::byte*>(at), whole};
}

mapped_memory::~mapped_memory() {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

} // namespace corewire::rdma
