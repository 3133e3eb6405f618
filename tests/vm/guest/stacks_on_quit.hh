// On SIGQUIT each thread of test_vm_guest prints its stack, as offsets into the program (addr2line -e bin/test_vm_guest), before the
// process is ended: what guest/bounded asks for when a suite stalls.
#pragma once

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <execinfo.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace corewire::test {

inline void say(const char* what) { static_cast<void>(!::write(STDOUT_FILENO, what, std::strlen(what))); }

inline void print_stack(int) {
    std::array<void*, 48> frames;
    say("stall: a stack\n");
    ::backtrace_symbols_fd(frames.data(), ::backtrace(frames.data(), static_cast<int>(frames.size())), STDOUT_FILENO);
}

inline void print_all(int) {
    DIR* const threads = ::opendir("/proc/self/task"); // not async-signal-safe: the process is stuck and goes next
    while (const dirent* one = threads == nullptr ? nullptr : ::readdir(threads)) {
        if (one->d_name[0] == '.') continue;
        ::syscall(SYS_tgkill, ::getpid(), std::atoi(one->d_name), SIGUSR2);
        ::usleep(200'000); // one after the other
    }
}

inline const bool prints_stacks_on_quit = [] {
    std::array<void*, 1> first;
    ::backtrace(first.data(), 1); // loads what it needs, now
    ::signal(SIGUSR2, print_stack);
    ::signal(SIGQUIT, print_all);
    return true;
}();

} // namespace corewire::test
