#include <corewire/reactor/file/paths.hh>

#include <corewire/reactor/file/file.hh>

#include <cstdio>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>

namespace corewire::fs {

namespace {

io_arguments on_path(io_opcode opcode, std::string& path, unsigned flags = 0) noexcept {
    io_arguments a;
    a.opcode = opcode;
    a.fd = AT_FDCWD;
    a.address = path.data();
    a.flags = flags;
    return a;
}

io_arguments on_paths(io_opcode opcode, std::string& from, std::string& to, unsigned flags = 0) noexcept {
    io_arguments a = on_path(opcode, from, flags);
    a.other_fd = AT_FDCWD;
    a.other = to.data();
    return a;
}

} // namespace

task<file_status> status(std::string path, bool follow, wait_limits limits) {
    struct statx answer {};
    io_arguments a = on_path(io_opcode::stat, path, follow ? 0 : AT_SYMLINK_NOFOLLOW);
    a.mode = status_mask();
    a.other = &answer;
    co_await io_awaiter<void>(a, limits, &path);
    co_return status_of(answer);
}

task<> rename(std::string from, std::string to, bool replace, wait_limits limits) {
    co_await io_awaiter<void>(on_paths(io_opcode::rename, from, to, replace ? 0 : RENAME_NOREPLACE), limits, &from);
}

task<> unlink(std::string path, wait_limits limits) {
    co_await io_awaiter<void>(on_path(io_opcode::unlink, path), limits, &path);
}

task<> remove_directory(std::string path, wait_limits limits) {
    co_await io_awaiter<void>(on_path(io_opcode::unlink, path, AT_REMOVEDIR), limits, &path);
}

task<> link(std::string existing, std::string name, wait_limits limits) {
    co_await io_awaiter<void>(on_paths(io_opcode::link, existing, name), limits, &name);
}

task<> symlink(std::string target, std::string name, wait_limits limits) {
    co_await io_awaiter<void>(on_paths(io_opcode::symlink, target, name), limits, &name);
}

task<> make_directory(std::string path, mode_t permissions, wait_limits limits) {
    io_arguments a = on_path(io_opcode::make_directory, path);
    a.mode = permissions;
    co_await io_awaiter<void>(a, limits, &path);
}

task<> sync_directory(std::string path, wait_limits limits) {
    file directory = co_await file::open(std::move(path), {}, limits);
    co_await directory.sync(limits);
    co_await directory.close(limits);
}

} // namespace corewire::fs
