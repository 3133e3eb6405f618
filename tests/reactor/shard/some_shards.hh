// Runtimes for tests: of a few shards that share whatever CPUs there are, with real threads. Nothing here depends on timing.
#pragma once

#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/shard/this_shard.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/task.hh>

#include <chrono>
#include <functional>
#include <vector>

namespace shard_test {

/// Not pinned, deaf to signals, soon asleep.
inline corewire::runtime_options shards(unsigned count) {
    corewire::runtime_options options;
    for (unsigned i = 0; i < count; ++i) options.cpus.push_back(i);
    options.pin = false;
    options.handle_signals = false;
    options.loop.spin = std::chrono::microseconds{50};
    return options;
}

/// Ends with ECANCELED when the runtime is asked to stop, which is a good end for a body.
inline corewire::task<> until_stopped() { co_await corewire::sleep_for(std::chrono::hours{24}, corewire::this_shard::stopping()); }

/// Runs `body` as shard 0's task; the others serve calls until it returns, and then stop.
inline void run_on_first(std::function<corewire::task<>()> body, const corewire::runtime_options& options) {
    corewire::runtime all(options);
    all.run([&]() -> corewire::task<> {
        const auto nothing = []() -> corewire::task<> { co_return; };
        return corewire::this_shard::id() == 0 ? body() : nothing();
    });
}
inline void run_on_first(std::function<corewire::task<>()> body, unsigned count = 2, corewire::mailbox_options mail = {}) {
    corewire::runtime_options options = shards(count);
    options.mail = mail;
    options.loop.spin = std::chrono::microseconds{5};
    run_on_first(std::move(body), options);
}

} // namespace shard_test
