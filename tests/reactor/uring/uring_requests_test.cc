// A reactor's io_uring: completions, batching, cancellation, tearing down, and waking a reactor that sleeps.
#include <corewire/reactor/file/uring.hh>

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/task/sleep.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <poll.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace corewire {

namespace {

/// Remembers how it completed.
struct probe : uring_operation {
    probe() noexcept
        : uring_operation([](uring_operation& op, int r, unsigned f) noexcept {
              auto& self = static_cast<probe&>(op);
              ++self.completions;
              self.result = r;
              self.flags = f;
          }) {}
    int completions = 0;
    int result = 0;
    unsigned flags = 0;
};

struct socket_pair {
    socket_pair() {
        std::array<int, 2> both{};
        BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both.data()) == 0);
        ours = unique_fd{both[0]};
        theirs = unique_fd{both[1]};
    }
    void say(std::string_view text) {
        BOOST_REQUIRE(::write(theirs.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    }
    unique_fd ours;
    unique_fd theirs;
};

struct ring_fixture {
    reactor loop;
    reactor::scope here{loop};
    uring& ring = loop.io();

    /// Turns until `done()`, for a minute at most.
    template <typename Done>
    void turn_until(Done done) {
        const auto enough = std::chrono::steady_clock::now() + std::chrono::minutes{1};
        while (!done() && std::chrono::steady_clock::now() < enough) loop.poll_once();
        BOOST_REQUIRE(done());
    }
};

/// True if the kernel says that this thread of ours waits.
bool is_asleep(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string line;
    std::getline(file, line);
    const std::size_t name_ends = line.rfind(')');
    return name_ends + 2 < line.size() && line[name_ends + 2] == 'S';
}

duration cpu_time() {
    rusage used{};
    ::getrusage(RUSAGE_THREAD, &used);
    const auto of = [](const timeval& t) {
        return std::chrono::seconds{t.tv_sec} + std::chrono::microseconds{t.tv_usec};
    };
    return of(used.ru_utime) + of(used.ru_stime);
}

} // namespace

BOOST_AUTO_TEST_SUITE(uring_requests)

BOOST_FIXTURE_TEST_CASE(the_ring_is_made_once, ring_fixture) { BOOST_TEST(&loop.io() == &ring); }

BOOST_FIXTURE_TEST_CASE(a_request_completes_into_its_operation, ring_fixture) {
    probe op;
    ring.start(op, [](io_uring_sqe& entry) { io_uring_prep_nop(&entry); });
    BOOST_TEST(op.in_kernel());
    turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.completions == 1);
    BOOST_TEST(op.result == 0);
    BOOST_TEST(ring.in_kernel() == 0u);
}

BOOST_FIXTURE_TEST_CASE(the_requests_of_a_turn_are_submitted_together, ring_fixture) {
    std::array<probe, 100> ops;
    for (probe& op : ops) ring.start(op, [](io_uring_sqe& entry) { io_uring_prep_nop(&entry); });
    const std::uint64_t before = ring.statistics().enters;
    loop.poll_once();
    BOOST_TEST(ring.statistics().enters == before + 1);
    turn_until([&] { return ring.in_kernel() == 0; });
    for (const probe& op : ops) BOOST_TEST(op.completions == 1);
}

BOOST_FIXTURE_TEST_CASE(more_requests_than_entries_are_submitted_early, ring_fixture) {
    std::vector<probe> ops(3 * uring::entries + 1);
    for (probe& op : ops) ring.start(op, [](io_uring_sqe& entry) { io_uring_prep_nop(&entry); });
    BOOST_TEST(ring.statistics().queue_full == 3u);
    turn_until([&] { return ring.in_kernel() == 0; });
    for (const probe& op : ops) BOOST_REQUIRE_EQUAL(op.completions, 1);
}

BOOST_FIXTURE_TEST_CASE(more_completions_than_the_queue_holds_all_arrive, ring_fixture) {
    std::vector<probe> ops(2 * uring::completion_entries);
    for (probe& op : ops) ring.start(op, [](io_uring_sqe& entry) { io_uring_prep_nop(&entry); });
    turn_until([&] { return ring.in_kernel() == 0; });
    for (const probe& op : ops) BOOST_REQUIRE_EQUAL(op.completions, 1);
}

BOOST_FIXTURE_TEST_CASE(one_turn_delivers_a_bounded_number, ring_fixture) {
    std::vector<probe> ops(uring::completions_a_turn + 1);
    for (probe& op : ops) ring.start(op, [](io_uring_sqe& entry) { io_uring_prep_nop(&entry); });
    loop.poll_once(); // submits
    const std::uint64_t before = ring.statistics().completions;
    loop.poll_once();
    BOOST_TEST(ring.statistics().completions - before == uring::completions_a_turn);
    turn_until([&] { return ring.in_kernel() == 0; });
}

BOOST_FIXTURE_TEST_CASE(an_idle_ring_makes_no_system_call, ring_fixture) {
    socket_pair pair;
    probe op;
    ring.start(op, [&](io_uring_sqe& entry) { io_uring_prep_poll_add(&entry, pair.ours.get(), POLLIN); });
    loop.poll_once();
    loop.poll_once();
    const std::uint64_t before = ring.statistics().enters;
    for (int i = 0; i < 1000; ++i) loop.poll_once();
    BOOST_TEST(ring.statistics().enters == before);
    pair.say("x");
    turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.result == POLLIN);
    BOOST_TEST(ring.statistics().enters == before + 1);
}

