// A ring when memory is short: what epoll in io_uring's place has no room for stays queued, as with a kernel that refuses it; what
// finds the queue full fails.
#include "ring_world.hh"

#include <corewire/reactor/file/uring_setup.hh>
#include <corewire/reactor/memory/poison.hh>

#include <cerrno>
#include <cstdlib>
#include <new>
#include <poll.h>

#ifndef CW_ADDRESS_SANITIZER
namespace {

thread_local bool short_of_memory = false;
thread_local unsigned allocations_first = 0; ///< that are still granted

} // namespace

void* operator new(std::size_t size) {
    if (short_of_memory && allocations_first-- == 0) {
        allocations_first = 0;
        throw std::bad_alloc();
    }
    if (void* p = std::malloc(size)) return p;
    throw std::bad_alloc();
}
// Not inlined: g++ takes the free() for a mistake where it sees a new beside it.
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace corewire {

namespace {

struct shortage {
    explicit shortage(unsigned first = 0) noexcept {
        allocations_first = first;
        short_of_memory = true;
    }
    ~shortage() { short_of_memory = false; }
};

void poll(uring& ring, probe& op, const unique_fd& fd) {
    ring.start(op, [&](io_uring_sqe& entry) { io_uring_prep_poll_add(&entry, fd.get(), POLLIN); });
}

} // namespace

BOOST_AUTO_TEST_SUITE(short_memory)

BOOST_AUTO_TEST_CASE(requests_without_memory_stay_queued) {
    ring_world w(by_epoll::options());
    socket_pair pair;
    pair.say("x");
    std::array<probe, 5> ops;
    for (probe& op : ops) {
        op.all.reserve(1);
        poll(w.ring, op, pair.ours);
    }
    {
        const shortage none;
        for (int i = 0; i < 10; ++i) w.loop.poll_once();
    }
    BOOST_TEST(w.ring.statistics().refused == 10u);
    for (const probe& op : ops) BOOST_TEST(op.completions == 0);
    w.turn_until([&] { return w.ring.in_kernel() == 0; });
    for (const probe& op : ops) {
        BOOST_TEST(op.completions == 1);
        BOOST_TEST(op.result == POLLIN);
    }
}

BOOST_AUTO_TEST_CASE(a_request_that_cannot_wait_for_want_of_memory_fails) {
    ring_world w(by_epoll::options());
    socket_pair pair;
    int failed = 0;
    // Wherever the one allocation that is missing falls: it is done, it is done later, or it fails and says why.
    for (unsigned granted = 0; granted < 6; ++granted) {
        probe op;
        op.all.reserve(1);
        poll(w.ring, op, pair.ours);
        {
            const shortage later(granted);
            w.loop.poll_once();
        }
        w.some_turns();
        if (!op.in_kernel()) {
            BOOST_TEST(op.result == -ENOMEM);
            ++failed;
            continue;
        }
        w.ring.cancel(op);
        w.ring.wait(op);
        BOOST_TEST(op.result == -ECANCELED);
    }
    BOOST_TEST(failed > 0);
}

BOOST_AUTO_TEST_CASE(cancelling_takes_no_memory) {
    ring_world w(by_epoll::options());
    socket_pair pair;
    probe op;
    op.all.reserve(1);
    poll(w.ring, op, pair.ours);
    w.some_turns();
    {
        const shortage none;
        w.ring.cancel(op);
        w.ring.wait(op);
    }
    BOOST_TEST(op.result == -ECANCELED);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_a_full_queue_has_no_memory_for_fails_or_is_made_up_for, Backend, both_backends) {
    ring_world w(Backend::options());
    socket_pair pair, other;
    std::vector<probe> ops(uring::entries + 100);
    for (probe& op : ops) op.all.reserve(1);
    probe early;
    early.all.reserve(1);
    poll(w.ring, early, other.ours);
    w.some_turns();
    other.say("x");
    {
        const submissions_refused refused(EAGAIN);
        const shortage none;
        for (probe& op : ops) poll(w.ring, op, pair.ours);
        for (int twice = 0; twice < 2; ++twice)
            for (const probe* op : {&ops[5], &early, &ops.back()}) w.ring.cancel(*op);
        w.some_turns();
    }
    BOOST_TEST(early.completions == 1); // while its cancellation had no place
    BOOST_TEST(early.result == POLLIN);
    BOOST_TEST(ops[5].in_kernel());
    BOOST_TEST(ops.back().completions == 1);
    BOOST_TEST(ops.back().result == -ENOMEM);
    std::size_t failed = 0;
    for (const probe& op : ops) failed += op.in_kernel() ? 0u : 1u;
    BOOST_TEST(failed > 50u);
    BOOST_TEST(w.ring.in_kernel() == ops.size() - failed);
    w.turn_until([&] { return !ops[5].in_kernel(); });
    BOOST_TEST(ops[5].result == -ECANCELED);
    pair.say("x");
    w.turn_until([&] { return w.ring.in_kernel() == 0; });
    for (const probe& op : ops) BOOST_REQUIRE_EQUAL(op.completions, 1);
}

/// Fails; its completion waits for another, or starts its own again.
struct restless : uring_operation {
    explicit restless(uring& of) noexcept
        : uring_operation([](uring_operation& op, int r, unsigned) noexcept {
              auto& self = static_cast<restless&>(op);
              ++self.completions;
              self.result = r;
              if (self.waits_for != nullptr) self.ring.wait(*self.waits_for);
              if (self.again) self.start();
          }),
          ring(of) {}
    void start() noexcept {
        ring.start(*this, [](io_uring_sqe& entry) { io_uring_prep_nop(&entry); });
    }
    uring& ring;
    const uring_operation* waits_for = nullptr;
    bool again = false;
    unsigned completions = 0;
    int result = 0;
};

BOOST_AUTO_TEST_CASE_TEMPLATE(a_failed_request_s_owner_may_wait_for_another, Backend, both_backends) {
    ring_world w(Backend::options());
    socket_pair pair;
    std::vector<probe> ops(uring::entries + 100);
    restless first(w.ring), second(w.ring);
    first.waits_for = &second;
    {
        const submissions_refused refused(EAGAIN);
        const shortage none;
        for (probe& op : ops) poll(w.ring, op, pair.ours);
        first.start();
        second.start();
        for (const probe& op : ops) w.ring.cancel(op);
    }
    for (probe& op : ops) op.all.reserve(1);
    w.turn_until([&] { return w.ring.in_kernel() == 0; });
    BOOST_TEST(first.result == -ENOMEM);
    BOOST_TEST(second.result == -ENOMEM);
    BOOST_TEST(first.completions == 1u);
    BOOST_TEST(second.completions == 1u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(one_that_fails_and_starts_again_holds_nobody_up, Backend, both_backends) {
    ring_world w(Backend::options());
    socket_pair pair, other;
    std::vector<probe> ops(uring::entries + 100);
    for (probe& op : ops) op.all.reserve(1);
    probe early;
    early.all.reserve(1);
    poll(w.ring, early, other.ours);
    w.some_turns();
    restless again(w.ring);
    again.again = true;
    {
        const submissions_refused refused(EAGAIN);
        const shortage none;
        for (probe& op : ops) poll(w.ring, op, pair.ours);
        again.start();
        other.say("x");
        w.ring.wait(early);
        again.again = false;
    }
    BOOST_TEST(early.result == POLLIN);
    BOOST_TEST(again.completions > 0u);
    for (const probe& op : ops) w.ring.cancel(op);
    w.turn_until([&] { return w.ring.in_kernel() == 0; });
}

BOOST_AUTO_TEST_CASE(a_dying_ring_forgets_what_it_had_no_memory_for) {
    socket_pair pair;
    std::vector<probe> ops(uring::entries + 100);
    {
        ring_world w(by_epoll::options());
        const submissions_refused refused(EAGAIN, 3);
        const shortage none;
        for (probe& op : ops) poll(w.ring, op, pair.ours);
        w.ring.cancel(ops[5]);
    }
    for (const probe& op : ops) {
        BOOST_REQUIRE(!op.in_kernel());
        BOOST_REQUIRE_EQUAL(op.completions, 0);
    }
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire
#else
BOOST_AUTO_TEST_SUITE(short_memory)
BOOST_AUTO_TEST_CASE(is_for_builds_without_address_sanitizer) { BOOST_TEST_MESSAGE("AddressSanitizer has an operator new of its own"); }
BOOST_AUTO_TEST_SUITE_END()
#endif
