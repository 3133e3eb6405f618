// A reactor's io_uring: what the kernel does for this shard without blocking it. Where it is forbidden the kernel's half is played by
// epoll (uring_by_epoll.hh), for the requests that sockets and watched descriptors make; files then go another way (io_engine.hh).
//
//     start(op, fill) --> submission queue --flush(): one io_uring_enter a turn--> kernel
//     op's completion <-- completion queue <--poll(): from memory; enters the kernel only when it says it has work --+
//
// One a reactor, made by reactor::io() on the reactor's own thread, which alone may use it. Bounds: `entries` requests
// between two submissions (more submit early, counted); completions in one turn (the rest wait for the next). What the kernel refuses
// (it has no memory, or more completions than it keeps) is submitted again with each turn; what finds no room meanwhile stands behind
// it in our memory, as many as there are operations. Without memory for that a request fails with -ENOMEM, and a cancellation is made
// up for.
#pragma once

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/file/io_options.hh>
#include <corewire/reactor/file/uring_operation.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <bitset>
#include <cstdint>
#include <deque>
#include <liburing.h>
#include <memory>
#include <string>
#include <utility>

namespace corewire {

class uring_by_epoll;

/// Whoever looked at the start has said that there is no io_uring, and why: the first use does not say it again. From any thread.
void without_ring_was_said() noexcept;

struct uring_statistics {
    std::uint64_t enters = 0;      ///< io_uring_enter(2) calls, or what stands in for them
    std::uint64_t started = 0;     ///< requests
    std::uint64_t completions = 0; ///< of requests; a multishot request has many
    std::uint64_t queue_full = 0;  ///< times the submission queue had to be submitted in mid-turn
    std::uint64_t refused = 0;     ///< submissions that the kernel did not take: tried again next turn
};

class uring final : public poller {
public:
    static constexpr unsigned entries = 1024;            ///< of the submission queue
    static constexpr unsigned completion_entries = 8192; ///< beyond these the kernel keeps completions in a list
    static constexpr unsigned completions_a_turn = 512;

    /// Throws std::system_error where there is no descriptor left for it.
    explicit uring(const io_options& options = {});
    /// Cancels what is still in the kernel and waits for it: afterwards nothing writes to anybody's memory.
    /// Completions are not delivered any more.
    ~uring();

    /// Queues a request; `fill(io_uring_sqe&)` is one of liburing's io_uring_prep_*. It is submitted at the end of this
    /// turn, together with all others. The operation must not be in the kernel already.
    template <typename Fill>
    void start(uring_operation& op, Fill&& fill) noexcept {
        CW_ASSERT(!op.in_kernel_, "an io_uring operation was started twice");
        io_uring_sqe& entry = next_entry();
        std::forward<Fill>(fill)(entry);
        io_uring_sqe_set_data(&entry, &op);
        op.in_kernel_ = true;
        ++in_kernel_;
        ++statistics_.started;
        if (&entry == &nowhere_) [[unlikely]] fail_for_want_of_memory(op);
    }
    /// True when start() has an entry to fill; submits early to get one. False while the kernel takes no submissions (no memory,
    /// or its submission thread is behind): try again next turn. start() without this takes the request, which then stands behind the
    /// queue.
    bool make_room() noexcept;
    /// Asks the kernel to give an operation up. It completes as always, with -ECANCELED unless it was done before; where the kernel takes
    /// no submissions, when it does again. Harmless when it is not in the kernel.
    void cancel(const uring_operation& op) noexcept;
    /// Blocks this thread until the operation has completed for the last time, delivering whatever else completes. For
    /// tearing down: from inside a completion the completions of others nest.
    void wait(const uring_operation& op) noexcept;
    /// Blocks until at least one completion has been delivered; returns at once when nothing is in the kernel.
    void wait_any() noexcept;

    // ---- poller ----
    bool poll(time_point now) override;
    bool flush(time_point now) override;
    bool prepare_sleep() override;
    void finish_sleep() override;
    int wake_fd() const override;

    /// Epoll stands in for io_uring: why it has to, in a sentence that says what to do. Empty: the kernel's own.
    const std::string& by_epoll() const noexcept { return why_by_epoll_; }
    /// Does this kernel's io_uring know the operation (IORING_OP_*)? False for all without one.
    bool supports(int opcode) const noexcept { return opcode >= 0 && supported_[static_cast<std::size_t>(opcode)]; }
    /// Whether receives may go on into buffers that are lent to it, register_buffers(): from Linux 6.0 on.
    bool lends_buffers() const noexcept { return lends_buffers_; }
    /// The flags that were had, IORING_SETUP_*; and in words: "io_uring with SINGLE_ISSUER, DEFER_TASKRUN, COOP_TASKRUN".
    unsigned setup_flags() const noexcept { return ring_.flags; }
    std::string description() const;
    /// Memory that receives of the kernel's choosing go into, a power of two of places, until unregistered. 0, or -errno.
    int register_buffers(std::uint16_t group, io_uring_buf_ring& buffers, unsigned entries) noexcept;
    void unregister_buffers(std::uint16_t group) noexcept;
    /// For registering memory and files; only the kernel's own takes them.
    io_uring& native() noexcept { return ring_; }
    const uring_statistics& statistics() const noexcept { return statistics_; }
    /// Operations that the kernel has, or is to get.
    unsigned in_kernel() const noexcept { return in_kernel_; }

private:
    io_uring_sqe& next_entry() noexcept {
        io_uring_sqe* entry = behind_.empty() ? io_uring_get_sqe(&ring_) : nullptr;
        return entry != nullptr ? *entry : next_entry_of_a_full_queue();
    }
    io_uring_sqe& next_entry_of_a_full_queue() noexcept;
    void fail_for_want_of_memory(uring_operation& op) noexcept;
    bool tell_failed() noexcept;
    void cancel_later(const uring_operation& op) noexcept;
    void forget_to_cancel(const uring_operation& op) noexcept;
    bool anything_behind() const noexcept { return !behind_.empty() || to_cancel_ != nullptr; }
    void make(const io_options& options);
    bool kernel_has_work() const noexcept;
    int submit(unsigned completions) noexcept;
    void enter() noexcept;
    void catch_up() noexcept;
    void forget_what_is_behind() noexcept;
    bool reap(bool deliver) noexcept;

    io_uring ring_{};
    std::unique_ptr<uring_by_epoll> by_epoll_; ///< null: the kernel itself
    std::string why_by_epoll_;
    unique_fd wake_; ///< an eventfd that the kernel signals while we sleep: the ring's own is silent about deferred work
    unsigned in_kernel_ = 0;
    std::deque<io_uring_sqe> behind_; ///< what the queue has no room for, in order
    struct : io_uring_sqe {} nowhere_; ///< what that has no memory for; a base, since it ends with an array of no size
    const uring_operation* to_cancel_ = nullptr; ///< those whose cancellation was that; after all of `behind_`
    const uring_operation* failed_ = nullptr;    ///< those that were that themselves, in order: told at the next poll()
    const uring_operation* last_failed_ = nullptr;
    std::bitset<256> supported_;
    bool lends_buffers_ = true;
    uring_statistics statistics_;
};

} // namespace corewire
