// mutex: one coroutine at a time, for a stretch that has waits inside. (A stretch without waits needs none: nobody else runs
// on this shard meanwhile.)
//
//     auto turn = co_await m.lock();        // unlocked when `turn` goes
//
// First come, first served: unlocking hands the mutex to the next in line, so nobody overtakes. One shard's.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/task/wait_queue.hh>

#include <cstddef>
#include <utility>

namespace corewire {

class mutex {
public:
    mutex() noexcept = default;
    mutex(const mutex&) = delete;
    mutex& operator=(const mutex&) = delete;
    /// It must not be locked; so nobody waits either.
    ~mutex() { CW_ASSERT(!locked_, "a mutex is destroyed while it is locked"); }

    bool locked() const noexcept { return locked_; }
    std::size_t waiting() const noexcept { return line_.size(); }

    /// The lock, held: unlocks when it goes. Move-only; must not outlive its mutex.
    class [[nodiscard]] guard {
    public:
        guard() noexcept = default;
        guard(guard&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
        guard& operator=(guard&& other) noexcept {
            if (this == &other) return *this;
            unlock();
            owner_ = std::exchange(other.owner_, nullptr);
            return *this;
        }
        ~guard() { unlock(); }
        explicit operator bool() const noexcept { return owner_ != nullptr; }
        void unlock() noexcept {
            if (owner_ != nullptr) std::exchange(owner_, nullptr)->pass_on();
        }

    private:
        friend class mutex;
        explicit guard(mutex* owner) noexcept : owner_(owner) {}
        mutex* owner_ = nullptr;
    };

    class awaiter final : public queued_waiter {
    public:
        awaiter(mutex& m, const wait_limits& limits) noexcept : queued_waiter(limits), mutex_(m) {}
        ~awaiter() {
            if (granted_) mutex_.pass_on(); // was handed the lock, and destroyed instead of resumed
        }
        bool await_ready() noexcept { return granted_ = !std::exchange(mutex_.locked_, true); }
        bool await_suspend(std::coroutine_handle<> h) noexcept { return stand_in(mutex_.line_, h); }
        mutex::guard await_resume() {
            throw_if_failed("waiting for a mutex");
            granted_ = false;
            return mutex::guard{&mutex_};
        }

    private:
        friend class mutex;
        mutex& mutex_;
        bool granted_ = false;
    };
    /// Throws ETIMEDOUT or ECANCELED by its limits.
    awaiter lock(wait_limits limits = {}) noexcept { return {*this, limits}; }
    /// The lock if nobody has it; an empty guard otherwise.
    guard try_lock() noexcept { return guard{std::exchange(locked_, true) ? nullptr : this}; }

private:
    void pass_on() noexcept {
        if (line_.empty()) {
            locked_ = false;
        } else {
            static_cast<awaiter&>(line_.front()).granted_ = true;
            line_.wake_front();
        }
    }
    wait_queue line_;
    bool locked_ = false; ///< implied by a line that is not empty
};

} // namespace corewire
