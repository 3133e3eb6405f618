// Making an io_uring: the best flags this kernel takes, or an exception that says why there is none. Stateless, but for what
// a test wants refused.
#pragma once

#include <corewire/reactor/file/io_options.hh>

#include <cerrno>
#include <cstdint>
#include <liburing.h>
#include <string>

namespace corewire {

/// Tests: for its scope, this thread's kernel refuses a ring with any of these flags (IORING_SETUP_*), as one that does not know them,
/// or for another reason. One at a time.
class uring_refusal {
public:
    explicit uring_refusal(unsigned flags, int error = EINVAL) noexcept;
    ~uring_refusal();
    uring_refusal(const uring_refusal&) = delete;
    uring_refusal& operator=(const uring_refusal&) = delete;
};

/// Tests: for its scope this thread's kernel is one of before Linux 6.0 to rings that are made: receives go into no lent buffers.
class lent_buffers_unknown {
public:
    lent_buffers_unknown() noexcept;
    ~lent_buffers_unknown();
    lent_buffers_unknown(const lent_buffers_unknown&) = delete;
    lent_buffers_unknown& operator=(const lent_buffers_unknown&) = delete;
};
/// False: such a test is under way.
bool knows_lent_buffers() noexcept;

/// Tests: for its scope the kernel takes no submission of this thread's, as one that is out of memory (EAGAIN) or holds more completions
/// than it keeps (EBUSY); `times` submissions at most. One at a time.
class submissions_refused {
public:
    explicit submissions_refused(int error, std::uint64_t times = ~std::uint64_t{0}) noexcept;
    ~submissions_refused();
    submissions_refused(const submissions_refused&) = delete;
    submissions_refused& operator=(const submissions_refused&) = delete;
};
/// 0, or the errno with which this submission is to fail.
int refuse_submission() noexcept;

/// Initialises `ring` for one thread that submits and reaps by itself, with the best flags that this kernel takes. Where it wants no
/// SQPOLL (unknown, not permitted, no memory for it) the ring is one without. Throws std::system_error.
void set_up_uring(io_uring& ring, unsigned entries, unsigned completion_entries, const io_options& options = {});

/// The flags of a ring on the newest kernels, without SQPOLL.
inline constexpr unsigned fastest_uring = IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                          IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG; // 6.1

/// What describe_uring() says of a ring that is made for this, with these options, and whether SQPOLL was asked for in vain.
/// Throws like set_up_uring().
std::string probe_uring(const io_options& options);

/// "io_uring with SINGLE_ISSUER, DEFER_TASKRUN, COOP_TASKRUN", from a ring's flags (IORING_SETUP_*).
std::string describe_uring(unsigned flags);

} // namespace corewire
