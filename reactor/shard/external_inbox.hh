// Work for one shard from threads outside of the runtime: runtime::submit_from_thread(), and what run_blocking()'s helpers bring back.
//
//     any thread:  put() --(waits for room)--> queue --wakes--> the shard: run_all(), in order
//     a helper:    bring_back() ------------------^
//
// One a shard, owned by the runtime, for as long as that. A mutex guards it, and a watcher of the shard's loop looks at one flag.
// Open from the start of the shard's loop until the runtime is asked to stop, or all bodies have returned: what was accepted
// runs, later calls are refused with ECANCELED, and so is who waits for room. Bounds: `limit` calls wait; what helpers bring
// back is bounded by their pool, and takes no memory: calls are the nodes of the queue.
#pragma once

#include <corewire/reactor/base/time.hh>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

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

private:
    friend class external_call_queue;
    external_call* next_ = nullptr;
};

/// First in, first out; owns what is in it.
class external_call_queue {
public:
    external_call_queue() = default;
    external_call_queue(const external_call_queue&) = delete;
    external_call_queue& operator=(const external_call_queue&) = delete;
    ~external_call_queue() {
        while (!empty()) pop_front();
    }
    bool empty() const noexcept { return first_ == nullptr; }
    std::size_t size() const noexcept { return size_; }
    void push_back(std::unique_ptr<external_call> call) noexcept {
        external_call* const added = call.release();
        (first_ == nullptr ? first_ : last_->next_) = added;
        last_ = added;
        ++size_;
    }
    std::unique_ptr<external_call> pop_front() noexcept {
        std::unique_ptr<external_call> taken(first_);
        first_ = std::exchange(taken->next_, nullptr);
        --size_;
        return taken;
    }
    void swap(external_call_queue& other) noexcept {
        std::swap(first_, other.first_);
        std::swap(last_, other.last_);
        std::swap(size_, other.size_);
    }

private:
    external_call* first_ = nullptr;
    external_call* last_ = nullptr; ///< unless empty
    std::size_t size_ = 0;
};

struct external_inbox_statistics {
    std::uint64_t accepted = 0;
    std::uint64_t waited = 0;  ///< found no room at first
    std::uint64_t refused = 0; ///< came before the start or after the end, or found no room in time
};

class external_inbox {
public:
    explicit external_inbox(std::size_t limit) noexcept : limit_(limit) {}

    // ---- any thread ----
    /// Waits for room, not longer than `patience`. Throws std::system_error ECANCELED when the shard takes no work (any more),
    /// ETIMEDOUT when there was no room for it in time.
    void put(std::unique_ptr<external_call> call, duration patience = duration::max());
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
    void push(std::unique_ptr<external_call> call) noexcept;
    bool has_room() const noexcept { return !open_ || queue_.size() < limit_; }

    const std::size_t limit_;
    mutable std::mutex mutex_;
    std::condition_variable room_;
    external_call_queue queue_;
    reactor* home_ = nullptr; ///< null: not begun, or ended
    bool open_ = false;
    external_inbox_statistics statistics_;
    std::atomic<bool> any_{false};
};

} // namespace corewire
