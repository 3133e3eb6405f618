// The stall detector, on the real clock: tasks stall until they are reported, so that no test depends on how fast the machine is.
// ctest: timeout=120 processors=2 serial=yes
#include <corewire/reactor/loop/scheduling_group.hh>
#include <corewire/reactor/loop/stall_detector.hh>
#include <corewire/reactor/loop/tsc_clock.hh>
#include <corewire/reactor/shard/run_blocking.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/task/run_in.hh>
#include <corewire/reactor/task/sleep.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

constexpr auto give_up_after = 20s;

bool mentions(const stall_report& r, const std::string& function) {
    for (const std::string& frame : r.frames)
        if (frame.find(function) != std::string::npos) return true;
    return false;
}

/// What was reported, by the detector's thread, of the function that a test stalls in. Where a hypervisor takes the core away, any turn may
/// be a stall: of those nothing is said here.
struct reports {
    explicit reports(std::string of) : function(std::move(of)) {}
    void add(const stall_report& r) {
        const std::lock_guard lock(mutex);
        ++others;
        if (!mentions(r, function)) return;
        --others;
        all.push_back(r);
        count.store(all.size());
    }
    const std::string function;
    std::mutex mutex;
    std::vector<stall_report> all;
    std::size_t others = 0;
    std::atomic<std::size_t> count{0};
};
constexpr const char* holding = "holds_the_core_for_the_test";
constexpr const char* sleeping = "sleeps_in_the_kernel_for_the_test";

runtime_options one_shard(reports& to, duration limit) {
    runtime_options options;
    options.cpus = {0};
    options.pin = false;
    options.handle_signals = false;
    options.loop.spin = 50us;
    options.stall = {.limit = limit, .between_reports = 0s, .report = [&to](const stall_report& r) { to.add(r); }};
    return options;
}

bool passed(time_point start) { return real_clock().now() - start > give_up_after; }

/// Until it is reported, and for `longer` after that.
[[gnu::noinline]] void holds_the_core_for_the_test(const reports& r, duration longer = {}) {
    const time_point start = real_clock().now();
    while (r.count.load() == 0 && !passed(start)) {}
    const time_point reported = real_clock().now();
    while (real_clock().now() - reported < longer) {}
    asm volatile("" ::: "memory"); // no tail call
}
[[gnu::noinline]] void sleeps_in_the_kernel_for_the_test(const reports& r) {
    const time_point start = real_clock().now();
    while (r.count.load() == 0 && !passed(start)) std::this_thread::sleep_for(500ms);
    asm volatile("" ::: "memory");
}

/// Times that the detector's thread has gone to sleep in its life; -1 when there is none.
long rests_of_detector() {
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
        std::string name, line;
        std::ifstream(thread.path() / "comm") >> name;
        if (name != "stall-detector") continue;
        std::ifstream status(thread.path() / "status");
        while (std::getline(status, line))
            if (line.starts_with("voluntary_ctxt_switches:")) return std::stol(line.substr(line.find(':') + 1));
    }
    return -1;
}

} // namespace

BOOST_AUTO_TEST_SUITE(stall_detector)

BOOST_AUTO_TEST_CASE(a_task_that_holds_the_core_is_reported_once_with_its_group_and_where_it_is) {
    static reports got{holding};
    corewire::runtime r(one_shard(got, 30ms));
    struct body {
        static task<> stalls() {
            holds_the_core_for_the_test(got, 100ms); // still the same turn: no second report
            co_return;
        }
        static task<> run() {
            const auto batch = reactor::current().make_scheduling_group("batch", 100);
            co_await run_in(batch, stalls());
        }
    };
    r.run([] { return body::run(); });
    BOOST_REQUIRE_EQUAL(got.all.size(), 1u);
    const stall_report& report = got.all[0];
    BOOST_TEST_MESSAGE(to_string(report));
    BOOST_TEST(report.group == "batch");
    BOOST_TEST(report.shard == 0u);
    BOOST_CHECK(report.held >= 30ms);
    BOOST_TEST(mentions(report, "loop/reactor.cc:")); // lines, too
    BOOST_TEST(mentions(report, "corewire::reactor::poll_once"));
}

