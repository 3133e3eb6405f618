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

/// What one connection has taken from the budget of its parameters. Without one everything is granted.
class budget_share {
public:
    budget_share() noexcept = default;
    budget_share(budget_share&& other) noexcept : taken_(std::exchange(other.taken_, 0)) {}
    budget_share& operator=(budget_share&&) = delete;
    bool take(buffer_budget* from, std::uint32_t bytes) noexcept {
        if (from == nullptr) return true;
        if (!from->take(bytes)) return false;
        taken_ += bytes;
        return true;
    }
    /// All of it; when the connection dies.
    void give_back(buffer_budget* to) noexcept { to->give_back(std::exchange(taken_, 0)); }
    bool empty() const noexcept { return taken_ == 0; }

private:
    std::uint32_t taken_ = 0; ///< two buffers', each of at most 2^30 (RFC 7323 2.3)
};

} // namespace corewire::tcp
