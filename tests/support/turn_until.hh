// A loop that is turned by hand until something has happened that the kernel or another thread does.
#pragma once

#include <corewire/reactor/loop/reactor.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <thread>

namespace corewire::test {

/// Turns without sleeping until `done()`, for a minute at most: who does the work has the processor now and then.
template <typename Done>
void turn_until(reactor& loop, Done&& done) {
    const auto enough = std::chrono::steady_clock::now() + std::chrono::minutes{1};
    for (int i = 1; !done() && std::chrono::steady_clock::now() < enough; ++i) {
        loop.poll_once();
        if (i % 1000 == 0) std::this_thread::yield();
    }
    BOOST_REQUIRE(done());
}

} // namespace corewire::test
