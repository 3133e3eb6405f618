// A reactor driven by hand on a clock of the test's own: nothing here waits for real time.
#pragma once

#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/task/task_group.hh>

#include <string>
#include <system_error>

namespace reactor_test {

struct manual_clock final : corewire::clock_source {
    corewire::time_point now() noexcept override { return time; }
    corewire::time_point time = corewire::from_ns(1'000'000'000);
};

/// A reactor that is current as long as this lives.
struct driven {
    driven() : driven(corewire::reactor_options{}) {}
    explicit driven(corewire::reactor_options options) : loop(with_clock(options, clock)) {}
    /// Turns until nothing happens any more.
    void settle() {
        for (int idle = 0; idle < 2;) idle = loop.poll_once() ? 0 : idle + 1;
    }
    void advance(corewire::duration by) {
        clock.time += by;
        settle();
    }
    static corewire::reactor_options with_clock(corewire::reactor_options options, manual_clock& clock) {
        options.clock = &clock;
        return options;
    }
    manual_clock clock;
    corewire::reactor loop;
    corewire::reactor::scope here{loop};
};

/// The same with one wait that is looked at.
struct observed : driven {
    corewire::task_group group{"test"};
    std::errc outcome{std::errc::io_error};
    bool done = false;
};

/// Awaits what `make()` returns and writes down the error that it ends with; std::errc{} for none.
template <typename Make>
corewire::task<> record(Make make, std::errc& outcome, bool& done) {
    try {
        auto wait = make();
        co_await wait;
        outcome = std::errc{};
    } catch (const std::system_error& e) {
        outcome = static_cast<std::errc>(e.code().value());
    }
    done = true;
}

} // namespace reactor_test
