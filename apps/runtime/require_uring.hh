// Whether this process may have an io_uring, asked for who cannot do without one, before the log says anything. Stateless.
#pragma once

#include <string_view>

namespace corewire {

/// Throws setup_error, "WHAT needs io_uring: <why not, and what to do>; or <otherwise>", when it may not. Makes a small ring and lets it
/// go.
void require_uring(std::string_view what, std::string_view otherwise);

} // namespace corewire
