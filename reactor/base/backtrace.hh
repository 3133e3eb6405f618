// Names for addresses of this process's code, from the symbol tables and line tables of its own files (libdw): for reports of what
// a thread was doing. Slow (it reads files, it allocates): never on a shard.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace corewire {

/// One line for each frame: "function(arguments) at file.cc:12", or the address where nothing is known. The first address is where
/// the thread was; the others are return addresses, as backtrace(3) gives them.
std::vector<std::string> describe_frames(std::span<void* const> addresses);

} // namespace corewire
