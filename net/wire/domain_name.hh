// Names in the lists of options: labels without compression (RFC 1035 3.1), as RFC 3646 4 and RFC 8106 5.2 have them.
#pragma once

#include <corewire/reactor/base/bounded_list.hh>
#include <corewire/reactor/base/bytes.hh>

namespace corewire::wire {

/// As text, without the dot at its end; fewer than 254 characters (RFC 1035 2.3.4).
using domain_name = bounded_list<char, 253>;

/// Of a label that a host can have (RFC 1123 2.1), and `_`.
constexpr bool is_of_label(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/// Takes the first name off `names`. False: there is none, as in what an option is filled up with, or none of such labels; what is
/// behind it is worth nothing then.
inline bool take_domain_name(byte_span& names, domain_name& out) noexcept {
    out = {};
    while (!names.empty()) {
        const std::size_t size = load_u8(names.data());
        if (size == 0) {
            names = names.subspan(1);
            return !out.empty();
        }
        if (size > 63 || names.size() < 1 + size) return false;
        if (!out.empty() && !out.push('.')) return false;
        for (const std::byte b : names.subspan(1, size)) {
            const char c = static_cast<char>(b);
            if (!is_of_label(c) || !out.push(c)) return false;
        }
        names = names.subspan(1 + size);
    }
    return false;
}

} // namespace corewire::wire
