// Where finished work is told. Polled; and, for a shard that sleeps, armed so that a descriptor becomes readable.
//
//     poll() ... poll() == 0, spin -> arm() -> poll() once more -> sleep on channel.fd() -> channel.drain() -> poll()
//
// Events may be spurious and are no substitute for polling. They are acknowledged in batches, since each acknowledgement
// takes a mutex; the destructor acknowledges the rest, without which destroying would wait for ever.
// Belongs to one shard. Bound: `entries`; the queues that report here must not have more work requests than that.
#pragma once

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/rdma/verbs/device.hh>

#include <memory>
#include <span>

namespace corewire::verbs {

/// A descriptor that becomes readable when an armed completion queue has something. Several queues may share one.
class completion_channel {
public:
    explicit completion_channel(const device& on);
    int fd() const noexcept { return channel_->fd; }
    ibv_comp_channel* get() const noexcept { return channel_.get(); }
    /// Takes all events there are, without blocking; returns how many.
    unsigned drain() noexcept;

private:
    handle<ibv_comp_channel, &verbs_api::destroy_comp_channel> channel_;
};

struct completion_queue_options {
    unsigned entries = 1024;
    completion_channel* channel = nullptr; ///< outlives the queue; null: polled only
    bool one_thread = true;                ///< the driver may leave out its lock
    bool extended = false;                 ///< polled with completion_cursor, and not with poll()
    bool timestamps = false;               ///< completions carry the device's clock; extended
    /// Fields that a completion_cursor may read, IBV_WC_EX_WITH_...
    std::uint64_t fields = IBV_WC_EX_WITH_BYTE_LEN;
    unsigned vector = 0;                   ///< which of the device's interrupts wakes us
};

class completion_queue {
public:
    completion_queue(const device& on, const completion_queue_options& options);
    ~completion_queue();
    completion_queue(completion_queue&& other) noexcept = default;
    completion_queue& operator=(completion_queue&& other) noexcept = delete;

    /// Up to out.size() completions, oldest first; negative when the device or the queue has failed.
    int poll(std::span<ibv_wc> out) noexcept { return ::ibv_poll_cq(get(), static_cast<int>(out.size()), out.data()); }
    /// From now on the next completion makes the channel readable, once. Poll once more after it. Returns an errno.
    int arm(bool solicited_only = false) noexcept { return ::ibv_req_notify_cq(get(), solicited_only ? 1 : 0); }
    /// Events wait for `count` completions or `microseconds`, whichever is first. False if the device has no moderation.
    bool moderate(std::uint16_t count, std::uint16_t microseconds) noexcept;

    ibv_cq* get() const noexcept { return queue_.get(); }
    /// For completion_cursor; null unless it was made `extended` or with `timestamps`.
    ibv_cq_ex* extended() const noexcept { return extended_; }
    /// As the device gave it: at least as many as asked for.
    unsigned entries() const noexcept { return static_cast<unsigned>(queue_->cqe); }

private:
    friend class completion_channel;
    /// Where a channel finds the count of the queue that an event is for; stays where it is when the queue is moved.
    struct events {
        unsigned unacknowledged = 0;
    };
    static constexpr unsigned acknowledge_from = 64;
    std::unique_ptr<events> events_;
    handle<ibv_cq, &verbs_api::destroy_cq> queue_;
    ibv_cq_ex* extended_ = nullptr;
};

/// One pass over an extended queue, as the man page of ibv_create_cq_ex(3) has it:
///
///     for (completion_cursor at(queue); at; at.next()) use(at->wr_id, at.timestamp());
class completion_cursor {
public:
    explicit completion_cursor(completion_queue& over) noexcept : queue_(over.extended()) {
        ibv_poll_cq_attr none{};
        error_ = ::ibv_start_poll(queue_, &none);
        started_ = error_ == 0; // ENOENT: there is nothing, and nothing has been started
    }
    ~completion_cursor() {
        if (started_) ::ibv_end_poll(queue_);
    }
    completion_cursor(const completion_cursor&) = delete;
    completion_cursor& operator=(const completion_cursor&) = delete;

    explicit operator bool() const noexcept { return error_ == 0; }
    void next() noexcept { error_ = ::ibv_next_poll(queue_); }
    /// ENOENT when the end was reached, another errno when the queue has failed.
    int error() const noexcept { return error_; }
    const ibv_cq_ex* operator->() const noexcept { return queue_; } ///< wr_id, status
    ibv_wc_opcode opcode() const noexcept { return ::ibv_wc_read_opcode(queue_); }
    std::uint32_t byte_length() const noexcept { return ::ibv_wc_read_byte_len(queue_); }
    unsigned flags() const noexcept { return ::ibv_wc_read_wc_flags(queue_); }
    std::uint32_t queue_pair() const noexcept { return ::ibv_wc_read_qp_num(queue_); }
    /// In ticks of the device's clock (ibv_device_attr_ex::hca_core_clock, kHz).
    std::uint64_t timestamp() const noexcept { return ::ibv_wc_read_completion_ts(queue_); }

private:
    ibv_cq_ex* queue_;
    int error_;
    bool started_;
};

} // namespace corewire::verbs
