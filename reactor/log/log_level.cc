#include <corewire/reactor/log/log_level.hh>

#include <algorithm>
#include <utility>

namespace corewire {

namespace {

constexpr std::array<std::string_view, 5> names{"debug", "info", "warn", "error", "off"};

bool is_module_name(std::string_view text) noexcept {
    return !text.empty() && text.size() <= log_levels::max_name && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    });
}

} // namespace

std::string_view name_of(log_level level) noexcept { return names[static_cast<std::size_t>(level)]; }

std::optional<log_level> parse_log_level(std::string_view text) noexcept {
    const auto found = std::find(names.begin(), names.end(), text);
    if (found == names.end()) return std::nullopt;
    return static_cast<log_level>(found - names.begin());
}

std::string log_levels::set(std::string_view text) {
    rules wanted;
    if (std::string wrong = read(text, wanted); !wrong.empty()) return wrong;
    const std::lock_guard lock(mutex_);
    rules_ = wanted;
    generation_.fetch_add(1, std::memory_order_relaxed);
    return {};
}

/// LEVEL or MODULE=LEVEL, by commas. What is said twice, or is not understood, is an error.
std::string log_levels::read(std::string_view text, rules& into) {
    bool others_given = false;
    for (bool more = true; more;) {
        const std::size_t comma = text.find(',');
        const std::string_view part = text.substr(0, comma);
        more = comma != text.npos;
        text.remove_prefix(more ? comma + 1 : text.size());
        const std::size_t equals = part.find('=');
        const std::string_view level_text = equals == part.npos ? part : part.substr(equals + 1);
        const auto level = parse_log_level(level_text);
        if (!level) return "'" + std::string(level_text.substr(0, 40)) + "' is none of debug, info, warn, error, off";
        if (equals == part.npos) {
            if (std::exchange(others_given, true)) return "two levels for all modules";
            into.others = *level;
            continue;
        }
        const std::string_view module = part.substr(0, equals);
        if (!is_module_name(module)) return "'" + std::string(module.substr(0, 40)) + "' is no name of a module";
        const auto end = into.modules.begin() + static_cast<std::ptrdiff_t>(into.count);
        if (std::any_of(into.modules.begin(), end, [&](const rule& r) { return r.name.data() == module; }))
            return "two levels for the module " + std::string(module);
        if (into.count == max_modules) return "levels for more than 32 modules";
        rule& added = into.modules[into.count++];
        std::copy(module.begin(), module.end(), added.name.begin());
        added.level = *level;
    }
    return {};
}

log_level log_levels::of(std::string_view module) const {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < rules_.count; ++i)
        if (rules_.modules[i].name.data() == module) return rules_.modules[i].level;
    return rules_.others;
}

std::string log_levels::text() const {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (std::size_t i = 0; i < rules_.count; ++i)
        all += std::string(rules_.modules[i].name.data()) + "=" + std::string(name_of(rules_.modules[i].level)) + ",";
    return all + std::string(name_of(rules_.others));
}

} // namespace corewire
