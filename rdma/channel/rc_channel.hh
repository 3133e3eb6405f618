// rc_channel: messages and remote memory over a reliable connection, for coroutines. Belongs to the shard that made it;
// move-only; ended abruptly when destroyed (close() says goodbye first).
//
//     cw::rdma::context here;                                              // one a shard
//     auto peer = co_await cw::rdma::connector(here).connect({cw::ipv4(192, 0, 2, 1), 7471});
//     co_await peer.send(cw::as_bytes("ping"));
//     while (auto m = co_await peer.receive()) use(m->bytes());            // a view of the device's buffer; none after a goodbye
//
// Requests happen in the order in which they are made. Each wait takes {.deadline = , .stop = }. Errors of co_await:
// EMSGSIZE (longer than the peer receives), EPIPE (the peer has said goodbye), ECONNRESET (it left without), ETIMEDOUT (it
// answers no more, or the deadline), EACCES (its memory, and not for that; the connection ends by it), EPROTO (it breaks the
// rules), ENOBUFS (it posts no receives for the credits that it gives), ENODEV (the device has gone), EIO (its queues have failed, or a
// request in them), ERANGE (beyond the remote region), EBADF (an empty channel, or one moved from; so do the calls that give no task;
// close() of it does nothing).
#pragma once

#include <corewire/rdma/channel/context.hh>
#include <corewire/rdma/channel/message.hh>
#include <corewire/rdma/channel/remote_region.hh>
#include <corewire/reactor/task/task.hh>

namespace corewire::rdma {

/// Memory of ours that the peer of one channel may use until this is destroyed; by nobody else's queue pair, where the device has
/// memory windows. It may outlive the buffer, whose memory has no other owner before, and the channel, with which it opens nothing more.
class exposed_region {
public:
    exposed_region() noexcept = default;
    exposed_region(exposed_region&& other) noexcept
        : window_(std::exchange(other.window_, nullptr)), block_(std::exchange(other.block_, nullptr)),
          what_(std::exchange(other.what_, {})) {}
    exposed_region& operator=(exposed_region&& other) noexcept {
        std::swap(window_, other.window_);
        std::swap(block_, other.block_);
        std::swap(what_, other.what_);
        return *this;
    }
    ~exposed_region() {
        if (window_ != nullptr) window_->let_go(); // before the memory
        if (block_ != nullptr) block_->release();
    }
    /// To be told to the peer.
    const remote_region& region() const noexcept { return what_; }

private:
    friend class rc_channel;
    void hold(memory_block* block) noexcept {
        block->hold();
        block_ = block;
    }
    exposed_window* window_ = nullptr;
    memory_block* block_ = nullptr;
    remote_region what_{};
};

class rc_channel {
public:
    rc_channel() noexcept = default;
    /// Takes over the first reference to an open connection.
    explicit rc_channel(rc_connection& c) noexcept : connection_(&c) {}
    rc_channel(rc_channel&& other) noexcept : connection_(std::exchange(other.connection_, nullptr)) {}
    rc_channel& operator=(rc_channel&& other) noexcept {
        std::swap(connection_, other.connection_);
        return *this;
    }
    ~rc_channel() {
        if (connection_ != nullptr) connection_->shut_down();
    }
    explicit operator bool() const noexcept { return connection_ != nullptr; }

    // ---- messages ----
    /// Copies (short ones go inside the work request) and returns; waits only for a credit or for room. A message longer than the
    /// peer's buffers is copied to memory of its own, from which the peer fetches it.
    rc_awaiter send(byte_span bytes, wait_limits limits = {}) noexcept;
    /// The same for a message in several parts. `parts` itself stays until this returns.
    rc_awaiter send(std::span<const byte_span> parts, wait_limits limits = {}) noexcept;
    /// Without a copy; returns when the peer's device has it: of a message longer than the peer's buffers, when the peer has fetched
    /// it, and can read that memory no more.
    rc_awaiter send_in_place(local_region bytes, wait_limits limits = {}) noexcept;
    /// Gathered from up to most_regions stretches (EINVAL beyond). `parts` itself stays until this returns.
    rc_awaiter send_in_place(std::span<const local_region> parts, wait_limits limits = {}) noexcept;
    /// The next message, or the peer's next write_with_immediate(); nothing after the peer's goodbye.
    receive_awaiter receive(wait_limits limits = {}) noexcept { return {connection_, limits}; }

    // ---- the peer's memory: each returns when it has been done there ----
    rc_awaiter write(local_region from, const remote_region& to, std::uint64_t offset = 0, wait_limits limits = {}) noexcept;
    /// And tells the peer: its receive() gives `immediate` and the size. Takes a credit, as a message does.
    rc_awaiter write_with_immediate(local_region from, const remote_region& to, std::uint64_t offset, std::uint32_t immediate,
                                      wait_limits limits = {}) noexcept;
    rc_awaiter read(local_region into, const remote_region& from, std::uint64_t offset = 0, wait_limits limits = {}) noexcept;
    /// On 8 bytes at a multiple of 8, in the peer's byte order. Both give what was there before.
    atomic_operation fetch_and_add(const remote_region& at, std::uint64_t offset, std::uint64_t add, wait_limits limits = {}) noexcept;
    atomic_operation compare_and_swap(const remote_region& at, std::uint64_t offset, std::uint64_t expected, std::uint64_t desired,
                                      wait_limits limits = {}) noexcept;

    // ---- our memory ----
    /// Memory that this channel's device may use.
    registered_buffer allocate(std::size_t size) { return {open().device(), size}; }
    /// Lets the peer use a stretch of a buffer of allocate(), as long as what this gives exists and the channel is open. Throws what making
    /// a memory window throws (ENOMEM: the device has no more of them); on a device that has none at all, what registering throws.
    task<exposed_region> expose(const registered_buffer& memory, std::size_t offset, std::size_t size, verbs::access allowed,
                                wait_limits limits = {});

    // ---- ending ----
    /// Waits until the peer's device has all that was sent, and a goodbye, or the peer has left meanwhile (which can't be told from
    /// leaving at the goodbye: who must know lets the peer say so); then disconnects. Requests in line end with ECANCELED.
    task<> close(wait_limits limits = {});
    /// Ends now: waits end with ECANCELED; the peer's, with ECONNRESET.
    void abort() noexcept { rc_channel(std::move(*this)); }

    /// That the peer takes, bytes; longer than buffered_message() they are fetched.
    std::uint32_t largest_message() const { return open().peer_largest_message(); }
    std::uint32_t buffered_message() const { return open().peer_message_size(); }
    /// By rdma_cm, or that of the stream by which it was made.
    socket_address peer_address() const { return open().peer_address(); }
    const rc_statistics& statistics() const { return open().statistics(); }
    const rc_connection& connection() const { return open(); }

private:
    rc_connection& open() const {
        if (connection_ == nullptr) throw std::system_error(EBADF, std::generic_category(), "rdma: this rc_channel is empty");
        return *connection_;
    }
    rc_connection* connection_ = nullptr;
};

} // namespace corewire::rdma
