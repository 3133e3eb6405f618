// cw-bench-tasks: what coroutines cost on one core; prints {"ns": one operation} as JSON. The loop round it is included.
//
//     ready            co_await of a task that finishes at once; its frame comes from the shard's free list
//     ready-malloc     the same loop and the same promise, but frames come from operator new
//     switch           two tasks that are always ready: from the one to the other
//     yield            a coroutine that gives way once, the turn of the loop included
//     error-result     an error in a result<T> through three coroutines
//     error-exception  an exception through three coroutines, caught by a fourth
//     semaphore        acquire and release units that nobody else wants
//     event            one coroutine waits for an event, another sets it
#include <corewire/apps/runtime/command_line.hh>
#include <corewire/reactor/base/result.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/metrics/histogram.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/reactor/task/semaphore.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/when_all.hh>


#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace cw = corewire;

namespace {

/// Times batches of about 100 us. The figure is the median batch, which a disturbance of the machine does not move.
class stopwatch {
public:
    explicit stopwatch(double seconds)
        : end_(clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds))) {}
    bool goes_on() {
        const auto now = clock::now();
        if (last_ != clock::time_point{}) batches_.record(static_cast<std::uint64_t>((now - last_).count()));
        last_ = clock::now();
        return now < end_;
    }
    /// Nanoseconds an operation, of which a batch has so many.
    double ns(std::uint64_t operations) const {
        return static_cast<double>(batches_.quantile(0.5)) / static_cast<double>(operations);
    }

private:
    using clock = std::chrono::steady_clock;
    clock::time_point end_;
    clock::time_point last_{};
    cw::histogram batches_;
};

constexpr std::uint64_t batch = 20'000;

// --- ready ----------------------------------------------------------------------------------------------------------------

[[gnu::noinline]] cw::task<> finishes_at_once() { co_return; }

/// A task in every respect, but for where its frames come from.
struct heap_promise;
class heap_task : public cw::detail::task_frame<void, heap_promise> {
public:
    using promise_type = heap_promise;
    explicit heap_task(std::coroutine_handle<heap_promise> frame) noexcept : task_frame(frame) {}
};
struct heap_promise : cw::detail::task_promise_of<void> {
    static void* operator new(std::size_t size) { return ::operator new(size); }
    static void operator delete(void* p, std::size_t size) noexcept { ::operator delete(p, size); }
    heap_task get_return_object() noexcept { return heap_task{std::coroutine_handle<heap_promise>::from_promise(*this)}; }
};
[[gnu::noinline]] heap_task finishes_at_once_on_the_heap() { co_return; }

cw::task<double> ready(double seconds) {
    stopwatch watch(seconds);
    while (watch.goes_on())
        for (std::uint64_t i = 0; i < batch; ++i) co_await finishes_at_once();
    co_return watch.ns(batch);
}
cw::task<double> ready_malloc(double seconds) {
    stopwatch watch(seconds);
    while (watch.goes_on())
        for (std::uint64_t i = 0; i < batch; ++i) co_await finishes_at_once_on_the_heap();
    co_return watch.ns(batch);
}

// --- switching --------------------------------------------------------------------------------------------------------------

/// Ready again at the end of the run queue: whoever is there runs first.
struct behind_the_others final : cw::waiter {
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) noexcept {
        handle = h;
        cw::reactor::make_ready(*this);
    }
    void await_resume() const noexcept {}
};
cw::task<> takes_turns(const bool& stop, std::uint64_t& turns) {
    while (!stop) {
        ++turns;
        co_await behind_the_others{};
    }
}
cw::task<double> timed_switches(double seconds, bool& stop, std::uint64_t& turns) {
    stopwatch watch(seconds);
    const std::uint64_t before = turns;
    std::uint64_t own = 0;
    while (watch.goes_on())
        for (std::uint64_t i = 0; i < batch; ++i, ++own) co_await behind_the_others{};
    stop = true;
    co_return watch.ns(batch) * static_cast<double>(own) / static_cast<double>(own + turns - before);
}
cw::task<double> switching(double seconds) {
    bool stop = false;
    std::uint64_t turns = 0;
    auto [ns, nothing] = co_await cw::when_all(timed_switches(seconds, stop, turns), takes_turns(stop, turns));
    static_cast<void>(nothing);
    co_return ns;
}
cw::task<double> yielding(double seconds) {
    stopwatch watch(seconds);
    while (watch.goes_on())
        for (std::uint64_t i = 0; i < batch; ++i) co_await cw::yield();
    co_return watch.ns(batch);
}

