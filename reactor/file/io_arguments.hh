// What is asked of the kernel, as a value: a system call's name and arguments. The same value becomes an io_uring submission
// (io_prepare), or is executed by a helper thread (io_execute), or is made to fail by a test (io_fault).
#pragma once

#include <corewire/reactor/base/bytes.hh>

#include <cstdint>
#include <fcntl.h>
#include <string_view>
#include <sys/uio.h>

namespace corewire {

enum class io_opcode : std::uint8_t {
    nop,
    read,           ///< address, length, offset; memory_index, fixed_file
    write,          ///< the same
    read_vectored,  ///< address: an array of iovec, length: how many
    write_vectored, ///< the same
    sync,           ///< flags: 0 or sync_data
    allocate,       ///< flags: FALLOC_FL_*; offset, length
    truncate,       ///< length
    advise,         ///< flags: POSIX_FADV_*; offset, length
    open,           ///< fd: a directory; address: a path; flags, mode
    close,          ///< fd
    stat,           ///< fd: a directory, or a file with an empty path; address: a path; flags; mode: STATX_*; other: the answer
    rename,         ///< fd and address: from; other_fd and other: to; flags
    unlink,         ///< fd, address; flags: 0 or AT_REMOVEDIR
    link,           ///< like rename
    symlink,        ///< address: what it says; other_fd and other: where it stands
    make_directory, ///< fd, address; mode
    poll,           ///< fd; flags: POLLIN, POLLOUT; answers with the events
    list,           ///< getdents64(2): fd, address, length. Always by a helper: io_uring has no such operation
    call,           ///< function(address), a blocking call of ours. Always by a helper
    copy,           ///< copy_file_range(2): fd, offset -> other_fd, other_offset; length. Always by a helper
    count
};
std::string_view name_of(io_opcode opcode) noexcept;

struct io_arguments {
    static constexpr std::uint32_t sync_data = 1;             ///< fdatasync
    static constexpr std::uint64_t no_offset = ~std::uint64_t{0}; ///< a stream, or the file's own position
    static constexpr std::uint32_t most_bytes = 0x7ffff000;   ///< in one read or write (read(2), notes)

    io_opcode opcode = io_opcode::nop;
    /// May last as long as somebody else pleases: a pipe, a timer. Waits in a line of its own.
    bool waits = false;
    std::int16_t memory_index = -1; ///< the registered memory that `address` lies in
    int fd = -1;
    int fixed_file = -1; ///< the same file, registered
    int other_fd = -1;
    void* address = nullptr;
    void* other = nullptr;
    int (*function)(void*) noexcept = nullptr; ///< of `call`: answers like a system call, -errno
    std::uint64_t length = 0;
    std::uint64_t offset = 0;
    std::uint64_t other_offset = 0;
    std::uint32_t flags = 0;
    std::uint32_t mode = 0;

    bool moves_bytes() const noexcept {
        return opcode == io_opcode::read || opcode == io_opcode::write || opcode == io_opcode::read_vectored ||
               opcode == io_opcode::write_vectored;
    }
    /// At most; 0 for what moves none.
    std::uint64_t bytes_moved() const noexcept {
        if (opcode == io_opcode::copy) return length;
        if (!moves_bytes()) return 0;
        if (opcode == io_opcode::read || opcode == io_opcode::write) return length;
        std::uint64_t sum = 0;
        for (std::uint64_t i = 0; i < length; ++i) sum += static_cast<const iovec*>(address)[i].iov_len;
        return sum;
    }
};

} // namespace corewire
