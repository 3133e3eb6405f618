#include <corewire/reactor/metrics/metric.hh>

#include <algorithm>

namespace corewire {

std::string metric_label(std::string_view name, std::string_view value) {
    std::string text(name);
    text += "=\"";
    for (const char c : value) {
        if (c == '\\' || c == '"') text += '\\';
        if (c == '\n') {
            text += "\\n";
        } else {
            // What is no printable ASCII character (a device's name may hold any byte) would not be a valid page of text.
            text += c < ' ' || c > '~' ? '?' : c;
        }
    }
    return text += '"';
}

std::string join_labels(std::string_view a, std::string_view b) {
    std::string joined(a);
    if (!a.empty() && !b.empty()) joined += ',';
    return joined += b;
}

bool valid_metric_name(std::string_view name) noexcept {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    if (name.empty() || name.size() > max_metric_name || !letter(name.front())) return false;
    return std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

std::string_view name_of(metric_kind kind) noexcept {
    switch (kind) {
    case metric_kind::counter: return "counter";
    case metric_kind::gauge: return "gauge";
    case metric_kind::histogram: return "histogram";
    }
    return "untyped";
}

} // namespace corewire
