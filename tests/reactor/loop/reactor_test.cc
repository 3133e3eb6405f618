// The turn: its order, its budget, its idle policy. Sleeping is tested on the real clock, with generous bounds.
// ctest: processors=2
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/loop/tsc_clock.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/spawn.hh>
#include <tests/reactor/task/driven.hh>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <ctime>
#include <string>
#include <sys/eventfd.h>
#include <thread>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;
using reactor_test::driven;

namespace {

struct logging_poller final : poller {
    explicit logging_poller(std::string& l) : log(l) {}
    bool poll(time_point) override { return log += 'p', false; }
    bool flush(time_point) override { return log += 'f', false; }
    std::string& log;
};

task<> writes_down(std::string& log) {
    co_await corewire::yield();
    log += 'c';
}
task<> yields_for_ever(int& resumptions) {
    for (;;) {
        co_await corewire::yield();
        ++resumptions;
    }
}
/// Two of these wake each other for ever, without ever giving way.
task<> volleys(event& mine, event& theirs, int& resumptions) {
    for (;;) {
        co_await mine.wait();
        mine.reset();
        ++resumptions;
        theirs.set();
    }
}
task<> appends(std::string& log, char c) {
    for (int i = 0; i < 3; ++i) {
        co_await corewire::yield();
        log += c;
    }
}
task<> exits_when(event& e, reactor& r) {
    co_await e.wait();
    r.request_exit();
}
task<> exits_after(duration d, reactor& r) {
    co_await sleep_for(d);
    r.request_exit();
}

duration cpu_time() {
    timespec t;
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec};
}

/// Hands work in from another thread, by the protocol that mailboxes use.
struct inbox final : poller {
    bool poll(time_point) override {
        if (!full.exchange(false)) return false;
        arrived.set();
        return true;
    }
    bool prepare_sleep() override {
        asleep_soon.store(true);
        return !full.load();
    }
    void put(reactor& r) {
        full.store(true);
        r.wake_if_asleep();
    }
    std::atomic<bool> full{false};
    std::atomic<bool> asleep_soon{false};
    event arrived;
};

