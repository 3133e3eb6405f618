// Memory that the device may use: mapped, on huge pages where there are some, and registered once. Belongs to the shard of
// its adapter, which outlives it. Destroying it takes it from the device: what is still on its way to it fails.
#pragma once

#include <corewire/rdma/channel/adapter.hh>
#include <corewire/rdma/verbs/memory_region.hh>

namespace corewire::rdma {

/// Anonymous pages, zeroed; 2 MiB pages from that size on, if the system has them to give.
class mapped_memory {
public:
    mapped_memory() noexcept = default;
    /// Throws std::system_error ENOMEM.
    explicit mapped_memory(std::size_t size);
    mapped_memory(mapped_memory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
    mapped_memory& operator=(mapped_memory&& other) noexcept {
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~mapped_memory();
    mutable_byte_span bytes() const noexcept { return bytes_; }

private:
    mutable_byte_span bytes_{};
};

/// A stretch of registered memory of ours: what a work request reads from or writes to.
struct local_region {
    std::byte* data = nullptr;
    std::uint32_t size = 0; ///< bytes
    std::uint32_t key = 0;
};

class registered_buffer {
public:
    registered_buffer() noexcept = default;
    /// `size` bytes, zeroed. Local writing is always allowed. Throws std::system_error with a sentence.
    registered_buffer(adapter& on, std::size_t size, verbs::access allowed = verbs::access::local_write);

    mutable_byte_span bytes() const noexcept { return memory_.bytes().first(size_); }
    std::byte* data() const noexcept { return memory_.bytes().data(); }
    /// `size` bytes from `offset` on, which must be within it.
    local_region at(std::size_t offset, std::size_t size) const noexcept {
        CW_ASSERT(size <= size_ && offset <= size_ - size && size <= 0xffff'ffff, "a stretch beyond the end of a registered buffer");
        return {data() + offset, static_cast<std::uint32_t>(size), local_key()};
    }
    local_region all() const noexcept { return at(0, size_); }
    std::size_t size() const noexcept { return size_; }
    std::uint32_t local_key() const noexcept { return region_.local_key(); }
    const verbs::memory_region& region() const noexcept { return region_; }

private:
    mapped_memory memory_; // outlives the region
    verbs::memory_region region_;
    std::size_t size_ = 0;
};

} // namespace corewire::rdma
