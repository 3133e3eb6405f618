#include "views.hh"

#include <corewire/net/socket/address.hh>
#include <corewire/net/stack/connection_row.hh>

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

namespace corewire::stat {

namespace {

double seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

std::uint64_t total(const page_report& report, std::string_view name) {
    std::uint64_t all = 0;
    for (const section_report& s : report.sections) all += sum(s, name);
    return all;
}

using label_sums = std::map<std::string, std::uint64_t>;

/// Sums by the values of these labels, on one shard.
label_sums by_labels(const section_report& section, std::string_view name, std::initializer_list<const char*> labels) {
    label_sums out;
    for (const series_report& s : section.series) {
        if (s.name != name) continue;
        std::string key;
        for (const std::string label : labels) {
            const std::size_t at = s.labels.find(label + "=\"");
            if (at == s.labels.npos) continue;
            const std::size_t from = at + label.size() + 2;
            key += (key.empty() ? "" : "/") + s.labels.substr(from, s.labels.find('"', from) - from);
        }
        out[key] += s.values[0];
    }
    return out;
}

std::string listed(const label_sums& all) {
    std::string text;
    for (const auto& [key, value] : all)
        if (value != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key, value);
    return text.empty() ? "none" : text;
}

/// All shards together, and each that has any.
std::string by_shard(const char* what, const page_report& report, std::string_view name, std::initializer_list<const char*> labels) {
    label_sums all;
    std::string shards;
    for (std::size_t shard = 0; shard < report.sections.size(); ++shard) {
        bool any = false;
        const label_sums its = by_labels(report.sections[shard], name, labels);
        for (const auto& [key, value] : its) {
            all[key] += value;
            any |= value != 0;
        }
        if (any && report.sections.size() > 1) shards += fmt::format("    shard {:<5} {}\n", shard, listed(its));
    }
    return fmt::format("  {:<12} {}\n", what, listed(all)) + shards;
}

std::string age(std::uint64_t since) {
    const std::uint64_t now = boot_time_ns();
    const auto s = static_cast<std::uint64_t>(since == 0 || since > now ? 0 : seconds(now - since));
    return s < 120 ? fmt::format("{} s", s) : s < 7200 ? fmt::format("{} min", s / 60) : fmt::format("{} h", s / 3600);
}

/// The series that say how much went in and out. The kernel does not tell us of its packets.
struct traffic_names {
    const char *in, *out;
    const char *packets_in, *packets_out, *bytes_in, *bytes_out;
    bool segments_known;
    std::string retransmitted(const section_report& s) const {
        return segments_known ? std::to_string(sum(s, "corewire_tcp_segments_retransmitted_total")) : "-";
    }
};
traffic_names traffic_of(std::string_view network) {
    if (network == "kernel")
        return {"reads", "sends", "corewire_kernel_receives_total", "corewire_kernel_sends_total", "corewire_kernel_received_bytes_total",
                "corewire_kernel_sent_bytes_total", false};
    return {"packets in", "packets out", "corewire_port_received_packets_total", "corewire_port_transmitted_packets_total",
            "corewire_port_received_bytes_total", "corewire_port_transmitted_bytes_total", true};
}

/// A count a second since `before`; the count itself without one.
std::string rate(const section_report& now, const section_report* before, std::string_view name) {
    const std::uint64_t value = sum(now, name);
    if (before == nullptr || now.published <= before->published) return fmt::format("{}", value);
    const std::uint64_t old = sum(*before, name);
    return fmt::format("{:.0f}/s", static_cast<double>(value >= old ? value - old : 0) / seconds(now.published - before->published));
}

std::string local_end(const connection_row& c) { return socket_address(c.name.local, c.name.local_port).to_string(); }
std::string remote_end(const connection_row& c) { return socket_address(c.name.remote, c.name.remote_port).to_string(); }

std::uint64_t us(duration d) { return static_cast<std::uint64_t>(d.count()) / 1000; }

std::string connection_lines(const page_report& report, std::size_t most) {
    struct line {
        std::size_t shard;
        std::string local, remote;
        connection_row row;
    };
    std::vector<line> lines;
    std::uint64_t all = 0;
    std::size_t width = 21; // of an endpoint: any of IPv4; longer ones of IPv6 make the columns wider
    for (std::size_t shard = 0; shard < report.sections.size(); ++shard) {
        all += report.sections[shard].row_total;
        for (const auto& fields : report.sections[shard].rows) {
            connection_row c;
            if (lines.size() == most || !connection_row::unpack(fields, c)) continue;
            const line& added = lines.emplace_back(shard, local_end(c), remote_end(c), c);
            width = std::max({width, added.local.size(), added.remote.size()});
        }
    }
    if (all == 0) return {};
    std::string text = fmt::format("\n  {:>5} {:>{}} {:>{}} {:<12} {:>9} {:>8} {:>8} {:>9} {:>9} {:>9} {:>7}\n", "shard", "local", width,
                                   "remote", width, "state", "cwnd", "rtt us", "rto us", "unsent", "unacked", "unread", "rexmit");
    for (const line& each : lines) {
        const tcp::connection_info& i = each.row.info;
        text += fmt::format("  {:>5} {:>{}} {:>{}} {:<12} {:>9} {:>8} {:>8} {:>9} {:>9} {:>9} {:>7}\n", each.shard, each.local, width,
                            each.remote, width, tcp::name_of(i.state), i.cwnd, us(i.srtt), us(i.rto), i.unsent, i.unacknowledged,
                            i.unread, each.row.retransmitted);
    }
    return text + (lines.size() < all ? fmt::format("  ... {} of {} connections shown\n", lines.size(), all) : "");
}

/// As Prometheus has it: seconds and ratios.
nlohmann::json in_unit(std::uint64_t value, metric_unit unit) {
    switch (unit) {
    case metric_unit::nanoseconds: return static_cast<double>(value) * 1e-9;
    case metric_unit::parts_per_million: return static_cast<double>(value) * 1e-6;
    default: return value;
    }
}

/// Of one shard.
nlohmann::json section_json(const section_report& section) {
    nlohmann::json shard{{"published_ns", section.published},
                         {"publications", section.publications},
                         {"connections_total", section.row_total},
                         {"series", nlohmann::json::array()},
                         {"connections", nlohmann::json::array()}};
    for (const series_report& s : section.series) {
        nlohmann::json one{{"name", s.name}, {"labels", s.labels}, {"kind", std::string(name_of(s.kind))}};
        if (s.kind == metric_kind::histogram) {
            const std::size_t buckets = (s.values.size() - 2) / 2;
            one["buckets"] = nlohmann::json::array();
            for (std::size_t i = 0; i < buckets; ++i)
                one["buckets"].push_back({{"le", in_unit(s.values[i], s.unit)}, {"count", s.values[buckets + i]}});
            one["count"] = s.values[s.values.size() - 2];
            one["sum"] = in_unit(s.values.back(), s.unit);
        } else {
            one["value"] = in_unit(s.values[0], s.unit);
        }
        shard["series"].push_back(std::move(one));
    }
    for (const auto& fields : section.rows) {
        connection_row c;
        if (!connection_row::unpack(fields, c)) continue;
        const tcp::connection_info& i = c.info;
        shard["connections"].push_back({{"local", local_end(c)},
                                        {"remote", remote_end(c)},
                                        {"state", std::string(tcp::name_of(i.state))},
                                        {"cwnd", i.cwnd},
                                        {"ssthresh", i.ssthresh},
                                        {"rtt_ns", i.srtt.count()},
                                        {"rttvar_ns", i.rttvar.count()},
                                        {"rto_ns", i.rto.count()},
                                        {"in_flight", i.in_flight},
                                        {"unsent", i.unsent},
                                        {"unacknowledged", i.unacknowledged},
                                        {"unread", i.unread},
                                        {"out_of_order", i.out_of_order},
                                        {"send_window", i.send_window},
                                        {"receive_window", i.receive_window},
                                        {"bytes_received", i.bytes_received},
                                        {"retransmitted", c.retransmitted}});
    }
    return shard;
}

} // namespace

std::uint64_t sum(const section_report& section, std::string_view name) {
    std::uint64_t all = 0;
    for (const series_report& s : section.series)
        if (s.name == name && s.kind != metric_kind::histogram) all += s.values[0];
    return all;
}

std::string list_heading() {
    return fmt::format("{:>8} {:<8} {:<16} {:<8} {:>6} {:>6} {:>12} {:>12} {:>9}\n", "pid", "state", "program", "network", "shards", "load",
                       "packets in", "packets out", "published");
}

std::string list_line(const page_report& r) {
    std::uint64_t load = 0, last = 0;
    for (const section_report& s : r.sections) {
        load += sum(s, "corewire_reactor_load_ratio");
        last = std::max(last, s.published);
    }
    return fmt::format("{:>8} {:<8} {:<16} {:<8} {:>6} {:>5}% {:>12} {:>12} {:>9}\n", r.pid, name_of(r.state), r.program, r.network,
                       r.sections.size(), load / r.sections.size() / 10'000, total(r, traffic_of(r.network).packets_in),
                       total(r, traffic_of(r.network).packets_out), last == 0 ? "never" : age(last));
}

std::string process_text(const page_report& now, const page_report* before, std::size_t max_connections) {
    std::string text = fmt::format("{} (pid {}), --net={}, {}\n\n", now.program, now.pid, now.network, name_of(now.state));
    if (before != nullptr && (before->start_time != now.start_time || before->sections.size() != now.sections.size())) before = nullptr;
    const traffic_names names = traffic_of(now.network);
    text += fmt::format("  {:>5} {:>5} {:>14} {:>8} {:>6} {:>12} {:>12} {:>14} {:>14} {:>8} {:>9}\n", "shard", "load", "polls", "sleeps",
                        "tasks", names.in, names.out, "bytes in", "bytes out", "rexmit", "published");
    for (std::size_t shard = 0; shard < now.sections.size(); ++shard) {
        const section_report& s = now.sections[shard];
        const section_report* old = before == nullptr ? nullptr : &before->sections[shard];
        text += fmt::format("  {:>5} {:>4}% {:>14} {:>8} {:>6} {:>12} {:>12} {:>14} {:>14} {:>8} {:>9}\n", shard,
                            sum(s, "corewire_reactor_load_ratio") / 10'000, rate(s, old, "corewire_reactor_turns_total"),
                            rate(s, old, "corewire_reactor_sleeps_total"), sum(s, "corewire_reactor_tasks"),
                            rate(s, old, names.packets_in), rate(s, old, names.packets_out), rate(s, old, names.bytes_in),
                            rate(s, old, names.bytes_out), names.retransmitted(s), s.published == 0 ? "never" : age(s.published));
    }
    text += "\n";
    text += now.network == "kernel" ? by_shard("failed:", now, "corewire_kernel_connections_failed_total", {"why"})
                                    : by_shard("dropped:", now, "corewire_packets_dropped_total", {"layer", "reason"});
    text += by_shard("connections:", now, "corewire_tcp_connections", {"state"});
    return text + connection_lines(now, max_connections);
}

void process_json(const page_report& report, const std::function<void(std::string_view)>& to) {
    const auto text = [](const nlohmann::json& of) { return of.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); };
    const std::string head = text({{"pid", report.pid},
                                   {"program", report.program},
                                   {"network", report.network},
                                   {"state", std::string(name_of(report.state))}});
    to(std::string_view(head).substr(0, head.size() - 1));
    to(",\"shards\":[");
    for (std::size_t shard = 0; shard < report.sections.size(); ++shard) {
        if (shard != 0) to(",");
        to(text(section_json(report.sections[shard])));
    }
    to("]}");
}

} // namespace corewire::stat
