#include <corewire/reactor/file/io_prepare.hh>

#include <corewire/reactor/base/assert.hh>

#include <algorithm>
#include <sys/stat.h>

namespace corewire {

namespace {

constexpr int ftruncate_opcode = 55; ///< IORING_OP_FTRUNCATE, Linux 6.9

unsigned at_most(std::uint64_t length) noexcept {
    return static_cast<unsigned>(std::min<std::uint64_t>(length, io_arguments::most_bytes));
}

} // namespace

int uring_opcode(io_opcode opcode) noexcept {
    switch (opcode) {
    case io_opcode::nop: return IORING_OP_NOP;
    case io_opcode::read: return IORING_OP_READ;
    case io_opcode::write: return IORING_OP_WRITE;
    case io_opcode::read_vectored: return IORING_OP_READV;
    case io_opcode::write_vectored: return IORING_OP_WRITEV;
    case io_opcode::sync: return IORING_OP_FSYNC;
    case io_opcode::allocate: return IORING_OP_FALLOCATE;
    case io_opcode::truncate: return ftruncate_opcode;
    case io_opcode::advise: return IORING_OP_FADVISE;
    case io_opcode::open: return IORING_OP_OPENAT;
    case io_opcode::close: return IORING_OP_CLOSE;
    case io_opcode::stat: return IORING_OP_STATX;
    case io_opcode::rename: return IORING_OP_RENAMEAT;
    case io_opcode::unlink: return IORING_OP_UNLINKAT;
    case io_opcode::link: return IORING_OP_LINKAT;
    case io_opcode::symlink: return IORING_OP_SYMLINKAT;
    case io_opcode::make_directory: return IORING_OP_MKDIRAT;
    case io_opcode::poll: return IORING_OP_POLL_ADD;
    case io_opcode::list:
    case io_opcode::call:
    case io_opcode::copy:
    case io_opcode::count: break;
    }
    return -1;
}

void prepare(io_uring_sqe& entry, const io_arguments& a) noexcept {
    const auto path = static_cast<const char*>(a.address);
    const auto other_path = static_cast<const char*>(a.other);
    const int flags = static_cast<int>(a.flags);
    switch (a.opcode) {
    case io_opcode::read:
        if (a.memory_index >= 0) {
            io_uring_prep_read_fixed(&entry, a.fd, a.address, at_most(a.length), a.offset, a.memory_index);
        } else {
            io_uring_prep_read(&entry, a.fd, a.address, at_most(a.length), a.offset);
        }
        break;
    case io_opcode::write:
        if (a.memory_index >= 0) {
            io_uring_prep_write_fixed(&entry, a.fd, a.address, at_most(a.length), a.offset, a.memory_index);
        } else {
            io_uring_prep_write(&entry, a.fd, a.address, at_most(a.length), a.offset);
        }
        break;
    case io_opcode::read_vectored:
        io_uring_prep_readv(&entry, a.fd, static_cast<const iovec*>(a.address), static_cast<unsigned>(a.length), a.offset);
        break;
    case io_opcode::write_vectored:
        io_uring_prep_writev(&entry, a.fd, static_cast<const iovec*>(a.address), static_cast<unsigned>(a.length), a.offset);
        break;
    case io_opcode::sync:
        io_uring_prep_fsync(&entry, a.fd, a.flags == io_arguments::sync_data ? IORING_FSYNC_DATASYNC : 0);
        break;
    case io_opcode::allocate:
        // The kernel takes the length in `addr` and the mode in `len` (io_uring_enter(2)); liburing 2.3 takes them as such.
        io_uring_prep_fallocate(&entry, a.fd, flags, static_cast<off_t>(a.offset), static_cast<off_t>(a.length));
        break;
    case io_opcode::truncate:
        io_uring_prep_rw(ftruncate_opcode, &entry, a.fd, nullptr, 0, a.length);
        break;
    case io_opcode::advise:
        // Its length has 32 bits; 0 is "to the end".
        io_uring_prep_fadvise(&entry, a.fd, a.offset, a.length > UINT32_MAX ? 0 : static_cast<off_t>(a.length), flags);
        break;
    case io_opcode::open: io_uring_prep_openat(&entry, a.fd, path, flags, a.mode); break;
    case io_opcode::close: io_uring_prep_close(&entry, a.fd); break;
    case io_opcode::stat:
        io_uring_prep_statx(&entry, a.fd, path, flags, a.mode, static_cast<struct statx*>(a.other));
        break;
    case io_opcode::rename: io_uring_prep_renameat(&entry, a.fd, path, a.other_fd, other_path, a.flags); break;
    case io_opcode::unlink: io_uring_prep_unlinkat(&entry, a.fd, path, flags); break;
    case io_opcode::link: io_uring_prep_linkat(&entry, a.fd, path, a.other_fd, other_path, flags); break;
    case io_opcode::symlink: io_uring_prep_symlinkat(&entry, path, a.other_fd, other_path); break;
    case io_opcode::make_directory: io_uring_prep_mkdirat(&entry, a.fd, path, a.mode); break;
    case io_opcode::poll: io_uring_prep_poll_add(&entry, a.fd, a.flags); break;
    case io_opcode::nop: io_uring_prep_nop(&entry); break;
    case io_opcode::list:
    case io_opcode::call:
    case io_opcode::copy:
    case io_opcode::count: CW_ASSERT(false, "io_uring has no such operation");
    }
    if (a.fixed_file >= 0) {
        entry.fd = a.fixed_file;
        entry.flags |= IOSQE_FIXED_FILE;
    }
}

} // namespace corewire
