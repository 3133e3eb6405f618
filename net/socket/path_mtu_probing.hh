// When TCP looks for the largest packet that a path carries by itself, without ICMP (RFC 4821, RFC 8899). Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace corewire {

enum class path_mtu_probing : std::uint8_t {
    standard,   ///< what the stack was told (--mtu-probing), or black_hole
    off,        ///< only what ICMP says counts
    black_hole, ///< when large packets vanish (net.ipv4.tcp_mtu_probing=1)
    always,     ///< begins with small ones (net.ipv4.tcp_mtu_probing=2)
};

constexpr std::string_view name_of(path_mtu_probing p) noexcept {
    switch (p) {
    case path_mtu_probing::standard: return "standard";
    case path_mtu_probing::off: return "off";
    case path_mtu_probing::black_hole: return "black-hole";
    case path_mtu_probing::always: return "always";
    }
    return "?";
}

/// "off", "black-hole", "always".
constexpr std::optional<path_mtu_probing> path_mtu_probing_named(std::string_view name) noexcept {
    for (const auto p : {path_mtu_probing::off, path_mtu_probing::black_hole, path_mtu_probing::always})
        if (name == name_of(p)) return p;
    return std::nullopt;
}

} // namespace corewire
