// One file into another, as fast as the kernel can.
#pragma once

#include <corewire/reactor/file/file.hh>

namespace corewire {

struct copy_options {
    std::size_t chunk = 1 << 20; ///< bytes of one request; with O_DIRECT a multiple of both alignments (EINVAL)
    unsigned in_flight = 8;      ///< requests at a time
};

/// Copies from the start to the end of `from` and cuts `to` to that size. Within the page cache the kernel copies by itself
/// (copy_file_range(2), by helper threads: io_uring has no such operation); with O_DIRECT, or where the kernel refuses,
/// chunks are read and written side by side. Returns the bytes copied. When it throws, `to` holds some of it; with O_DIRECT it may have
/// the whole size already. Memory: chunk x in_flight, or the file's size if that is less; registered as one, if it is
/// within what the kernel registers (1 GiB, ulimit -l).
task<std::uint64_t> copy(const file& from, const file& to, copy_options options = {}, wait_limits limits = {});

} // namespace corewire
