#include <corewire/reactor/file/file.hh>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <utility>

namespace corewire {

namespace {

constexpr std::uint32_t usual_alignment = 4096; ///< enough for every disk, where the kernel does not say

int flags_of(const open_options& how) noexcept {
    int flags = O_CLOEXEC | (how.read && how.write ? O_RDWR : how.write ? O_WRONLY : O_RDONLY);
    if (how.create) flags |= O_CREAT;
    if (how.exclusive) flags |= O_EXCL;
    if (how.truncate) flags |= O_TRUNC;
    if (how.append) flags |= O_APPEND;
    if (how.direct) flags |= O_DIRECT;
    if (how.durable) flags |= O_DSYNC;
    return flags;
}

/// What the kernel said of the alignment, in one number for memory and offsets.
std::uint32_t alignment_of(const file_status& s) noexcept {
    const std::uint32_t said = std::max(s.direct_memory_alignment, s.direct_offset_alignment);
    return said != 0 ? said : usual_alignment;
}

} // namespace

file::file(unique_fd fd, std::string name, bool direct)
    : fd_(std::move(fd)), direct_(direct), alignment_(direct ? usual_alignment : 1),
      name_(std::make_unique<std::string>(std::move(name))) {}

file::file(file&& other) noexcept
    : fd_(std::move(other.fd_)), fixed_file_(std::exchange(other.fixed_file_, -1)), direct_(other.direct_),
      alignment_(other.alignment_), name_(std::move(other.name_)) {}

file& file::operator=(file&& other) noexcept {
    if (this == &other) return *this;
    unregister();
    fd_ = std::move(other.fd_);
    fixed_file_ = std::exchange(other.fixed_file_, -1);
    direct_ = other.direct_;
    alignment_ = other.alignment_;
    name_ = std::move(other.name_);
    return *this;
}

file::~file() { unregister(); }

void file::unregister() noexcept {
    if (fixed_file_ >= 0) reactor::current().files().unregister_file(std::exchange(fixed_file_, -1));
}

bool file::register_with_ring() {
    if (fixed_file_ < 0) fixed_file_ = reactor::current().files().register_file(fd_.get());
    return registered();
}

task<file> file::open(std::string path, open_options how, wait_limits limits) {
    io_arguments a;
    a.opcode = io_opcode::open;
    a.fd = AT_FDCWD;
    a.address = path.data();
    a.flags = static_cast<std::uint32_t>(flags_of(how));
    a.mode = how.permissions;
    const int fd = co_await io_awaiter<int>(a, limits, &path);
    file made(unique_fd{fd}, std::move(path), how.direct);
    if (how.direct) {
        const file_status known = co_await made.status(limits);
        made.alignment_ = alignment_of(known);
    }
    co_return made;
}

task<file> file::create(std::string path, mode_t permissions, wait_limits limits) {
    return open(std::move(path), {.write = true, .create = true, .truncate = true, .permissions = permissions}, limits);
}

task<std::size_t> file::read_exactly(io_piece into, std::uint64_t offset, wait_limits limits) const {
    std::size_t done = 0;
    while (done < into.bytes.size()) {
        const io_piece rest{into.bytes.subspan(done), into.memory_index};
        const std::size_t n = co_await read(rest, offset + done, limits);
        if (n == 0) break;
        done += n;
        if (direct_ && done % alignment_ != 0) break; // the file's odd end
    }
    co_return done;
}

task<> file::write(io_piece from, std::uint64_t offset, wait_limits limits) const {
    byte_span rest = from.bytes;
    while (!rest.empty()) {
        const std::size_t n = co_await write_some(rest, offset, limits, from.memory_index);
        if (n == 0) throw std::system_error(EIO, std::generic_category(), "write of '" + *name_ + "' wrote nothing");
        rest = rest.subspan(n);
        offset += n;
    }
}

task<> file::write(byte_span from, std::uint64_t offset, wait_limits limits) const {
    return write(io_piece{{const_cast<std::byte*>(from.data()), from.size()}}, offset, limits);
}

task<> file::write(std::string_view text, std::uint64_t offset, wait_limits limits) const {
    return write(std::as_bytes(std::span{text}), offset, limits);
}

io_awaiter<void> file::sync_data(wait_limits limits) const noexcept {
    io_arguments a = of(io_opcode::sync);
    a.flags = io_arguments::sync_data;
    return {a, limits, name_.get()};
}

io_awaiter<void> file::allocate(std::uint64_t offset, std::uint64_t length, int flags, wait_limits limits) const noexcept {
    io_arguments a = bytes_at(io_opcode::allocate, nullptr, length, offset, -1);
    a.flags = static_cast<std::uint32_t>(flags);
    return {a, limits, name_.get()};
}

io_awaiter<void> file::truncate(std::uint64_t size, wait_limits limits) const noexcept {
    return {bytes_at(io_opcode::truncate, nullptr, size, 0, -1), limits, name_.get()};
}

io_awaiter<void> file::advise(int advice, std::uint64_t offset, std::uint64_t length, wait_limits limits) const noexcept {
    io_arguments a = bytes_at(io_opcode::advise, nullptr, length, offset, -1);
    a.flags = static_cast<std::uint32_t>(advice);
    return {a, limits, name_.get()};
}

task<file_status> file::status(wait_limits limits) const {
    struct statx answer {};
    char no_path[] = "";
    io_arguments a = of(io_opcode::stat);
    a.fixed_file = -1; // paths are relative to a plain descriptor
    a.address = no_path;
    a.flags = AT_EMPTY_PATH;
    a.mode = status_mask();
    a.other = &answer;
    co_await io_awaiter<void>(a, limits, name_.get());
    co_return status_of(answer);
}

task<std::uint64_t> file::size(wait_limits limits) const {
    const file_status known = co_await status(limits);
    co_return known.size;
}

/// The number is given up first, and closed exactly once: by the kernel, or here when the wait ended before the kernel was
/// asked, or by the wait's destructor (io_wait::abandon).
task<> file::close(wait_limits limits) {
    if (!fd_) throw std::system_error(EBADF, std::generic_category(), "close of a file that is not open");
    unregister();
    io_arguments a = of(io_opcode::close);
    fd_.release();
    io_attempt closing(a, limits, name_.get());
    const int rc = co_await closing;
    if (rc == -ECANCELED || closing.cut_short()) ::close(a.fd);
    if (rc < 0) throw std::system_error(-rc, std::generic_category(), "close of '" + *name_ + "'");
}

} // namespace corewire
