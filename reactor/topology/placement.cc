#include <corewire/reactor/topology/placement.hh>

#include <corewire/reactor/topology/ranges.hh>

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace corewire {

namespace {

using namespace placement_limits;

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
    throw std::invalid_argument(fmt::format(text, std::forward<Args>(args)...));
}

/// What may be shown of a text that nobody has looked at: its beginning, without control characters.
std::string shown(std::string_view text) {
    std::string out{text.substr(0, 60)};
    std::ranges::replace_if(out, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
    return text.size() > 60 ? out + "..." : out;
}

std::vector<unsigned> parse_queues(std::string_view text, std::string_view whole) {
    std::vector<unsigned> queues;
    for (;;) {
        const std::size_t plus = text.find('+');
        const auto queue = parse_unsigned(text.substr(0, plus), most_queue_number);
        if (!queue) refuse("'{}' is not a shard: queue:{} is not a number of {} at most, or some with + between", shown(whole),
                           shown(text), most_queue_number);
        if (std::ranges::find(queues, *queue) != queues.end()) refuse("'{}' names queue {} twice", shown(whole), *queue);
        if (queues.size() == most_queues) refuse("'{}' names more than {} queues", shown(whole), most_queues);
        queues.push_back(*queue);
        if (plus == text.npos) return queues;
        text.remove_prefix(plus + 1);
    }
}

/// `key = "value"   # comment`, taken apart. Nothing: the line is empty or all comment.
struct line_parts {
    std::string_view key, value, comment;
};
std::optional<line_parts> take_apart(std::string_view line) {
    line = trimmed(line);
    if (line.empty() || line.front() == '#') return std::nullopt;
    const std::size_t equals = line.find('=');
    if (equals == line.npos) refuse("'{}' is not KEY = \"VALUE\"", shown(line));
    line_parts parts{trimmed(line.substr(0, equals)), {}, {}};
    std::string_view rest = trimmed(line.substr(equals + 1));
    if (rest.size() < 2 || rest.front() != '"') refuse("the value of {} wants to stand in \"quotes\"", shown(parts.key));
    const std::size_t end = rest.find('"', 1);
    if (end == rest.npos) refuse("the value of {} has no closing quote", shown(parts.key));
    parts.value = rest.substr(1, end - 1);
    rest = trimmed(rest.substr(end + 1));
    if (rest.empty()) return parts;
    if (rest.front() != '#') refuse("'{}' stands behind the value of {}", shown(rest), shown(parts.key));
    parts.comment = trimmed(rest.substr(1));
    return parts;
}

std::string interface_name(std::string_view text) {
    const bool good = !text.empty() && text.size() <= most_name && text != "." && text != ".." &&
                      std::ranges::all_of(text, [](unsigned char c) { return c > 0x20 && c < 0x7f && c != '/' && c != '"'; });
    if (!good) refuse("'{}' is not the name of an interface", shown(text));
    return std::string{text};
}

void add_line(placement& to, const line_parts& line) {
    if (line.key == "interface") {
        if (!to.interface.empty()) refuse("interface is given twice");
        to.interface = interface_name(line.value);
    } else if (line.key == "shard") {
        if (to.shards.size() == most_shards) refuse("there are more than {} shards", most_shards);
        shard_place shard = parse_shard(line.value);
        shard.why = line.comment;
        to.shards.push_back(std::move(shard));
    } else {
        refuse("'{}' is no key of a placement: those are interface and shard", shown(line.key));
    }
}

} // namespace

shard_place parse_shard(std::string_view text) {
    if (text.size() > most_line) refuse("a shard's place has {} characters at most", most_line);
    shard_place shard;
    bool cpu = false;
    for (std::string_view rest = text;;) {
        const std::size_t comma = rest.find(',');
        const std::string_view item = trimmed(rest.substr(0, comma));
        const std::size_t colon = item.find(':');
        const std::string_view key = item.substr(0, colon);
        const std::string_view value = colon == item.npos ? std::string_view{} : item.substr(colon + 1);
        const auto once = [&](bool given) {
            if (given) refuse("'{}' says {} twice", shown(text), key);
        };
        const auto number = [&] {
            const auto n = parse_unsigned(value);
            if (!n) refuse("'{}' is not a shard: {}:{} is not a number of {} at most", shown(text), key, shown(value), most_cpu_number);
            return *n;
        };
        if (key == "pu") {
            once(std::exchange(cpu, true));
            shard.cpu = number();
        } else if (key == "numa") {
            once(shard.numa_node.has_value());
            shard.numa_node = number();
        } else if (key == "queue") {
            once(!shard.queues.empty());
            shard.queues = parse_queues(value, text);
        } else {
            refuse("'{}' is not a shard: write pu:CPU, and if need be numa:NODE and queue:N, with commas", shown(text));
        }
        if (comma == rest.npos) break;
        rest.remove_prefix(comma + 1);
    }
    if (!cpu) refuse("'{}' does not say on which CPU: add pu:CPU", shown(text));
    return shard;
}

std::string to_string(const shard_place& shard) {
    std::string text = fmt::format("pu:{}", shard.cpu);
    if (shard.numa_node) text += fmt::format(",numa:{}", *shard.numa_node);
    for (std::size_t i = 0; i < shard.queues.size(); ++i) text += fmt::format("{}{}", i == 0 ? ",queue:" : "+", shard.queues[i]);
    return text;
}

placement parse_placement(std::string_view text) {
    if (text.size() > most_bytes) refuse("it has more than {} KiB", most_bytes >> 10);
    placement out;
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.size() > most_line) refuse("line {} has more than {} characters", number, most_line);
        if (std::ranges::any_of(line, [](unsigned char c) { return (c < 0x20 && c != '\t' && c != '\r') || c == 0x7f; }))
            refuse("line {} is not text", number);
        try {
            if (const auto parts = take_apart(line)) add_line(out, *parts);
        } catch (const std::invalid_argument& why) {
            refuse("line {}: {}", number, why.what());
        }
    }
    if (out.shards.empty()) refuse("it has no shard: a line like shard = \"pu:2,numa:0,queue:0\" for each");
    return out;
}

placement read_placement(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) refuse("{} cannot be opened: write one with `cw-topo plan >{}`", path, path);
    std::string text(most_bytes + 1, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (in.bad()) refuse("{} cannot be read", path);
    text.resize(static_cast<std::size_t>(in.gcount()));
    try {
        return parse_placement(text);
    } catch (const std::invalid_argument& why) {
        refuse("{} is not a placement: {}", path, why.what());
    }
}

std::string to_text(const placement& placement, const std::vector<std::string>& heading) {
    std::string text;
    for (const std::string& line : heading) text += line.empty() ? "#\n" : fmt::format("# {}\n", line);
    if (!placement.interface.empty()) text += fmt::format("interface = \"{}\"\n", placement.interface);
    std::size_t widest = 0;
    for (const shard_place& shard : placement.shards) widest = std::max(widest, to_string(shard).size());
    for (const shard_place& shard : placement.shards) {
        const std::string value = fmt::format("\"{}\"", to_string(shard));
        text += shard.why.empty() ? fmt::format("shard = {}\n", value)
                                  : fmt::format("shard = {:<{}}  # {}\n", value, widest + 2, shard.why);
    }
    return text;
}

} // namespace corewire