BOOST_AUTO_TEST_CASE(a_task_that_blocks_in_the_kernel_is_reported_as_well) {
    static reports got{sleeping};
    corewire::runtime r(one_shard(got, 30ms));
    r.run([]() -> task<> {
        sleeps_in_the_kernel_for_the_test(got);
        co_return;
    });
    BOOST_REQUIRE_GE(got.all.size(), 1u);
    BOOST_TEST(got.all[0].group == "main");
}

BOOST_AUTO_TEST_CASE(each_stall_is_counted_and_reports_are_rate_limited) {
    static std::atomic<int> printed;
    static reactor* loop;
    printed = 0;
    corewire::stall_detector detector({.limit = 10ms, .between_reports = 1h, .report = [](const stall_report&) { ++printed; }});
    corewire::reactor r;
    loop = &r;
    const corewire::reactor::scope here(r);
    struct body {
        static task<> stalls(const corewire::stall_detector& by) {
            for (std::uint64_t n = 1; n <= 3; ++n) {
                const time_point start = real_clock().now();
                while (by.stalls() < n && !passed(start)) {}
                co_await corewire::yield();
            }
            loop->request_exit();
        }
    };
    detector.watch(r);
    r.root_group().spawn(body::stalls(detector));
    r.run();
    detector.unwatch(r);
    BOOST_TEST(detector.stalls() >= 3u);
    BOOST_TEST(printed == 1);
}

BOOST_AUTO_TEST_CASE(a_busy_core_whose_turns_are_short_is_not_reported) {
    static duration longest;
    std::size_t reported = 0;
    for (int tries = 0; tries < 20; ++tries) {
        reports got{"nothing here"};
        longest = {};
        corewire::runtime r(one_shard(got, 100ms));
        r.run([]() -> task<> {
            const time_point start = real_clock().now();
            while (real_clock().now() - start < 600ms) {
                const time_point stretch = real_clock().now();
                while (real_clock().now() - stretch < 1ms) {}
                co_await corewire::yield();
                longest = std::max(longest, real_clock().now() - stretch);
            }
        });
        reported = got.others;
        if (reported == 0 || longest < 50ms) break; // else the machine has held it: that was a stall, and says nothing of our turns
    }
    BOOST_TEST(reported == 0u);
}

BOOST_AUTO_TEST_CASE(the_detector_sleeps_while_the_cores_sleep_and_is_awake_when_they_are) {
    static reports got{holding};
    static long before, after;
    corewire::runtime r(one_shard(got, 10ms));
    r.run([]() -> task<> {
        co_await sleep_for(100ms);
        before = co_await run_blocking(&rests_of_detector); // to read what /proc says may take longer than a turn may
        co_await sleep_for(500ms);
        after = co_await run_blocking(&rests_of_detector);
        holds_the_core_for_the_test(got); // it sees what comes after a sleep
    });
    BOOST_TEST(before >= 0);
    BOOST_TEST(after - before <= 20); // a timer moves down its wheel a few times; it is not 50 looks
    BOOST_TEST(got.all.size() == 1u);
}

BOOST_AUTO_TEST_CASE(what_is_printed_names_shard_group_time_and_frames) {
    stall_report r{.shard = 3, .group = "batch", .held = 27'400us, .frames = {"f() at a.cc:1", "g() at b.cc:2"}, .unreported = 4};
    BOOST_TEST(to_string(r) == "shard 3: a task of group 'batch' has held the core for 27.4 ms (4 more since the last report)\n"
                               "    #0 f() at a.cc:1\n    #1 g() at b.cc:2\n");
    r.frames.clear();
    r.unreported = 0;
    BOOST_TEST(to_string(r) == "shard 3: a task of group 'batch' has held the core for 27.4 ms; its thread does not answer\n");
}

BOOST_AUTO_TEST_SUITE_END()
