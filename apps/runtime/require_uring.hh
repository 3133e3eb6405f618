// Whether this process may have an io_uring, asked before anything that cannot do without one is set up, and before the log says
// anything. Stateless.
#pragma once

#include <string>
#include <string_view>

namespace corewire {

/// Empty when it may; otherwise a sentence that says why not and what to do. Makes a small ring and lets it go.
std::string why_no_uring();

/// Throws setup_error, "WHAT needs io_uring: <why not, and what to do>; or <otherwise>", when it may not.
void require_uring(std::string_view what, std::string_view otherwise);

} // namespace corewire
