// runtime: N shards, one pinned thread and one reactor each, from start-up to an orderly end. No process-wide singleton:
// a shard finds its runtime through its current reactor.
//
//     start:  pin, make the reactor, set_up ──all──> connect mailboxes ──all──> body() on every shard
//     end:    the bodies return, or a stop is asked for (SIGINT, SIGTERM, request_stop(), an exception of a body):
//             on every shard  stop token fires -> on_stop (listeners close) -> tasks end, at most `drain` more
//             ──all done──> tasks that calls have started since end too ──all done──> loops end
//             ──all──> tear_down ──all──> everything destroyed on its own shard
//
// Until the last shard is done every shard keeps serving the calls of the others.
#pragma once

#include <corewire/reactor/loop/group_names.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/loop/stall_detector.hh>
#include <corewire/reactor/shard/blocking_pool.hh>
#include <corewire/reactor/shard/external_inbox.hh>
#include <corewire/reactor/shard/mailbox.hh>
#include <corewire/reactor/shard/thread_call.hh>
#include <corewire/reactor/task/stop.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/topology/machine.hh>

#include <atomic>
#include <barrier>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace corewire {

struct shard_context;
class signal_watch;

struct runtime_options {
    /// The kernel's number of each shard's CPU (select_cpus()). The calling thread becomes shard 0
    /// and keeps its name; the others are called "shard-N" (ps -L, top -H, gdb).
    std::vector<unsigned> cpus{};
    /// By shard: the NUMA node (the kernel's number) of its memory. Nothing, or the vector too short: the CPU's own node.
    std::vector<std::optional<unsigned>> memory_nodes{};
    /// Pin each thread to its CPU, and its memory to that CPU's NUMA node. Without, `cpus` only counts.
    bool pin = true;
    /// SIGINT and SIGTERM ask for a stop; a second one ends the process at once, with status 130, whatever the shards are in. What
    /// comes within a quarter of a second of the first is no second one: timeout(1) signals a process and its group.
    bool handle_signals = true;
    /// How long tasks may take to end after a stop was asked for. Those that take longer are abandoned, and named on stderr.
    duration drain = std::chrono::seconds{5};
    /// How long what ended tasks left behind may take to get out.
    duration linger = std::chrono::seconds{1};
    reactor_options loop{};
    mailbox_options mail{};
    /// Reports tasks that hold their core for too long; with a limit of zero nobody looks.
    stall_options stall{};
    /// Calls from other threads that may wait for one shard (submit_from_thread).
    std::size_t external_calls = 256;
    /// The helpers of run_blocking().
    blocking_options blocking{};
};

/// What happens around the bodies, on each shard's own thread. Each may be empty.
struct runtime_hooks {
    std::function<void(unsigned shard)> set_up{};    ///< before any body; may throw: then none runs
    std::function<void(unsigned shard)> on_stop{};   ///< a stop was asked for: refuse new work
    /// After a shard's tasks have ended: true while something they left behind still has to get out (the last bytes
    /// of a closed connection). Asked every millisecond, for `runtime_options::linger` at most.
    std::function<bool(unsigned shard)> lingers{};
    std::function<void(unsigned shard)> tear_down{}; ///< after every shard's loop has ended; no task is left, nor mail
};

class runtime {
public:
    using hooks = runtime_hooks;
    explicit runtime(runtime_options options);
    ~runtime();
    runtime(const runtime&) = delete;
    runtime& operator=(const runtime&) = delete;

    /// Runs `body()` as a task on every shard and blocks until all is over. Throws the first exception of a set_up or a body; a
    /// body that ends with ECANCELED after a stop was asked for has ended well. May be called again.
    void run(std::function<task<>()> body, hooks around = {});

    /// Asks every shard to stop. From any thread, any number of times.
    void request_stop() noexcept;
    bool stop_requested() const noexcept { return phase_.load(std::memory_order_relaxed) != phase::running; }
    unsigned shard_count() const noexcept { return static_cast<unsigned>(options_.cpus.size()); }
    /// Tasks that did not end in time in the last run(), all shards together.
    std::size_t abandoned() const noexcept { return abandoned_.load(std::memory_order_relaxed); }

