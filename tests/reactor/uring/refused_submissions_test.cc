// A kernel that takes no submissions for a while, for want of memory or of room for completions: nothing is lost, nothing ends the process.
#include "ring_world.hh"

#include <corewire/reactor/file/uring_setup.hh>

#include <array>
#include <cerrno>
#include <numeric>
#include <optional>
#include <poll.h>
#include <unistd.h>
#include <vector>

namespace corewire {

namespace {

/// Remembers how it completed, and in which order.
struct numbered : uring_operation {
    numbered() noexcept
        : uring_operation([](uring_operation& op, int r, unsigned) noexcept {
              auto& self = static_cast<numbered&>(op);
              ++self.completions;
              self.result = r;
              if (self.order != nullptr) self.order->push_back(self.number);
          }) {}
    int completions = 0;
    int result = 0;
    std::vector<int>* order = nullptr;
    int number = 0;
};

struct refused_world : ring_world {
    explicit refused_world(const io_options& io) : ring_world(io) {}
    socket_pair pair;

    void start_nop(numbered& op) {
        ring.start(op, [](io_uring_sqe& entry) { io_uring_prep_nop(&entry); });
    }
    /// Completes when something is said.
    void start_poll(numbered& op) {
        ring.start(op, [this](io_uring_sqe& entry) { io_uring_prep_poll_add(&entry, pair.ours.get(), POLLIN); });
    }
    void turn(int times) {
        for (int i = 0; i < times; ++i) loop.poll_once();
    }
};

constexpr std::size_t more_than_fit = uring::entries + 100;

} // namespace

BOOST_AUTO_TEST_SUITE(refused_submissions)

BOOST_AUTO_TEST_CASE_TEMPLATE(what_the_kernel_refuses_is_done_later_all_of_it_and_in_order, Backend, both_backends) {
    refused_world w(Backend::options());
    for (const int error : {EAGAIN, EBUSY}) {
        std::vector<int> order;
        std::vector<numbered> ops(3 * uring::entries + 1);
        const std::uint64_t before = w.ring.statistics().refused;
        {
            const submissions_refused refused(error);
            for (std::size_t i = 0; i < ops.size(); ++i) {
                ops[i].order = &order;
                ops[i].number = static_cast<int>(i);
                w.start_nop(ops[i]);
            }
            w.turn(10);
            BOOST_TEST(order.empty());
            BOOST_TEST(w.ring.in_kernel() == ops.size());
            BOOST_TEST(!w.ring.make_room());
            BOOST_TEST(!w.ring.prepare_sleep()); // there is something left to be tried
            BOOST_TEST(w.ring.statistics().refused - before >= 10u);
            BOOST_TEST(w.ring.statistics().refused - before <= 100u); // once a turn and not once a request
        }
        w.turn_until([&] { return w.ring.in_kernel() == 0; });
        BOOST_TEST(w.ring.make_room());
        std::vector<int> expected(ops.size());
        std::iota(expected.begin(), expected.end(), 0);
        BOOST_TEST((order == expected));
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_completes_arrives_also_while_submissions_are_refused, Backend, both_backends) {
    refused_world w(Backend::options());
    numbered op, waiting;
    w.start_poll(op);
    w.turn(2);
    BOOST_TEST(op.in_kernel());
    std::optional<submissions_refused> refused(std::in_place, EBUSY);
    w.start_nop(waiting);
    w.pair.say("x");
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.result == POLLIN);
    BOOST_TEST(waiting.completions == 0);
    refused.reset();
    w.turn_until([&] { return waiting.completions == 1; });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_request_may_be_cancelled_while_the_kernel_refuses_wherever_it_stands, Backend, both_backends) {
    refused_world w(Backend::options());
    std::vector<numbered> ops(more_than_fit);
    numbered& queued = ops[5];
    numbered& behind = ops[uring::entries + 50];
    {
        const submissions_refused refused(EAGAIN);
        for (numbered& op : ops) w.start_poll(op);
        w.ring.cancel(queued);
        w.ring.cancel(behind);
        w.turn(10);
        BOOST_TEST(queued.completions + behind.completions == 0);
    }
    w.turn_until([&] { return !queued.in_kernel() && !behind.in_kernel(); });
    w.turn(10);
    for (const numbered* each : {&queued, &behind}) {
        BOOST_TEST(each->completions == 1);
        BOOST_TEST(each->result == -ECANCELED);
    }
    BOOST_TEST(w.ring.in_kernel() == ops.size() - 2);
    w.pair.say("x");
    w.turn_until([&] { return w.ring.in_kernel() == 0; });
    for (const numbered& op : ops) {
        BOOST_REQUIRE_EQUAL(op.completions, 1);
        if (&op != &queued && &op != &behind) BOOST_REQUIRE_EQUAL(op.result, POLLIN);
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(waiting_for_what_stands_behind_the_queue_ends, Backend, both_backends) {
    refused_world w(Backend::options());
    std::vector<numbered> ops(more_than_fit);
    const submissions_refused refused(EAGAIN, 20);
    for (numbered& op : ops) w.start_poll(op);
    w.ring.cancel(ops.back());
    w.ring.wait(ops.back()); // nothing of what is before it in the queue completes
    BOOST_TEST(ops.back().result == -ECANCELED);
    BOOST_TEST(w.ring.in_kernel() == ops.size() - 1);
    w.pair.say("x");
    w.turn_until([&] { return w.ring.in_kernel() == 0; });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_dying_ring_takes_back_what_the_kernel_has_refused, Backend, both_backends) {
    socket_pair pair;
    std::vector<numbered> ops(more_than_fit);
    std::array<char, 8> bytes{};
    const submissions_refused refused(EBUSY, 30);
    {
        reactor loop({.io = Backend::options()});
        const reactor::scope here(loop);
        for (numbered& op : ops)
            loop.io().start(op, [&](io_uring_sqe& entry) {
                io_uring_prep_recv(&entry, pair.ours.get(), bytes.data(), bytes.size(), 0);
            });
        for (int i = 0; i < 5; ++i) loop.poll_once();
    }
    BOOST_TEST(refuse_submission() == 0); // it has gone on until the kernel took what was to be cancelled
    for (const numbered& op : ops) {
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
