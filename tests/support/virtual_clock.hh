// A clock that stands still until it is told to move: time for tests and simulations.
#pragma once

#include <corewire/reactor/loop/reactor.hh>

namespace corewire {

class virtual_clock final : public clock_source {
public:
    explicit virtual_clock(time_point start = time_point{std::chrono::seconds{1'000}}) noexcept : now_(start) {}
    time_point now() noexcept override { return now_; }
    void advance_to(time_point t) noexcept {
        if (t > now_) now_ = t;
    }
    void advance(duration d) noexcept { now_ += d; }

private:
    time_point now_;
};

} // namespace corewire
