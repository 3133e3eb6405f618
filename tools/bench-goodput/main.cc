// cw-bench-goodput: what one bulk flow gets through a simulated path with random loss, in virtual time: exact, the same on every
// machine. With `--plain` both ends do without CUBIC and without SACK, RACK and tail loss probes: NewReno (RFC 5681, 6582).
// Prints {"mbit_per_s", "delivered", "seconds", "digest"} as JSON.
#include <corewire/apps/runtime/command_line.hh>
#include <corewire/apps/runtime/standard_output.hh>
#include <corewire/net/sim/sim_flow.hh>
#include <corewire/net/sim/simulation.hh>

#include <cstdio>
#include <exception>
#include <fmt/format.h>

namespace cw = corewire;

namespace {

cw::duration to_duration(double seconds) {
    return std::chrono::duration_cast<cw::duration>(std::chrono::duration<double>(seconds));
}

struct path {
    double loss = 0.01;
    double rtt_ms = 20;
    std::uint64_t rate = 1'000'000'000;
    std::uint64_t seed = 1;
    double seconds = 60;
    bool plain = false;
};

void measure(const path& p) {
    cw::simulation world({.seed = p.seed});
    cw::sim_host_options host;
    if (p.plain) {
        host.stack.tcp.congestion = cw::tcp::reno_congestion;
        host.stack.tcp.sack = false; // without it there is no RACK
        host.stack.tcp.tail_loss_probe = false;
    }
    cw::sim_host& from = world.add_host("sender", host);
    cw::sim_host& to = world.add_host("receiver", host);
    cw::sim_link& cable = world.connect(from, to, {.latency = to_duration(p.rtt_ms / 2e3), .bits_per_second = p.rate});
    cw::sim_link_options lossy = cable.options(cw::sim_link::direction::forward);
    lossy.loss = p.loss;
    cable.configure(cw::sim_link::direction::forward, lossy);
    cw::sim_flow flow(from, to, 7);
    world.run_for(to_duration(p.seconds));
    if (flow.failed() || flow.delivered() == 0) throw std::runtime_error("the flow has failed");
    fmt::print("{{\"mbit_per_s\":{:.4f},\"delivered\":{},\"seconds\":{:g},\"digest\":\"{:016x}\"}}\n",
               static_cast<double>(flow.delivered()) * 8 / p.seconds / 1e6, flow.delivered(), p.seconds, world.digest());
}

} // namespace

int main(int argc, char** argv) {
    cw::command_line command("cw-bench-goodput", "One bulk flow on a simulated path with loss; prints JSON.");
    path p;
    command.add_option("--loss", p.loss, "Of each packet of the forward direction").check_range(0.0, 1.0).capture_default_str();
    command.add_option("--rtt", p.rtt_ms, "Milliseconds").check_range(0.01, 10'000.0).capture_default_str();
    command.add_option("--rate", p.rate, "Bits a second").capture_default_str();
    command.add_option("--seed", p.seed, "Of the losses").capture_default_str();
    command.add_option("--seconds", p.seconds, "Simulated").check_range(0.1, 100'000.0).capture_default_str();
    command.add_flag("--plain", p.plain, "NewReno without SACK and RACK");
    if (const auto status = command.parse(argc, argv)) return *status;
    try {
        measure(p);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "cw-bench-goodput: %s\n", e.what());
        return 2;
    }
    return cw::after_output("cw-bench-goodput", 0);
}
