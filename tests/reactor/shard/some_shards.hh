// A runtime of two shards (or more) that share whatever CPUs there are: for what needs real threads. Nothing here depends on timing.
#pragma once

#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/shard/this_shard.hh>
#include <corewire/reactor/task/task.hh>

#include <functional>
#include <vector>

namespace shard_test {

/// Runs `body` as shard 0's task; the others serve calls until it returns, and then stop.
inline void run_on_first(std::function<corewire::task<>()> body, unsigned shards = 2, corewire::mailbox_options mail = {}) {
    corewire::runtime_options options;
    options.cpus.assign(shards, 0);
    options.pin = false;
    options.handle_signals = false;
    options.mail = mail;
    options.loop.spin = std::chrono::microseconds{5};
    corewire::runtime all(options);
    all.run([&]() -> corewire::task<> {
        const auto nothing = []() -> corewire::task<> { co_return; };
        return corewire::this_shard::id() == 0 ? body() : nothing();
    });
}

} // namespace shard_test
