// cw-bench-timers: what arming and cancelling a timer costs while many others are armed; prints {"ns": a pair} as JSON.
//
//     fresh   arm a timer that is not armed, cancel it: as a request with a deadline does that is answered in time
//     any     cancel one of the live timers, any one, and arm it for another time: as a connection's retransmission timer
//
// The live timers are due between 1 s and 100 s ahead. The clock moves on by a microsecond a pair, and the wheel is turned as
// the loop turns it, so that what a cancelled timer leaves behind is paid for here; one that fires is armed again.
#include <corewire/apps/runtime/command_line.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/loop/timer_wheel.hh>


#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

namespace cw = corewire;

namespace {

struct bench;
struct node final : cw::timer {
    node() noexcept : timer(&node::on_expiry) {}
    static void on_expiry(cw::timer& self) noexcept;
};

bench* running = nullptr;

struct bench {
    explicit bench(std::size_t live_count) : count(live_count), live(std::make_unique<node[]>(live_count)) {
        running = this;
        for (std::size_t i = 0; i < count; ++i) wheel.arm(live[i], a_time());
    }
    cw::time_point a_time() noexcept {
        return now + std::chrono::seconds{1} + cw::duration{std::int64_t(dice.next() % 99'000'000'000)};
    }
    void turn() noexcept {
        now += std::chrono::microseconds{1};
        wheel.expire(now);
    }
    void fresh() noexcept {
        node& t = few[dice.next() % few_count];
        wheel.arm(t, now + std::chrono::milliseconds{1 + std::int64_t(dice.next() % 5000)});
        t.cancel();
    }
    void any() noexcept {
        node& t = live[dice.next() % count];
        t.cancel();
        wheel.arm(t, a_time());
    }

    static constexpr std::size_t few_count = 64;
    std::size_t count;
    std::uint64_t fired = 0;
    cw::random_generator dice{1};
    cw::time_point now{std::chrono::hours{1}};
    cw::timer_wheel wheel;
    std::unique_ptr<node[]> live;
    node few[few_count];
};

/// The number of live timers stays what it is.
void node::on_expiry(cw::timer& self) noexcept {
    ++running->fired;
    running->wheel.arm(self, running->a_time());
}

template <typename Pair>
double ns_of(double seconds, Pair&& pair) {
    using clock = std::chrono::steady_clock;
    constexpr int batch = 10'000;
    std::uint64_t pairs = 0;
    const auto start = clock::now();
    const auto end = start + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds));
    auto at = start;
    for (; at < end; at = clock::now(), pairs += batch)
        for (int i = 0; i < batch; ++i) pair();
    return std::chrono::duration<double, std::nano>(at - start).count() / static_cast<double>(pairs);
}

} // namespace

int main(int argc, char** argv) {
    cw::command_line command("cw-bench-timers", "Arming and cancelling timers; prints JSON.");
    command.require_subcommand(1, 1);
    std::size_t live = 1'000'000;
    double seconds = 1;
    for (auto& [name, what] : {std::pair{"fresh", "Arm a timer, cancel it"}, {"any", "Cancel any live timer, arm it again"}}) {
        cw::command_line one = command.add_subcommand(name, what);
        one.add_option("--live", live, "Timers that stay armed").check_range(1, 100'000'000).capture_default_str();
        one.add_option("--duration", seconds, "Seconds measured").check_range(0.01, 3600.0).capture_default_str();
    }
    if (const auto status = command.parse(argc, argv)) return *status;
    const auto b = std::make_unique<bench>(live);
    const bool any = command.got_subcommand("any");
    const auto pair = [&] {
        b->turn();
        any ? b->any() : b->fresh();
    };
    static_cast<void>(ns_of(seconds / 10, pair)); // warms up
    const double ns = ns_of(seconds, pair);
    std::printf("{\"ns\": %.2f, \"live\": %zu, \"fired\": %llu}\n", ns, live, static_cast<unsigned long long>(b->fired));
    return 0;
}
