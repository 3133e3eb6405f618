// What the kernel may be working for: a connection, a listener, a datagram socket. Lives until its user has let go and
// the kernel is done with it, which comes later; until then its provider keeps it.
#pragma once

#include <corewire/net/socket/provider.hh>
#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/base/unique_fd.hh>

namespace corewire {

class kernel_object : public list_hook {
public:
    virtual ~kernel_object() = default;

    int fd() const noexcept { return fd_.get(); }
    /// The user lets go: stop everything, and be deleted as soon as the kernel has nothing of ours.
    void let_go() noexcept {
        if (let_go_) return;
        let_go_ = true;
        stop();
        settle();
    }

    /// A stop was asked for: fails with ECANCELED the waits that `which` names.
    virtual void end_waits(ended_waits which) noexcept = 0;
    /// Wait no longer for anything: cancel what is in the kernel. After let_go().
    virtual void give_up() noexcept {}

protected:
    explicit kernel_object(unique_fd fd) noexcept : fd_(static_cast<unique_fd&&>(fd)) {}
    /// Fails who waits, begins to close, cancels what is in the kernel.
    virtual void stop() noexcept = 0;
    virtual bool in_kernel() const noexcept = 0;
    bool abandoned() const noexcept { return let_go_; }
    /// Ends every completion and let_go(): deletes *this if it was the last.
    void settle() noexcept {
        if (let_go_ && !in_kernel()) delete this;
    }

    unique_fd fd_;

private:
    bool let_go_ = false;
};

} // namespace corewire
