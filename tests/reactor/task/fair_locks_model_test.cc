// semaphore, mutex and shared_mutex against a model: random requests, cancellations, deadlines, destructions and releases, and
// after each settling the same ones hold, wait and have failed. A mutex is a semaphore of one unit; a shared_mutex one of
// many, of which a writer takes all.
#include "driven.hh"
#include "tests/support/test_seed.hh"

#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/task/mutex.hh>
#include <corewire/reactor/task/semaphore.hh>
#include <corewire/reactor/task/shared_mutex.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <sstream>
#include <variant>
#include <vector>

using namespace corewire;
using reactor_test::driven;

namespace {

enum class state { waiting, holding, timed_out, canceled, invalid, gone };

state failed_by(const std::system_error& e) {
    if (e.code() == std::errc::timed_out) return state::timed_out;
    return e.code() == std::errc::operation_canceled ? state::canceled : state::invalid;
}

/// A coroutine of the real thing, and what the model thinks of it.
struct request {
    std::size_t units = 0;
    time_point deadline = never;
    stop_source stop;
    std::variant<std::monostate, semaphore::units, mutex::guard, shared_mutex::guard, shared_mutex::shared_guard> held;
    state real = state::waiting;
    state model = state::waiting;
    task<> run;
};

struct semaphore_kind {
    static constexpr std::size_t capacity = 7;
    static constexpr bool resizes = true;
    std::size_t pick(random_generator& random) { return 1 + random.below(capacity + 1); } // now and then one too many
    task<> run(request& r) {
        try {
            r.held.emplace<semaphore::units>(co_await it.acquire(r.units, {.deadline = r.deadline, .stop = r.stop.token()}));
            r.real = state::holding;
        } catch (const std::system_error& e) {
            r.real = failed_by(e);
        }
    }
    void resize(std::size_t n) { it.resize(n); }
    semaphore it{capacity};
};

struct mutex_kind {
    static constexpr std::size_t capacity = 1;
    static constexpr bool resizes = false;
    std::size_t pick(random_generator&) { return 1; }
    task<> run(request& r) {
        try {
            r.held.emplace<mutex::guard>(co_await it.lock({.deadline = r.deadline, .stop = r.stop.token()}));
            r.real = state::holding;
        } catch (const std::system_error& e) {
            r.real = failed_by(e);
        }
    }
    void resize(std::size_t) {}
    mutex it;
};

struct shared_mutex_kind {
    static constexpr std::size_t capacity = 1'000'000;
    static constexpr bool resizes = false;
    std::size_t pick(random_generator& random) { return random.chance(0.3) ? capacity : 1; }
    task<> run(request& r) {
        const wait_limits limits{.deadline = r.deadline, .stop = r.stop.token()};
        try {
            if (r.units == 1)
                r.held.emplace<shared_mutex::shared_guard>(co_await it.lock_shared(limits));
            else
                r.held.emplace<shared_mutex::guard>(co_await it.lock(limits));
            r.real = state::holding;
        } catch (const std::system_error& e) {
            r.real = failed_by(e);
        }
    }
    void resize(std::size_t) {}
    shared_mutex it;
};

/// First come, first served, told in the plainest way.
struct model {
    std::size_t capacity;
    std::deque<request*> line;
    std::size_t held = 0;

