#include <corewire/reactor/loop/reactor.hh>

#include <corewire/reactor/file/io_engine.hh>
#include <corewire/reactor/loop/fair_scheduler.hh>
#include <corewire/reactor/loop/scheduling_group.hh>
#include <corewire/reactor/loop/stall_detector.hh>
#include <corewire/reactor/loop/tsc_clock.hh>

#include <cerrno>
#include <sched.h>
#include <sys/eventfd.h>
#include <system_error>
#include <utility>

namespace corewire {

reactor::reactor(reactor_options options)
    : options_(options), clock_(options.clock != nullptr ? options.clock : &real_clock()),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!wake_) throw std::system_error(errno, std::generic_category(), "eventfd for a reactor");
    now_ = clock_->now();
}

reactor::~reactor() {
    // Tasks go first, while everything they may touch in their destructors is still here.
    scope here(*this);
    root_group_.destroy_all();
    files_.reset(); // its helpers wake us
}

bool reactor::nothing_ready() const noexcept { return fair_ != nullptr ? !fair_->has_work() : !main_.has_work(); }

scheduling_group reactor::make_scheduling_group(std::string name, unsigned shares) {
    auto first = fair_ == nullptr ? std::make_unique<fair_scheduler>(main_) : nullptr;
    run_queue& made = (first ? *first : *fair_).make(std::move(name), shares, options_.groups);
    if (first) fair_ = std::move(first);
    return scheduling_group{made};
}

std::vector<scheduling_group> reactor::scheduling_groups() {
    if (fair_ == nullptr) return {scheduling_group{main_}};
    std::vector<scheduling_group> all;
    for (run_queue* each : fair_->queues()) all.emplace_back(*each);
    return all;
}

run_queue* reactor::line_of_group(unsigned group) const noexcept { return &fair_->queue_known_as(group); }

time_point reactor::read_clock() noexcept { return now_ = clock_->now(); }

bool reactor::poll_once() {
    const time_point now = now_ = clock_->now();
    const std::int64_t last_began = turn_began_.load(std::memory_order_relaxed);
    turn_began_.store(to_ns(now), std::memory_order_relaxed);
    if (worked_) turn_lengths_.record(static_cast<std::uint64_t>(to_ns(now) - last_began));
    ++turns_;
    bool worked = false;
    // A poller may leave, or be destroyed, in its own turn only.
    pollers_.for_each([&](poller& p) { worked |= p.poll(now); });
    if (!worked || turns_ % watch_every == 0) worked |= poll_watchers(now);
    worked |= timers_.expire(now);
    if (fair_ != nullptr) [[unlikely]] {
        worked |= fair_->run(*clock_, options_.resume_budget, options_.resume_time);
    } else {
        main_.ready.splice_back(main_.next_turn);
        if (!main_.ready.empty()) worked |= resume_ready();
    }
    pollers_.for_each([&](poller& p) { worked |= p.flush(now); });
    return worked_ = worked;
}

/// Apart from poll_once(), which is nearly always too busy for them.
[[gnu::noinline]] bool reactor::poll_watchers(time_point now) {
    bool worked = false;
    watchers_.for_each([&](poller& p) { worked |= p.poll(now); });
    return worked;
}

/// Runs what was ready when it began, and what that made ready, within the budget.
bool reactor::resume_ready() noexcept {
    unsigned left = options_.resume_budget;
    do {
        main_.ready.pop_front().handle.resume();
        if ((--left & 15) == 0 && clock_->now() - now_ >= options_.resume_time) [[unlikely]]
            break;
    } while (!main_.ready.empty() && left != 0);
    return true;
}

void reactor::run() {
    scope here(*this);
    const exact_sleep punctual;
    time_point idle_since{};
    time_point idle_seen{}; ///< up to which idle_time_ has been counted
    constexpr std::uint64_t none = ~std::uint64_t{0};
    std::uint64_t idle_turn = none; ///< the last that found nothing to do. Busy ones have nothing to note
    while (!exit_) {
        if (poll_once()) continue;
        if (std::exchange(idle_turn, turns_) + 1 != turns_) { // the turn before was a busy one
            idle_since = idle_seen = now_;
        } else if (options_.clock == nullptr && now_ - idle_since >= options_.spin) {
            sleep();
            idle_time_ += clock_->now() - idle_seen;
            idle_turn = none;
        } else {
            idle_time_ += now_ - idle_seen;
            idle_seen = now_;
            // What the kernel cannot do at once its own threads do, which run where this one may: on this CPU alone, when pinned.
            if (files_ != nullptr && files_->operations().in_flight() + files_->helped().in_flight() != 0) ::sched_yield();
            else __builtin_ia32_pause();
        }
    }
    exit_ = false;
}

void reactor::wake() noexcept {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(wake_.get(), &one, sizeof one));
}

/// Every source of work is armed before the last look at it, so that nothing can arrive unseen.
[[gnu::noinline]] void reactor::sleep() noexcept {
    asleep_.store(true, std::memory_order_relaxed);
    sleep_fence::sleeper();
    bool quiet = true;
    std::size_t armed = 0;
    for_each_poller([&](poller& p) {
        if (!quiet) return;
        quiet = p.prepare_sleep();
        if (quiet) ++armed;
    });
    if (quiet && nothing_ready()) {
        sleeper wait;
        wait.watch(wake_.get());
        for_each_poller([&](poller& p) { p.watch(wait); });
        ++sleeps_;
        turn_began_.store(to_ns(never), std::memory_order_relaxed);
        wait.until(timers_.next_expiry(), clock_->now());
        turn_began_.store(to_ns(clock_->now()), std::memory_order_relaxed);
        if (stall_detector_ != nullptr) stall_detector_->woke_up();
    }
    for_each_poller([&](poller& p) {
        if (armed == 0) return;
        --armed;
        p.finish_sleep();
    });
    asleep_.store(false, std::memory_order_relaxed);
    std::uint64_t count;
    static_cast<void>(!::read(wake_.get(), &count, sizeof count));
}

} // namespace corewire
