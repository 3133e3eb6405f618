// shared_mutex: readers together, writers alone, everybody in turn.
#include "waits.hh"

#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/reactor/task/shared_mutex.hh>
#include <corewire/reactor/task/sleep.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <stdexcept>

using namespace corewire;
using namespace std::chrono_literals;
using reactor_test::attempt;
using reactor_test::driven;
using reactor_test::journal;

namespace {

using reader = attempt<corewire::shared_mutex::shared_guard>;
using writer = attempt<corewire::shared_mutex::guard>;

wait_limits limits_of(stop_token stop, duration within) {
    return {.deadline = within == duration::max() ? never : reactor::current().now() + within, .stop = stop};
}
auto reading(corewire::shared_mutex& m, duration within = duration::max()) {
    return [&m, within](stop_token stop) { return m.lock_shared(limits_of(stop, within)); };
}
auto writing(corewire::shared_mutex& m, duration within = duration::max()) {
    return [&m, within](stop_token stop) { return m.lock(limits_of(stop, within)); };
}
task<> fails_while_writing(corewire::shared_mutex& m) {
    const auto turn = co_await m.lock();
    co_await corewire::yield();
    throw std::runtime_error("as agreed");
}

} // namespace

BOOST_AUTO_TEST_SUITE(shared_mutex)

BOOST_AUTO_TEST_CASE(readers_share_and_a_writer_waits_for_all_of_them) {
    driven d;
    journal log;
    corewire::shared_mutex m;
    reader a("a", log, reading(m)), b("b", log, reading(m));
    writer w("w", log, writing(m));
    BOOST_CHECK_EQUAL(m.readers(), 2u);
    a.held->unlock();
    d.settle();
    BOOST_CHECK(!w.holds());
    b.held->unlock();
    d.settle();
    BOOST_CHECK(w.holds());
    BOOST_CHECK(m.has_writer());
    BOOST_CHECK(!m.try_lock_shared());
    BOOST_CHECK(!m.try_lock());
}

BOOST_AUTO_TEST_CASE(a_reader_does_not_overtake_a_writer_who_waits) {
    driven d;
    journal log;
    corewire::shared_mutex m;
    reader a("a", log, reading(m));
    writer w("w", log, writing(m));
    reader b("b", log, reading(m)), c("c", log, reading(m));
    writer x("x", log, writing(m));
    BOOST_CHECK(!m.try_lock_shared());
    a.held->unlock();
    d.settle();
    BOOST_CHECK_EQUAL(log.text, "a w");
    w.held->unlock();
    d.settle();
    BOOST_CHECK_EQUAL(log.text, "a w b c"); // readers that stand together go in together
    b.held->unlock();
    c.held->unlock();
    d.settle();
    BOOST_CHECK_EQUAL(log.text, "a w b c x");
}

BOOST_AUTO_TEST_CASE(a_writer_who_leaves_lets_the_readers_behind_it_in) {
    driven d;
    for (const char* how : {"stop", "deadline", "destroyed"}) {
        BOOST_TEST_CONTEXT(how) {
            journal log;
            corewire::shared_mutex m;
            reader a("a", log, reading(m));
            writer w("w", log, writing(m, 3ms));
            reader b("b", log, reading(m));
            if (*how == 's') w.stop.request_stop();
            if (how[2] == 's') w.destroy();
            d.advance(how[2] == 'a' ? 3ms : 1ns);
            BOOST_CHECK(b.holds());
            BOOST_CHECK_EQUAL(m.readers(), 2u);
            BOOST_CHECK_EQUAL(m.waiting(), 0u);
            if (*how == 's') BOOST_CHECK(w.error == std::errc::operation_canceled);
            if (how[2] == 'a') BOOST_CHECK(w.error == std::errc::timed_out);
        }
    }
}

BOOST_AUTO_TEST_CASE(one_that_is_destroyed_after_it_was_let_in_gives_the_lock_back) {
    driven d;
    journal log;
    corewire::shared_mutex m;
    writer a("a", log, writing(m)), b("b", log, writing(m));
    reader c("c", log, reading(m));
    a.held->unlock();
    b.destroy();
    d.settle();
    BOOST_CHECK(c.holds());
    c.held.reset();
    BOOST_CHECK(m.try_lock());
}

BOOST_AUTO_TEST_CASE(an_exception_in_its_holder_unlocks) {
    driven d;
    corewire::shared_mutex m;
    BOOST_CHECK_THROW(run_until_complete(d.loop, fails_while_writing(m)), std::runtime_error);
    BOOST_CHECK(!m.has_writer());
}

BOOST_AUTO_TEST_CASE(destroying_it_while_it_is_locked_is_a_mistake_that_aborts) {
    driven d;
    BOOST_CHECK(reactor_test::aborts([] {
        std::optional<corewire::shared_mutex> m(std::in_place);
        const auto turn = m->try_lock_shared();
        m.reset();
    }));
}

BOOST_AUTO_TEST_SUITE_END()
