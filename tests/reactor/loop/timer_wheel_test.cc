// The timer wheel against a sorted map, on random operations and at the edges between its levels.
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/loop/timer_wheel.hh>

#include <boost/test/unit_test.hpp>

#include <map>
#include <memory>
#include <vector>

using namespace corewire;

namespace {

struct probe : timer {
    std::vector<int>* log;
    int id;
    probe(std::vector<int>* l, int i) : timer([](timer& t) noexcept {
          auto& self = static_cast<probe&>(t);
          self.log->push_back(self.id);
      }), log(l), id(i) {}
};

} // namespace

BOOST_AUTO_TEST_SUITE(timer_wheel)

BOOST_AUTO_TEST_CASE(a_timer_fires_at_its_nanosecond_and_not_before) {
    for (const std::int64_t at : {1ll, 63ll, 64ll, 65ll, 4095ll, 4096ll, 1'000'000ll, 40'000'000ll, 3'600'000'000'000ll}) {
        corewire::timer_wheel wheel;
        std::vector<int> fired;
        probe p(&fired, 1);
        wheel.arm(p, from_ns(at));
        wheel.expire(from_ns(at - 1));
        BOOST_CHECK(fired.empty());
        BOOST_CHECK(p.armed());
        BOOST_CHECK(to_ns(wheel.next_expiry()) <= at);
        wheel.expire(from_ns(at));
        BOOST_CHECK_EQUAL(fired.size(), 1u);
        BOOST_CHECK(wheel.next_expiry() == never);
    }
}

BOOST_AUTO_TEST_CASE(sleeping_until_next_expiry_always_gets_there) {
    corewire::timer_wheel wheel;
    std::vector<int> fired;
    probe p(&fired, 1);
    wheel.expire(from_ns(123'456'789));
    wheel.arm(p, from_ns(987'654'321'012));
    int steps = 0;
    while (fired.empty()) {
        const time_point next = wheel.next_expiry();
        BOOST_REQUIRE(next <= from_ns(987'654'321'012));
        wheel.expire(next);
        BOOST_REQUIRE_LT(++steps, 12);
    }
}

BOOST_AUTO_TEST_CASE(random_operations_agree_with_a_sorted_map) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        BOOST_TEST_MESSAGE("seed " << seed);
        random_generator random(seed);
        corewire::timer_wheel wheel;
        std::vector<int> fired;
        std::vector<std::unique_ptr<probe>> probes;
        std::multimap<std::int64_t, int> model;
        for (int i = 0; i < 200; ++i) probes.push_back(std::make_unique<probe>(&fired, i));
        const auto forget = [&](int id) {
            for (auto it = model.begin(); it != model.end(); ++it) {
                if (it->second == id) {
                    model.erase(it);
                    return;
                }
            }
        };
        std::int64_t now = static_cast<std::int64_t>(random.below(1ull << 40));
        wheel.expire(from_ns(now));
        for (int step = 0; step < 3'000; ++step) {
            const int id = static_cast<int>(random.below(200));
            switch (random.below(4)) {
            case 0:
            case 1: {
                const std::int64_t at = now + static_cast<std::int64_t>(random.below(1ull << random.below(42)));
                forget(id);
                wheel.arm(*probes[static_cast<std::size_t>(id)], from_ns(at));
                model.emplace(at, id);
                break;
            }
            case 2:
                forget(id);
                probes[static_cast<std::size_t>(id)]->cancel();
                break;
            default: {
                const time_point next = wheel.next_expiry();
                if (!model.empty()) BOOST_REQUIRE(to_ns(next) <= std::max(model.begin()->first, now));
                now += static_cast<std::int64_t>(random.below(1ull << random.below(36)));
                fired.clear();
                wheel.expire(from_ns(now));
                std::multimap<std::int64_t, int> due(model.begin(), model.upper_bound(now));
                model.erase(model.begin(), model.upper_bound(now));
                BOOST_REQUIRE_EQUAL(fired.size(), due.size());
                // The same timers, in the order of their times (those of one nanosecond in any order).
                std::int64_t last = 0;
                for (const int got : fired) {
                    const std::int64_t at = to_ns(probes[static_cast<std::size_t>(got)]->expiry());
                    BOOST_REQUIRE_GE(at, last);
                    last = at;
                }
            }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_timer_that_rearms_itself_for_now_waits_for_the_next_call) {
    struct again : timer {
        corewire::timer_wheel* wheel;
        int count = 0;
        explicit again(corewire::timer_wheel* w) : timer([](timer& t) noexcept {
              auto& self = static_cast<again&>(t);
              ++self.count;
              self.wheel->arm(self, self.expiry());
          }), wheel(w) {}
    };
    corewire::timer_wheel wheel;
    again a(&wheel);
    wheel.arm(a, from_ns(100));
    wheel.expire(from_ns(100));
    BOOST_CHECK_EQUAL(a.count, 1);
    BOOST_CHECK(wheel.next_expiry() <= from_ns(100));
    wheel.expire(from_ns(100));
    BOOST_CHECK_EQUAL(a.count, 2);
}

BOOST_AUTO_TEST_CASE(a_callback_may_cancel_and_arm_others) {
    struct meddler : timer {
        corewire::timer_wheel* wheel;
        timer* victim;
        timer* late;
        meddler(corewire::timer_wheel* w, timer* v, timer* l) : timer([](timer& t) noexcept {
              auto& self = static_cast<meddler&>(t);
              self.victim->cancel();
              self.wheel->arm(*self.late, from_ns(150));
          }), wheel(w), victim(v), late(l) {}
    };
    corewire::timer_wheel wheel;
    std::vector<int> fired;
    probe victim(&fired, 1), late(&fired, 2);
    meddler m(&wheel, &victim, &late);
    wheel.arm(m, from_ns(100));
    wheel.arm(victim, from_ns(101));
    wheel.expire(from_ns(140));
    BOOST_CHECK(fired.empty());
    wheel.expire(from_ns(150));
    BOOST_REQUIRE_EQUAL(fired.size(), 1u);
    BOOST_CHECK_EQUAL(fired[0], 2);
}

BOOST_AUTO_TEST_CASE(a_destroyed_timer_never_fires) {
    corewire::timer_wheel wheel;
    std::vector<int> fired;
    {
        probe p(&fired, 1);
        wheel.arm(p, from_ns(1'000'000));
    }
    wheel.expire(from_ns(2'000'000));
    BOOST_CHECK(fired.empty());
}

BOOST_AUTO_TEST_SUITE_END()
