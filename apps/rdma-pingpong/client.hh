// The end that measures: round trips of one size, checked byte for byte and timed. One reactor's.
#pragma once

#include <corewire/apps/rdma-pingpong/opening.hh>
#include <corewire/net/socket/address.hh>
#include <corewire/rdma/channel/listener.hh>
#include <corewire/reactor/metrics/histogram.hh>

#include <optional>
#include <string>

namespace corewire::rdma_pingpong {

struct workload {
    mode what = mode::rc_send;
    std::uint32_t size = 64;       ///< bytes
    std::uint64_t count = 0;       ///< measured round trips; 0: `length` says
    duration length = std::chrono::seconds{3};
    std::uint64_t warmup = 100;    ///< round trips that do not count
    socket_address server;
    std::optional<ip_address> from{};
};

struct outcome {
    std::uint64_t round_trips = 0, errors = 0;
    double seconds = 0;
    histogram rtt_ns{};
};

task<outcome> measure(rdma::context& in, workload load);
/// The keys of cw-pingpong --json.
std::string to_json(const workload& load, const outcome& result);
std::string to_table(const workload& load, const outcome& result);

} // namespace corewire::rdma_pingpong
