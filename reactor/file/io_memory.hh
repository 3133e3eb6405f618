// Memory for I/O: page-aligned, as O_DIRECT wants it, and registered with the shard's ring where the kernel allows (it counts
// as locked memory: ulimit -l), so that an operation does not have to pin it each time. From 2 MiB on it is made of huge pages where
// the kernel has them to give: a request of a device then takes few pieces of memory, of which it has room for some 128 or 254.
//
//     cw::io_memory memory(64 * 4096);
//     std::size_t n = co_await file.read(memory.piece(0, 4096), offset);
//
// Belongs to the shard that made it, and dies there; not while an operation uses it. io_engine::most_memories can be registered
// at a time; more are plain memory, and counted.
#pragma once

#include <corewire/reactor/base/bytes.hh>

#include <cstddef>

namespace corewire {

/// Bytes, and where they lie in registered memory, if they do.
struct io_piece {
    io_piece(mutable_byte_span span, int index = -1) noexcept : bytes(span), memory_index(index) {}
    mutable_byte_span bytes;
    int memory_index;
};

class io_memory {
public:
    io_memory() = default;
    /// Zeroed. Throws std::bad_alloc.
    explicit io_memory(std::size_t size);
    ~io_memory();
    io_memory(io_memory&& other) noexcept;
    io_memory& operator=(io_memory&& other) noexcept;

    mutable_byte_span bytes() const noexcept { return bytes_; }
    std::size_t size() const noexcept { return bytes_.size(); }
    bool registered() const noexcept { return index_ >= 0; }
    io_piece whole() const noexcept { return {bytes_, index_}; }
    /// Asserts that it lies inside.
    io_piece piece(std::size_t offset, std::size_t length) const;

private:
    mutable_byte_span bytes_;
    int index_ = -1;
};

} // namespace corewire
