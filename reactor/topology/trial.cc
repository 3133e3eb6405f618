#include <corewire/reactor/topology/trial.hh>

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace corewire {

namespace {

[[noreturn]] void try_it(const std::function<void()>& work, unsigned cpu_seconds) {
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU}) std::signal(signal, SIG_DFL);
    const rlimit time{cpu_seconds, cpu_seconds};
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CPU, &time);
    setrlimit(RLIMIT_CORE, &no_core);
    if (const int null = open("/dev/null", O_WRONLY); null >= 0) {
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
    try {
        work();
    } catch (...) {
        _exit(1);
    }
    _exit(0);
}

} // namespace

bool survives(const std::function<void()>& work, unsigned cpu_seconds) {
    const pid_t child = fork();
    if (child < 0) return false;
    if (child == 0) try_it(work, cpu_seconds);
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

} // namespace corewire
