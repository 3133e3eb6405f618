// A reactor's io_uring, and epoll in its place: completions, batching, cancellation, tearing down, and waking a reactor that sleeps.
#include "ring_world.hh"

#include <corewire/reactor/task/sleep.hh>

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

BOOST_AUTO_TEST_CASE_TEMPLATE(the_ring_is_made_once, Backend, both_backends) {
    ring_world w(Backend::options());
    BOOST_TEST(&w.loop.io() == &w.ring);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_request_completes_into_its_operation, Backend, both_backends) {
    ring_world w(Backend::options());
    probe op;
    w.ring.start(op, [](io_uring_sqe& entry) { io_uring_prep_nop(&entry); });
    BOOST_TEST(op.in_kernel());
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.completions == 1);
    BOOST_TEST(op.result == 0);
    BOOST_TEST(w.ring.in_kernel() == 0u);
}

BOOST_FIXTURE_TEST_CASE(the_requests_of_a_turn_are_submitted_together, ring_world) {
    std::array<probe, 100> ops;
    for (probe& op : ops) ring.start(op, [](io_uring_sqe& entry) { io_uring_prep_nop(&entry); });
    const std::uint64_t before = ring.statistics().enters;
    loop.poll_once();
    BOOST_TEST(ring.statistics().enters == before + 1);
    turn_until([&] { return ring.in_kernel() == 0; });
    for (const probe& op : ops) BOOST_TEST(op.completions == 1);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(more_requests_than_entries_are_submitted_early, Backend, both_backends) {
    ring_world w(Backend::options());
    std::vector<probe> ops(3 * uring::entries + 1);
    for (probe& op : ops) w.ring.start(op, [](io_uring_sqe& entry) { io_uring_prep_nop(&entry); });
    BOOST_TEST(w.ring.statistics().queue_full == 3u);
    w.turn_until([&] { return w.ring.in_kernel() == 0; });
    for (const probe& op : ops) BOOST_REQUIRE_EQUAL(op.completions, 1);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(more_completions_than_the_queue_holds_all_arrive, Backend, both_backends) {
    ring_world w(Backend::options());
    std::vector<probe> ops(2 * uring::completion_entries);
    for (probe& op : ops) w.ring.start(op, [](io_uring_sqe& entry) { io_uring_prep_nop(&entry); });
    w.turn_until([&] { return w.ring.in_kernel() == 0; });
    for (const probe& op : ops) BOOST_REQUIRE_EQUAL(op.completions, 1);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(one_turn_delivers_a_bounded_number, Backend, both_backends) {
    ring_world w(Backend::options());
    std::vector<probe> ops(uring::completions_a_turn + 1);
    for (probe& op : ops) w.ring.start(op, [](io_uring_sqe& entry) { io_uring_prep_nop(&entry); });
    w.loop.poll_once(); // submits
    const std::uint64_t before = w.ring.statistics().completions;
    w.loop.poll_once();
    BOOST_TEST(w.ring.statistics().completions - before == uring::completions_a_turn);
    w.turn_until([&] { return w.ring.in_kernel() == 0; });
}

BOOST_FIXTURE_TEST_CASE(an_idle_ring_makes_no_system_call, ring_world) {
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

BOOST_FIXTURE_TEST_CASE(a_multishot_request_stays_in_the_kernel, ring_world) {
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

BOOST_AUTO_TEST_CASE_TEMPLATE(a_request_is_cancelled_even_before_it_was_submitted, Backend, both_backends) {
    ring_world w(Backend::options());
    socket_pair pair;
    probe op;
    std::array<char, 8> bytes;
    w.ring.start(op, [&](io_uring_sqe& entry) { io_uring_prep_recv(&entry, pair.ours.get(), bytes.data(), bytes.size(), 0); });
    w.ring.cancel(op);
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.completions == 1);
    BOOST_TEST(op.result == -ECANCELED);
    w.ring.cancel(op); // harmless now
    w.loop.poll_once();
}

BOOST_AUTO_TEST_CASE_TEMPLATE(wait_returns_when_the_kernel_is_done, Backend, both_backends) {
    ring_world w(Backend::options());
    socket_pair pair;
    probe op;
    std::array<char, 8> bytes;
    w.ring.start(op, [&](io_uring_sqe& entry) { io_uring_prep_recv(&entry, pair.ours.get(), bytes.data(), bytes.size(), 0); });
    w.ring.cancel(op);
    w.ring.wait(op);
    BOOST_TEST(!op.in_kernel());
    BOOST_TEST(op.result == -ECANCELED);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_dying_ring_takes_everything_back, Backend, both_backends) {
    socket_pair pair;
    probe op;
    std::array<char, 8> bytes{};
    {
        reactor loop({.io = Backend::options()});
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

BOOST_AUTO_TEST_CASE_TEMPLATE(a_completion_wakes_a_reactor_that_sleeps, Backend, both_backends) {
    reactor loop({.spin = std::chrono::microseconds{0}, .io = Backend::options()});
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

BOOST_AUTO_TEST_CASE_TEMPLATE(a_sleeping_reactor_with_a_ring_costs_nothing, Backend, both_backends) {
    reactor loop({.spin = std::chrono::microseconds{0}, .io = Backend::options()});
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
