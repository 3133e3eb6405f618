// channel<T> against a model: random sends, receipts, cancellations, deadlines, destructions and a close, and after each settling
// the same ones wait, have got the same values, or have failed alike. Every value is owned by exactly one, to the end.
#include "driven.hh"
#include "tests/support/test_seed.hh"

#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/task/channel.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

using namespace corewire;
using reactor_test::driven;

namespace {

using value = std::unique_ptr<int>;

enum class state { waiting, done, ended, broken, timed_out, canceled, gone };

state failed_by(const std::system_error& e) {
    if (e.code() == std::errc::timed_out) return state::timed_out;
    return e.code() == std::errc::operation_canceled ? state::canceled : state::broken;
}

/// A coroutine of the real thing, and what the model thinks of it.
struct request {
    bool sends = false;
    bool promised = false; ///< the model: woken for a value
    int number = 0;        ///< sent; or what was received
    int expected = 0;
    time_point deadline = never;
    stop_source stop;
    state real = state::waiting;
    state model = state::waiting;
    task<> run;
};

task<> sending(channel<value>& c, request& r) {
    value sent = std::make_unique<int>(r.number);
    try {
        co_await c.send(std::move(sent), {.deadline = r.deadline, .stop = r.stop.token()});
        r.real = state::done;
    } catch (const std::system_error& e) {
        r.real = failed_by(e);
    }
}
task<> receiving(channel<value>& c, request& r) {
    try {
        value received;
        if (auto got = co_await c.receive({.deadline = r.deadline, .stop = r.stop.token()})) received = std::move(*got);
        r.real = received ? state::done : state::ended;
        if (received) r.number = *received;
    } catch (const std::system_error& e) {
        r.real = failed_by(e);
    }
}

/// The rules of channel.hh, told in the plainest way.
struct model {
    std::size_t capacity;
    std::deque<int> values;
    std::deque<request*> senders, receivers; ///< in line
    std::deque<request*> woken;              ///< receivers that will run at the next settling
    std::size_t promised = 0;
    bool closed = false;

