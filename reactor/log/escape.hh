// Text that may have come from a peer, made safe to show: on a terminal, and in a file that is read line by line.
#pragma once

#include <string>
#include <string_view>

namespace corewire {

/// Printable ASCII stays. A control character, a backslash and every byte that is not ASCII become \n, \r, \t, \\ or \xNN, so that
/// no text can end its line, move a cursor, or look like another.
std::string escape_for_log(std::string_view text);

} // namespace corewire
