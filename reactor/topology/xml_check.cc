#include <corewire/reactor/topology/xml_check.hh>

#include <corewire/reactor/topology/ranges.hh>

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace corewire {

namespace {

using namespace xml_limits;

constexpr std::string_view blanks = " \t\r\n";

/// Whether there were any at the front.
bool skip_blanks(std::string_view& rest) {
    const std::size_t count = std::min(rest.find_first_not_of(blanks), rest.size());
    rest.remove_prefix(count);
    return count != 0;
}

std::string_view take_name(std::string_view& rest) {
    const auto part = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; };
    const auto count = static_cast<std::size_t>(std::ranges::find_if_not(rest, part) - rest.begin());
    const std::string_view name = rest.substr(0, count);
    rest.remove_prefix(count);
    return name;
}

/// What is behind a tag's name: blanks and name="value", again and again. Nothing, or why not.
std::optional<std::string> refuse_attributes(std::string_view rest) {
    for (;;) {
        const bool apart = skip_blanks(rest);
        if (rest.empty()) return std::nullopt;
        const std::string_view name = take_name(rest);
        if (!apart || name.empty() || !rest.starts_with("=\"")) return "has an attribute that is not name=\"value\"";
        rest.remove_prefix(2);
        const std::size_t end = rest.find('"');
        if (end == rest.npos) return "has an attribute without end";
        const std::string_view value = rest.substr(0, end);
        rest.remove_prefix(end + 1);
        if (value.size() > most_value) return fmt::format("has an attribute of more than {} bytes", most_value);
        for (const auto& [number, most] : {std::pair{"os_index", most_os_index}, std::pair{"nbobjs", most_distances}})
            if (name == number && !parse_unsigned(value, most))
                return fmt::format("has a value of {} that is no number of {} at most", number, most);
    }
}

/// <?xml ...?> and <!DOCTYPE ...> as hwloc writes them. hwloc skips the line of one unread, and libxml2 obeys it: of what else could
/// stand there (an encoding, entities, a second tag) each would see something different.
bool is_header(std::string_view line) {
    line = line.substr(0, line.find_last_not_of(blanks) + 1);
    for (const std::string_view known : {R"(<?xml version="1.0"?>)", R"(<?xml version="1.0" encoding="UTF-8"?>)",
                                         R"(<?xml version='1.0' encoding='UTF-8'?>)"})
        if (line == known) return true;
    constexpr std::string_view begin = R"(<!DOCTYPE topology SYSTEM ")", end = R"(.dtd">)";
    if (line.size() < begin.size() + end.size() || !line.starts_with(begin) || !line.ends_with(end)) return false;
    line.remove_prefix(begin.size());
    line.remove_suffix(end.size());
    return take_name(line) != "" && line.empty();
}

bool text_only(std::string_view text) {
    return std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 && c != '\n' && c != '\r' && c != '\t'; });
}

} // namespace

std::optional<std::string> refuse_xml(std::string_view text) {
    if (text.size() > most_bytes) return fmt::format("has more than {} MiB", most_bytes >> 20);
    if (!text_only(text)) return "is not text";
    std::size_t objects = 0;
    std::size_t depth = 0;
    bool topology = false;
    for (std::size_t at = 0; (at = text.find('<', at)) != text.npos;) {
        if (text.substr(at).starts_with("<!--")) {
            if ((at = text.find("-->", at + 4)) == text.npos) return "ends inside a comment";
            continue;
        }
        if (text.substr(at).starts_with("<?") || text.substr(at).starts_with("<!")) {
            const std::size_t line_end = std::min(text.find('\n', at), text.size());
            if (topology || (at != 0 && text[at - 1] != '\n') || !is_header(text.substr(at, line_end - at)))
                return "has a <? or <! that is no heading as hwloc writes it, in a line of its own";
            at = line_end;
            continue;
        }
        const std::size_t end = text.find('>', at); // in a value stands &gt;
        if (end == text.npos) return "ends inside a tag";
        std::string_view tag = text.substr(at + 1, end - at - 1);
        at = end + 1;
        if (tag.find('<') != tag.npos) return "has a tag inside a tag";
        const bool closes = tag.starts_with('/');
        const bool closed = !closes && tag.ends_with('/');
        if (closes) tag.remove_prefix(1);
        if (closed) tag.remove_suffix(1);
        const std::string_view name = take_name(tag);
        if (name.empty()) return "has a tag without a name";
        if (closes) {
            if (tag.find_first_not_of(blanks) != tag.npos) return "has a closing tag with more than a name";
            if (depth == 0) return "closes what it has not opened";
            --depth;
            continue;
        }
        if (name == "topology") topology = true;
        if (name == "object" && ++objects > most_objects) return fmt::format("has more than {} objects", most_objects);
        if (auto why = refuse_attributes(tag)) return why;
        if (!closed && ++depth > most_depth) return fmt::format("is nested more than {} deep", most_depth);
    }
    if (!topology) return "has no <topology>: write one with `cw-topo --xml FILE` or `lstopo FILE.xml`";
    if (depth != 0) return "ends before everything is closed";
    return std::nullopt;
}

} // namespace corewire
