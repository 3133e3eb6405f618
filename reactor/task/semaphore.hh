// semaphore: a number of units that coroutines borrow: connections, bytes of memory, requests in flight.
//
//     cw::semaphore room{64 * 1024};
//     auto held = co_await room.acquire(size);        // waits its turn; given back when `held` goes
//
// First come, first served: nobody overtakes one who waits, also not with a smaller request, and also not by try_acquire().
// One shard's. Bounded by its capacity, which may be changed.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/task/wait_queue.hh>

#include <cstddef>
#include <utility>

namespace corewire {

class semaphore {
public:
    /// `capacity`: units there are, all of them free.
    explicit semaphore(std::size_t capacity) noexcept : capacity_(capacity) {}
    semaphore(const semaphore&) = delete;
    semaphore& operator=(const semaphore&) = delete;
    /// No unit may be out; so nobody waits either.
    ~semaphore() { CW_ASSERT(held_ == 0, "a semaphore is destroyed while somebody holds its units"); }

    std::size_t capacity() const noexcept { return capacity_; }
    std::size_t held() const noexcept { return held_; }
    std::size_t available() const noexcept { return held_ < capacity_ ? capacity_ - held_ : 0; }
    std::size_t waiting() const noexcept { return line_.size(); }

    /// Units that are held: given back when this goes. Move-only; must not outlive its semaphore.
    class [[nodiscard]] units {
    public:
        units() noexcept = default;
        units(units&& other) noexcept
            : owner_(std::exchange(other.owner_, nullptr)), count_(std::exchange(other.count_, 0)) {}
        units& operator=(units&& other) noexcept {
            if (this == &other) return *this;
            release();
            owner_ = std::exchange(other.owner_, nullptr);
            count_ = std::exchange(other.count_, 0);
            return *this;
        }
        ~units() { release(); }

        std::size_t count() const noexcept { return count_; }
        explicit operator bool() const noexcept { return owner_ != nullptr; }
        /// Gives all of them back now.
        void release() noexcept {
            if (owner_ != nullptr) std::exchange(owner_, nullptr)->give_back(std::exchange(count_, 0));
        }
        /// Gives `n` of them back, which must be there.
        void release(std::size_t n) noexcept { static_cast<void>(split(n)); }
        /// Lets go without giving back: somebody else will adopt() as many. Returns their number.
        std::size_t detach() noexcept {
            owner_ = nullptr;
            return std::exchange(count_, 0);
        }
        /// A guard of its own for `n` of them.
        units split(std::size_t n) noexcept {
            CW_ASSERT(n <= count_, "more units are taken out of a guard than it holds");
            count_ -= n;
            return {owner_, n};
        }

    private:
        friend class semaphore;
        units(semaphore* owner, std::size_t count) noexcept : owner_(owner), count_(count) {}
        semaphore* owner_ = nullptr;
        std::size_t count_ = 0;
    };

    class awaiter final : public queued_waiter {
    public:
        awaiter(semaphore& s, std::size_t count, const wait_limits& limits) noexcept
            : queued_waiter(limits), semaphore_(s), count_(count) {}
        ~awaiter() {
            if (granted_)
                semaphore_.give_back(count_); // was given its units, and destroyed instead of resumed
            else if (leave())
                semaphore_.serve();
        }
        bool await_ready() noexcept {
            if (semaphore_.may_take(count_)) [[likely]] {
                semaphore_.held_ += count_;
                granted_ = true;
            } else if (count_ > semaphore_.capacity_) {
                fail(std::errc::invalid_argument);
            }
            return granted_ || failure() != std::errc{};
        }
        bool await_suspend(std::coroutine_handle<> h) noexcept { return stand_in(semaphore_.line_, h); }
        units await_resume() {
            throw_if_failed("waiting for units of a semaphore");
            granted_ = false;
            return {&semaphore_, count_};
        }

    private:
        friend class semaphore;
        void left_early() noexcept override { semaphore_.serve(); }
        semaphore& semaphore_;
        std::size_t count_;
        bool granted_ = false;
    };
    /// Waits for `count` units. Throws ETIMEDOUT or ECANCELED by its limits, EINVAL for more than there will ever be.
    awaiter acquire(std::size_t count = 1, wait_limits limits = {}) noexcept { return {*this, count, limits}; }
    /// `count` units if they are free and nobody waits; none otherwise.
    units try_acquire(std::size_t count = 1) noexcept {
        if (!may_take(count)) return {};
        held_ += count;
        return {this, count};
    }

    /// A guard for units that were detached from theirs.
    units adopt(std::size_t count) noexcept {
        CW_ASSERT(count <= held_, "more units are adopted than are out");
        return {this, count};
    }

    /// Changes the number of units there are. What is held stays held: after shrinking, nobody is served until enough
    /// has come back. Those in line for more than there are now end with EINVAL.
    void resize(std::size_t capacity) noexcept {
        capacity_ = capacity;
        line_.for_each([&](queued_waiter& w) {
            if (static_cast<awaiter&>(w).count_ > capacity_) line_.wake(w, std::errc::invalid_argument);
        });
        serve();
    }

private:
    bool fits(std::size_t count) const noexcept { return held_ <= capacity_ && count <= capacity_ - held_; }
    bool may_take(std::size_t count) const noexcept { return fits(count) && line_.empty(); }
    void give_back(std::size_t count) noexcept {
        held_ -= count;
        if (!line_.empty()) [[unlikely]]
            serve();
    }
    /// Units go to those in line, in order, as far as they reach.
    void serve() noexcept {
        while (!line_.empty()) {
            auto& next = static_cast<awaiter&>(line_.front());
            if (!fits(next.count_)) return;
            held_ += next.count_;
            next.granted_ = true;
            line_.wake_front();
        }
    }

    std::size_t capacity_;
    std::size_t held_ = 0;
    wait_queue line_;
};

} // namespace corewire
