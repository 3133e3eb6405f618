// Socket options that are told again as they were set, and change nothing here: what scripts and programs set in passing; and what setting
// any option to NULL comes to. Pure functions of an option's level and name.
#pragma once

#include <corewire/net/posix/outcome.hh>

#include <optional>
#include <sys/socket.h>

namespace corewire::posix {

bool is_kept(int level, int name) noexcept;
/// The others of them are flags.
bool is_kept_number(int level, int name) noexcept;
/// What is to be kept of a value of that size; nothing: EINVAL.
std::optional<int> kept_value(int level, int name, const void* value, socklen_t size) noexcept;
/// Else EINVAL.
bool may_be_kept(int level, int name, int n) noexcept;
/// What is told before it is set.
int first_of_kept(int level, int name) noexcept;

/// What Linux says to a value of `size` bytes, not 0, at NULL: the size is looked at first. 0: it takes it for the number 0.
outcome set_to_null(int family, int level, int name, socklen_t size) noexcept;

} // namespace corewire::posix
