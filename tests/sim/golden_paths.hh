// Paths for the golden tables: two hosts and a cable with given loss, delay and buffer, and what a flow gets through it.
#pragma once

#include <corewire/net/sim/sim_flow.hh>
#include <corewire/net/sim/simulation.hh>

#include <cmath>

namespace corewire::golden {

using namespace std::chrono_literals;

inline constexpr double payload = 1'448;  ///< bytes a segment: an Ethernet frame's, with timestamps
inline constexpr double on_cable = 1'514; ///< bytes the same takes on the cable

struct path {
    duration rtt = 20ms;
    std::uint64_t rate = 0;          ///< bits a second; 0: no limit
    double buffer = 1;               ///< of the bandwidth-delay product
    std::uint64_t loses_every = 0;   ///< every n-th data packet; 0: none
    double loss = 0;                 ///< of each data packet, by chance
    tcp::congestion_factory congestion = tcp::cubic_congestion;
    bool sack = true;                ///< and with it RACK and tail loss probes
    std::uint64_t seed = 1;

    double seconds() const { return std::chrono::duration<double>(rtt).count(); }
    double product() const { return static_cast<double>(rate) / 8 * seconds(); } ///< bytes
};

inline sim_host_options host_of(const path& p) {
    sim_host_options host;
    host.stack.tcp.congestion = p.congestion;
    host.stack.tcp.sack = p.sack;
    host.stack.tcp.tail_loss_probe = p.sack;
    return host;
}

/// Sender, receiver, and the cable between them.
struct one_path {
    explicit one_path(const path& p)
        : world({.seed = p.seed}), from(world.add_host("sender", host_of(p))), to(world.add_host("receiver", host_of(p))),
          cable(world.connect(from, to, {.latency = p.rtt / 2, .bits_per_second = p.rate})) {
        using enum sim_link::direction;
        sim_link_options forward_options = cable.options(forward);
        forward_options.loss = p.loss;
        if (p.rate != 0) forward_options.queue_bytes = static_cast<std::uint64_t>(std::max(p.buffer * p.product(), 2 * on_cable));
        cable.configure(forward, forward_options);
        if (p.loses_every == 0) return;
        cable.drop_if(forward, [every = p.loses_every, n = std::uint64_t{0}](byte_span bytes, std::uint64_t) mutable {
            return bytes.size() > 1'000 && ++n % every == 0;
        });
    }
    simulation world;
    sim_host& from;
    sim_host& to;
    sim_link& cable;
};

/// Bytes a second that the receiver reads, from `warm` on for `measured`.
inline double goodput(one_path& p, sim_flow& flow, duration warm, duration measured) {
    p.world.run_for(warm);
    const std::uint64_t before = flow.delivered();
    p.world.run_for(measured);
    return static_cast<double>(flow.delivered() - before) / std::chrono::duration<double>(measured).count();
}
inline double goodput(const path& what, duration warm, duration measured) {
    one_path p(what);
    sim_flow flow(p.from, p.to, 7, {.stream = {.receive_buffer = 16u << 20, .send_buffer = 16u << 20}});
    return goodput(p, flow, warm, measured);
}

// ---- what is expected: segments in flight, on average, where one of 1/p is lost ----

/// Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm" (1997): C = sqrt(3/2) when each segment's
/// bytes count (RFC 3465) and losses come at equal distances. RFC 9438 5.1 has it as AVG_W_est.
inline double reno_window(double p) { return std::sqrt(1.5 / p); }
/// RFC 9438 5.1, equation (5): C = 0.4 and beta = 0.7.
inline double cubic_window(double p, double rtt) { return std::pow(0.4 * (3 + 0.7) / (4 * (1 - 0.7)), 0.25) * std::pow(rtt / p, 0.75); }

} // namespace corewire::golden
