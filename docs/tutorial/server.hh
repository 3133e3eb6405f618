// docs/tutorial/server.hh
#pragma once
#include "protocol.hh"
#include "store.hh"

#include <corewire/metrics.hh>
#include <corewire/sync.hh>

#include <chrono>
#include <string>
namespace cw = corewire;

namespace tutorial {

class server {
public:
    server(store& data, std::size_t most_sessions) : store_(data), room_(most_sessions) {
        metrics_.counter("store_requests_total", "Requests that were answered", requests_);
    }

    /// Accepts until `stop`; returns when the last session has ended.
    cw::task<> run(cw::tcp_listener listener, cw::stop_token stop) {
        cw::task_group sessions("store sessions");
        for (;;) {
            auto place = co_await cw::as_result(room_.acquire(1, {.stop = stop})); // at most so many at a time
            if (!place) break;
            auto peer = co_await cw::as_result(listener.accept({.stop = stop}));
            if (!peer) break;
            sessions.spawn(session(std::move(*peer), std::move(*place), stop));
        }
        listener.close();
        co_await sessions.join();
    }
    std::uint64_t requests() const { return requests_; }

private:
    /// Whose reply has not left in so long loses its place. Much shorter than the time that a stop has (`drain`, 5 s).
    static constexpr cw::duration patience = std::chrono::seconds{1};

    /// A stop ends the wait for the next request; a request that has been read is answered first.
    cw::task<> session(cw::tcp_stream peer, cw::semaphore::units place, cw::stop_token stop) {
        try {
            while (auto request = co_await read_frame(peer, {.stop = stop})) {
                std::string reply = co_await answer(std::move(*request));
                const cw::wait_limits soon{.deadline = cw::reactor::current().now() + patience};
                co_await write_frame(peer, std::move(reply), soon);
                ++requests_;
                if (stop.stop_requested()) break; // there may be more, in buffers: they are not answered
            }
        } catch (const std::system_error&) {
            // The peer has reset, sent nonsense or reads nothing, or we stop: its session ends, and nothing else does.
        }
        place.release();
    }
    cw::task<std::string> answer(std::string request) {
        if (request.starts_with("SET ")) {
            const std::size_t space = request.find(' ', 4);
            if (space == std::string::npos) co_return "ERROR a SET has a key and a value";
            co_await store_.set(request.substr(4, space - 4), request.substr(space + 1));
            co_return "OK";
        }
        if (request.starts_with("GET ")) {
            auto value = co_await store_.get(request.substr(4));
            co_return value ? "VALUE " + *value : "NONE";
        }
        co_return "ERROR only SET and GET are known";
    }

    store& store_;
    cw::semaphore room_;
    std::uint64_t requests_ = 0; // one shard's: a plain integer
    cw::metric_group metrics_{cw::metric_registry::current_or_null()};
};

} // namespace tutorial
