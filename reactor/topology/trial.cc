#include <corewire/reactor/topology/trial.hh>

#include <corewire/reactor/base/unique_fd.hh>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace corewire {

namespace {

/// Bytes of addresses that the process has; nothing if it cannot be told.
std::optional<rlim_t> addresses() {
    char text[32]{};
    const unique_fd file(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
    if (!file || read(file.get(), text, sizeof text - 1) <= 0) return std::nullopt;
    return std::strtoull(text, nullptr, 10) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

/// Beside what there is already: AddressSanitizer's terabytes, for one.
void bound_memory(std::size_t more) {
    rlimit memory{};
    const auto now = addresses();
    if (!now || getrlimit(RLIMIT_AS, &memory) != 0 || memory.rlim_cur <= *now + more) return;
    memory.rlim_cur = *now + more;
    setrlimit(RLIMIT_AS, &memory);
}

[[noreturn]] void try_it(const std::function<void()>& work, unsigned cpu_seconds, std::size_t memory) {
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU}) std::signal(signal, SIG_DFL);
    const rlimit time{cpu_seconds, cpu_seconds};
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CPU, &time);
    setrlimit(RLIMIT_CORE, &no_core);
    bound_memory(memory);
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

bool survives(const std::function<void()>& work, unsigned cpu_seconds, std::size_t memory) {
    const pid_t child = fork();
    if (child < 0) return false;
    if (child == 0) try_it(work, cpu_seconds, memory);
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

} // namespace corewire
