// A kernel that takes no submissions for a while, for want of memory or of room for completions: nothing is lost, nothing ends the process.
#include <corewire/reactor/file/uring.hh>
#include <corewire/reactor/file/uring_setup.hh>

#include <corewire/reactor/base/unique_fd.hh>

#include <boost/test/unit_test.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <numeric>
#include <optional>
#include <poll.h>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace corewire {

namespace {

/// Remembers how it completed.
struct probe : uring_operation {
    probe() noexcept
        : uring_operation([](uring_operation& op, int r, unsigned) noexcept {
              auto& self = static_cast<probe&>(op);
              ++self.completions;
              self.result = r;
              if (self.order != nullptr) self.order->push_back(self.number);
          }) {}
    int completions = 0;
    int result = 0;
    std::vector<int>* order = nullptr;
    int number = 0;
};

struct socket_pair {
    socket_pair() {
        std::array<int, 2> both{};
        BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both.data()) == 0);
        ours = unique_fd{both[0]};
        theirs = unique_fd{both[1]};
    }
    void say(std::string_view text) const {
        BOOST_REQUIRE(::write(theirs.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    }
    unique_fd ours;
    unique_fd theirs;
};

struct ring_fixture {
    reactor loop;
    reactor::scope here{loop};
    uring& ring = loop.io();
    socket_pair pair;

    void start_nop(probe& op) {
        ring.start(op, [](io_uring_sqe& entry) { io_uring_prep_nop(&entry); });
    }
    /// Completes when something is said.
    void start_poll(probe& op) {
        ring.start(op, [this](io_uring_sqe& entry) { io_uring_prep_poll_add(&entry, pair.ours.get(), POLLIN); });
    }
    void turn(int times) {
        for (int i = 0; i < times; ++i) loop.poll_once();
    }
    /// Turns until `done()`, for a minute at most.
    template <typename Done>
    void turn_until(Done done) {
        const auto enough = std::chrono::steady_clock::now() + std::chrono::minutes{1};
        while (!done() && std::chrono::steady_clock::now() < enough) loop.poll_once();
        BOOST_REQUIRE(done());
    }
};

constexpr std::size_t more_than_fit = uring::entries + 100;

} // namespace

BOOST_AUTO_TEST_SUITE(refused_submissions)

BOOST_FIXTURE_TEST_CASE(what_the_kernel_refuses_is_done_later_all_of_it_and_in_order, ring_fixture) {
    for (const int error : {EAGAIN, EBUSY}) {
        std::vector<int> order;
        std::vector<probe> ops(3 * uring::entries + 1);
        const std::uint64_t before = ring.statistics().refused;
        {
            const submissions_refused refused(error);
            for (std::size_t i = 0; i < ops.size(); ++i) {
                ops[i].order = &order;
                ops[i].number = static_cast<int>(i);
                start_nop(ops[i]);
            }
            turn(10);
            BOOST_TEST(order.empty());
            BOOST_TEST(ring.in_kernel() == ops.size());
            BOOST_TEST(!ring.make_room());
            BOOST_TEST(!ring.prepare_sleep()); // there is something left to be tried
            BOOST_TEST(ring.statistics().refused - before >= 10u);
            BOOST_TEST(ring.statistics().refused - before <= 100u); // once a turn and not once a request
        }
        turn_until([&] { return ring.in_kernel() == 0; });
        BOOST_TEST(ring.make_room());
        std::vector<int> expected(ops.size());
        std::iota(expected.begin(), expected.end(), 0);
        BOOST_TEST((order == expected));
    }
}

BOOST_FIXTURE_TEST_CASE(what_completes_arrives_also_while_submissions_are_refused, ring_fixture) {
    probe op, waiting;
    start_poll(op);
    turn(2);
    BOOST_TEST(op.in_kernel());
    std::optional<submissions_refused> refused(std::in_place, EBUSY);
    start_nop(waiting);
    pair.say("x");
    turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.result == POLLIN);
    BOOST_TEST(waiting.completions == 0);
    refused.reset();
    turn_until([&] { return waiting.completions == 1; });
}

BOOST_FIXTURE_TEST_CASE(a_request_may_be_cancelled_while_the_kernel_refuses_wherever_it_stands, ring_fixture) {
    std::vector<probe> ops(more_than_fit);
    probe& queued = ops[5];
    probe& behind = ops[uring::entries + 50];
    {
        const submissions_refused refused(EAGAIN);
        for (probe& op : ops) start_poll(op);
        ring.cancel(queued);
        ring.cancel(behind);
        turn(10);
        BOOST_TEST(queued.completions + behind.completions == 0);
    }
    turn_until([&] { return !queued.in_kernel() && !behind.in_kernel(); });
    turn(10);
    for (const probe* each : {&queued, &behind}) {
        BOOST_TEST(each->completions == 1);
        BOOST_TEST(each->result == -ECANCELED);
    }
    BOOST_TEST(ring.in_kernel() == ops.size() - 2);
    pair.say("x");
    turn_until([&] { return ring.in_kernel() == 0; });
    for (const probe& op : ops) {
        BOOST_REQUIRE_EQUAL(op.completions, 1);
        if (&op != &queued && &op != &behind) BOOST_REQUIRE_EQUAL(op.result, POLLIN);
    }
}

BOOST_FIXTURE_TEST_CASE(waiting_for_what_stands_behind_the_queue_ends, ring_fixture) {
    std::vector<probe> ops(more_than_fit);
    const submissions_refused refused(EAGAIN, 20);
    for (probe& op : ops) start_poll(op);
    ring.cancel(ops.back());
    ring.wait(ops.back()); // nothing of what is before it in the queue completes
    BOOST_TEST(ops.back().result == -ECANCELED);
    BOOST_TEST(ring.in_kernel() == ops.size() - 1);
    pair.say("x");
    turn_until([&] { return ring.in_kernel() == 0; });
}

BOOST_AUTO_TEST_CASE(a_dying_ring_takes_back_what_the_kernel_has_refused) {
    socket_pair pair;
    std::vector<probe> ops(more_than_fit);
    std::array<char, 8> bytes{};
    const submissions_refused refused(EBUSY, 30);
    {
        reactor loop;
        const reactor::scope here(loop);
        for (probe& op : ops)
            loop.io().start(op, [&](io_uring_sqe& entry) {
                io_uring_prep_recv(&entry, pair.ours.get(), bytes.data(), bytes.size(), 0);
            });
        for (int i = 0; i < 5; ++i) loop.poll_once();
    }
    BOOST_TEST(refuse_submission() == 0); // it has gone on until the kernel took what was to be cancelled
    for (const probe& op : ops) {
        BOOST_REQUIRE(!op.in_kernel());
        BOOST_REQUIRE_EQUAL(op.completions, 0);
    }
    pair.say("late");
    std::array<char, 8> ours{};
    BOOST_TEST(::read(pair.ours.get(), ours.data(), ours.size()) == 4); // nobody took it from the socket
    BOOST_TEST(bytes[0] == '\0');
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire
