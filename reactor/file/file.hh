// file: a file of the disk, for coroutines. Start reading here.
//
//     cw::file log = co_await cw::file::open("/var/log/x", {.write = true, .create = true});
//     co_await log.write(bytes, 0);
//     co_await log.sync();                          // on the disk now
//     std::size_t n = co_await log.read(into, 0);   // may be short; 0 at the end
//     co_await log.close();                         // what close(2) says is not lost
//
// Belongs to the shard that opened it. Move-only. Every await takes a deadline and a stop token, and throws
// std::system_error with errno's code. Buffers are the caller's and live until the await returns, also when it fails: a wait
// that is cut short has taken its buffer back from the kernel first. Offsets and lengths are bytes.
#pragma once

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/file/file_status.hh>
#include <corewire/reactor/file/io_memory.hh>
#include <corewire/reactor/file/io_wait.hh>
#include <corewire/reactor/task/task.hh>

#include <memory>
#include <span>
#include <string>
#include <sys/uio.h>

namespace corewire {

struct open_options {
    bool read = true;
    bool write = false;
    bool create = false;    ///< when it is not there
    bool exclusive = false; ///< with create: EEXIST when it is there
    bool truncate = false;
    bool append = false;    ///< every write goes to the end, whatever its offset
    bool direct = false;    ///< O_DIRECT: past the page cache; buffers, offsets and lengths are aligned (file::alignment())
    bool durable = false;   ///< O_DSYNC: a write that has returned is on the disk
    mode_t permissions = 0644; ///< of a new file
};

class file {
public:
    file() = default;
    /// Takes an open descriptor.
    file(unique_fd fd, std::string name, bool direct = false);
    file(file&& other) noexcept;
    file& operator=(file&& other) noexcept;
    /// Closes at once, on this thread, and forgets what close(2) says: prefer close().
    ~file();

    static task<file> open(std::string path, open_options how = {}, wait_limits limits = {});
    /// For reading and writing, empty.
    static task<file> create(std::string path, mode_t permissions = 0644, wait_limits limits = {});

    /// What is there, at most into.size(): may be fewer; 0 at the end of the file.
    io_awaiter<std::size_t> read(io_piece into, std::uint64_t offset, wait_limits limits = {}) const noexcept {
        return {bytes_at(io_opcode::read, into.bytes.data(), into.bytes.size(), offset, into.memory_index), limits, name_.get()};
    }
    io_awaiter<std::size_t> read(mutable_byte_span into, std::uint64_t offset, wait_limits limits = {}) const noexcept {
        return read(io_piece{into}, offset, limits);
    }
    /// Fills `into`; fewer only at the end of the file.
    task<std::size_t> read_exactly(io_piece into, std::uint64_t offset, wait_limits limits = {}) const;
    /// One write(2): may be short. EINTR is retried.
    io_awaiter<std::size_t> write_some(byte_span from, std::uint64_t offset, wait_limits limits = {},
                                       int memory_index = -1) const noexcept {
        return {bytes_at(io_opcode::write, const_cast<std::byte*>(from.data()), from.size(), offset, memory_index), limits,
                name_.get()};
    }
    /// All of it. When it throws, how much has been written is unknown, as with write(2) of several pages.
    task<> write(byte_span from, std::uint64_t offset, wait_limits limits = {}) const;
    task<> write(io_piece from, std::uint64_t offset, wait_limits limits = {}) const;
    task<> write(std::string_view text, std::uint64_t offset, wait_limits limits = {}) const;
    /// readv, writev: the pieces in order; may be short.
    io_awaiter<std::size_t> read_vectored(std::span<const iovec> into, std::uint64_t offset, wait_limits limits = {}) const noexcept {
        return {bytes_at(io_opcode::read_vectored, const_cast<iovec*>(into.data()), into.size(), offset, -1), limits, name_.get()};
    }
    io_awaiter<std::size_t> write_vectored(std::span<const iovec> from, std::uint64_t offset, wait_limits limits = {}) const noexcept {
        return {bytes_at(io_opcode::write_vectored, const_cast<iovec*>(from.data()), from.size(), offset, -1), limits, name_.get()};
    }

    /// On the disk when it returns: fsync, fdatasync (without times). An error means that acknowledged writes may be lost,
    /// and the kernel will not say it twice (fsync(2)).
    io_awaiter<void> sync(wait_limits limits = {}) const noexcept { return {of(io_opcode::sync), limits, name_.get()}; }
    io_awaiter<void> sync_data(wait_limits limits = {}) const noexcept;
    /// Room on the disk, and size, up to offset + length. `flags`: FALLOC_FL_*.
    io_awaiter<void> allocate(std::uint64_t offset, std::uint64_t length, int flags = 0, wait_limits limits = {}) const noexcept;
    io_awaiter<void> truncate(std::uint64_t size, wait_limits limits = {}) const noexcept;
    /// POSIX_FADV_*; length 0: to the end.
    io_awaiter<void> advise(int advice, std::uint64_t offset = 0, std::uint64_t length = 0, wait_limits limits = {}) const noexcept;
    task<file_status> status(wait_limits limits = {}) const;
    task<std::uint64_t> size(wait_limits limits = {}) const;

    /// Says what close(2) says: on some file systems the last chance to hear of a failed write. The file is closed in any
    /// case. No operation is under way.
    task<> close(wait_limits limits = {});

    /// Registers the descriptor with the shard's ring: a little less work an operation. False: the kernel had no room.
    bool register_with_ring();
    bool registered() const noexcept { return fixed_file_ >= 0; }
    /// Opened with O_DIRECT: buffers, offsets and lengths are multiples of alignment().
    bool direct() const noexcept { return direct_; }
    std::size_t alignment() const noexcept { return alignment_; }
    int descriptor() const noexcept { return fd_.get(); }
    const std::string& name() const noexcept { return *name_; }
    explicit operator bool() const noexcept { return static_cast<bool>(fd_); }

    /// A request for the file's own use: reading ahead, writing behind.
    io_arguments bytes_at(io_opcode opcode, void* address, std::uint64_t length, std::uint64_t offset, int memory_index) const noexcept {
        io_arguments a = of(opcode);
        a.address = address;
        a.length = length;
        a.offset = offset;
        a.memory_index = static_cast<std::int16_t>(memory_index);
        return a;
    }

private:
    io_arguments of(io_opcode opcode) const noexcept {
        io_arguments a;
        a.opcode = opcode;
        a.fd = fd_.get();
        a.fixed_file = fixed_file_;
        return a;
    }
    void unregister() noexcept;

    unique_fd fd_;
    int fixed_file_ = -1;
    bool direct_ = false;
    std::uint32_t alignment_ = 1;
    std::unique_ptr<std::string> name_; ///< at an address of its own: what waits refers to it
};

} // namespace corewire
