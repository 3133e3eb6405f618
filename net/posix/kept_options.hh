// Socket options that are told again as they were set, and change nothing here: what scripts and programs set in passing.
// Pure functions of an option's level and name.
#pragma once

namespace corewire::posix {

bool is_kept(int level, int name) noexcept;
/// The others of them are flags.
bool is_kept_number(int level, int name) noexcept;
/// Else EINVAL.
bool may_be_kept(int level, int name, int n) noexcept;
/// What is told before it is set.
int first_of_kept(int level, int name) noexcept;

} // namespace corewire::posix
