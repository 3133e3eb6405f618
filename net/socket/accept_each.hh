// The loop of a server: accepts until it is told to stop, and outlives a shortage of descriptors or memory.
#pragma once

#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/reactor/task/as_result.hh>
#include <corewire/reactor/task/sleep.hh>

#include <cstdint>
#include <utility>

namespace corewire {

/// Calls `take(tcp_stream)` with each connection until `stop` fires or the listener is closed. While accept_may_recover() it tries again
/// ten times a second, and counts how often in *shortages; what else accept() fails with it throws. `from` outlives the task.
template <typename Take>
task<> accept_each(tcp_listener& from, stop_token stop, Take take, std::uint64_t* shortages = nullptr) {
    constexpr duration pause = std::chrono::milliseconds{100}; // nothing to accept with: the next attempt would fail at once
    for (;;) {
        auto peer = co_await as_result(from.accept({.stop = stop}));
        if (peer) {
            take(std::move(*peer));
        } else if (accept_may_recover(peer.error())) {
            if (shortages != nullptr) ++*shortages;
            const auto waited = co_await as_result(sleep_for(pause, stop));
            if (!waited) co_return;
        } else if (peer.error() == std::errc::operation_canceled) {
            co_return;
        } else {
            throw std::system_error(peer.error(), "accept");
        }
    }
}

} // namespace corewire
