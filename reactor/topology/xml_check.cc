#include <corewire/reactor/topology/xml_check.hh>

#include <corewire/reactor/topology/ranges.hh>

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace corewire {

namespace {

using namespace xml_limits;

/// The attributes of one tag: name="value" ... Nothing, or why not.
std::optional<std::string> refuse_attributes(std::string_view tag) {
    for (std::size_t at = 0; (at = tag.find('=', at)) != tag.npos;) {
        std::size_t name = at;
        while (name > 0 && tag[name - 1] != ' ' && tag[name - 1] != '\n' && tag[name - 1] != '\t') --name;
        if (at + 1 >= tag.size() || (tag[at + 1] != '"' && tag[at + 1] != '\'')) return "has an attribute without quotes";
        const std::size_t end = tag.find(tag[at + 1], at + 2);
        if (end == tag.npos) return "has an attribute without end";
        const std::string_view value = tag.substr(at + 2, end - at - 2);
        if (value.size() > most_value) return fmt::format("has an attribute of more than {} bytes", most_value);
        for (const auto& [number, most] : {std::pair{"os_index", most_os_index}, std::pair{"nbobjs", most_distances}})
            if (tag.substr(name, at - name) == number && !parse_unsigned(value, most))
                return fmt::format("has a value of {} that is no number of {} at most", number, most);
        at = end + 1;
    }
    return std::nullopt;
}

bool text_only(std::string_view text) {
    return std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 && c != '\n' && c != '\r' && c != '\t'; });
}

/// The end of the tag that starts at `from`: a '>' outside of quotes.
std::size_t end_of_tag(std::string_view text, std::size_t from) {
    char quote = 0;
    for (std::size_t at = from; at < text.size(); ++at) {
        if (quote != 0) {
            if (text[at] == quote) quote = 0;
        } else if (text[at] == '"' || text[at] == '\'') {
            quote = text[at];
        } else if (text[at] == '>') {
            return at;
        }
    }
    return text.npos;
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
            if ((at = text.find("-->", at)) == text.npos) return "ends inside a comment";
            continue;
        }
        const std::size_t end = end_of_tag(text, at);
        if (end == text.npos) return "ends inside a tag";
        const std::string_view tag = text.substr(at + 1, end - at - 1);
        at = end + 1;
        if (tag.starts_with('?')) continue;
        if (tag.starts_with('!')) { // <!DOCTYPE topology SYSTEM "hwloc2.dtd"> and nothing that defines anything
            if (!tag.starts_with("!DOCTYPE ") || tag.find('[') != tag.npos) return "defines entities of its own";
            continue;
        }
        if (tag.starts_with('/')) {
            if (depth == 0) return "closes what it has not opened";
            --depth;
            continue;
        }
        if (tag.starts_with("topology")) topology = true;
        if (tag.starts_with("object") && ++objects > most_objects)
            return fmt::format("has more than {} objects", most_objects);
        if (auto why = refuse_attributes(tag)) return why;
        if (!tag.ends_with('/') && ++depth > most_depth) return fmt::format("is nested more than {} deep", most_depth);
    }
    if (!topology) return "has no <topology>: write one with `cw-topo --xml FILE` or `lstopo FILE.xml`";
    if (depth != 0) return "ends before everything is closed";
    return std::nullopt;
}

} // namespace corewire
