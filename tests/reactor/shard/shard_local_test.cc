// shard_local<T>: one for each shard, made on first use, destroyed on its own shard when that ends.
#include "some_shards.hh"

#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/shard/shard_local.hh>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace corewire;
using shard_test::run_on_first;

namespace {

std::atomic<int> alive{0};
std::atomic<int> died_abroad{0};

struct counter {
    counter() { ++alive; }
    ~counter() {
        --alive;
        if (std::this_thread::get_id() != home) ++died_abroad;
    }
    int value = 0;
    std::thread::id home = std::this_thread::get_id();
};

const corewire::shard_local<counter> hits;

task<> counts_on_each() {
    BOOST_CHECK(hits.local_if_made() == nullptr);
    for (int i = 1; i <= 3; ++i) BOOST_CHECK_EQUAL(++hits->value, i);
    const int there = co_await submit_to(1, [] { return hits->value += 10; });
    BOOST_CHECK_EQUAL(there, 10);
    BOOST_CHECK_EQUAL((*hits).value, 3);
    BOOST_CHECK_EQUAL(alive.load(), 2); // the third shard has never asked
}
std::string order;
struct named {
    std::string name;
    ~named() { order += name; }
};
task<> makes_two() {
    static const corewire::shard_local<named> first, second;
    first->name = "first ";
    second->name = "second ";
    co_return;
}
task<> takes_a_place_again() {
    std::optional<corewire::shard_local<counter>> one(std::in_place);
    (*one)->value = 5;
    one.reset();
    BOOST_CHECK_EQUAL(alive.load(), 1); // lives on
    one.emplace();                      // the same place, another owner
    BOOST_CHECK_EQUAL((*one)->value, 0);
    BOOST_CHECK_EQUAL(alive.load(), 1);
    co_return;
}

} // namespace

BOOST_AUTO_TEST_SUITE(shard_local)

BOOST_AUTO_TEST_CASE(each_shard_has_its_own_from_first_use_to_its_end) {
    for (int run = 0; run < 2; ++run) { // and a second runtime begins anew
        run_on_first(counts_on_each, 3);
        BOOST_CHECK_EQUAL(alive.load(), 0);
        BOOST_CHECK_EQUAL(died_abroad.load(), 0);
    }
}

BOOST_AUTO_TEST_CASE(the_last_made_is_destroyed_first) {
    run_on_first(makes_two, 1);
    BOOST_CHECK_EQUAL(order, "second first ");
}

BOOST_AUTO_TEST_CASE(a_place_that_is_used_again_begins_anew) {
    run_on_first(takes_a_place_again, 1);
    BOOST_CHECK_EQUAL(alive.load(), 0);
}

BOOST_AUTO_TEST_CASE(their_number_is_bounded) {
    std::vector<std::unique_ptr<corewire::shard_local<int>>> many;
    BOOST_CHECK_THROW(
        for (;;) many.push_back(std::make_unique<corewire::shard_local<int>>()), std::length_error);
    BOOST_CHECK_LE(many.size(), shard_local_table::limit);
    BOOST_CHECK_GT(many.size(), shard_local_table::limit - 10);
}

BOOST_AUTO_TEST_SUITE_END()
