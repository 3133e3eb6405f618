// Why a parser in net/wire refused its bytes. One small enum for every header, so that the input path can test
// `!= none` once and index its drop counters with the value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>

namespace corewire::wire {

enum class parse_error : std::uint8_t {
    none = 0,          ///< the bytes are a well-formed header; the view that was passed in has been set
    truncated,         ///< fewer bytes than the fixed header needs, or than a length field promises
    bad_version,       ///< the version field is not this protocol's
    bad_header_length, ///< IHL or data offset below its minimum, or beyond the packet
    bad_length,        ///< a length field that contradicts the header it stands in
    bad_option,        ///< an option whose length field breaks the walk over the options
    bad_value,         ///< a field holds a value that the RFC forbids here
    unsupported,       ///< well formed, but of a kind that this parser doesn't take (ARP for something else than IPv4)
};
/// One more than the last value: the size of a table indexed by parse_error.
inline constexpr std::size_t parse_error_count = 8;

constexpr std::string_view to_string(parse_error e) noexcept {
    switch (e) {
    case parse_error::none:
        return "none";
    case parse_error::truncated:
        return "truncated";
    case parse_error::bad_version:
        return "bad version";
    case parse_error::bad_header_length:
        return "bad header length";
    case parse_error::bad_length:
        return "bad length";
    case parse_error::bad_option:
        return "bad option";
    case parse_error::bad_value:
        return "bad value";
    case parse_error::unsupported:
        return "unsupported";
    }
    return "unknown";
}
std::ostream& operator<<(std::ostream& out, parse_error e);

} // namespace corewire::wire
