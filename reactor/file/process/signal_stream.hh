// Signals as events (signalfd(2)).
//
//     int main() {
//         cw::blocked_signals quiet({SIGHUP, SIGUSR1});     // before any thread: they inherit the mask
//         ... on one shard:  cw::signal_stream signals({SIGHUP, SIGUSR1});
//                            const cw::signal_event e = co_await signals.next();
//
// SIGINT and SIGTERM are the runtime's (runtime_options::handle_signals). Signals of one kind that come while one waits are one.
#pragma once

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/waiter.hh>

#include <csignal>
#include <initializer_list>
#include <sys/types.h>

namespace corewire {

/// For its scope, this thread (and those made meanwhile) leaves these signals to whoever reads them.
class blocked_signals {
public:
    explicit blocked_signals(std::initializer_list<int> signals);
    ~blocked_signals();
    blocked_signals(const blocked_signals&) = delete;
    blocked_signals& operator=(const blocked_signals&) = delete;

private:
    sigset_t before_;
};

struct signal_event {
    int signal;
    pid_t sender;
    int value; ///< what sigqueue(3) sent along
};

class signal_stream {
public:
    /// Throws std::system_error. The signals are blocked in every thread.
    explicit signal_stream(std::initializer_list<int> signals);
    task<signal_event> next(wait_limits limits = {});

private:
    unique_fd fd_;
};

} // namespace corewire
