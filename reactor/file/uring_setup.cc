#include <corewire/reactor/file/uring_setup.hh>

#include <array>
#include <cerrno>
#include <span>
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
constexpr std::array<unsigned, 3> sqpoll_modes{
    IORING_SETUP_SQPOLL | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER, // 6.0
    IORING_SETUP_SQPOLL | IORING_SETUP_SUBMIT_ALL,
    IORING_SETUP_SQPOLL,
};

thread_local unsigned refused_flags = 0; ///< for a test
thread_local int refused_with = 0;
thread_local bool lends_no_buffers = false;
thread_local std::uint64_t submissions_to_refuse = 0;
thread_local int submissions_fail_with = 0;

struct ring_request {
    io_uring& ring;
    unsigned entries;
    unsigned completion_entries;
    const io_options& options;
};

/// One try: 0, or an errno.
int set_up_as(const ring_request& wanted, unsigned mode) {
    if ((mode & refused_flags) != 0) return refused_with;
    io_uring_params parameters{};
    parameters.flags = mode | IORING_SETUP_CQSIZE;
    parameters.cq_entries = wanted.completion_entries;
    parameters.sq_thread_idle = wanted.options.sqpoll_idle_ms;
    return -io_uring_queue_init_params(wanted.entries, &wanted.ring, &parameters);
}

/// The first of `all` that the kernel takes: 0, or why not. Only flags that it does not know lead on to the next.
int set_up_best(const ring_request& wanted, std::span<const unsigned> all) {
    int error = EINVAL;
    for (const unsigned mode : all)
        if (error = set_up_as(wanted, mode); error != EINVAL) break;
    return error;
}

std::string advice(int error) {
    switch (error) {
    case EPERM:
        return "io_uring is forbidden here: set sysctl kernel.io_uring_disabled=0, or allow it in the container's seccomp "
               "profile (with docker: --security-opt seccomp=unconfined)";
    case ENOSYS:
        return "this kernel has no io_uring, or a seccomp profile hides it: files need Linux 5.5 or newer, sockets Linux 6.0 or "
               "newer, a container a profile that allows io_uring_setup";
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

uring_refusal::uring_refusal(unsigned flags, int error) noexcept {
    refused_flags = flags;
    refused_with = error;
}

uring_refusal::~uring_refusal() { refused_flags = 0; }

lent_buffers_unknown::lent_buffers_unknown() noexcept { lends_no_buffers = true; }

lent_buffers_unknown::~lent_buffers_unknown() { lends_no_buffers = false; }

bool knows_lent_buffers() noexcept { return !lends_no_buffers; }

submissions_refused::submissions_refused(int error, std::uint64_t times) noexcept {
    submissions_to_refuse = times;
    submissions_fail_with = error;
}

submissions_refused::~submissions_refused() { submissions_to_refuse = 0; }

int refuse_submission() noexcept {
    if (submissions_to_refuse == 0) [[likely]]
        return 0;
    --submissions_to_refuse;
    return submissions_fail_with;
}

void set_up_uring(io_uring& ring, unsigned entries, unsigned completion_entries, const io_options& options) {
    const ring_request wanted{ring, entries, completion_entries, options};
    // Whatever keeps SQPOLL away (before Linux 5.13 it needs privileges) says nothing of a ring without it.
    if (options.sqpoll && set_up_best(wanted, sqpoll_modes) == 0) return;
    if (const int error = set_up_best(wanted, modes); error != 0)
        throw std::system_error(error, std::generic_category(), advice(error));
}

std::string probe_uring(const io_options& options) {
    if (!options.allow_uring) throw std::system_error(EPERM, std::generic_category(), "io_uring is switched off by an option");
    io_uring ring{};
    set_up_uring(ring, 8, 16, options);
    const unsigned flags = ring.flags;
    io_uring_queue_exit(&ring);
    const bool in_vain = options.sqpoll && (flags & IORING_SETUP_SQPOLL) == 0;
    return describe_uring(flags) + (in_vain ? "; SQPOLL is not to be had here" : "");
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
