// What the buffers of a shard's connections may grow by, all together. A connection begins with the buffers it was given; what
// right-sizing adds (receive/right_sizing.hh, send/acknowledge.hh) is taken from here, and comes back when the connection dies.
// Where nothing is left buffers stay as they are, which is counted. Bytes of promise, not memory: a window that was announced.
//
// One budget per shard, owned by the stack and outliving its connections, which share it by pointer.
#pragma once

#include <cstdint>
#include <utility>

namespace corewire::tcp {

class buffer_budget {
public:
    explicit buffer_budget(std::uint64_t limit) noexcept : limit_(limit) {}
    buffer_budget(const buffer_budget&) = delete;

    /// False: nothing was taken.
    bool take(std::uint64_t bytes) noexcept {
        if (limit_ - used_ < bytes) {
            ++refused_;
            return false;
        }
        used_ += bytes;
        return true;
    }
    void give_back(std::uint64_t bytes) noexcept { used_ -= bytes; }

    std::uint64_t limit() const noexcept { return limit_; }
    std::uint64_t used() const noexcept { return used_; }
    const std::uint64_t& refused() const noexcept { return refused_; } ///< times that nothing was left

private:
    std::uint64_t limit_;
    std::uint64_t used_ = 0;
    std::uint64_t refused_ = 0;
};

/// What one connection has taken. Gives it back when it is destroyed. Without a budget everything is granted.
class budget_share {
public:
    explicit budget_share(buffer_budget* from) noexcept : from_(from) {}
    budget_share(budget_share&& other) noexcept : from_(other.from_), taken_(std::exchange(other.taken_, 0)) {}
    budget_share& operator=(budget_share&&) = delete;
    ~budget_share() {
        if (from_ != nullptr) from_->give_back(taken_);
    }
    bool take(std::uint32_t bytes) noexcept {
        if (from_ == nullptr) return true;
        if (!from_->take(bytes)) return false;
        taken_ += bytes;
        return true;
    }

private:
    buffer_budget* from_;
    std::uint64_t taken_ = 0;
};

} // namespace corewire::tcp
