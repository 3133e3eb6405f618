#include <corewire/reactor/shard/runtime.hh>

#include <corewire/reactor/log/shard_log.hh>
#include <corewire/reactor/shard/shard_context.hh>
#include <corewire/reactor/shard/signals.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/topology/pinning.hh>
#include <corewire/reactor/unwind/raise.hh>

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <pthread.h>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace corewire {

runtime::runtime(runtime_options options) : options_(std::move(options)) {
    if (options_.cpus.empty()) throw std::invalid_argument("a runtime needs at least one CPU");
    unwind::active(); // exceptions of this program are thrown the short way, where there is one
    for (unsigned shard = 0; shard < shard_count(); ++shard)
        inboxes_.push_back(std::make_unique<external_inbox>(options_.external_calls));
}

runtime::~runtime() = default;

blocking_pool& runtime::blocking() {
    if (blocking_ == nullptr)
        throw std::system_error(std::make_error_code(std::errc::not_supported), "run_blocking: a simulated shard has no helper threads");
    return *blocking_;
}

runtime& runtime::current() noexcept { return shard_context::current().owner; }

namespace {

constexpr log_event<unsigned, std::size_t, const char*, log_text<80>, std::int64_t> abandoned_tasks{
    "task", "abandoned", log_level::error, "shard {}: {} task{} of group '{}' did not end within {} ms of the stop; abandoned"};

constexpr log_event<log_text<200>> calls_still_run{"task", "calls_still_run", log_level::warn, "{}"};
constexpr duration look_every = std::chrono::milliseconds{50}; ///< at calls that still run

/// Holds new threads back until all of them exist: a thread that cannot be made must not leave others at a barrier.
class start_gate {
public:
    void open(bool go) noexcept {
        state_.store(go ? 1 : 2, std::memory_order_release);
        state_.notify_all();
    }
    bool wait() const noexcept {
        state_.wait(0, std::memory_order_acquire);
        return state_.load(std::memory_order_acquire) == 1;
    }

private:
    std::atomic<int> state_{0};
};

bool is_cancellation(const std::exception_ptr& what) {
    try {
        std::rethrow_exception(what);
    } catch (const std::system_error& error) {
        return error.code() == std::errc::operation_canceled;
    } catch (...) {
        return false;
    }
}

} // namespace

void runtime::prepare(std::function<task<>()> body, hooks around) {
    body_ = std::move(body);
    hooks_ = std::move(around);
    if (options_.pin && !machine_) machine_ = std::make_unique<const machine>(machine::detect());
    everybody_ = std::make_unique<std::barrier<>>(shard_count());
    failures_.assign(shard_count(), nullptr);
    contexts_.assign(shard_count(), nullptr);
    failed_ = false;
    abandoned_ = 0;
    done_ = 0;
    phase_.store(phase::running, std::memory_order_relaxed);
}

void runtime::run(std::function<task<>()> body, hooks around) {
    prepare(std::move(body), std::move(around));
    std::optional<signal_watch> signals; // before the threads: they inherit the mask
    if (options_.handle_signals) signals.emplace([this] { request_stop(); });
    signals_ = signals ? &*signals : nullptr;
    blocking_ = std::make_unique<blocking_pool>(options_.blocking);
    if (options_.stall.limit > duration{}) stalls_ = std::make_unique<stall_detector>(options_.stall);

    std::vector<std::jthread> threads;
    start_gate gate;
    try {
        for (unsigned shard = 1; shard < shard_count(); ++shard)
            threads.emplace_back([this, shard, &gate, name = fmt::format("shard-{}", shard)] {
                ::pthread_setname_np(::pthread_self(), name.c_str());
                if (gate.wait()) shard_main(shard);
            });
    } catch (...) {
        gate.open(false);
        throw;
    }
    gate.open(true);
    shard_main(0);
    threads.clear(); // joins
    stalls_.reset();
    end_blocking_calls();
    for (std::exception_ptr& why : failures_)
        if (why) std::rethrow_exception(std::exchange(why, nullptr));
}

/// Helpers end when they come back from what they are in. Who watches is told so. A second signal ends the process here, as always.
void runtime::end_blocking_calls() {
    duration waited{};
    bool told = false;
    for (;;) {
        const blocking_remainder left = blocking_->wait_until_idle(look_every);
        if (left.calls == 0) break;
        waited += look_every;
        if (told || waited < options_.blocking.patience) continue;
        told = true;
        if (options_.blocking.report) options_.blocking.report(left);
        else log_message(calls_still_run, to_string(left));
    }
    blocking_.reset();
}

/// One thread, from its first to its last moment. Every path through it arrives at the barrier the same number of times.
void runtime::shard_main(unsigned shard) {
    std::optional<thread_pinning> pinning;
    std::unique_ptr<shard_context> here;
    try {
        const auto node = shard < options_.memory_nodes.size() ? options_.memory_nodes[shard] : std::nullopt;
        if (options_.pin) pinning.emplace(*machine_, options_.cpus[shard], node);
        reactor_options loop = options_.loop;
        loop.shard = shard;
        loop.groups = &groups_;
        here = std::make_unique<shard_context>(*this, shard, loop, options_.mail);
        remember(*here);
        if (shard == 0 && signals_ != nullptr) here->loop.add_watcher(*signals_);
        if (hooks_.set_up) hooks_.set_up(shard);
    } catch (...) {
        failed(shard, std::current_exception());
    }
    everybody_->arrive_and_wait(); // all contexts exist, or somebody failed
    const bool go = !failed_.load(std::memory_order_acquire);
    if (shard == 0 && go) connect_mailboxes();
    everybody_->arrive_and_wait(); // all mailboxes are connected
    if (go) {
        if (stalls_) stalls_->watch(here->loop);
        inbox(shard).open(here->loop);
        here->lead.spawn(lead(*here));
        here->loop.run();
        if (stalls_) stalls_->unwatch(here->loop);
    }
    everybody_->arrive_and_wait(); // no loop runs any more: nobody will wake this reactor
    if (here) {
        here->loop.root_group().destroy_all();
        here->locals.clear(); // while the mailboxes of the others are still there
    }
    everybody_->arrive_and_wait(); // no task and no object of a shard's sends anything any more
    discard_mail(here.get());      // what comes home may be a socket, whose stack is torn down next
    if (here && hooks_.tear_down) hooks_.tear_down(shard);
    everybody_->arrive_and_wait(); // nobody begins anything any more
    discard_mail(here.get());
    if (here) inbox(shard).end(); // after the tasks, which may wait for what is in it
    everybody_->arrive_and_wait(); // nothing points into another shard any more
    forget(shard);
}

/// In rounds (those of an earlier call are gone through again), since what goes home to be destroyed (foreign_ptr) may be more than a ring
/// holds, and may own more of the kind.
void runtime::discard_mail(shard_context* here) noexcept {
    for (std::uint64_t round = 1;; ++round) {
        if (here != nullptr && here->mail.discard()) mail_in_round_.store(round, std::memory_order_relaxed);
        everybody_->arrive_and_wait();
        if (mail_in_round_.load(std::memory_order_relaxed) < round) return; // a faster shard may be one round ahead
    }
}

void runtime::connect_mailboxes() noexcept {
    for (unsigned a = 0; a < shard_count(); ++a)
        for (unsigned b = a + 1; b < shard_count(); ++b) mailbox::connect(contexts_[a]->mail, contexts_[b]->mail);
}

task<> runtime::run_body(shard_context& here) {
    std::exception_ptr failure;
    try {
        task<> body = body_();
        co_await body;
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure && !(here.stop.stop_requested() && is_cancellation(failure))) failed(here.shard, std::move(failure));
}

/// The one task of a shard that is in no group of the user's: waits until all others have ended.
task<> runtime::lead(shard_context& here) {
    here.loop.root_group().spawn(run_body(here));
    co_await drain(here);
    co_await linger(here);
    shard_done(phase::settling);
}

/// The second round, when every shard has been through the first.
task<> runtime::settle(shard_context& here) {
    here.give_up.emplace(); // what others' calls have begun since has its time, also where the first round's ran out
    here.loop.timers().arm(here.drain, here.loop.now() + options_.drain);
    co_await drain(here);
    shard_done(phase::exiting);
}

/// The last shard moves all on; until then each keeps serving the others' calls.
void runtime::shard_done(phase then) noexcept {
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 != shard_count()) return;
    done_.store(0, std::memory_order_relaxed); // before the phase is seen (release, in advance)
    advance(then);
}