    /// From a thread that is no shard's: runs `called()` on a shard, as a task of its own if it returns task<T>, and gives a future of
    /// its result. The callable moves there and is destroyed there. Waits while runtime_options::external_calls of them wait for
    /// that shard, not longer than `patience` (a shard that hangs takes none). Throws std::system_error ETIMEDOUT then; ECANCELED before
    /// the loops run and after a stop was asked for or the bodies have returned; what was accepted before is run, or its future has
    /// that error.
    template <typename F>
    auto submit_from_thread(unsigned shard, F called, duration patience = duration::max()) {
        CW_ASSERT(shard < shard_count(), "submit_from_thread() to a shard that does not exist");
        CW_ASSERT(reactor::current_or_null() == nullptr, "submit_from_thread() on a shard: use submit_to()");
        auto call = std::make_unique<detail::thread_call<F>>(std::move(called));
        auto result = call->get_future();
        inbox(shard).put(std::move(call), patience);
        return result;
    }
    /// Turns that lasted longer than runtime_options::stall, of all shards, since run() began. 0 without a detector.
    std::uint64_t stalls() const noexcept { return stalls_ ? stalls_->stalls() : 0; }
    external_inbox& inbox(unsigned shard) noexcept { return *inboxes_[shard]; }
    /// While run() runs. Throws std::system_error ENOTSUP else: a simulated shard has no helpers.
    blocking_pool& blocking();

    /// The one that the current reactor belongs to. Asserts that there is one.
    static runtime& current() noexcept;

private:
    friend struct shard_context;
    friend class sim_shard; ///< drains as we do, without run()
    /// Only ever moves on. Written by whoever asks (release), read by every shard each turn (acquire): what the
    /// writer did before is visible to a shard that sees the new phase.
    /// settling: every shard's tasks had ended once; calls that came in meanwhile may have started some again.
    enum class phase : int { running, stopping, settling, exiting };
    void advance(phase to) noexcept;

    void end_blocking_calls();
    void prepare(std::function<task<>()> body, hooks around);
    void shard_main(unsigned shard);
    void live(unsigned shard);
    void connect_mailboxes() noexcept;
    void discard_mail(shard_context* here) noexcept;
    task<> run_body(shard_context& here);
    task<> lead(shard_context& here);
    task<> drain(shard_context& here);
    task<> settle(shard_context& here);
    void shard_done(phase then) noexcept;
    task<> linger(shard_context& here);
    void failed(unsigned shard, std::exception_ptr why) noexcept;
    void remember(shard_context& here) noexcept;
    void forget(unsigned shard) noexcept;

    runtime_options options_;
    group_names groups_;
    std::function<task<>()> body_;
    hooks hooks_;
    std::unique_ptr<const machine> machine_;
    signal_watch* signals_ = nullptr;
    std::unique_ptr<stall_detector> stalls_;
    std::vector<std::unique_ptr<external_inbox>> inboxes_; ///< by shard
    std::unique_ptr<blocking_pool> blocking_;              ///< while run() runs
    std::unique_ptr<std::barrier<>> everybody_;
    std::vector<std::exception_ptr> failures_; ///< by shard; its own thread writes, read after all have arrived
    std::atomic<bool> failed_{false};
    std::atomic<std::size_t> abandoned_{0};
    std::atomic<std::uint64_t> mail_in_round_{0}; ///< the last round of discard_mail() in which some shard had any
    std::atomic<unsigned> done_{0};
    alignas(cache_line) std::atomic<phase> phase_{phase::running}; ///< alone on its line: read every turn
    alignas(cache_line) std::mutex contexts_mutex_;                ///< for starting, stopping and ending only
    std::vector<shard_context*> contexts_;                         ///< by shard; null when it does not exist
};

namespace this_shard {

/// Fires when the runtime is asked to stop: give it to waits that should end then.
stop_token stopping() noexcept;

} // namespace this_shard

} // namespace corewire
