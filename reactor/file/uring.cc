#include <corewire/reactor/file/uring.hh>

#include <corewire/reactor/file/uring_setup.hh>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <sys/eventfd.h>
#include <system_error>

namespace corewire {

uring& reactor::io() {
    if (io_ == nullptr) {
        io_ = {new uring(options_.io), [](uring* made) { delete made; }};
        add_poller(*io_);
    }
    return *io_;
}

uring::uring(const io_options& options) : wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!wake_) throw std::system_error(errno, std::generic_category(), "eventfd for an io_uring");
    if (!options.allow_uring) throw std::system_error(EPERM, std::generic_category(), "io_uring is switched off by an option");
    set_up_uring(ring_, entries, completion_entries, options);
    io_uring_cq_eventfd_toggle(&ring_, false);
    if (const int rc = io_uring_register_eventfd(&ring_, wake_.get()); rc < 0) {
        io_uring_queue_exit(&ring_);
        throw std::system_error(-rc, std::generic_category(), "io_uring_register_eventfd");
    }
    if (io_uring_probe* probe = io_uring_get_probe_ring(&ring_); probe != nullptr) {
        for (unsigned i = 0; i < probe->ops_len; ++i)
            if ((probe->ops[i].flags & IO_URING_OP_SUPPORTED) != 0) supported_.set(probe->ops[i].op);
        io_uring_free_probe(probe);
    }
}

std::string uring::description() const { return describe_uring(ring_.flags); }

uring::~uring() {
    if (in_kernel_ != 0) {
        io_uring_sqe& entry = next_entry();
        io_uring_prep_cancel64(&entry, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
        io_uring_sqe_set_data(&entry, nullptr);
    }
    while (in_kernel_ != 0) {
        ++statistics_.enters;
        if (const int rc = io_uring_submit_and_wait(&ring_, 1); rc < 0 && rc != -EINTR) break;
        reap(false);
    }
    io_uring_queue_exit(&ring_);
}

io_uring_sqe& uring::next_entry_of_a_full_queue() noexcept {
    ++statistics_.queue_full;
    enter();
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr && (ring_.flags & IORING_SETUP_SQPOLL) != 0) {
        io_uring_sqring_wait(&ring_); // the kernel's thread is behind
        entry = io_uring_get_sqe(&ring_);
    }
    CW_ASSERT(entry != nullptr, "the kernel takes no io_uring submissions");
    return *entry;
}

bool uring::make_room() noexcept {
    if (io_uring_sq_space_left(&ring_) != 0) [[likely]]
        return true;
    ++statistics_.queue_full;
    enter();
    return io_uring_sq_space_left(&ring_) != 0;
}

void uring::cancel(const uring_operation& op) noexcept {
    if (!op.in_kernel_) return;
    io_uring_sqe& entry = next_entry();
    io_uring_prep_cancel64(&entry, reinterpret_cast<std::uint64_t>(&op), 0);
    io_uring_sqe_set_data(&entry, nullptr); // nobody asks how the cancelling went
}

bool uring::kernel_has_work() const noexcept {
    const unsigned flags = IO_URING_READ_ONCE(*ring_.sq.kflags);
    return (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

/// Submits what is queued and lets the kernel finish what it has; never blocks. What it refuses for want of memory stays
/// queued and is submitted again with the next turn.
void uring::enter() noexcept {
    ++statistics_.enters;
    if ((ring_.flags & IORING_SETUP_SQPOLL) != 0 && !kernel_has_work()) {
        io_uring_submit(&ring_); // a system call only when the kernel's thread sleeps
    } else {
        io_uring_submit_and_get_events(&ring_);
    }
}

/// Delivers the completions that are there, a bounded number. The queue's head moves before each delivery, so that a completion may
/// start operations and destroy its own.
bool uring::reap(bool deliver) noexcept {
    unsigned head = *ring_.cq.khead;
    const unsigned there = io_uring_smp_load_acquire(ring_.cq.ktail) - head;
    if (there == 0) return false;
    const unsigned end = head + std::min(there, completions_a_turn);
    statistics_.completions += end - head;
    const unsigned mask = ring_.cq.ring_mask;
    while (static_cast<int>(end - head) > 0) {
        const io_uring_cqe& entry = ring_.cq.cqes[head & mask];
        auto* op = static_cast<uring_operation*>(io_uring_cqe_get_data(&entry));
        const int result = entry.res;
        const unsigned flags = entry.flags;
        io_uring_smp_store_release(ring_.cq.khead, ++head);
        if (op == nullptr) continue;
        if ((flags & IORING_CQE_F_MORE) == 0) {
            op->in_kernel_ = false;
            --in_kernel_;
        }
        if (!deliver) continue;
        op->on_complete_(*op, result, flags);
        head = *ring_.cq.khead; // further, if it has waited for others
    }
    return true;
}

bool uring::poll(time_point) {
    if (kernel_has_work()) enter();
    return reap(true);
}

bool uring::flush(time_point) {
    if (io_uring_sq_ready(&ring_) == 0) return false;
    enter();
    return true;
}

bool uring::prepare_sleep() {
    if (io_uring_sq_ready(&ring_) != 0) enter();
    // From now on the kernel signals both completions and work that will bring some; so look for them after this.
    io_uring_cq_eventfd_toggle(&ring_, true);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (io_uring_sq_ready(&ring_) == 0 && io_uring_cq_ready(&ring_) == 0 && !kernel_has_work()) return true;
    finish_sleep();
    return false;
}

void uring::finish_sleep() {
    io_uring_cq_eventfd_toggle(&ring_, false);
    std::uint64_t count;
    static_cast<void>(!::read(wake_.get(), &count, sizeof count));
}

void uring::wait_any() noexcept {
    if (in_kernel_ == 0) return;
    if (io_uring_cq_ready(&ring_) == 0 || io_uring_sq_ready(&ring_) != 0) {
        ++statistics_.enters;
        io_uring_submit_and_wait(&ring_, 1);
    }
    reap(true);
}

void uring::wait(const uring_operation& op) noexcept {
    while (op.in_kernel()) wait_any();
}

} // namespace corewire