BOOST_FIXTURE_TEST_CASE(a_multishot_request_stays_in_the_kernel, ring_fixture) {
    socket_pair pair;
    probe op;
    ring.start(op, [&](io_uring_sqe& entry) { io_uring_prep_poll_multishot(&entry, pair.ours.get(), POLLIN); });
    loop.poll_once();
    for (int round = 1; round <= 3; ++round) {
        pair.say("x");
        turn_until([&] { return op.completions == round; });
        BOOST_TEST(op.in_kernel());
        BOOST_TEST((op.flags & IORING_CQE_F_MORE) != 0u);
    }
    ring.cancel(op);
    turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.result == -ECANCELED);
}

BOOST_FIXTURE_TEST_CASE(a_request_is_cancelled_even_before_it_was_submitted, ring_fixture) {
    socket_pair pair;
    probe op;
    std::array<char, 8> bytes;
    ring.start(op, [&](io_uring_sqe& entry) { io_uring_prep_recv(&entry, pair.ours.get(), bytes.data(), bytes.size(), 0); });
    ring.cancel(op);
    turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.completions == 1);
    BOOST_TEST(op.result == -ECANCELED);
    ring.cancel(op); // harmless now
    loop.poll_once();
}

BOOST_FIXTURE_TEST_CASE(wait_returns_when_the_kernel_is_done, ring_fixture) {
    socket_pair pair;
    probe op;
    std::array<char, 8> bytes;
    ring.start(op, [&](io_uring_sqe& entry) { io_uring_prep_recv(&entry, pair.ours.get(), bytes.data(), bytes.size(), 0); });
    ring.cancel(op);
    ring.wait(op);
    BOOST_TEST(!op.in_kernel());
    BOOST_TEST(op.result == -ECANCELED);
}

BOOST_AUTO_TEST_CASE(a_dying_ring_takes_everything_back) {
    socket_pair pair;
    probe op;
    std::array<char, 8> bytes{};
    {
        reactor loop;
        reactor::scope here(loop);
        loop.io().start(op, [&](io_uring_sqe& entry) {
            io_uring_prep_recv(&entry, pair.ours.get(), bytes.data(), bytes.size(), 0);
        });
        loop.poll_once();
        BOOST_TEST(op.in_kernel());
    }
    BOOST_TEST(!op.in_kernel());
    BOOST_TEST(op.completions == 0);
    pair.say("late");
    BOOST_TEST(bytes[0] == '\0');
    std::array<char, 8> ours{};
    BOOST_TEST(::read(pair.ours.get(), ours.data(), ours.size()) == 4); // nobody took it from the socket
}

BOOST_AUTO_TEST_CASE(a_completion_wakes_a_reactor_that_sleeps) {
    reactor loop({.spin = std::chrono::microseconds{0}});
    reactor::scope here(loop);
    socket_pair pair;
    struct exiting_probe : uring_operation {
        explicit exiting_probe(reactor& r) noexcept
            : uring_operation([](uring_operation& op, int, unsigned) noexcept {
                  static_cast<exiting_probe&>(op).loop.request_exit();
              }),
              loop(r) {}
        reactor& loop;
    };
    struct sleep_watch final : poller {
        bool poll(time_point) override { return false; }
        bool prepare_sleep() override {
            asleep_soon.store(true);
            return true;
        }
        std::atomic<bool> asleep_soon{false};
    } watch;
    loop.add_poller(watch);
    const pid_t sleeper = ::gettid();
    for (int round = 0; round < 3; ++round) {
        watch.asleep_soon = false;
        exiting_probe op(loop);
        loop.io().start(op, [&](io_uring_sqe& entry) { io_uring_prep_poll_add(&entry, pair.ours.get(), POLLIN); });
        const std::uint64_t sleeps = loop.sleeps();
        std::thread other([&] {
            while (!watch.asleep_soon) std::this_thread::yield();
            const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds{20};
            while (!is_asleep(sleeper) && std::chrono::steady_clock::now() < enough) std::this_thread::yield();
            pair.say("wake up");
        });
        loop.run();
        other.join();
        BOOST_TEST(loop.sleeps() > sleeps);
        BOOST_TEST(!op.in_kernel());
        std::array<char, 16> read_away;
        BOOST_TEST(::read(pair.ours.get(), read_away.data(), read_away.size()) == 7);
    }
}

BOOST_AUTO_TEST_CASE(a_sleeping_reactor_with_a_ring_costs_nothing) {
    reactor loop({.spin = std::chrono::microseconds{0}});
    reactor::scope here(loop);
    socket_pair pair;
    probe op;
    loop.io().start(op, [&](io_uring_sqe& entry) { io_uring_prep_poll_add(&entry, pair.ours.get(), POLLIN); });
    duration least = std::chrono::hours{1}; // of three tries: interrupts are charged to whom they interrupt
    for (int tries = 0; tries < 3; ++tries) {
        loop.root_group().spawn([](reactor& r) -> task<> {
            co_await sleep_for(std::chrono::milliseconds{300});
            r.request_exit();
        }(loop));
        const duration before = cpu_time();
        loop.run();
        least = std::min(least, cpu_time() - before);
    }
    BOOST_TEST(least.count() < std::chrono::nanoseconds{std::chrono::milliseconds{3}}.count()); // 1 %
    loop.io().cancel(op);
    loop.io().wait(op);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire
