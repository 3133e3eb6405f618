#include <corewire/reactor/topology/ranges.hh>

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace corewire {

std::string format_ranges(std::vector<unsigned> numbers) {
    std::ranges::sort(numbers);
    std::string text;
    for (std::size_t first = 0; first < numbers.size();) {
        std::size_t last = first;
        while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
        text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[first]);
        if (last != first) text += fmt::format("-{}", numbers[last]);
        first = last + 1;
    }
    return text;
}

std::optional<unsigned> parse_unsigned(std::string_view text, unsigned most) noexcept {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value > most) return std::nullopt;
    return value;
}

std::string_view trimmed(std::string_view text) noexcept {
    constexpr std::string_view blank = " \t\r\n";
    const std::size_t first = text.find_first_not_of(blank);
    if (first == text.npos) return {};
    return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

std::optional<std::vector<unsigned>> parse_ranges(std::string_view text) {
    text = trimmed(text);
    std::vector<bool> there; // grows to the largest number at most: overlapping ranges cost nothing more
    while (!text.empty()) {
        const std::size_t comma = text.find(',');
        const std::string_view item = text.substr(0, comma);
        const std::size_t dash = item.find('-');
        const auto first = parse_unsigned(item.substr(0, dash));
        const auto last = dash == item.npos ? first : parse_unsigned(item.substr(dash + 1));
        if (!first || !last || *last < *first) return std::nullopt;
        if (there.size() <= *last) there.resize(*last + 1);
        std::fill(there.begin() + *first, there.begin() + *last + 1, true);
        if (comma == text.npos) break;
        text.remove_prefix(comma + 1);
        if (text.empty()) return std::nullopt; // "1,"
    }
    std::vector<unsigned> numbers;
    for (unsigned n = 0; n < there.size(); ++n)
        if (there[n]) numbers.push_back(n);
    return numbers;
}

} // namespace corewire
