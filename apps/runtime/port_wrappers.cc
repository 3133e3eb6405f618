#include <corewire/apps/runtime/port_wrappers.hh>

#include <corewire/net/port/wrap/faulty_port.hh>
#include <corewire/net/port/wrap/pcap_port.hh>
#include <corewire/net/port/wrap/tracing_port.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <ctime>
#include <fmt/format.h>

namespace corewire {

namespace {

/// The time of day: what is written down is compared with other programs' records.
class wall_clock final : public clock_source {
public:
    time_point now() noexcept override {
        timespec t{};
        ::clock_gettime(CLOCK_REALTIME, &t);
        return from_ns(std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec);
    }
};

clock_source& time_of_day() noexcept {
    static wall_clock clock;
    return clock;
}

} // namespace

std::unique_ptr<port> wrap_port(std::unique_ptr<port> inner, const network_options& options, unsigned number) {
    if (options.faults) {
        faulty_port::options how = *options.faults;
        how.seed += number; // shards have troubles of their own
        inner = std::make_unique<faulty_port>(std::move(inner), how);
    }
    if (options.trace) inner = std::make_unique<tracing_port>(std::move(inner), time_of_day());
    if (options.pcap.empty()) return inner;
    const std::string path = number == 0 ? options.pcap : fmt::format("{}.{}", options.pcap, number);
    return std::make_unique<pcap_port>(std::move(inner), time_of_day(), pcap_options{.path = path});
}

} // namespace corewire
