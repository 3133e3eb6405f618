// Files and words that others have written: a metrics page of another process, hosts(5), names and addresses, lists of CPUs and of ports,
// the XML of a machine, levels of the log, faults, and what goes to the log.
//
// What must hold: what was taken is within its bounds, is text where it says so, and survives being written and read again.
#pragma once

#include <corewire/apps/runtime/fault_options.hh>
#include <corewire/apps/runtime/setup_error.hh>
#include <corewire/net/port/lent_ports.hh>
#include <corewire/net/resolve/named_address.hh>
#include <corewire/net/resolve/resolver_config.hh>
#include <corewire/net/socket/address.hh>
#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/log/escape.hh>
#include <corewire/reactor/log/log_level.hh>
#include <corewire/reactor/metrics/page_layout.hh>
#include <corewire/reactor/metrics/page_reader.hh>
#include <corewire/reactor/topology/ranges.hh>
#include <corewire/reactor/topology/xml_check.hh>

#include "decisions.hh"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace file_fuzz {

using namespace corewire;

inline bool printable(std::string_view text) {
    return std::ranges::all_of(text, [](unsigned char c) { return c >= ' ' && c <= '~'; });
}

/// A page of one shard that is right but for what the input changes: places in its tables, and what is put there.
inline void metrics_page(byte_span input) {
    struct give_back {
        void operator()(std::byte* p) const noexcept { std::free(p); }
    };
    constexpr std::size_t size = page::size_for(1);
    // Made once, since it has some MiB, in a block of exactly its size; what was changed is changed back.
    static const std::unique_ptr<std::byte, give_back> whole(static_cast<std::byte*>(std::calloc(size, 1)));
    static std::vector<std::pair<std::size_t, std::size_t>> changed;
    std::byte* const at = whole.get();
    const auto put = [&](std::size_t where, byte_span bytes) {
        const std::size_t n = std::min(bytes.size(), size - std::min(where, size));
        if (n == 0) return;
        std::memcpy(at + where, bytes.data(), n);
        changed.emplace_back(where, n);
    };
    const auto put_struct = [&](std::size_t where, const auto& value) { put(where, std::as_bytes(std::span(&value, 1))); };
    page::header head;
    head.magic = page::magic;
    head.version = page::version;
    head.header_size = page::header_size;
    head.section_size = page::section_size;
    head.shards = 1;
    put_struct(0, head);
    fuzz::decisions in(input);
    const std::size_t section = page::header_size;
    page::section_header told;
    told.series_count = in.byte() % 4;
    told.row_count = in.byte() % 4;
    put_struct(section, told);
    put(section + page::strings_at, std::as_bytes(std::span(std::string_view("corewire_name"))));
    for (std::uint32_t i = 0; i < told.series_count; ++i) {
        page::series s;
        s.name_size = 13;
        s.live = 1;
        put_struct(section + page::series_at + i * sizeof s, s);
    }
    while (!in.done()) {
        constexpr std::size_t tables[] = {0, page::header_size, page::header_size + page::rows_at, page::header_size + page::series_at,
                                          page::header_size + page::values_at, page::header_size + page::strings_at};
        const std::uint8_t which = in.byte();
        const std::size_t where = tables[which % std::size(tables)] + in.byte() + (which & 128 ? std::size_t{in.word()} * 4 : 0);
        put(where, in.bytes(in.byte() % 17u));
    }
    const std::size_t given = in.byte() == 1 ? size - 1 : size;
    page_report out;
    if (parse_page({at, given}, out) == page_error::none) {
        CW_ASSERT(out.sections.size() <= page::max_shards && printable(out.program) && printable(out.network), "a page that is not text");
        for (const section_report& s : out.sections) {
            CW_ASSERT(s.series.size() <= page::series_capacity && s.rows.size() <= page::row_capacity, "more than fits");
            for (const series_report& each : s.series) {
                CW_ASSERT(printable(each.name) && printable(each.labels), "a series that is not text");
                CW_ASSERT(each.name.size() <= max_metric_name && each.labels.size() <= max_metric_labels, "a text without a bound");
                CW_ASSERT(each.values.size() == 1 || each.kind == metric_kind::histogram, "a number with buckets");
            }
        }
    }
    for (const auto& [where, n] : changed) std::memset(at + where, 0, n);
    changed.clear();
}

inline bool is_chance(double p) noexcept { return p >= 0 && p <= 1; }

/// What command lines and the kernel's settings say.
inline void options(std::string_view text) {
    try {
        const faulty_port::options o = parse_faults(text);
        for (const faults& f : {o.on_receive, o.on_transmit})
            CW_ASSERT(is_chance(f.drop) && is_chance(f.corrupt) && is_chance(f.duplicate) && is_chance(f.reorder), "a chance beyond 1");
    } catch (const setup_error& why) {
        CW_ASSERT(*why.what() != '\0', "a refusal without a reason");
    }
    try {
        const named_address a = named_address::parse(text);
        CW_ASSERT(!a.host.empty() && a.host.size() <= 255 && printable(a.host), "a host that is no text");
        const bool six = a.host.find(':') != std::string::npos;
        const named_address again = named_address::parse((six ? "[" + a.host + "]" : a.host) + ":" + std::to_string(a.port));
        CW_ASSERT(again.host == a.host && again.port == a.port, "a host that changed");
    } catch (const std::invalid_argument& why) {
        CW_ASSERT(*why.what() != '\0', "a refusal without a reason");
    }
    log_levels levels, again;
    const std::string before = levels.text();
    if (levels.set(text).empty()) CW_ASSERT(again.set(levels.text()).empty() && again.text() == levels.text(), "levels that changed");
    else CW_ASSERT(levels.text() == before, "levels that were refused, and count");
    const port_range range = parse_port_range(text);
    CW_ASSERT(range.first <= range.last, "a range that ends before it begins");
    const port_set ports = parse_port_list(text);
    if (const std::size_t many = ports.count(); many != 0 && many <= 64) {
        std::string list;
        for (std::size_t n = ports._Find_first(); n < ports.size(); n = ports._Find_next(n)) list += std::to_string(n) + ",";
        list.pop_back();
        CW_ASSERT(parse_port_list(list) == ports, "a list of ports that changed");
    }
    if (const auto prefix = ipv6_prefix::parse(text)) {
        CW_ASSERT(prefix->length() <= 128 && prefix->contains(prefix->network()), "a prefix of nothing");
        CW_ASSERT(ipv6_prefix::parse(to_string(*prefix)) == prefix, "a prefix that changed");
    }
}

inline void words(std::string_view text) {
    CW_ASSERT(printable(escape_for_log(text)), "what could end its line in a log");
    if (const auto numbers = parse_ranges(text)) {
        CW_ASSERT(numbers->empty() || numbers->back() <= most_cpu_number, "a CPU that nobody has");
        CW_ASSERT(parse_ranges(format_ranges(*numbers)) == numbers, "a list that changed");
    }
    if (const auto why = refuse_xml(text)) CW_ASSERT(!why->empty() && printable(*why), "a refusal without a reason");
    for (const known_host& each : parse_hosts(text, 16)) CW_ASSERT(!each.name.empty(), "a host without a name");
    try {
        const socket_address a = socket_address::parse(text);
        CW_ASSERT(socket_address::parse(a.to_string()) == a, "an address that changed");
    } catch (const std::invalid_argument& why) {
        CW_ASSERT(*why.what() != '\0', "a refusal without a reason");
    }
    options(text);
}

} // namespace file_fuzz