task<> runtime::drain(shard_context& here) {
    task_group& tasks = here.loop.root_group();
    const wait_limits until{.stop = here.give_up->token()};
    bool drained = true;
    try {
        co_await tasks.join(until);
    } catch (const std::system_error&) {
        drained = false;
    }
    here.drain.cancel();
    if (drained || tasks.size() == 0) co_return; // the last one in the same turn
    const std::size_t left = tasks.size();
    abandoned_.fetch_add(left, std::memory_order_relaxed);
    log_message(abandoned_tasks, here.shard, left, left == 1 ? "" : "s", tasks.name(), options_.drain.count() / 1'000'000);
    tasks.destroy_all();
}

task<> runtime::linger(shard_context& here) {
    if (!hooks_.lingers) co_return;
    const time_point until = here.loop.now() + options_.linger;
    while (here.loop.now() < until && hooks_.lingers(here.shard)) co_await sleep_for(std::chrono::milliseconds{1});
}

void runtime::failed(unsigned shard, std::exception_ptr why) noexcept {
    if (!failures_[shard]) failures_[shard] = std::move(why);
    failed_.store(true, std::memory_order_release);
    request_stop();
}

void runtime::request_stop() noexcept { advance(phase::stopping); }

void runtime::advance(phase to) noexcept {
    phase seen = phase_.load(std::memory_order_relaxed);
    while (seen < to && !phase_.compare_exchange_weak(seen, to, std::memory_order_release, std::memory_order_relaxed)) {}
    // A sleeping shard looks at the phase when it is woken. wake() orders our store before its look at the sleeping flag.
    const std::lock_guard lock(contexts_mutex_);
    for (shard_context* each : contexts_)
        if (each != nullptr) each->loop.wake();
}

void runtime::remember(shard_context& here) noexcept {
    const std::lock_guard lock(contexts_mutex_);
    contexts_[here.shard] = &here;
}

void runtime::forget(unsigned shard) noexcept {
    const std::lock_guard lock(contexts_mutex_);
    contexts_[shard] = nullptr;
}

} // namespace corewire
