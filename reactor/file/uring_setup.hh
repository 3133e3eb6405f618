// Making an io_uring: the best flags this kernel takes, or an exception that says why there is none. Stateless.
#pragma once

#include <liburing.h>

namespace corewire {

/// Initialises `ring` for one thread that submits and reaps by itself. Throws std::system_error.
void set_up_uring(io_uring& ring, unsigned entries, unsigned completion_entries);

} // namespace corewire
