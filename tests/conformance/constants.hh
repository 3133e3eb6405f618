// Names that scripts use for numbers: constants of the socket calls, errors, and fields of struct tcp_info.
#pragma once

#include <cstdint>
#include <string>

namespace corewire {
struct linux_tcp_info_fields;
}

namespace corewire::conformance {

/// A number, or names joined by |. Throws std::runtime_error for a name that is not known.
std::int64_t constant(const std::string& text);
std::int64_t info_field(const linux_tcp_info_fields& info, const std::string& name);

} // namespace corewire::conformance
