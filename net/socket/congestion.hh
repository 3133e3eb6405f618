// Congestion control by name, for both providers of sockets. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace corewire {

enum class congestion_algorithm : std::uint8_t {
    standard, ///< what the provider was told (--congestion), or its own choice: CUBIC
    cubic,    ///< RFC 9438
    newreno,  ///< RFC 5681, 6582; Linux calls it "reno"
    dctcp,    ///< RFC 8257: for networks whose switches mark early; asks for ECN. With others on the path it takes more than its share
    bbr,      ///< draft-ietf-ccwg-bbr (BBRv3): paces by a model of the path; for long paths that lose by chance, and short queues
};

constexpr std::string_view name_of(congestion_algorithm a) noexcept {
    switch (a) {
    case congestion_algorithm::standard: return "standard";
    case congestion_algorithm::cubic: return "cubic";
    case congestion_algorithm::newreno: return "newreno";
    case congestion_algorithm::dctcp: return "dctcp";
    case congestion_algorithm::bbr: return "bbr";
    }
    return "?";
}

/// "cubic", "newreno" (or "reno", as Linux says), "dctcp", "bbr".
constexpr std::optional<congestion_algorithm> congestion_named(std::string_view name) noexcept {
    if (name == "reno") return congestion_algorithm::newreno;
    using enum congestion_algorithm;
    for (const auto a : {cubic, newreno, dctcp, bbr})
        if (name == name_of(a)) return a;
    return std::nullopt;
}

} // namespace corewire
