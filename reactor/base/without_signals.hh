// For its scope this thread takes no signals, and threads made in it never will: they inherit the mask. Signals belong to the
// shards' threads, and a helper's system call must not end with EINTR.
#pragma once

#include <csignal>
#include <pthread.h>

namespace corewire {

class without_signals {
public:
    without_signals() noexcept {
        sigset_t all;
        sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~without_signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    without_signals(const without_signals&) = delete;
    without_signals& operator=(const without_signals&) = delete;

private:
    sigset_t before_;
};

} // namespace corewire
