// cw-bench-submit: what submit_to() costs from one spinning shard to another and back; with --busy the other shard always
// has more tasks ready than it gets through, which is where a framework shows how often it looks at its inbox.
//
//     shard 0: submit_to(1, ...) ------>  shard 1: [64 tasks that yield for ever]  runs the call
//              the next one      <------
#include <corewire/apps/runtime/command_line.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/metrics/histogram.hh>
#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/task_group.hh>


#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

namespace cw = corewire;

namespace {

struct bench_options {
    std::vector<unsigned> cpus{0, 1};
    double seconds = 1;
    double warmup = 0.1;
    bool busy = false;
    unsigned tasks = 64;       ///< with --busy: ready at any time
    unsigned work = 100;       ///< with --busy: steps of a small computation between two yields, about a nanosecond each
};

cw::duration to_duration(double seconds) {
    return std::chrono::duration_cast<cw::duration>(std::chrono::duration<double>(seconds));
}

/// A task that is always ready. `stop` belongs to the same shard.
cw::task<> toil(const bool& stop, unsigned work) {
    std::uint64_t x = 1;
    while (!stop) {
        for (unsigned i = 0; i < work; ++i) x = x * 6364136223846793005ull + 1442695040888963407ull;
        asm volatile("" : : "r"(x)); // so that the computation is done
        co_await cw::yield();
    }
}

struct bench {
    bench_options options;
    cw::histogram rtt; // shard 0's
    bool stop = false; // shard 1's

    cw::task<> body() {
        if (cw::this_shard::id() == 0) return call();
        return answer();
    }
    cw::task<> call() {
        cw::reactor& here = cw::reactor::current();
        const cw::time_point start = here.read_clock() + to_duration(options.warmup);
        const cw::time_point end = start + to_duration(options.seconds);
        std::uint64_t expected = 0;
        for (cw::time_point before = here.read_clock(); before < end;) {
            const std::uint64_t got = co_await cw::submit_to(1, [expected] { return expected + 1; });
            const cw::time_point after = here.read_clock();
            if (got != ++expected) std::terminate();
            if (before >= start) rtt.record(static_cast<std::uint64_t>((after - before).count()));
            before = after;
        }
        co_await cw::submit_to(1, [this] { stop = true; });
    }
    cw::task<> answer() {
        cw::task_group toilers("toilers");
        for (unsigned i = 0; options.busy && i < options.tasks; ++i) toilers.spawn(toil(stop, options.work));
        co_await toilers.join();
    }
};

} // namespace

int main(int argc, char** argv) {
    cw::command_line command("cw-bench-submit", "Round trips of submit_to between two shards that never sleep; prints JSON.");
    bench b;
    bench_options& o = b.options;
    command.add_option("--cpus", o.cpus, "The two CPUs").expected(2, 2).delimiter(',').capture_default_str();
    command.add_option("--duration", o.seconds, "Seconds measured").check_range(0.01, 3600.0).capture_default_str();
    command.add_option("--warmup", o.warmup, "Seconds before that").check_range(0.0, 60.0).capture_default_str();
    command.add_flag("--busy", o.busy, "The other shard always has tasks ready");
    command.add_option("--tasks", o.tasks, "With --busy: how many").check_range(1u, 100'000u).capture_default_str();
    command.add_option("--work", o.work, "With --busy: nanoseconds, about, that a task works between two yields")
        .check_range(0u, 1'000'000u).capture_default_str();
    if (const auto status = command.parse(argc, argv)) return *status;
    cw::runtime_options settings;
    settings.cpus = o.cpus;
    settings.loop.spin = cw::duration::max();
    try {
        cw::runtime shards(settings);
        shards.run([&] { return b.body(); });
    } catch (const std::exception& e) {
        std::fprintf(stderr, "cw-bench-submit: %s\n", e.what());
        return 2;
    }
    std::printf("{\"round_trips\": %llu, \"busy\": %s, \"rtt_ns\": {\"min\": %llu, \"p50\": %llu, \"p90\": %llu, "
                "\"p99\": %llu, \"p999\": %llu, \"max\": %llu}}\n",
                static_cast<unsigned long long>(b.rtt.count()), o.busy ? "true" : "false",
                static_cast<unsigned long long>(b.rtt.min()), static_cast<unsigned long long>(b.rtt.quantile(0.5)),
                static_cast<unsigned long long>(b.rtt.quantile(0.9)), static_cast<unsigned long long>(b.rtt.quantile(0.99)),
                static_cast<unsigned long long>(b.rtt.quantile(0.999)), static_cast<unsigned long long>(b.rtt.max()));
    return 0;
}
