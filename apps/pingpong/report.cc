#include <corewire/apps/pingpong/report.hh>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace corewire::pingpong {

namespace {

struct quantile {
    const char* name;
    double fraction;
};
constexpr quantile quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}};

double per_second(std::uint64_t n, double seconds) { return seconds > 0 ? static_cast<double>(n) / seconds : 0; }

double gbit_per_s(const outcome& o) { return per_second(o.bytes, o.seconds) * 8 / 1e9; }

nlohmann::ordered_json rtt_json(const histogram& rtt) {
    nlohmann::ordered_json out;
    out["min"] = rtt.min();
    for (const quantile& q : quantiles) out[q.name] = rtt.quantile(q.fraction);
    out["max"] = rtt.max();
    return out;
}

/// 1234567 as "1'234'567".
std::string grouped(std::uint64_t n) {
    std::string digits = std::to_string(n);
    for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, '\'');
    return digits;
}

std::string grouped(double n) { return grouped(static_cast<std::uint64_t>(n + 0.5)); }

} // namespace

std::string to_json(const run_report& report, bool statistics) {
    const outcome& o = report.result;
    nlohmann::ordered_json out;
    out["net"] = report.net;
    out["protocol"] = name_of(report.load.what);
    out["size"] = report.load.size;
    out["connections"] = report.load.connections;
    out["pipeline"] = report.load.pipeline;
    out["round_trips"] = o.round_trips;
    out["seconds"] = o.seconds;
    out["rate"] = per_second(o.round_trips, o.seconds);
    out["errors"] = o.errors;
    if (report.load.bulk) {
        out["rtt_ns"] = nullptr;
        out["bytes"] = o.bytes;
        out["gbit_per_s"] = gbit_per_s(o);
    } else {
        out["rtt_ns"] = rtt_json(o.rtt_ns);
    }
    if (statistics && report.port) {
        const port_statistics& p = *report.port;
        out["port"] = {{"received_packets", p.received_packets}, {"received_bytes", p.received_bytes},
                       {"transmitted_packets", p.transmitted_packets}, {"transmitted_bytes", p.transmitted_bytes},
                       {"system_calls", p.system_calls}};
    }
    return out.dump();
}

std::string to_table(const run_report& report) {
    const outcome& o = report.result;
    std::string out = fmt::format("{} over {}, {} bytes, {} connection{}", name_of(report.load.what), report.net,
                                  report.load.size, report.load.connections, report.load.connections == 1 ? "" : "s");
    if (report.load.bulk) {
        out += fmt::format(", one way\n\n  messages     {:>16}\n  seconds      {:>16.3f}\n  messages/s   {:>16}\n"
                           "  Gbit/s       {:>16.2f}\n  errors       {:>16}\n",
                           grouped(o.round_trips), o.seconds, grouped(per_second(o.round_trips, o.seconds)),
                           gbit_per_s(o), grouped(o.errors));
        return out;
    }
    out += fmt::format(", pipeline {}\n\n  round trips  {:>16}\n  seconds      {:>16.3f}\n  rate         {:>16} /s\n"
                       "  errors       {:>16}\n\n  round trip, microseconds\n  min          {:>16.3f}\n",
                       report.load.pipeline, grouped(o.round_trips), o.seconds,
                       grouped(per_second(o.round_trips, o.seconds)), grouped(o.errors),
                       static_cast<double>(o.rtt_ns.min()) / 1e3);
    for (const quantile& q : quantiles)
        out += fmt::format("  {:<13}{:>16.3f}\n", q.name, static_cast<double>(o.rtt_ns.quantile(q.fraction)) / 1e3);
    out += fmt::format("  max          {:>16.3f}\n", static_cast<double>(o.rtt_ns.max()) / 1e3);
    return out;
}

std::string progress_line(double seconds, std::uint64_t round_trips, std::uint64_t errors) {
    std::string line = fmt::format("{:.1f} s  {} round trips  {} /s", seconds, grouped(round_trips),
                                   grouped(per_second(round_trips, seconds)));
    if (errors != 0) line += fmt::format("  {} errors", grouped(errors));
    return line;
}

port_statistics operator+(const port_statistics& a, const port_statistics& b) noexcept {
    port_statistics sum = a;
    sum.received_packets += b.received_packets;
    sum.received_bytes += b.received_bytes;
    sum.transmitted_packets += b.transmitted_packets;
    sum.transmitted_bytes += b.transmitted_bytes;
    sum.receive_no_buffer += b.receive_no_buffer;
    sum.receive_malformed += b.receive_malformed;
    sum.transmit_full += b.transmit_full;
    sum.transmit_dropped += b.transmit_dropped;
    sum.system_calls += b.system_calls;
    return sum;
}

} // namespace corewire::pingpong
