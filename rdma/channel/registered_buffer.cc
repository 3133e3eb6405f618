#include <corewire/rdma/channel/registered_buffer.hh>

#include <cerrno>
#include <sys/mman.h>
#include <system_error>

namespace corewire::rdma {

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t huge_page = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t n, std::size_t to) noexcept { return (n + to - 1) / to * to; }

} // namespace

mapped_memory::mapped_memory(std::size_t size) {
    constexpr int shared_with_nobody = MAP_PRIVATE | MAP_ANONYMOUS;
    void* at = MAP_FAILED;
    std::size_t whole = round_up(size, page);
    if (size >= huge_page) {
        whole = round_up(size, huge_page);
        at = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, shared_with_nobody | MAP_HUGETLB, -1, 0);
    }
    if (at == MAP_FAILED) at = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, shared_with_nobody, -1, 0);
    if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "map memory for RDMA");
    ::madvise(at, whole, MADV_DONTFORK); // a child's copy-on-write would move the pages away from the device
    bytes_ = {static_cast<std::byte*>(at), whole};
}

mapped_memory::~mapped_memory() {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

registered_buffer::registered_buffer(adapter& on, std::size_t size, verbs::access allowed)
    : memory_(size == 0 ? 1 : size), region_(on.domain(), memory_.bytes(), allowed | verbs::access::local_write), size_(size) {}

} // namespace corewire::rdma