    void serve() {
        std::erase_if(line, [&](request* r) {
            if (r->units <= capacity) return false;
            r->model = state::invalid;
            return true;
        });
        while (!line.empty() && held <= capacity && line.front()->units <= capacity - held) {
            held += line.front()->units;
            line.front()->model = state::holding;
            line.pop_front();
        }
    }
    void ask(request& r) {
        line.push_back(&r);
        serve();
    }
    void end(request& r, state why) { // of a wait, or of holding
        if (r.model == state::holding) held -= r.units;
        std::erase(line, &r);
        r.model = why;
        serve();
    }
};

template <typename Kind>
void play(std::uint64_t seed, int steps) {
    BOOST_TEST_CONTEXT("seed " << seed) {
        driven d;
        Kind kind;
        model expected{Kind::capacity, {}, 0};
        std::vector<std::unique_ptr<request>> all;
        random_generator random(seed);
        std::ostringstream story;
        const auto pick = [&](auto suits) -> request* {
            std::vector<request*> some;
            for (auto& r : all)
                if (suits(*r)) some.push_back(r.get());
            return some.empty() ? nullptr : some[random.below(some.size())];
        };
        for (int step = 0; step < steps; ++step) {
            const std::uint64_t dice = random.below(100);
            if (dice < 40) {
                all.push_back(std::make_unique<request>());
                request& r = *all.back();
                r.units = kind.pick(random);
                if (random.chance(0.3)) r.deadline = d.loop.now() + std::chrono::milliseconds(1 + random.below(20));
                story << " ask" << r.units;
                expected.ask(r);
                r.run = kind.run(r);
                r.run.handle().resume();
            } else if (dice < 65) {
                d.settle();
                if (request* r = pick([](request& each) { return each.real == state::holding; })) {
                    story << " release" << r->units;
                    expected.end(*r, state::gone);
                    r->real = state::gone;
                    r->held.emplace<std::monostate>();
                }
            } else if (dice < 75) {
                if (request* r = pick([](request& each) { return each.model == state::waiting; })) {
                    story << " stop" << r->units;
                    expected.end(*r, state::canceled);
                    r->stop.request_stop();
                }
            } else if (dice < 85) { // waiting, or served and not yet resumed
                if (request* r = pick([](request& each) { return each.real == state::waiting && each.model <= state::holding; })) {
                    story << " destroy" << r->units;
                    expected.end(*r, state::gone);
                    r->run = {};
                    r->real = state::gone;
                }
            } else if (dice < 90 && Kind::resizes) {
                const std::size_t capacity = 4 + random.below(Kind::capacity);
                story << " resize" << capacity;
                expected.capacity = capacity;
                expected.serve();
                kind.resize(capacity);
            } else {
                d.settle(); // so that nobody is between being served and knowing it when deadlines pass
                d.clock.time += std::chrono::milliseconds(random.below(4));
                story << " time";
                std::vector<request*> due;
                for (request* r : expected.line)
                    if (r->deadline <= d.clock.time) due.push_back(r);
                std::stable_sort(due.begin(), due.end(), [](request* x, request* y) { return x->deadline < y->deadline; });
                for (request* r : due)
                    if (r->model == state::waiting) expected.end(*r, state::timed_out);
                d.settle();
            }
            if (!random.chance(0.6)) continue;
            d.settle();
            for (auto& r : all) {
                if (r->real == r->model) continue;
                BOOST_FAIL("step " << step << ": a request is in state " << static_cast<int>(r->real) << ", the model says "
                                   << static_cast<int>(r->model) << ":" << story.str());
            }
            std::erase_if(all, [](auto& r) { return r->real > state::holding; });
        }
        d.settle();
        for (auto& r : all) r->held.emplace<std::monostate>();
        all.clear();
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(fair_locks_model)

BOOST_AUTO_TEST_CASE(a_semaphore_does_what_the_model_does) {
    const std::uint64_t first = testing::test_seed();
    for (std::uint64_t s = 0; s < 60; ++s) play<semaphore_kind>(first + s, 400);
}

BOOST_AUTO_TEST_CASE(a_mutex_does_what_the_model_does) {
    const std::uint64_t first = testing::test_seed();
    for (std::uint64_t s = 0; s < 60; ++s) play<mutex_kind>(first + s, 400);
}

BOOST_AUTO_TEST_CASE(a_shared_mutex_does_what_the_model_does) {
    const std::uint64_t first = testing::test_seed();
    for (std::uint64_t s = 0; s < 60; ++s) play<shared_mutex_kind>(first + s, 400);
}

BOOST_AUTO_TEST_SUITE_END()
