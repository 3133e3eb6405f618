// The errno that Linux makes of an ICMP error (icmp_err_convert, icmpv6_err_convert). A pure function.
#pragma once

#include <corewire/net/ip/icmp.hh>

#include <cerrno>
#include <iterator>
#include <system_error>

namespace corewire {

/// What a connection is told that follows Linux's habits: by the code of the message, where others hear of its kind.
inline std::errc linux_error_of(const icmp_report& r) noexcept {
    using enum icmp_error_kind;
    if (r.kind == time_exceeded) return std::errc::host_unreachable;
    if (r.kind == parameter_problem) return std::errc{EPROTO};
    if (!r.local.is_v4()) { // of ICMPv6
        if (r.kind == protocol_unreachable) return std::errc{EPROTO};
        constexpr int of_code[] = {ENETUNREACH, EACCES, EHOSTUNREACH, EHOSTUNREACH, ECONNREFUSED, EACCES, EACCES};
        return std::errc{r.code < std::size(of_code) ? of_code[r.code] : EPROTO};
    }
    constexpr int of_code[] = {ENETUNREACH,  EHOSTUNREACH, ENOPROTOOPT, ECONNREFUSED, EMSGSIZE,     EOPNOTSUPP,
                               ENETUNREACH,  EHOSTDOWN,    ENONET,      ENETUNREACH,  EHOSTUNREACH, ENETUNREACH,
                               EHOSTUNREACH, EHOSTUNREACH, EHOSTUNREACH, EHOSTUNREACH};
    return std::errc{r.code < std::size(of_code) ? of_code[r.code] : EHOSTUNREACH};
}

} // namespace corewire
