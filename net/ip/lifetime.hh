// When what a router says ends (RFC 4861 4.6.2, RFC 8106 5): so many seconds from now on; 0xffffffff are for ever.
#pragma once

#include <corewire/reactor/base/time.hh>

#include <chrono>
#include <cstdint>

namespace corewire {

inline time_point end_of_lifetime(time_point now, std::uint32_t seconds) noexcept {
    constexpr duration ten_years = std::chrono::hours{87'600}; // what stands for "for ever": a later advertisement can still end it
    return now + (seconds == UINT32_MAX ? ten_years : duration{std::chrono::seconds{seconds}});
}

} // namespace corewire
