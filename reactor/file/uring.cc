#include <corewire/reactor/file/uring.hh>

#include <corewire/reactor/file/uring_by_epoll.hh>
#include <corewire/reactor/file/uring_setup.hh>
#include <corewire/reactor/log/shard_log.hh>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <new>
#include <sys/eventfd.h>
#include <system_error>

namespace corewire {

namespace {

constexpr log_event<unsigned, log_text<200>> no_ring{
    "file", "no_ring", log_level::warn, "files and pipes go through {} helper threads a shard, the kernel's sockets through epoll: {}"};

std::atomic_flag said_why_no_ring; ///< the one message a process

} // namespace

void without_ring_was_said() noexcept { said_why_no_ring.test_and_set(); }

uring& reactor::io() {
    if (io_ == nullptr) {
        io_ = {new uring(options_.io), [](uring* made) { delete made; }};
        add_poller(*io_);
        if (!io_->by_epoll().empty() && options_.io.allow_uring && !said_why_no_ring.test_and_set())
            log_message(no_ring, options_.io.helpers, io_->by_epoll());
    }
    return *io_;
}

uring::uring(const io_options& options) {
    try {
        make(options);
    } catch (const std::system_error& e) {
        why_by_epoll_ = e.what();
        wake_.reset();
        by_epoll_ = std::make_unique<uring_by_epoll>(ring_, entries, completion_entries);
    }
}

void uring::make(const io_options& options) {
    wake_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
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
    lends_buffers_ = supports(IORING_OP_SEND_ZC) && knows_lent_buffers(); // nothing tells of them; this came with them
}

std::string uring::description() const { return by_epoll_ ? "epoll: " + why_by_epoll_ : describe_uring(ring_.flags); }

int uring::wake_fd() const { return by_epoll_ ? by_epoll_->fd() : wake_.get(); }

uring::~uring() {
    forget_what_is_behind();
    if (in_kernel_ != 0) {
        io_uring_sqe* entry = io_uring_get_sqe(&ring_);
        for (; entry == nullptr; entry = io_uring_get_sqe(&ring_)) {
            submit(0);
            reap(false);
        }
        io_uring_prep_cancel64(entry, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
        io_uring_sqe_set_data(entry, nullptr);
    }
    while (in_kernel_ != 0) {
        if (const int rc = submit(1); rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY) break;
        reap(false);
    }
    if (!by_epoll_) io_uring_queue_exit(&ring_);
}

/// What the kernel has never seen needs no cancelling.
void uring::forget_what_is_behind() noexcept {
    for (const io_uring_sqe& entry : behind_)
        if (auto* op = reinterpret_cast<uring_operation*>(entry.user_data); op != nullptr) {
            op->in_kernel_ = op->cancel_waits_ = false;
            --in_kernel_;
        }
    behind_.clear();
    for (; failed_ != nullptr; failed_ = failed_->next_) {
        auto& op = const_cast<uring_operation&>(*failed_);
        op.in_kernel_ = op.cancel_waits_ = false;
        --in_kernel_;
    }
    for (; to_cancel_ != nullptr; to_cancel_ = to_cancel_->next_) to_cancel_->cancel_waits_ = false; // all are to be
}

io_uring_sqe& uring::next_entry_of_a_full_queue() noexcept {
    if (make_room()) return *io_uring_get_sqe(&ring_);
    try {
        return behind_.emplace_back();
    } catch (const std::bad_alloc&) {
        return nowhere_;
    }
}

/// It has been filled into `nowhere_`. Its completion does not come from inside start(), and there is nothing left to cancel.
void uring::fail_for_want_of_memory(uring_operation& op) noexcept {
    op.cancel_waits_ = true;
    op.next_ = nullptr;
    (failed_ == nullptr ? failed_ : last_failed_->next_) = &op;
    last_failed_ = &op;
}

/// Those that are there, a bounded number. Each leaves the list before it is told: a completion may start operations, destroy its own, and
/// wait for others.
bool uring::tell_failed() noexcept {
    if (failed_ == nullptr) [[likely]] return false;
    unsigned there = 0;
    for (const uring_operation* op = failed_; op != nullptr && there < completions_a_turn; op = op->next_) ++there;
    for (; there != 0 && failed_ != nullptr; --there) {
        auto& op = const_cast<uring_operation&>(*std::exchange(failed_, failed_->next_));
        op.in_kernel_ = op.cancel_waits_ = false;
        --in_kernel_;
        ++statistics_.completions;
        op.on_complete_(op, -ENOMEM, 0);
    }
    return true;
}

void uring::cancel_later(const uring_operation& op) noexcept {
    if (std::exchange(op.cancel_waits_, true)) return;
    op.next_ = std::exchange(to_cancel_, &op);
}

void uring::forget_to_cancel(const uring_operation& op) noexcept {
    op.cancel_waits_ = false;
    const uring_operation** at = &to_cancel_;
    while (*at != &op) at = &(*at)->next_;
    *at = op.next_;
}

bool uring::make_room() noexcept {
    if (!behind_.empty()) [[unlikely]]
        return false;
    if (io_uring_sq_space_left(&ring_) != 0) [[likely]]
        return true;
    ++statistics_.queue_full;
    enter();
    return io_uring_sq_space_left(&ring_) != 0;
}

void uring::cancel(const uring_operation& op) noexcept {
    if (!op.in_kernel_) return;
    io_uring_sqe& entry = next_entry();
    if (&entry == &nowhere_) [[unlikely]] return cancel_later(op);
    io_uring_prep_cancel64(&entry, reinterpret_cast<std::uint64_t>(&op), 0);
    io_uring_sqe_set_data(&entry, nullptr); // nobody asks how the cancelling went
}

bool uring::kernel_has_work() const noexcept {
    const unsigned flags = IO_URING_READ_ONCE(*ring_.sq.kflags);
    return (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

/// Submits what is queued and lets the kernel finish what it has; blocks for `completions`, unless it refuses. What it refuses stays
/// queued. Returns how many it took, or -errno.
int uring::submit(unsigned completions) noexcept {
    ++statistics_.enters;
    int taken = -refuse_submission();
    if (taken == 0 && by_epoll_) {
        taken = by_epoll_->enter(completions != 0);
    } else if (taken == 0) {
        const bool by_thread = (ring_.flags & IORING_SETUP_SQPOLL) != 0 && !kernel_has_work();
        taken = completions != 0 ? io_uring_submit_and_wait(&ring_, completions)
                : by_thread      ? io_uring_submit(&ring_) // a system call only when the kernel's thread sleeps
                                 : io_uring_submit_and_get_events(&ring_);
    }
    if (taken >= 0 || taken == -EINTR) [[likely]]
        return taken;
    ++statistics_.refused;
    if (!by_epoll_) io_uring_get_events(&ring_); // it has not come to that: what completes may be what the kernel wants room for
    return taken;
}

void uring::enter() noexcept {
    catch_up();
    submit(0);
    catch_up();
}

void uring::catch_up() noexcept {
    while (!behind_.empty()) {
        io_uring_sqe* entry = io_uring_get_sqe(&ring_);
        if (entry == nullptr) return;
        *entry = behind_.front();
        behind_.pop_front();
    }
    while (to_cancel_ != nullptr) {
        io_uring_sqe* entry = io_uring_get_sqe(&ring_);
        if (entry == nullptr) return;
        const uring_operation& op = *to_cancel_;
        forget_to_cancel(op);
        io_uring_prep_cancel64(entry, reinterpret_cast<std::uint64_t>(&op), 0);
        io_uring_sqe_set_data(entry, nullptr);
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
            if (op->cancel_waits_) [[unlikely]] forget_to_cancel(*op);
        }
        if (!deliver) continue;
        op->on_complete_(*op, result, flags);
        head = *ring_.cq.khead; // further, if it has waited for others
    }
    return true;
}

bool uring::poll(time_point now) {
    if (by_epoll_) by_epoll_->look(now);
    else if (kernel_has_work()) enter();
    const bool failed = tell_failed();
    return reap(true) || failed;
}

bool uring::flush(time_point) {
    if (io_uring_sq_ready(&ring_) == 0 && !anything_behind()) return false;
    enter();
    return true;
}

bool uring::prepare_sleep() {
    if (failed_ != nullptr) [[unlikely]] return false;
    if (by_epoll_) {
        enter();
        return io_uring_sq_ready(&ring_) == 0 && !anything_behind() && io_uring_cq_ready(&ring_) == 0;
    }
    if (io_uring_sq_ready(&ring_) != 0 || anything_behind()) enter();
    // From now on the kernel signals both completions and work that will bring some; so look for them after this.
    io_uring_cq_eventfd_toggle(&ring_, true);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (io_uring_sq_ready(&ring_) == 0 && !anything_behind() && io_uring_cq_ready(&ring_) == 0 && !kernel_has_work()) return true;
    finish_sleep();
    return false;
}

void uring::finish_sleep() {
    if (by_epoll_) return by_epoll_->look_soon();
    io_uring_cq_eventfd_toggle(&ring_, false);
    std::uint64_t count;
    static_cast<void>(!::read(wake_.get(), &count, sizeof count));
}

void uring::wait_any() noexcept {
    if (in_kernel_ == 0) return;
    if (tell_failed() || anything_behind()) {
        enter(); // and not wait: what we wait for may have been told, or stand behind
        if (by_epoll_) {
            by_epoll_->look_soon();
            by_epoll_->look({});
        }
    } else if (io_uring_cq_ready(&ring_) == 0 || io_uring_sq_ready(&ring_) != 0) {
        submit(1);
    }
    reap(true);
}

void uring::wait(const uring_operation& op) noexcept {
    while (op.in_kernel()) wait_any();
}

int uring::register_buffers(std::uint16_t group, io_uring_buf_ring& buffers, unsigned size) noexcept {
    if (by_epoll_) return by_epoll_->register_buffers(group, buffers, size);
    io_uring_buf_reg registration{};
    registration.ring_addr = reinterpret_cast<std::uint64_t>(&buffers);
    registration.ring_entries = size;
    registration.bgid = group;
    return io_uring_register_buf_ring(&ring_, &registration, 0);
}

void uring::unregister_buffers(std::uint16_t group) noexcept {
    if (by_epoll_) by_epoll_->unregister_buffers(group);
    else io_uring_unregister_buf_ring(&ring_, group);
}

} // namespace corewire
