// For what threads of the code under test do, which the virtual clock knows nothing of.
#pragma once

#include <corewire/rdma/fake/nic.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <thread>

namespace corewire::test {

/// Does `step` until `condition()`; fails the test when that does not come about in a minute of real time.
template <typename Step, typename Condition>
void in_real_time(Step step, Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes{1};
    while (!condition()) {
        step();
        std::this_thread::yield();
        BOOST_REQUIRE_MESSAGE(std::chrono::steady_clock::now() < end, "it does not come about");
    }
}

/// Lets go what waits for ways of a NIC when a test ends early: those who made the calls would wait for them for ever.
struct ways_let_go {
    fake::nic& of;
    ~ways_let_go() { of.release_ways(); }
};

} // namespace corewire::test
