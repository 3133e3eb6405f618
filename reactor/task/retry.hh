// retry: does something that may fail, again, after pauses that grow and are partly drawn at random, so that many clients of a
// server that has come back do not all arrive at once.
//
//     auto stream = co_await cw::retry({.attempts = 6, .first = 50ms}, [&] { return connect(server); }, {.stop = stopping});
// A deadline or a stop bounds all of it: the attempt that is under way is destroyed where it stands.
// back_off is the series of pauses alone, for loops of your own.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/base/time.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/with_deadline.hh>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>

namespace corewire {

struct retry_policy {
    unsigned attempts = 5;                              ///< in all; at least 1
    duration first = std::chrono::milliseconds{10};     ///< the longest that the first pause may be
    duration longest = std::chrono::seconds{1};         ///< what no pause exceeds
    double factor = 2;                                  ///< from pause to pause; at least 1
    double jitter = 1;                                  ///< the part of a pause that is drawn: 1: from nothing to all of it; 0: none
    std::uint64_t seed = 0;                             ///< of the drawing; 0: a fresh one each time
};

/// Pauses between attempts: each is drawn from [bound * (1 - jitter), bound], and `bound` grows by `factor` up to `longest`.
class back_off {
public:
    explicit back_off(const retry_policy& policy)
        : policy_(policy), bound_(std::min(policy.first, policy.longest)),
          random_(policy.seed != 0 ? policy.seed : random_seed()) {
        CW_ASSERT(policy.factor >= 1 && policy.jitter >= 0 && policy.jitter <= 1 && policy.first >= duration::zero(),
                  "a back-off that shrinks, or whose jitter is not from 0 to 1");
    }
    duration next() noexcept {
        const auto drawn = static_cast<std::uint64_t>(static_cast<double>(bound_.count()) * policy_.jitter);
        const duration pause = bound_ - duration(static_cast<duration::rep>(random_.below(drawn + 1)));
        const double grown = static_cast<double>(bound_.count()) * policy_.factor;
        bound_ = grown < static_cast<double>(policy_.longest.count()) ? duration(static_cast<duration::rep>(grown))
                                                                      : policy_.longest;
        return pause;
    }
    /// From the beginning: something has worked.
    void reset() noexcept { bound_ = std::min(policy_.first, policy_.longest); }

private:
    retry_policy policy_;
    duration bound_;
    random_generator random_;
};

/// What is tried again unless the caller says otherwise: what the system refused (std::system_error), cancellation excepted.
inline bool worth_another_attempt(const std::exception_ptr& failure) noexcept {
    try {
        std::rethrow_exception(failure);
    } catch (const std::system_error& e) {
        return e.code() != std::errc::operation_canceled;
    } catch (...) {
        return false;
    }
}

/// Gives the result of `make()`, a task, or of one of the further attempts. Throws the last failure when the attempts are
/// used up, when `again(failure)` says no, or when the next pause would end after the deadline; ETIMEDOUT or ECANCELED when the limits
/// end an attempt (see with_deadline.hh) or a pause.
template <std::invocable Make, typename Again = bool (*)(const std::exception_ptr&) noexcept>
std::invoke_result_t<Make&> retry(retry_policy policy, Make make, wait_limits limits = {}, Again again = &worth_another_attempt) {
    CW_ASSERT(policy.attempts > 0, "a retry without an attempt");
    std::optional<back_off> pauses;
    for (unsigned attempt = 1;; ++attempt) {
        std::exception_ptr failure;
        try {
            auto work = std::invoke(make);
            if (limits.bounded()) work = with_deadline(std::move(work), limits);
            co_return co_await work;
        } catch (...) {
            failure = std::current_exception();
        }
        if (limits.stop.stop_requested() || limits.deadline <= reactor::current().now()) std::rethrow_exception(failure);
        if (attempt == policy.attempts || !again(failure)) std::rethrow_exception(failure);
        if (!pauses) pauses.emplace(policy);
        const duration pause = pauses->next();
        if (limits.deadline != never && limits.deadline - reactor::current().now() <= pause) std::rethrow_exception(failure);
        co_await sleep_for(pause, limits.stop);
    }
}

} // namespace corewire
