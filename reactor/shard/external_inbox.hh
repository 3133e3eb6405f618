// Work for one shard from threads outside of the runtime: runtime::submit_from_thread(), and what run_blocking()'s helpers bring back.
//
//     any thread:  put() --(waits for room)--> queue --wakes--> the shard: run_all(), in order
//     a helper:    bring_back() ------------------^
//
// One a shard, owned by the runtime, for as long as that. A mutex guards it, and a watcher of the shard's loop looks at one flag.
// Open from the start of the shard's loop until the runtime is asked to stop, or all bodies have returned: what was accepted
// runs, later calls are refused with ECANCELED, and so is who waits for room. Bounds: `limit` calls wait; what helpers bring
// back is bounded by their pool.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

namespace corewire {

class reactor;

/// Something to run on a shard, once. Destroyed unrun when the shard has ended: its destructor tells whoever waits.
class external_call {
public:
    external_call() = default;
    external_call(const external_call&) = delete;
    external_call& operator=(const external_call&) = delete;
    virtual ~external_call() = default;
    /// On the shard. `self` is this object, to keep for longer if need be.
    virtual void run(std::unique_ptr<external_call> self) noexcept = 0;
};

struct external_inbox_statistics {
    std::uint64_t accepted = 0;
    std::uint64_t waited = 0;  ///< found no room at first
    std::uint64_t refused = 0; ///< came before the start or after the end
};

class external_inbox {
public:
    explicit external_inbox(std::size_t limit) noexcept : limit_(limit) {}

    // ---- any thread ----
    /// Waits for room. Throws std::system_error ECANCELED when the shard takes no work (any more).
    void put(std::unique_ptr<external_call> call);
    /// Never waits; drops the call when the shard has ended.
    void bring_back(std::unique_ptr<external_call> call) noexcept;
    external_inbox_statistics statistics() const;

    // ---- the shard ----
    void open(reactor& home) noexcept;
    bool any() const noexcept { return any_.load(std::memory_order_acquire); }
    /// Runs what was there when it was called.
    void run_all() noexcept;
    /// Refuses new calls; those that wait are still run.
    void close() noexcept;
    /// The loop has ended: destroys what is left.
    void end() noexcept;

private:
    void push(std::unique_ptr<external_call> call);

    const std::size_t limit_;
    mutable std::mutex mutex_;
    std::condition_variable room_;
    std::deque<std::unique_ptr<external_call>> queue_;
    reactor* home_ = nullptr; ///< null: not begun, or ended
    bool open_ = false;
    external_inbox_statistics statistics_;
    std::atomic<bool> any_{false};
};

} // namespace corewire
