// Making an io_uring: the best flags this kernel takes, or an exception that says why there is none. Stateless.
#pragma once

#include <corewire/reactor/file/io_options.hh>

#include <liburing.h>
#include <string>

namespace corewire {

/// Initialises `ring` for one thread that submits and reaps by itself. Throws std::system_error.
void set_up_uring(io_uring& ring, unsigned entries, unsigned completion_entries, const io_options& options = {});

/// The flags of a ring on the newest kernels, without SQPOLL.
inline constexpr unsigned fastest_uring = IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                          IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG; // 6.1

/// What describe_uring() says of a ring that is made for this, with these options. Throws like set_up_uring().
std::string probe_uring(const io_options& options);

/// "io_uring with SINGLE_ISSUER, DEFER_TASKRUN, COOP_TASKRUN", from a ring's flags (IORING_SETUP_*).
std::string describe_uring(unsigned flags);

} // namespace corewire
