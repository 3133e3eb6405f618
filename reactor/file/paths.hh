// What one does to names rather than to open files: the system calls of the same names, for coroutines. Paths are relative to
// the working directory. Each throws std::system_error with errno's code and names its path.
#pragma once

#include <corewire/reactor/file/file_status.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/waiter.hh>

#include <string>

namespace corewire::fs {

/// Follows symbolic links unless told otherwise.
task<file_status> status(std::string path, bool follow = true, wait_limits limits = {});
/// Replaces `to` in one step, if it is there. With `replace` false: EEXIST then.
task<> rename(std::string from, std::string to, bool replace = true, wait_limits limits = {});
task<> unlink(std::string path, wait_limits limits = {});
task<> remove_directory(std::string path, wait_limits limits = {});
/// Another name for the same file.
task<> link(std::string existing, std::string name, wait_limits limits = {});
task<> symlink(std::string target, std::string name, wait_limits limits = {});
task<> make_directory(std::string path, mode_t permissions = 0755, wait_limits limits = {});
/// What was done to the names in a directory is on the disk afterwards: a new file's name is not until then.
task<> sync_directory(std::string path, wait_limits limits = {});

} // namespace corewire::fs
