// The errno that FreeBSD makes of an ICMP error (icmp_errmap(), icmp6_errmap()), and whether that ends an attempt to open (icmp_may_rst).
// A pure function.
#pragma once

#include <corewire/net/ip/icmp.hh>

#include <system_error>

namespace corewire {

struct freebsd_error {
    std::errc what{};     ///< none: the message is nothing to it
    bool refuses = false; ///< a connection in SYN-SENT ends
};

/// What a connection is told that follows FreeBSD's habits: by the code of the message, where others hear of its kind.
inline freebsd_error freebsd_error_of(const icmp_report& r) noexcept {
    using enum icmp_error_kind;
    constexpr freebsd_error nothing, refused{std::errc::connection_refused, true}, no_way{std::errc::host_unreachable, false};
    constexpr freebsd_error bad_header{std::errc::no_protocol_option, false};
    const bool four = r.local.is_v4();
    switch (r.kind) {
    case protocol_unreachable:
    case port_unreachable: return refused;
    case prohibited: return four || r.code == 1 ? refused : nothing;
    case time_exceeded: return r.code == 0 ? freebsd_error{std::errc::host_unreachable, true} : nothing;
    case parameter_problem: return r.code <= (four ? 1 : 2) ? bad_header : nothing;
    case network_unreachable:
    case host_unreachable:
        if (four) return r.code <= 15 ? no_way : nothing;
        return r.code == 0 || r.code == 3 ? no_way : r.code == 2 ? bad_header : nothing;
    default: return nothing;
    }
}

} // namespace corewire
