// shared_mutex: many readers or one writer, for stretches that have waits inside.
//
//     auto reading = co_await m.lock_shared();          auto writing = co_await m.lock();
//
// First come, first served, writers and readers alike: a reader that comes after a waiting writer waits behind it, so neither
// side starves the other. Readers that stand together in line go in together. One shard's.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/task/wait_queue.hh>

#include <cstddef>
#include <utility>

namespace corewire {

class shared_mutex {
    enum class how { shared, alone };

public:
    shared_mutex() noexcept = default;
    shared_mutex(const shared_mutex&) = delete;
    shared_mutex& operator=(const shared_mutex&) = delete;
    /// It must not be locked; so nobody waits either.
    ~shared_mutex() { CW_ASSERT(readers_ == 0 && !writer_, "a shared_mutex is destroyed while it is locked"); }

    bool has_writer() const noexcept { return writer_; }
    std::size_t readers() const noexcept { return readers_; }
    std::size_t waiting() const noexcept { return line_.size(); }

    /// The lock, held: unlocks when it goes. Move-only; must not outlive its mutex.
    template <how How>
    class [[nodiscard]] basic_guard {
    public:
        basic_guard() noexcept = default;
        basic_guard(basic_guard&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
        basic_guard& operator=(basic_guard&& other) noexcept {
            if (this == &other) return *this;
            unlock();
            owner_ = std::exchange(other.owner_, nullptr);
            return *this;
        }
        ~basic_guard() { unlock(); }
        explicit operator bool() const noexcept { return owner_ != nullptr; }
        void unlock() noexcept {
            if (owner_ != nullptr) std::exchange(owner_, nullptr)->give_back(How);
        }

    private:
        friend class shared_mutex;
        explicit basic_guard(shared_mutex* owner) noexcept : owner_(owner) {}
        shared_mutex* owner_ = nullptr;
    };
    using guard = basic_guard<how::alone>;
    using shared_guard = basic_guard<how::shared>;

private:
    /// One in line, of either kind.
    struct place : queued_waiter {
        place(shared_mutex& m, how h, const wait_limits& limits) noexcept : queued_waiter(limits), owner(m), wants(h) {}
        void left_early() noexcept final { owner.serve(); }
        shared_mutex& owner;
        how wants;
        bool granted = false;

    protected:
        ~place() = default;
    };

public:
    template <how How>
    class awaiter final : public place {
    public:
        awaiter(shared_mutex& m, const wait_limits& limits) noexcept : place(m, How, limits) {}
        ~awaiter() {
            if (this->granted)
                this->owner.give_back(How); // was given the lock, and destroyed instead of resumed
            else if (this->leave())
                this->owner.serve();
        }
        bool await_ready() noexcept { return this->granted = this->owner.try_take(How); }
        bool await_suspend(std::coroutine_handle<> h) noexcept { return this->stand_in(this->owner.line_, h); }
        basic_guard<How> await_resume() {
            this->throw_if_failed("waiting for a shared_mutex");
            this->granted = false;
            return basic_guard<How>{&this->owner};
        }
    };
    /// Both throw ETIMEDOUT or ECANCELED by their limits.
    awaiter<how::alone> lock(wait_limits limits = {}) noexcept { return {*this, limits}; }
    awaiter<how::shared> lock_shared(wait_limits limits = {}) noexcept { return {*this, limits}; }
    /// The lock if it is to be had at once and nobody waits; an empty guard otherwise.
    guard try_lock() noexcept { return guard{try_take(how::alone) ? this : nullptr}; }
    shared_guard try_lock_shared() noexcept { return shared_guard{try_take(how::shared) ? this : nullptr}; }

private:
    bool free_for(how h) const noexcept { return !writer_ && (h == how::shared || readers_ == 0); }
    void take(how h) noexcept {
        if (h == how::shared)
            ++readers_;
        else
            writer_ = true;
    }
    bool try_take(how h) noexcept {
        if (!line_.empty() || !free_for(h)) return false;
        take(h);
        return true;
    }
    void give_back(how h) noexcept {
        if (h == how::shared)
            --readers_;
        else
            writer_ = false;
        serve();
    }
    /// Lets in those in line, in order, as long as they agree.
    void serve() noexcept {
        while (!line_.empty()) {
            auto& next = static_cast<place&>(line_.front());
            if (!free_for(next.wants)) return;
            take(next.wants);
            next.granted = true;
            line_.wake_front();
        }
    }

    wait_queue line_;
    std::size_t readers_ = 0;
    bool writer_ = false;
};

} // namespace corewire
