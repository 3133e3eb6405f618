// The kernel's half of an io_uring, where the kernel will have none: takes requests from the submission queue, serves them by system
// calls that do not block and by epoll(7), and puts what became of them into the completion queue. Both queues are plain memory here.
// `uring` has the other half as always; it and those who use it see no difference.
//
//     start() --> submission queue --enter()--> tried at once --done, or failed--> completion queue --> reap()
//                                                 \--EAGAIN--> epoll --look(): ready--> tried again ---^
//
// Serves what sockets and watched descriptors need, and says -EINVAL of all else, as a kernel that does not know it:
//     NOP, POLL_ADD (once), CONNECT, ACCEPT (once, or multishot), SEND, RECV (once, or multishot into provided buffers),
//     RECVMSG (multishot into provided buffers), ASYNC_CANCEL (of one request, or of all).
// What differs: a request holds no reference to its descriptor, which stays open until the request has completed; and a descriptor
// that connects or accepts becomes a non-blocking one, since connect(2) and accept(2) cannot be told not to block.
//
// One a `uring`, used by its thread only. Bounds: requests that wait (a record each), of the descriptors that are ready
// `descriptors_a_look`, of each request's pieces `pieces_a_look`; what finds no room in the completion queue waits for it.
#pragma once

#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/base/time.hh>
#include <corewire/reactor/base/unique_fd.hh>

#include <cstdint>
#include <liburing.h>
#include <memory>
#include <unordered_map>

namespace corewire {

class uring_by_epoll {
public:
    static constexpr std::size_t descriptors_a_look = 64;
    static constexpr unsigned pieces_a_look = 16;
    /// A look is a system call: while they find nothing they come ever more seldom, down to this. A sleeping shard is woken by fd().
    static constexpr duration longest_gap = std::chrono::microseconds{50};

    /// Gives `ring` its queues; both sizes are powers of two. Throws std::system_error where there is no descriptor left.
    uring_by_epoll(io_uring& ring, unsigned entries, unsigned completion_entries);
    ~uring_by_epoll();
    uring_by_epoll(const uring_by_epoll&) = delete;
    uring_by_epoll& operator=(const uring_by_epoll&) = delete;

    // ---- what io_uring_enter(2) would do ----
    /// Takes what has been queued; `wait`: then blocks until there is a completion. 0, or -EAGAIN: there was no memory for all of it, the
    /// rest stays queued.
    int enter(bool wait) noexcept;
    /// Serves what is ready, if it is time for a look.
    void look(time_point now) noexcept;
    void look_soon() noexcept;
    /// Becomes readable when a look would find something.
    int fd() const noexcept { return epoll_.get(); }

    // ---- io_uring_register_buf_ring(3), io_uring_unregister_buf_ring(3) ----
    int register_buffers(std::uint16_t group, const io_uring_buf_ring& buffers, unsigned entries) noexcept;
    void unregister_buffers(std::uint16_t group) noexcept { groups_.erase(group); }

private:
    struct request;
    struct watched;
    struct buffer_group {
        const io_uring_buf_ring* ring;
        std::uint16_t mask;
        std::uint16_t head; ///< the next one to be used
    };

    bool take(const io_uring_sqe& asked) noexcept;
    void cancel(const io_uring_sqe& asked) noexcept;
    void withdraw(request& r) noexcept;
    int watch(request& r) noexcept;
    int arm(watched& w) noexcept;
    bool serve(int patience_ms) noexcept;

    int attempt(request& r) noexcept;
    int call(request& r) noexcept;
    int receive(request& r) noexcept;
    int receive_message(request& r) noexcept;
    const io_uring_buf* next_buffer(std::uint16_t group) noexcept;
    unsigned use_buffer(std::uint16_t group) noexcept;

    unsigned ready() const noexcept { return completed_ - completions_head_; }
    bool has_room() const noexcept { return ready() < ring_.cq.ring_entries; }
    void post(std::uint64_t user_data, int result, unsigned flags) noexcept;
    void end(request& r, int result) noexcept;
    void post_ended() noexcept;

    io_uring& ring_;
    unique_fd epoll_;
    std::unique_ptr<io_uring_sqe[]> submissions_;
    std::unique_ptr<io_uring_cqe[]> completions_;
    unsigned submissions_head_ = 0, submissions_tail_ = 0, flags_ = 0;
    unsigned completions_head_ = 0, completed_ = 0; ///< the latter is the queue's tail

    std::unordered_map<std::uint64_t, request> requests_; ///< all that have not been told of as over, by user_data
    std::unordered_map<int, watched> descriptors_;        ///< that requests wait for
    std::unordered_map<std::uint16_t, buffer_group> groups_;
    intrusive_list<request> ended_; ///< for which the completion queue has had no room yet
    time_point next_look_{};
    duration gap_{};
    unsigned turns_without_look_ = 0;
};

} // namespace corewire
