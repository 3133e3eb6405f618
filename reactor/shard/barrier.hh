// barrier: all shards (or any number of coroutines, wherever they are) meet, and go on together; again and again.
//
//     cw::barrier loaded{cw::this_shard::count()};             // made on one shard, used by all
//     co_await loaded.arrive_and_wait();
//
// It lives on the shard that made it; arriving is a call there that is answered when the last one has come. One that gives up by
// its limits has arrived nevertheless. Bounded: one call for each that waits (mailbox_options::calls_in_flight). Destroyed on its
// shard, when nobody is on the way to it or at shutdown; those who wait get ECANCELED.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/shard/outlives_mail.hh>
#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/shard/this_shard.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/wait_queue.hh>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <system_error>

namespace corewire {

namespace detail {

/// What arrivals point at; it stays until no mail is left where the barrier goes at shutdown.
class barrier_core final : public outlives_mail {
public:
    explicit barrier_core(std::size_t participants) : home_(this_shard::id()), participants_(participants) {}
    auto arrive_and_wait(wait_limits limits) {
        return submit_to(home_, [this] { return arrive(); }, limits);
    }
    std::uint64_t rounds() const noexcept { return rounds_; }
    std::size_t arrived() const noexcept { return arrived_; }
    void abandon() noexcept {
        abandoned_ = true;
        waiting_.wake_all(std::errc::operation_canceled);
    }

private:
    class awaiter final : public queued_waiter {
    public:
        explicit awaiter(barrier_core& b) noexcept : queued_waiter(wait_limits{}), barrier_(b) {}
        bool await_ready() noexcept { return barrier_.arrival_completes(); }
        bool await_suspend(std::coroutine_handle<> h) noexcept { return stand_in(barrier_.waiting_, h); }
        void await_resume() const { throw_if_failed("waiting at a barrier"); }

    private:
        barrier_core& barrier_;
    };
    task<> arrive() {
        if (abandoned_) throw std::system_error(std::make_error_code(std::errc::operation_canceled), "waiting at a barrier");
        co_await awaiter{*this};
    }
    bool arrival_completes() noexcept {
        if (++arrived_ < participants_) return false;
        arrived_ = 0;
        ++rounds_;
        waiting_.wake_all();
        return true;
    }

    unsigned home_;
    std::size_t participants_;
    std::size_t arrived_ = 0;
    std::uint64_t rounds_ = 0;
    bool abandoned_ = false;
    wait_queue waiting_;
};

} // namespace detail

class barrier {
public:
    /// For `participants` arrivals a round, at least one.
    explicit barrier(std::size_t participants) : core_(new detail::barrier_core(participants)) {
        CW_ASSERT(participants > 0, "a barrier for nobody");
    }
    barrier(const barrier&) = delete;
    barrier& operator=(const barrier&) = delete;
    /// At shutdown arrivals may be on their way: they get ECANCELED.
    ~barrier() {
        if (!this_shard::stopping().stop_requested()) return;
        core_->abandon();
        detail::keep_until_no_mail(std::move(core_));
    }

    /// Waits for the round to be complete. From any shard. Throws ETIMEDOUT or ECANCELED by its limits, and as submit_to().
    auto arrive_and_wait(wait_limits limits = {}) { return core_->arrive_and_wait(limits); }
    /// Rounds completed. On its own shard only.
    std::uint64_t rounds() const noexcept { return core_->rounds(); }
    /// Arrivals of the round that goes on. On its own shard only.
    std::size_t arrived() const noexcept { return core_->arrived(); }

private:
    std::unique_ptr<detail::barrier_core> core_;
};

} // namespace corewire
