// The text that Prometheus scrapes (exposition format 0.0.4), rendered in slices from what the shards have published.
//
//     every shard's catalog() --add()--> index, by family --render(), some lines a call--> text
//
// Used on one shard. The index is made anew when a shard's generation() has moved; rendering only reads the values of the
// sections, which may be written meanwhile. Bounded by the registries' capacities.
#pragma once

#include <corewire/reactor/metrics/registry.hh>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace corewire {

class text_exposition {
public:
    static constexpr std::string_view content_type = "text/plain; version=0.0.4; charset=utf-8";

    explicit text_exposition(const metrics_page& values) : page_(values) {}

    void clear();
    void add(unsigned shard, const catalog_entry& entry);
    std::size_t series() const noexcept { return series_; }

    /// Where a rendering stands.
    struct position {
        std::size_t family = 0;
        std::size_t line = 0;
    };
    /// Appends about `lines` lines. True: there are more.
    bool render(position& at, std::size_t lines, std::string& out) const;

private:
    struct line {
        std::uint32_t text;  ///< in texts_: `name{labels} `, or the labels of a histogram
        std::uint16_t size;
        std::uint16_t shard;
        std::uint32_t value;
        std::uint16_t buckets;
    };
    struct family {
        std::string name, help;
        metric_kind kind;
        metric_unit unit;
        std::vector<line> lines;
    };
    std::uint64_t value(unsigned shard, std::uint32_t index) const noexcept;
    std::size_t render_histogram(const family& f, const line& l, std::string& out) const;

    const metrics_page& page_;
    std::vector<family> families_;
    std::unordered_map<std::string, std::size_t> by_name_;
    std::string texts_;
    std::size_t series_ = 0;
};

/// `value` as its unit wants it: "42", "0.000042", "0.25".
void append_metric_value(std::string& out, std::uint64_t value, metric_unit unit);

} // namespace corewire
