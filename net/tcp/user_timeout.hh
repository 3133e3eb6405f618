// The user timeout option (RFC 5482): a connection tells its peer for how long it will bear that nothing is acknowledged, so
// that the other end need not give up sooner. What is agreed on is section 3.1's
//     USER_TIMEOUT = min(U_LIMIT, max(ADV_UTO, REMOTE_UTO, L_LIMIT))
// Off unless parameters::advertised_user_timeout is set. Pure functions; opening.cc and settings.cc apply them.
#pragma once

#include <corewire/net/tcp/parameters.hh>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace corewire::tcp {

/// The option's field: seconds, or minutes if the highest bit is set; at least one second, for zero is not to be sent.
inline std::uint16_t user_timeout_field(duration timeout) noexcept {
    constexpr std::int64_t most = 0x7fff;
    const std::int64_t seconds = std::max<std::int64_t>(std::chrono::ceil<std::chrono::seconds>(timeout).count(), 1);
    if (seconds <= most) return static_cast<std::uint16_t>(seconds);
    return static_cast<std::uint16_t>(0x8000 | std::min((seconds + 59) / 60, most));
}

/// What a field means; zero where it means nothing (RFC 5482 3: then the option is ignored).
inline duration user_timeout_of(std::uint16_t field) noexcept {
    const std::int64_t number = field & 0x7fff;
    if ((field & 0x8000) != 0) return std::chrono::minutes{number};
    return std::chrono::seconds{number};
}

/// USER_TIMEOUT, when the peer has told `remote`.
inline duration agreed_user_timeout(const parameters& p, duration remote) noexcept {
    return std::min(p.largest_user_timeout, std::max({p.advertised_user_timeout, remote, p.least_user_timeout}));
}

} // namespace corewire::tcp
