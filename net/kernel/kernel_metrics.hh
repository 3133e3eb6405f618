// The metrics of the kernel's sockets that a shard has: its counters by name, and a census of its connections.
//
// One provider's, on its shard. The census asks the kernel about each connection (tcp(7), TCP_INFO: about a microsecond), a few a turn of
// the loop, and fills the rows of the metrics page that cw-stat shows. Bounds: it asks about the first page::row_capacity connections;
// of further ones it counts what the shard itself knows.
#pragma once

#include <corewire/net/tcp/lifecycle.hh>
#include <corewire/reactor/base/log2_histogram.hh>
#include <corewire/reactor/metrics/publisher.hh>

#include <array>

namespace corewire {

class kernel_connection;
class kernel_provider;

/// Registers by reference: the provider outlives the group.
void register_kernel_metrics(metric_group& group, const kernel_provider& provider);

class kernel_census final : public metric_collector {
public:
    static constexpr std::size_t asked_a_slice = 8;
    static constexpr std::size_t counted_a_slice = 256;

    explicit kernel_census(const kernel_provider& provider) noexcept : provider_(provider) {}
    void register_metrics(metric_group& group);
    bool collect(metric_registry& registry, bool first) noexcept override;

    std::uint64_t in_state(tcp::tcp_state s) const noexcept { return states_[static_cast<std::size_t>(s)]; }
    const log2_histogram& round_trips() const noexcept { return round_trips_; }

private:
    using by_state = std::array<std::uint64_t, tcp::tcp_state_count>;
    tcp::tcp_state look_at(kernel_connection& c, metric_registry& registry) noexcept;

    const kernel_provider& provider_;
    by_state states_{};        ///< of the last whole pass
    log2_histogram round_trips_;
    std::size_t next_ = 0;     ///< of the pass that is under way
    by_state states_so_far_{};
};

} // namespace corewire
