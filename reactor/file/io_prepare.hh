// io_arguments as an io_uring submission. Stateless.
#pragma once

#include <corewire/reactor/file/io_arguments.hh>

#include <liburing.h>

namespace corewire {

/// The kernel's number of an operation, or -1 where io_uring has none. Newer ones than liburing 2.3 knows are among them: ask
/// the ring whether its kernel does (uring::supports).
int uring_opcode(io_opcode opcode) noexcept;

/// uring_opcode(arguments.opcode) is not -1. The entry is clean: liburing has reset it.
void prepare(io_uring_sqe& entry, const io_arguments& arguments) noexcept;

} // namespace corewire