/// A clock on which time passes by being looked at.
struct ticking_clock final : clock_source {
    time_point now() noexcept override { return time += 5us; }
    time_point time = from_ns(1'000'000'000);
};

struct fd_poller final : poller {
    bool poll(time_point) override {
        std::uint64_t n = 0;
        if (::read(fd.get(), &n, sizeof n) != sizeof n) return false;
        arrived.set();
        return true;
    }
    bool prepare_sleep() override {
        asleep_soon.store(true);
        return true;
    }
    int wake_fd() const override { return fd.get(); }
    std::atomic<bool> asleep_soon{false};
    unique_fd fd{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    event arrived;
};

} // namespace

BOOST_AUTO_TEST_SUITE(reactor)

BOOST_AUTO_TEST_CASE(the_lengths_of_turns_that_did_something_are_counted) {
    driven d;
    struct worker {
        static task<> works(driven& w) {
            for (int i = 0; i < 2; ++i) {
                co_await corewire::yield();
                w.clock.time += 300us;
            }
        }
    };
    corewire::spawn(worker::works(d)); // runs as far as its first yield()
    for (int i = 0; i < 2; ++i) d.loop.poll_once();
    BOOST_TEST(d.loop.turn_lengths().count() == 1u); // the second is not over
    d.loop.poll_once();
    BOOST_TEST(d.loop.turn_lengths().count() == 2u);
    BOOST_TEST(d.loop.turn_lengths().sum() == 600'000u);
    d.clock.time += 1s; // nothing to do in all this time
    for (int i = 0; i < 3; ++i) d.loop.poll_once();
    BOOST_TEST(d.loop.turn_lengths().count() == 2u);
}

BOOST_AUTO_TEST_CASE(a_turn_polls_fires_timers_resumes_and_flushes_in_that_order) {
    driven d;
    std::string log;
    struct logging_timer : timer {
        explicit logging_timer(std::string& l) : timer([](timer& t) noexcept { static_cast<logging_timer&>(t).log += 't'; }), log(l) {}
        std::string& log;
    } t{log};
    logging_poller p{log};
    d.loop.add_poller(p);
    d.loop.timers().arm(t, d.clock.time);
    d.loop.root_group().spawn(writes_down(log));
    BOOST_CHECK(d.loop.poll_once());
    BOOST_CHECK_EQUAL(log, "ptcf");
}

BOOST_AUTO_TEST_CASE(a_turn_without_work_says_so) {
    driven d;
    std::string log;
    logging_poller p{log};
    d.loop.add_poller(p);
    BOOST_CHECK(!d.loop.poll_once());
}

BOOST_AUTO_TEST_CASE(coroutines_take_turns) {
    driven d;
    std::string log;
    for (const char c : {'a', 'b', 'c'}) d.loop.root_group().spawn(appends(log, c));
    d.settle();
    BOOST_CHECK_EQUAL(log, "abcabcabc");
}

BOOST_AUTO_TEST_CASE(one_that_yields_for_ever_runs_once_a_turn) {
    driven d;
    int resumptions = 0;
    d.loop.root_group().spawn(yields_for_ever(resumptions));
    for (int turn = 0; turn < 10; ++turn) d.loop.poll_once();
    BOOST_CHECK_EQUAL(resumptions, 10);
}

BOOST_AUTO_TEST_CASE(two_that_wake_each_other_for_ever_use_up_the_budget_and_no_more) {
    driven d{reactor_options{.resume_budget = 50}};
    event a, b;
    int resumptions = 0;
    d.loop.root_group().spawn(volleys(a, b, resumptions));
    d.loop.root_group().spawn(volleys(b, a, resumptions));
    a.set();
    std::string log;
    logging_poller p{log};
    d.loop.add_poller(p);
    for (int turn = 0; turn < 4; ++turn) d.loop.poll_once();
    BOOST_CHECK_EQUAL(resumptions, 200);
    BOOST_CHECK_EQUAL(log, "pfpfpfpf");
}

BOOST_AUTO_TEST_CASE(the_time_for_coroutines_is_bounded_too) {
    ticking_clock clock;
    corewire::reactor r{{.resume_budget = 1'000'000, .resume_time = 20us, .clock = &clock}};
    const corewire::reactor::scope here(r);
    event a, b;
    int resumptions = 0;
    r.root_group().spawn(volleys(a, b, resumptions));
    r.root_group().spawn(volleys(b, a, resumptions));
    a.set();
    r.poll_once();
    BOOST_CHECK_EQUAL(resumptions, 64); // four looks at the clock, one every 16
    r.root_group().destroy_all();
}

namespace {

struct counting_poller final : poller {
    bool poll(time_point) override { return ++polls, busy; }
    bool flush(time_point) override { return ++flushes, false; }
    int polls = 0, flushes = 0;
    bool busy = false;
};

} // namespace

BOOST_AUTO_TEST_CASE(a_watcher_is_polled_in_idle_turns_and_in_few_busy_ones_and_never_flushed) {
    driven d;
    counting_poller nic, flag;
    d.loop.add_poller(nic);
    d.loop.add_watcher(flag);
    for (int turn = 0; turn < 10; ++turn) d.loop.poll_once();
    BOOST_CHECK_EQUAL(flag.polls, 10);
    nic.busy = true;
    for (unsigned turn = 0; turn < 5 * corewire::reactor::watch_every; ++turn) d.loop.poll_once();
    BOOST_CHECK_EQUAL(flag.polls, 15);
    BOOST_CHECK_EQUAL(nic.flushes, 10 + 5 * static_cast<int>(corewire::reactor::watch_every));
    BOOST_CHECK_EQUAL(flag.flushes, 0);
    nic.busy = false;
    flag.busy = true;
    BOOST_CHECK(d.loop.poll_once()); // what it found counts as work
}

BOOST_AUTO_TEST_CASE(a_poller_that_is_destroyed_is_polled_no_more) {
    driven d;
    std::string log;
    {
        logging_poller p{log};
        d.loop.add_poller(p);
        d.loop.poll_once();
    }
    d.loop.poll_once();
    BOOST_CHECK_EQUAL(log, "pf");
}

BOOST_AUTO_TEST_CASE(the_current_reactor_follows_the_innermost_scope) {
    corewire::reactor a, b;
    BOOST_CHECK(corewire::reactor::current_or_null() == nullptr);
    {
        const corewire::reactor::scope outer(a);
        {
            const corewire::reactor::scope inner(b);
            BOOST_CHECK_EQUAL(&corewire::reactor::current(), &b);
        }
        BOOST_CHECK_EQUAL(&corewire::reactor::current(), &a);
    }
    BOOST_CHECK(corewire::reactor::current_or_null() == nullptr);
}

BOOST_AUTO_TEST_CASE(the_real_clock_agrees_with_the_kernels_and_never_steps_back) {
    clock_source& clock = real_clock();
    const auto kernel_now = [] {
        timespec t;
        ::clock_gettime(CLOCK_MONOTONIC, &t);
        return from_ns(std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec);
    };
    time_point before = clock.now();
    for (int i = 0; i < 100'000; ++i) {
        const time_point now = clock.now();
        BOOST_REQUIRE(now >= before);
        before = now;
    }
    const time_point low = kernel_now();
    const time_point ours = clock.now();
    const time_point high = kernel_now();
    BOOST_CHECK(ours >= low - 1ms);
    BOOST_CHECK(ours <= high + 1ms);
}

BOOST_AUTO_TEST_CASE(an_idle_reactor_sleeps_until_its_next_timer) {
    corewire::reactor r{{.spin = 100us}};
    {
        const corewire::reactor::scope here(r);
        r.read_clock();
        r.root_group().spawn(exits_after(300ms, r));
    }
    const time_point begun = r.read_clock();
    const duration cpu_begun = cpu_time();
    r.run();
    const duration slept = r.read_clock() - begun;
    BOOST_CHECK(slept >= 299ms);
    BOOST_CHECK(slept < 20s);
    BOOST_CHECK(cpu_time() - cpu_begun < 30ms);
    BOOST_CHECK_GE(r.sleeps(), 1u);
    BOOST_CHECK_LE(r.sleeps(), 20u); // a timer moves down its wheel at most once a level
}

BOOST_AUTO_TEST_CASE(work_from_another_thread_wakes_a_sleeping_reactor) {
    corewire::reactor r{{.spin = 0us}};
    inbox in;
    r.add_poller(in);
    {
        const corewire::reactor::scope here(r);
        r.root_group().spawn(exits_when(in.arrived, r));
    }
    std::thread other([&] {
        while (!in.asleep_soon) std::this_thread::yield();
        in.put(r);
    });
    r.run();
    other.join();
    BOOST_CHECK(in.arrived.is_set());
}

BOOST_AUTO_TEST_CASE(no_wake_up_is_lost_however_the_two_threads_interleave) {
    corewire::reactor r{{.spin = 0us}};
    inbox in;
    r.add_poller(in);
    constexpr int rounds = 3000;
    std::atomic<int> taken{0};
    struct counter {
        static task<> count(inbox& in, std::atomic<int>& taken, corewire::reactor& r) {
            for (int i = 0; i < rounds; ++i) {
                co_await in.arrived.wait();
                in.arrived.reset();
                taken.store(i + 1);
            }
            r.request_exit();
        }
    };
    {
        const corewire::reactor::scope here(r);
        r.root_group().spawn(counter::count(in, taken, r));
    }
    std::thread other([&] {
        for (int i = 0; i < rounds; ++i) {
            in.put(r);
            while (taken.load() != i + 1) std::this_thread::yield();
        }
    });
    r.run(); // a lost wake-up would hang here
    other.join();
    BOOST_CHECK_EQUAL(taken.load(), rounds);
}

BOOST_AUTO_TEST_CASE(a_pollers_descriptor_wakes_a_sleeping_reactor) {
    corewire::reactor r{{.spin = 0us}};
    fd_poller p;
    r.add_poller(p);
    {
        const corewire::reactor::scope here(r);
        r.root_group().spawn(exits_when(p.arrived, r));
    }
    std::thread other([&] {
        while (!p.asleep_soon) std::this_thread::yield();
        const std::uint64_t one = 1;
        BOOST_CHECK_EQUAL(::write(p.fd.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
    });
    r.run();
    other.join();
    BOOST_CHECK(p.arrived.is_set());
}

BOOST_AUTO_TEST_SUITE_END()
