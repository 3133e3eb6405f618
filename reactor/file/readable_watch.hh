// Tells its owner whenever a descriptor has something to read, by one poll after the other in the reactor's io_uring: for news
// of the kernel's that come seldom. The owner's handler takes what there is, or a bounded part of it, and is told again.
//     void on_news() noexcept;
//     readable_watch<mirror, &mirror::on_news> news_{*this};      // behind the descriptor, which it must not outlive
// Nothing comes any more once it is destroyed, which waits for the kernel to let go of the poll.
#pragma once

#include <corewire/reactor/file/uring.hh>

#include <cerrno>
#include <poll.h>

namespace corewire {

template <typename Owner, void (Owner::*handler)() noexcept>
class readable_watch {
public:
    explicit readable_watch(Owner& owner) noexcept : owner_(owner) {}
    ~readable_watch() {
        if (ring_ == nullptr) return;
        ending_ = true;
        ring_->cancel(poll_);
        ring_->wait(poll_);
    }
    readable_watch(const readable_watch&) = delete;
    readable_watch& operator=(const readable_watch&) = delete;

    void begin(uring& ring, int fd) noexcept {
        ring_ = &ring;
        fd_ = fd;
        poll();
    }

private:
    void poll() noexcept {
        ring_->start(poll_, [&](io_uring_sqe& entry) { io_uring_prep_poll_add(&entry, fd_, POLLIN); });
    }
    void on_poll(int result, unsigned) noexcept {
        if (ending_ || result == -ECANCELED) return; // it may have completed before it was cancelled
        (owner_.*handler)();
        poll();
    }

    Owner& owner_;
    uring* ring_ = nullptr;
    int fd_ = -1;
    bool ending_ = false;
    bound_operation<readable_watch, &readable_watch::on_poll> poll_{*this};
};

} // namespace corewire
