// cw-bench-cacheline: what it costs two cores to hand a cache line to each other and back, with nothing else done.
// The floor for everything that crosses cores: tools/bench states the `wire` and `submit_to` rows as multiples of it.
//
//     core A: ping = n  --------------->  core B: sees ping == n, pong = n
//     core A: sees pong == n  <---------

#include <corewire/apps/runtime/command_line.hh>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <pthread.h>
#include <sched.h>
#include <thread>
#include <vector>

namespace {

struct alignas(128) line { // two lines: the prefetcher fetches them in pairs
    std::atomic<std::uint64_t> value{0};
};

struct court {
    line ping;
    line pong;
};

void pin_to(unsigned cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (const int error = pthread_setaffinity_np(pthread_self(), sizeof set, &set); error != 0) {
        std::fprintf(stderr, "cw-bench-cacheline: cannot run on CPU %u: %s\n", cpu, std::strerror(error));
        std::exit(2);
    }
}

void return_serves(court& c, std::uint64_t last) {
    for (std::uint64_t n = 1; n <= last; ++n) {
        while (c.ping.value.load(std::memory_order_acquire) != n) {}
        c.pong.value.store(n, std::memory_order_release);
    }
}

/// Nanoseconds a round trip of each batch, sorted.
std::vector<double> serve(court& c, unsigned batches, unsigned batch_size) {
    std::vector<double> costs;
    costs.reserve(batches);
    std::uint64_t n = 0;
    for (unsigned b = 0; b < batches; ++b) {
        const auto start = std::chrono::steady_clock::now();
        for (unsigned i = 0; i < batch_size; ++i) {
            c.ping.value.store(++n, std::memory_order_release);
            while (c.pong.value.load(std::memory_order_acquire) != n) {}
        }
        const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
        costs.push_back(elapsed.count() / batch_size);
    }
    std::sort(costs.begin(), costs.end());
    return costs;
}

} // namespace

int main(int argc, char** argv) {
    corewire::command_line options("cw-bench-cacheline",
                                   "Bounces a cache line between two cores and prints what a round trip costs, as JSON.");
    std::vector<unsigned> cpus{0, 1};
    unsigned batches = 5000;
    unsigned batch_size = 200;
    options.add_option("--cpus", cpus, "The two CPUs").expected(2, 2).delimiter(',').capture_default_str();
    options.add_option("--batches", batches, "Batches; each gives one sample").check_range(1u, 1'000'000u);
    options.add_option("--batch-size", batch_size, "Round trips a batch").check_range(1u, 1'000'000u);
    if (const auto status = options.parse(argc, argv)) return *status;

    court c;
    std::thread other([&] {
        pin_to(cpus[1]);
        return_serves(c, std::uint64_t{batches} * batch_size);
    });
    pin_to(cpus[0]);
    const std::vector<double> costs = serve(c, batches, batch_size);
    other.join();
    std::printf("{\"round_trips\": %llu, \"rtt_ns\": {\"min\": %.1f, \"p50\": %.1f, \"p90\": %.1f, \"max\": %.1f}}\n",
                static_cast<unsigned long long>(batches) * batch_size, costs.front(), costs[costs.size() / 2],
                costs[costs.size() * 9 / 10], costs.back());
    return 0;
}
