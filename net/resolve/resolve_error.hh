// Why a name has no address: what getaddrinfo(3) says, as a std::error_code.
#pragma once

#include <netdb.h>
#include <system_error>

namespace corewire {

enum class resolve_error {
    no_such_name = EAI_NONAME, ///< nobody knows it; or it can't be a name
    no_address = -5,           ///< it exists, without an address of the family asked for (EAI_NODATA)
    try_again = EAI_AGAIN,     ///< no server answered
    no_servers = EAI_FAIL,     ///< there is nobody to ask
};

/// Its messages are gai_strerror(3)'s.
const std::error_category& resolve_category() noexcept;
std::error_code make_error_code(resolve_error e) noexcept;

} // namespace corewire

template <>
struct std::is_error_code_enum<corewire::resolve_error> : std::true_type {};
