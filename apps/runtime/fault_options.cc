#include <corewire/apps/runtime/fault_options.hh>

#include <corewire/apps/runtime/setup_error.hh>

#include <charconv>
#include <fmt/format.h>
#include <optional>

namespace corewire {

namespace {

template <typename Number>
std::optional<Number> number(std::string_view text) {
    Number n{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return n;
}

/// 1/1000, or 0.001; between 0 and 1.
std::optional<double> chance(std::string_view text) {
    const std::size_t slash = text.find('/');
    std::optional<double> p;
    if (slash == std::string_view::npos) {
        p = number<double>(text);
    } else {
        const auto times = number<std::uint64_t>(text.substr(0, slash)), of = number<std::uint64_t>(text.substr(slash + 1));
        if (times && of && *of != 0) p = static_cast<double>(*times) / static_cast<double>(*of);
    }
    return p && *p >= 0 && *p <= 1 ? p : std::nullopt;
}

[[noreturn]] void refuse(std::string_view item, const char* expected) {
    throw setup_error(fmt::format("--faults: '{}' is not {}", item, expected));
}

struct chance_of {
    std::string_view name;
    double faults::*field;
};
constexpr chance_of chances[] = {
    {"drop", &faults::drop}, {"corrupt", &faults::corrupt}, {"duplicate", &faults::duplicate}, {"reorder", &faults::reorder}};

} // namespace

faulty_port::options parse_faults(std::string_view text) {
    faulty_port::options out;
    faults wanted;
    bool receive = true, transmit = true;
    while (!text.empty()) {
        const std::size_t comma = text.find(',');
        const std::string_view item = text.substr(0, comma);
        text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
        const std::size_t equals = item.find('=');
        const std::string_view name = item.substr(0, equals);
        const std::string_view value = equals == std::string_view::npos ? std::string_view{} : item.substr(equals + 1);
        bool known = false;
        for (const chance_of& each : chances) {
            if (name != each.name) continue;
            known = true;
            const std::optional<double> p = chance(value);
            if (!p) refuse(item, "a chance, like drop=1/1000 or drop=0.001");
            wanted.*each.field = *p;
        }
        if (name == "drop-every") {
            const auto n = number<std::uint64_t>(value);
            if (!n || *n == 0) refuse(item, "a count, like drop-every=1000");
            wanted.drop_every = *n;
        } else if (name == "seed") {
            const auto n = number<std::uint64_t>(value);
            if (!n) refuse(item, "a number, like seed=7");
            out.seed = *n;
        } else if (name == "on") {
            receive = value == "receive" || value == "both";
            transmit = value == "transmit" || value == "both";
            if (!receive && !transmit) refuse(item, "on=receive, on=transmit or on=both");
        } else if (!known) {
            refuse(item, "one of drop, corrupt, duplicate, reorder, drop-every, seed, on with a value, like drop=1/1000,seed=7");
        }
    }
    if (receive) out.on_receive = wanted;
    if (transmit) out.on_transmit = wanted;
    return out;
}

} // namespace corewire
