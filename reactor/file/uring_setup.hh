// Making an io_uring: the best flags this kernel takes, or an exception that says why there is none. Stateless.
#pragma once

#include <corewire/reactor/file/io_options.hh>

#include <liburing.h>
#include <string>

namespace corewire {

/// Initialises `ring` for one thread that submits and reaps by itself. Throws std::system_error.
void set_up_uring(io_uring& ring, unsigned entries, unsigned completion_entries, const io_options& options = {});

/// "io_uring with SINGLE_ISSUER, DEFER_TASKRUN, COOP_TASKRUN", from a ring's flags (IORING_SETUP_*).
std::string describe_uring(unsigned flags);

} // namespace corewire