// --- errors -----------------------------------------------------------------------------------------------------------------

[[gnu::noinline]] cw::task<cw::result<int>> refuses() {
    co_return cw::unexpected{std::make_error_code(std::errc::connection_refused)};
}
[[gnu::noinline]] cw::task<cw::result<int>> passes_refusal_on() {
    auto inner = co_await refuses();
    if (!inner) co_return cw::unexpected{inner.error()};
    co_return *inner + 1;
}
[[gnu::noinline]] cw::task<cw::result<int>> passes_it_on_again() {
    auto inner = co_await passes_refusal_on();
    if (!inner) co_return cw::unexpected{inner.error()};
    co_return *inner + 1;
}
cw::task<double> error_result(double seconds) {
    stopwatch watch(seconds);
    std::uint64_t errors = 0;
    std::uint64_t asked = 0;
    while (watch.goes_on())
        for (std::uint64_t i = 0; i < batch; ++i, ++asked) {
            auto outcome = co_await passes_it_on_again();
            errors += outcome.has_value() ? 0 : 1;
        }
    if (errors != asked) std::abort();
    co_return watch.ns(batch);
}

[[gnu::noinline]] cw::task<int> throws() {
    throw std::system_error(std::make_error_code(std::errc::connection_refused));
    co_return 0;
}
[[gnu::noinline]] cw::task<int> is_thrown_through() { co_return co_await throws() + 1; }
[[gnu::noinline]] cw::task<int> is_thrown_through_again() { co_return co_await is_thrown_through() + 1; }
cw::task<double> error_exception(double seconds) {
    constexpr std::uint64_t few = 200;
    stopwatch watch(seconds);
    std::uint64_t errors = 0;
    while (watch.goes_on())
        for (std::uint64_t i = 0; i < few; ++i) {
            try {
                co_await is_thrown_through_again();
            } catch (const std::system_error&) {
                ++errors;
            }
        }
    if (errors == 0) std::abort();
    co_return watch.ns(few);
}

// --- primitives -------------------------------------------------------------------------------------------------------------

cw::task<double> semaphore(double seconds) {
    cw::semaphore units{4};
    stopwatch watch(seconds);
    while (watch.goes_on())
        for (std::uint64_t i = 0; i < batch; ++i) {
            const auto held = co_await units.acquire();
            asm volatile("" : : "r"(held.count()) : "memory");
        }
    co_return watch.ns(batch);
}
cw::task<> sets(cw::event& asked, cw::event& answered, const bool& stop) {
    for (;;) {
        co_await asked.wait();
        asked.reset();
        if (stop) co_return;
        answered.set();
    }
}
cw::task<double> waits_for_events(cw::event& asked, cw::event& answered, bool& stop, double seconds) {
    stopwatch watch(seconds);
    while (watch.goes_on())
        for (std::uint64_t i = 0; i < batch; i += 2) { // there and back
            asked.set();
            co_await answered.wait();
            answered.reset();
        }
    stop = true;
    asked.set();
    co_return watch.ns(batch);
}
cw::task<double> event(double seconds) {
    cw::event asked, answered;
    bool stop = false;
    auto [ns, nothing] = co_await cw::when_all(waits_for_events(asked, answered, stop, seconds), sets(asked, answered, stop));
    static_cast<void>(nothing);
    co_return ns;
}

struct bench_case {
    const char* name;
    cw::task<double> (*run)(double seconds);
};
constexpr std::array cases{
    bench_case{"ready", ready},          bench_case{"ready-malloc", ready_malloc}, bench_case{"switch", switching},
    bench_case{"yield", yielding},       bench_case{"error-result", error_result}, bench_case{"error-exception", error_exception},
    bench_case{"semaphore", semaphore},  bench_case{"event", event},
};

} // namespace

int main(int argc, char** argv) {
    cw::command_line command("cw-bench-tasks", "What coroutines cost on one core; prints JSON.");
    std::string name;
    double seconds = 1;
    std::vector<std::string> names;
    for (const bench_case& each : cases) names.emplace_back(each.name);
    command.add_option("case", name, "What to measure").required().check_one_of(names);
    command.add_option("--duration", seconds, "Seconds measured").check_range(0.001, 3600.0).capture_default_str();
    if (const auto status = command.parse(argc, argv)) return *status;
    cw::reactor here;
    for (const bench_case& each : cases) {
        if (name != each.name) continue;
        cw::run_until_complete(here, each.run(seconds / 20)); // to warm up
        std::printf("{\"ns\": %.3f}\n", cw::run_until_complete(here, each.run(seconds)));
    }
    return 0;
}
