// cw-bench-connections: a stack with very many connections. `idle`: a million that are established and say nothing, what each of
// them takes, and how an active one fares beside them. `flood`: a port full of SYNs beside a hundred good clients.
// Prints one JSON object of numbers.
#include "flood.hh"
#include "idle.hh"

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
    namespace bench = corewire::bench;
    CLI::App command{"A stack with very many connections; prints JSON.", "cw-bench-connections"};
    command.require_subcommand(1);
    double seconds = 1;
    std::size_t count = 1'000'000;
    unsigned clients = 100;
    std::vector<unsigned> cpus{0, 1};
    CLI::App* idle = command.add_subcommand("idle", "Established connections that say nothing");
    CLI::App* flood = command.add_subcommand("flood", "SYNs from everywhere, beside good clients");
    for (CLI::App* each : {idle, flood})
        each->add_option("--duration", seconds, "Seconds measured")->check(CLI::Range(0.1, 600.0))->capture_default_str();
    idle->add_option("--count", count, "How many")->check(CLI::Range(1, 16'000'000))->capture_default_str();
    flood->add_option("--clients", clients, "Good clients")->check(CLI::Range(1, 10'000))->capture_default_str();
    flood->add_option("--cpus", cpus, "The two CPUs")->expected(2)->delimiter(',')->capture_default_str();
    try {
        command.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        return command.exit(e) == 0 ? 0 : 2;
    }
    const auto time = std::chrono::duration_cast<corewire::duration>(std::chrono::duration<double>(seconds));
    try {
        return *idle ? bench::measure_idle(count, time) : bench::measure_flood(cpus, clients, time);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "cw-bench-connections: %s\n", e.what());
        return 2;
    }
}
