// cw-bench-connections: a stack with very many connections. `idle`: a million that are established and say nothing, what each of
// them takes, and how an active one fares beside them. `flood`: a port full of SYNs beside a hundred good clients.
// Prints one JSON object of numbers.
#include "flood.hh"
#include "idle.hh"


#include <corewire/apps/runtime/command_line.hh>

#include <chrono>
#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
    namespace bench = corewire::bench;
    corewire::command_line command("cw-bench-connections", "A stack with very many connections; prints JSON.");
    command.require_subcommand(1, 1);
    double seconds = 1;
    std::size_t count = 1'000'000;
    unsigned clients = 100;
    std::vector<unsigned> cpus{0, 1};
    corewire::command_line idle = command.add_subcommand("idle", "Established connections that say nothing");
    corewire::command_line flood = command.add_subcommand("flood", "SYNs from everywhere, beside good clients");
    for (corewire::command_line each : {idle, flood})
        each.add_option("--duration", seconds, "Seconds measured").check_range(0.1, 600.0).capture_default_str();
    idle.add_option("--count", count, "How many").check_range(1, 16'000'000).capture_default_str();
    flood.add_option("--clients", clients, "Good clients").check_range(1, 10'000).capture_default_str();
    flood.add_option("--cpus", cpus, "The two CPUs").expected(2, 2).delimiter(',').capture_default_str();
    if (const auto status = command.parse(argc, argv)) return *status;
    const auto time = std::chrono::duration_cast<corewire::duration>(std::chrono::duration<double>(seconds));
    try {
        return command.got_subcommand("idle") ? bench::measure_idle(count, time) : bench::measure_flood(cpus, clients, time);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "cw-bench-connections: %s\n", e.what());
        return 2;
    }
}
