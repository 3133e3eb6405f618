// Memory that the device may use: a block of the shard's pool. Destroyed, it goes back to the pool as soon as no work request of
// ours can touch it any more; on another shard it may be destroyed, too, and goes back to its own.
#pragma once

#include <corewire/rdma/channel/adapter.hh>
#include <corewire/rdma/channel/memory_pool.hh>

namespace corewire::rdma {

/// A stretch of registered memory of ours: what a work request reads from or writes to.
struct local_region {
    std::byte* data = nullptr;
    std::uint32_t size = 0; ///< bytes
    std::uint32_t key = 0;
    memory_block* block = nullptr; ///< what it is part of, which a request holds until it is over; null: the caller's care
};

class registered_buffer {
public:
    registered_buffer() noexcept = default;
    /// `size` bytes, zeroed. Throws std::system_error with a sentence: ENOBUFS at the bound of context_options::memory.
    registered_buffer(adapter& on, std::size_t size, memory_use of = memory_use::general);
    registered_buffer(registered_buffer&& other) noexcept
        : block_(std::exchange(other.block_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    registered_buffer& operator=(registered_buffer&& other) noexcept {
        std::swap(block_, other.block_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~registered_buffer() {
        if (block_ != nullptr) block_->give_back();
    }

    mutable_byte_span bytes() const noexcept { return {data(), size_}; }
    std::byte* data() const noexcept { return block_ != nullptr ? block_->data : nullptr; }
    /// `size` bytes from `offset` on, which must be within it.
    local_region at(std::size_t offset, std::size_t size) const noexcept {
        CW_ASSERT(size <= size_ && offset <= size_ - size && size <= 0xffff'ffff, "a stretch beyond the end of a registered buffer");
        return {data() + offset, static_cast<std::uint32_t>(size), local_key(), block_};
    }
    local_region all() const noexcept { return at(0, size_); }
    std::size_t size() const noexcept { return size_; }
    std::uint32_t local_key() const noexcept { return block_ != nullptr ? block_->local_key() : 0; }
    /// The registration of which it is a part.
    const verbs::memory_region& region() const noexcept { return block_->region(); }

private:
    memory_block* block_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace corewire::rdma
