// barrier: all shards (or any number of coroutines, wherever they are) meet, and go on together; again and again.
//
//     cw::barrier loaded{cw::this_shard::count()};             // made on one shard, used by all
//     co_await loaded.arrive_and_wait();
//
// It lives on the shard that made it. Arriving there is a message home, answered when the last one has come. One that gives up (by its
// limits) or is destroyed takes its arrival back:
//
//     any shard: limits --withdraw--> home: still in line: "withdrawn", and it counts no more --> ETIMEDOUT or ECANCELED
//                                           opened before: nothing, "opened" is on its way    --> as if the limits had not come
//
// So who wins is decided at home alone, and one that gives up hears of it a round trip after its limits. Bounded: one call
// (mailbox_options::calls_in_flight) for each that waits. Destroyed on its own shard at any time: those who wait, and those whose
// messages are still on their way, get ECANCELED.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/shard/mailbox.hh>
#include <corewire/reactor/shard/this_shard.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/wait_queue.hh>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace corewire {

namespace detail {

/// What arrivals point at: it stays for as long as one of them, or of their messages, does. Apart from `given_`, which has a place for
/// each shard, it is touched at home only.
class barrier_core {
public:
    barrier_core(mailbox& home, std::size_t participants);
    barrier_core(const barrier_core&) = delete;
    barrier_core& operator=(const barrier_core&) = delete;

    /// On any shard, `here` being its mailbox.
    static task<> arrive_and_wait(std::shared_ptr<barrier_core> core, mailbox& here, wait_limits limits);
    std::uint64_t rounds() const noexcept { return rounds_; }
    std::size_t arrived() const noexcept { return arrived_; }
    bool is_home(const mailbox& here) const noexcept { return &here == &home_; }
    /// The barrier goes: nobody waits here any more.
    void abandon() noexcept;

private:
    enum class verdict : unsigned char { opened, withdrawn, gone };
    class local_arrival;
    class remote_arrival;
    class withdrawal;
    struct place;
    struct arriving;
    struct withdrawing;

    bool completes() const noexcept { return arrived_ + 1 == participants_; }
    void open() noexcept;
    void answer_all(verdict what) noexcept;
    void on_arrival(unsigned from, std::uint64_t ticket, call_record& call) noexcept;
    void on_withdrawal(unsigned from, std::uint64_t ticket, call_record& call) noexcept;
    void reply(unsigned from, call_record& call, verdict what) noexcept;

    mailbox& home_;
    std::size_t participants_;
    std::size_t arrived_ = 0; ///< those in the two lines
    std::uint64_t rounds_ = 0;
    bool gone_ = false;
    wait_queue local_;
    intrusive_list<place> remote_;
    // By shard. Arrivals of one shard come in the order of their tickets, so one number tells which of them have been answered.
    std::vector<std::uint64_t> given_; ///< the shard's own
    std::vector<std::uint64_t> seen_;
    std::vector<std::uint64_t> answered_; ///< up to this one all are, or have been withdrawn
};

} // namespace detail

class barrier {
public:
    /// For `participants` arrivals a round, at least one.
    explicit barrier(std::size_t participants)
        : core_(std::make_shared<detail::barrier_core>(this_shard::mail(), participants)) {}
    barrier(const barrier&) = delete;
    barrier& operator=(const barrier&) = delete;
    ~barrier() {
        CW_ASSERT(core_->is_home(this_shard::mail()), "a barrier is destroyed on another shard than its own");
        core_->abandon();
    }

    /// Waits for the round to be complete. From any shard. Throws ETIMEDOUT or ECANCELED by its limits, and then it has not arrived;
    /// ECANCELED when the barrier is gone; EAGAIN if too many calls of this shard are in flight.
    task<> arrive_and_wait(wait_limits limits = {}) { return detail::barrier_core::arrive_and_wait(core_, this_shard::mail(), limits); }
    /// Rounds completed. On its own shard only.
    std::uint64_t rounds() const noexcept { return core_->rounds(); }
    /// Arrivals of the round that goes on. On its own shard only.
    std::size_t arrived() const noexcept { return core_->arrived(); }

private:
    std::shared_ptr<detail::barrier_core> core_;
};

} // namespace corewire
