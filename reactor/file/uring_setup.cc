#include <corewire/reactor/file/uring_setup.hh>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace corewire {

namespace {

/// From the fastest to what every kernel takes (io_uring_setup(2)). With DEFER_TASKRUN (Linux 6.1) the kernel's half of a
/// completion runs only when this thread enters the ring, never as an interruption; TASKRUN_FLAG tells it when to.
constexpr std::array<unsigned, 4> modes{
    fastest_uring,                                                                          // 6.1
    IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,        // 5.19
    IORING_SETUP_SUBMIT_ALL,                                                                // 5.18
    0,
};

/// With a kernel thread that submits, completions are deferred to nobody.
constexpr std::array<unsigned, 4> sqpoll_modes{
    IORING_SETUP_SQPOLL | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER, // 6.0
    IORING_SETUP_SQPOLL | IORING_SETUP_SUBMIT_ALL,
    IORING_SETUP_SQPOLL,
    IORING_SETUP_SUBMIT_ALL, // none to be had: without
};

std::string advice(int error) {
    switch (error) {
    case EPERM:
        return "io_uring is forbidden here: set sysctl kernel.io_uring_disabled=0, or allow it in the container's seccomp "
               "profile (with docker: --security-opt seccomp=unconfined)";
    case ENOSYS:
        return "this kernel has no io_uring, or a seccomp profile hides it: Linux 6.0 or newer is needed, and in a "
               "container a profile that allows io_uring_setup";
    case ENOMEM:
        return "no memory for an io_uring: raise the limit on locked memory (ulimit -l) or the cgroup's memory limit";
    case EMFILE:
    case ENFILE:
        return "no file descriptor left for an io_uring: raise the limit on open files (ulimit -n)";
    default:
        return "cannot make an io_uring";
    }
}

} // namespace

void set_up_uring(io_uring& ring, unsigned entries, unsigned completion_entries, const io_options& options) {
    int error = EINVAL;
    for (const unsigned mode : options.sqpoll ? sqpoll_modes : modes) {
        io_uring_params parameters{};
        parameters.flags = mode | IORING_SETUP_CQSIZE;
        parameters.cq_entries = completion_entries;
        parameters.sq_thread_idle = options.sqpoll_idle_ms;
        error = -io_uring_queue_init_params(entries, &ring, &parameters);
        if (error == 0) return;
        if (error != EINVAL) break; // not a matter of flags
    }
    throw std::system_error(error, std::generic_category(), advice(error));
}

std::string probe_uring(const io_options& options) {
    if (!options.allow_uring) throw std::system_error(EPERM, std::generic_category(), "io_uring is switched off by an option");
    io_uring ring{};
    set_up_uring(ring, 8, 16, options);
    const unsigned flags = ring.flags;
    io_uring_queue_exit(&ring);
    return describe_uring(flags);
}

std::string describe_uring(unsigned flags) {
    constexpr std::array<std::pair<unsigned, const char*>, 4> names{{
        {IORING_SETUP_SINGLE_ISSUER, "SINGLE_ISSUER"},
        {IORING_SETUP_DEFER_TASKRUN, "DEFER_TASKRUN"},
        {IORING_SETUP_COOP_TASKRUN, "COOP_TASKRUN"},
        {IORING_SETUP_SQPOLL, "SQPOLL"},
    }};
    std::string text = "io_uring";
    for (const auto& [flag, name] : names)
        if ((flags & flag) != 0) text += std::string{text.size() == 8 ? " with " : ", "} + name;
    return text;
}

} // namespace corewire
