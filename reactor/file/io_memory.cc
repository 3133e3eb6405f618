#include <corewire/reactor/file/io_memory.hh>

#include <corewire/reactor/base/huge_pages.hh>
#include <corewire/reactor/file/io_engine.hh>

#include <cstdint>
#include <new>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace corewire {

namespace {

/// Null: there is none. What holds a huge page asks for them: a device takes so many pieces in one request (254 is usual), and 1 MiB of
/// pages from all over memory is 256 pieces, so two requests.
std::byte* map(std::size_t size) noexcept {
    if (size >= huge_page_size && size <= SIZE_MAX - huge_page_size) {
        const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        if (std::byte* const at = map_at_huge_page((size + page - 1) / page * page); at != nullptr) {
            ::madvise(at, size, MADV_HUGEPAGE);
            return at;
        } // there may be room for `size` itself (RLIMIT_AS)
    }
    void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return mapped == MAP_FAILED ? nullptr : static_cast<std::byte*>(mapped);
}

} // namespace

io_memory::io_memory(std::size_t size) {
    CW_ASSERT(size != 0, "I/O memory of no bytes");
    std::byte* const mapped = map(size);
    if (mapped == nullptr) throw std::bad_alloc();
    bytes_ = {mapped, size};
    index_ = reactor::current().files().register_memory(bytes_);
}

io_memory::~io_memory() {
    if (bytes_.empty()) return;
    if (index_ >= 0) reactor::current().files().unregister_memory(index_);
    ::munmap(bytes_.data(), bytes_.size());
}

io_memory::io_memory(io_memory&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), index_(std::exchange(other.index_, -1)) {}

io_memory& io_memory::operator=(io_memory&& other) noexcept {
    io_memory old(std::move(*this));
    bytes_ = std::exchange(other.bytes_, {});
    index_ = std::exchange(other.index_, -1);
    return *this;
}

io_piece io_memory::piece(std::size_t offset, std::size_t length) const {
    CW_ASSERT(offset <= bytes_.size() && length <= bytes_.size() - offset, "a piece outside its I/O memory");
    return {bytes_.subspan(offset, length), index_};
}

} // namespace corewire
