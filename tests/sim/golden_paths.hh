// Paths for the golden tables: two hosts and a cable with given loss, delay and buffer, and what a flow gets through it.
#pragma once

#include <corewire/net/sim/sim_flow.hh>
#include <corewire/net/sim/simulation.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
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

/// Drops the next `burst` data packets, and waits until the receiver has read what had been sent by then: round trips of the path since the
/// first of them.
inline double repair_time(one_path& p, sim_flow& flow, const path& what, unsigned burst) {
    unsigned left = burst;
    time_point first{};
    p.cable.drop_if(sim_link::direction::forward, [&](byte_span bytes, std::uint64_t) {
        if (bytes.size() < 1'000 || left == 0) return false;
        if (left-- == burst) first = p.world.now();
        return true;
    });
    BOOST_REQUIRE(p.world.run_until([&] { return left == 0; }, 5s));
    const std::uint64_t sent = flow.delivered() + static_cast<std::uint64_t>(flow.sender()->info().unacknowledged);
    BOOST_REQUIRE(p.world.run_until([&] { return flow.delivered() >= sent; }, 60s));
    p.cable.drop_if(sim_link::direction::forward, nullptr);
    return std::chrono::duration<double>(p.world.now() - first).count() / what.seconds();
}

/// What two flows through one bottleneck get of its rate.
struct shares {
    double first, second;
    double jain() const { return (first + second) * (first + second) / (2 * (first * first + second * second)); }
};

/// Two senders and the bottleneck between them and one receiver.
struct contest {
    tcp::congestion_factory a, b;
    duration rtt_a, rtt_b;
    std::uint64_t rate;     ///< of the bottleneck, bits a second
    double buffer = 1;      ///< of the larger bandwidth-delay product
    duration later, warm, measured; ///< the second begins `later`; what is measured comes `warm` after that
};

inline shares compete(const contest& c) {
    simulation world({.seed = 3});
    sim_host& first = world.add_host("first", host_of({.congestion = c.a}));
    sim_host& second = world.add_host("second", host_of({.congestion = c.b}));
    sim_host& to = world.add_host("receiver");
    sim_switch& middle = world.add_switch();
    const duration shared = std::min(c.rtt_a, c.rtt_b) / 4;
    world.connect(first, middle, {.latency = c.rtt_a / 2 - shared});
    world.connect(second, middle, {.latency = c.rtt_b / 2 - shared});
    const double bytes_a_second = static_cast<double>(c.rate) / 8;
    const double product = bytes_a_second * std::chrono::duration<double>(std::max(c.rtt_a, c.rtt_b)).count();
    const auto queue = static_cast<std::uint64_t>(c.buffer * product);
    world.connect(to, middle, {.latency = shared, .bits_per_second = c.rate, .queue_bytes = queue});
    sim_flow one(first, to, 7);
    world.run_for(c.later);
    sim_flow two(second, to, 8);
    world.run_for(c.warm);
    const std::uint64_t before[] = {one.delivered(), two.delivered()};
    world.run_for(c.measured);
    const double all = bytes_a_second * std::chrono::duration<double>(c.measured).count() * payload / on_cable;
    return {static_cast<double>(one.delivered() - before[0]) / all, static_cast<double>(two.delivered() - before[1]) / all};
}

// ---- what is expected: segments in flight, on average, where one of 1/p is lost ----

/// Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm" (1997): C = sqrt(3/2) when each segment's
/// bytes count (RFC 3465) and losses come at equal distances. RFC 9438 5.1 has it as AVG_W_est.
inline double reno_window(double p) { return std::sqrt(1.5 / p); }
/// RFC 9438 5.1, equation (5): C = 0.4 and beta = 0.7.
inline double cubic_window(double p, double rtt) { return std::pow(0.4 * (3 + 0.7) / (4 * (1 - 0.7)), 0.25) * std::pow(rtt / p, 0.75); }

} // namespace corewire::golden
