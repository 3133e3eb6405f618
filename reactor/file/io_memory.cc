#include <corewire/reactor/file/io_memory.hh>

#include <corewire/reactor/file/io_engine.hh>

#include <new>
#include <sys/mman.h>
#include <utility>

namespace corewire {

io_memory::io_memory(std::size_t size) {
    CW_ASSERT(size != 0, "I/O memory of no bytes");
    void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    bytes_ = {static_cast<std::byte*>(mapped), size};
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
