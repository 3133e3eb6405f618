// Tells its owner whenever a descriptor has something to read, by one poll after the other in the reactor's io_uring: for news
// of the kernel's that come seldom. The owner's handler takes what there is, or a bounded part of it, and is told again.
//     void on_news() noexcept;
//     readable_watch<mirror, &mirror::on_news> news_{*this};      // behind the descriptor, which it must not outlive
// Where polling brings an error, of the poll (no memory) or of the descriptor, the owner is told too, and the next one waits for
// `pause`: what lasts costs a look now and then, and no core.
// Nothing comes any more once it is destroyed, which waits for the kernel to let go of the poll.
#pragma once

#include <corewire/reactor/file/uring.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/loop/timer.hh>

#include <cerrno>
#include <poll.h>

namespace corewire {

template <typename Owner, void (Owner::*handler)() noexcept>
class readable_watch {
public:
    static constexpr duration pause = std::chrono::milliseconds{100};

    explicit readable_watch(Owner& owner) noexcept : owner_(owner) {}
    ~readable_watch() {
        if (loop_ == nullptr) return;
        ending_ = true;
        loop_->io().cancel(poll_);
        loop_->io().wait(poll_);
    }
    readable_watch(const readable_watch&) = delete;
    readable_watch& operator=(const readable_watch&) = delete;

    void begin(reactor& loop, int fd) noexcept {
        loop_ = &loop;
        fd_ = fd;
        poll();
    }

private:
    void poll() noexcept {
        loop_->io().start(poll_, [&](io_uring_sqe& entry) { io_uring_prep_poll_add(&entry, fd_, POLLIN); });
    }
    void on_poll(int result, unsigned) noexcept {
        if (ending_ || result == -ECANCELED) return; // it may have completed before it was cancelled
        (owner_.*handler)();
        if (result >= 0 && (result & POLLIN) != 0) poll();
        else loop_->timers().arm(again_, loop_->now() + pause);
    }

    Owner& owner_;
    reactor* loop_ = nullptr;
    int fd_ = -1;
    bool ending_ = false;
    bound_operation<readable_watch, &readable_watch::on_poll> poll_{*this};
    struct retry final : timer {
        explicit retry(readable_watch& w) noexcept : timer([](timer& t) noexcept { static_cast<retry&>(t).watch.poll(); }), watch(w) {}
        readable_watch& watch;
    } again_{*this};
};

} // namespace corewire
