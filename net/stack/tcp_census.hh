// Counts the connections of a stack: how many are in each state, what all of them have counted, and one row each of the
// metrics page's table for the first ones.
//
// One stack's, on its shard. A pass goes over the connection table in slices, a turn of the loop each, so that no packet
// waits for it; a pass over 65,536 connections takes a thousand turns. Sums never go down: what a pass has missed (a
// connection that closed before it was reached) is in the next one.
#pragma once

#include <corewire/net/tcp/info.hh>
#include <corewire/reactor/base/log2_histogram.hh>
#include <corewire/reactor/metrics/publisher.hh>

#include <array>

namespace corewire {

class tcp_layer;

class tcp_census final : public metric_collector {
public:
    static constexpr std::size_t slots_a_slice = 128; ///< of the table, half of them in use at most

    explicit tcp_census(const tcp_layer& tcp) noexcept : tcp_(tcp) {}
    void register_metrics(metric_group& group);
    bool collect(metric_registry& registry, bool first) noexcept override;

    /// How many of tcp::counters have a name here; a test wants all.
    static std::size_t described_counters() noexcept;
    std::uint64_t in_state(tcp::tcp_state s) const noexcept { return states_[static_cast<std::size_t>(s)]; }
    const log2_histogram& round_trips() const noexcept { return round_trips_; }

private:
    using by_state = std::array<std::uint64_t, tcp::tcp_state_count>;
    const tcp_layer& tcp_;
    by_state states_{};   ///< of the last whole pass
    tcp::counters sums_;
    log2_histogram round_trips_; ///< ns, smoothed: of each open connection once a pass
    // Of the pass that is under way:
    std::size_t next_ = 0;
    by_state states_so_far_{};
    tcp::counters sums_so_far_;
};

} // namespace corewire
