#include <corewire/reactor/metrics/text_exposition.hh>

#include <algorithm>
#include <array>
#include <charconv>

namespace corewire {

namespace {

void append_integer(std::string& out, std::uint64_t value) {
    std::array<char, 20> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    out.append(digits.data(), end);
}

/// value / 10^places, exactly.
void append_decimal(std::string& out, std::uint64_t value, unsigned places) {
    std::uint64_t scale = 1;
    for (unsigned i = 0; i < places; ++i) scale *= 10;
    append_integer(out, value / scale);
    std::uint64_t rest = value % scale;
    if (rest == 0) return;
    out += '.';
    for (scale /= 10; rest != 0; scale /= 10) {
        out += static_cast<char>('0' + rest / scale);
        rest %= scale;
    }
}

/// The text format wants backslashes of a help text doubled.
void append_help(std::string& out, std::string_view help) {
    for (const char c : help) {
        if (c == '\\') out += '\\';
        out += c;
    }
}

} // namespace

void append_metric_value(std::string& out, std::uint64_t value, metric_unit unit) {
    switch (unit) {
    case metric_unit::count: append_integer(out, value); break;
    case metric_unit::nanoseconds: append_decimal(out, value, 9); break;
    case metric_unit::parts_per_million: append_decimal(out, value, 6); break;
    }
}

void text_exposition::clear() {
    families_.clear();
    by_name_.clear();
    texts_.clear();
    series_ = 0;
}

void text_exposition::add(unsigned shard, const catalog_entry& entry) {
    const auto [at, is_new] = by_name_.try_emplace(entry.name, families_.size());
    if (is_new) families_.push_back({entry.name, entry.help, entry.kind, entry.unit, {}});
    family& f = families_[at->second];
    const std::size_t begin = texts_.size();
    if (entry.kind == metric_kind::histogram) {
        texts_ += entry.labels;
    } else {
        texts_ += entry.name;
        texts_ += '{';
        texts_ += entry.labels;
        texts_ += "} ";
    }
    f.lines.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint16_t>(texts_.size() - begin),
                       static_cast<std::uint16_t>(shard), entry.value, entry.buckets});
    ++series_;
}

std::uint64_t text_exposition::value(unsigned shard, std::uint32_t index) const noexcept {
    return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(page_.section(shard) + page::values_at) + index, __ATOMIC_RELAXED);
}

bool text_exposition::render(position& at, std::size_t lines, std::string& out) const {
    std::size_t left = lines;
    while (at.family < families_.size()) {
        const family& f = families_[at.family];
        if (at.line == 0) {
            out += "# HELP ";
            out += f.name;
            out += ' ';
            append_help(out, f.help);
            out += "\n# TYPE ";
            out += f.name;
            out += ' ';
            out += name_of(f.kind);
            out += '\n';
        }
        for (; at.line < f.lines.size(); ++at.line) {
            if (left == 0) return true;
            const line& l = f.lines[at.line];
            if (f.kind == metric_kind::histogram) {
                const std::size_t used = render_histogram(f, l, out);
                left -= std::min(left, used);
                continue;
            }
            out.append(texts_, l.text, l.size);
            append_metric_value(out, value(l.shard, l.value), f.unit);
            out += '\n';
            --left;
        }
        at.line = 0;
        ++at.family;
        if (left == 0) break;
    }
    return at.family < families_.size();
}

std::size_t text_exposition::render_histogram(const family& f, const line& l, std::string& out) const {
    const std::string_view labels(texts_.data() + l.text, l.size);
    const auto begin = [&](std::string_view suffix) {
        out += f.name;
        out += suffix;
        out += '{';
        out += labels;
    };
    const std::string_view comma = labels.empty() ? "" : ",";
    // Counts are stored one after the other while others read: what is shown must not go down from bucket to bucket.
    std::uint64_t most = 0;
    for (std::uint32_t i = 0; i < l.buckets; ++i) {
        begin("_bucket");
        out += comma;
        out += "le=\"";
        append_metric_value(out, value(l.shard, l.value + i), f.unit);
        out += "\"} ";
        most = std::max(most, value(l.shard, l.value + l.buckets + i));
        append_integer(out, most);
        out += '\n';
    }
    const std::uint64_t count = std::max(most, value(l.shard, l.value + 2u * l.buckets));
    begin("_bucket");
    out += comma;
    out += "le=\"+Inf\"} ";
    append_integer(out, count);
    out += '\n';
    begin("_sum");
    out += "} ";
    append_metric_value(out, value(l.shard, l.value + 2u * l.buckets + 1), f.unit);
    out += '\n';
    begin("_count");
    out += "} ";
    append_integer(out, count);
    out += '\n';
    return l.buckets + 3u;
}

} // namespace corewire