    bool may_send() const { return values.size() < capacity && senders.empty(); }
    bool unpromised() const { return values.size() > promised; }
    void put(int v) {
        values.push_back(v);
        wake();
    }
    void wake() {
        while (!receivers.empty() && unpromised()) {
            receivers.front()->promised = true;
            ++promised;
            woken.push_back(receivers.front());
            receivers.pop_front();
        }
    }
    int take() {
        const int taken = values.front();
        values.pop_front();
        if (!senders.empty()) {
            request& next = *senders.front();
            senders.pop_front();
            next.model = state::done;
            put(next.number);
        }
        return taken;
    }
    void send(request& r) {
        if (closed) {
            r.model = state::broken;
        } else if (may_send()) {
            put(r.number);
            r.model = state::done;
        } else {
            senders.push_back(&r);
        }
    }
    void got(request& r) {
        r.expected = take();
        r.model = state::done;
    }
    void receive(request& r) {
        if (unpromised())
            got(r);
        else if (closed)
            r.model = state::ended;
        else
            receivers.push_back(&r);
    }
    void settle() {
        while (!woken.empty()) {
            request& r = *woken.front();
            woken.pop_front();
            if (std::exchange(r.promised, false)) {
                --promised;
                got(r);
            } else if (unpromised()) {
                got(r);
            } else {
                r.model = state::ended;
            }
        }
    }
    bool in_line(request* r) const {
        return std::count(senders.begin(), senders.end(), r) + std::count(receivers.begin(), receivers.end(), r) != 0;
    }
    /// Its wait ends without a value's moving.
    void leave(request& r, state why) {
        std::erase(senders, &r);
        std::erase(receivers, &r);
        std::erase(woken, &r);
        if (r.model == state::waiting) r.model = why;
        if (!std::exchange(r.promised, false)) return;
        --promised;
        wake();
    }
    void close() {
        closed = true;
        for (request* r : senders) r->model = state::broken;
        senders.clear();
        woken.insert(woken.end(), receivers.begin(), receivers.end());
        receivers.clear();
    }
};

void play(std::uint64_t seed, int steps) {
    BOOST_TEST_CONTEXT("seed " << seed) {
        driven d;
        random_generator random(seed);
        const std::size_t capacity = 1 + random.below(5);
        channel<value> real(capacity);
        model expected{capacity, {}, {}, {}, {}, 0, false};
        std::vector<std::unique_ptr<request>> all;
        std::ostringstream story;
        int numbers = 0;
        const auto settle = [&] {
            d.settle();
            expected.settle();
        };
        const auto pick = [&](auto suits) -> request* {
            std::vector<request*> some;
            for (auto& r : all)
                if (suits(r.get())) some.push_back(r.get());
            return some.empty() ? nullptr : some[random.below(some.size())];
        };
        for (int step = 0; step < steps; ++step) {
            const std::uint64_t dice = random.below(100);
            if (dice < 50) {
                request& r = *all.emplace_back(std::make_unique<request>());
                r.sends = random.chance(0.5);
                if (r.sends) r.number = ++numbers;
                if (random.chance(0.3)) r.deadline = d.loop.now() + std::chrono::milliseconds(1 + random.below(20));
                story << (r.sends ? " send" : " receive") << r.number;
                r.sends ? expected.send(r) : expected.receive(r);
                r.run = r.sends ? sending(real, r) : receiving(real, r);
                r.run.handle().resume();
            } else if (dice < 57) {
                story << " try_send" << ++numbers;
                value v = std::make_unique<int>(numbers);
                const bool fits = !expected.closed && expected.may_send();
                BOOST_REQUIRE_EQUAL(real.try_send(std::move(v)), fits);
                BOOST_REQUIRE_EQUAL(v == nullptr, fits);
                if (fits) expected.put(numbers);
            } else if (dice < 64) {
                story << " try_receive";
                const std::optional<value> received = real.try_receive();
                BOOST_REQUIRE_EQUAL(received.has_value(), expected.unpromised());
                if (received) BOOST_REQUIRE_EQUAL(**received, expected.take());
            } else if (dice < 74) {
                if (request* r = pick([&](request* each) { return expected.in_line(each); })) {
                    story << " stop" << r->number;
                    expected.leave(*r, state::canceled);
                    r->stop.request_stop();
                }
            } else if (dice < 84) { // in line, or served and not yet resumed
                if (request* r = pick([](request* each) { return each->real == state::waiting; })) {
                    story << " destroy" << r->number;
                    expected.leave(*r, state::gone);
                    r->run = {};
                    r->real = r->model = state::gone;
                }
            } else if (dice < 85 && step > steps / 2) {
                story << " close";
                expected.close();
                real.close();
            } else {
                settle(); // so that nobody is between being served and knowing it when deadlines pass
                d.clock.time += std::chrono::milliseconds(random.below(4));
                story << " time";
                for (auto& r : all)
                    if (expected.in_line(r.get()) && r->deadline <= d.clock.time) expected.leave(*r, state::timed_out);
                settle();
            }
            if (!random.chance(0.6)) continue;
            settle();
            BOOST_REQUIRE_EQUAL(real.size(), expected.values.size());
            for (auto& r : all) {
                if (r->real == r->model && (r->sends || r->real != state::done || r->number == r->expected)) continue;
                BOOST_FAIL("step " << step << ": a " << (r->sends ? "sender" : "receiver") << " is in state " << static_cast<int>(r->real)
                                   << " with " << r->number << ", the model says " << static_cast<int>(r->model) << " with "
                                   << r->expected << ":" << story.str());
            }
            std::erase_if(all, [](auto& r) { return r->real != state::waiting; });
        }
        settle();
        all.clear();
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(channel_model)

BOOST_AUTO_TEST_CASE(a_channel_does_what_the_model_does) {
    const std::uint64_t first = testing::test_seed();
    for (std::uint64_t s = 0; s < 150; ++s) play(first + s, 400);
}

BOOST_AUTO_TEST_SUITE_END()
