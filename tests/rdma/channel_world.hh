// Two connected channels on one reactor: `client` on the one device of a fabric, `server` on the other.
#pragma once

#include <corewire/reactor/task/when_all.hh>
#include <corewire/reactor/task/with_deadline.hh>

#include "tests/rdma/ways.hh"

#include <boost/test/unit_test.hpp>

#include <optional>
#include <string>

namespace corewire::test {

inline byte_span bytes_of(std::string_view s) { return {reinterpret_cast<const std::byte*>(s.data()), s.size()}; }
inline std::string text_of(byte_span b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

/// The code with which `work` fails; none if it does not.
template <typename Awaitable>
task<std::errc> failure_of(Awaitable&& work) {
    try {
        co_await work;
    } catch (const std::system_error& e) {
        co_return static_cast<std::errc>(e.code().value());
    }
    co_return std::errc{};
}

inline task<std::optional<rdma::message>> next_of(rdma::rc_channel& from, wait_limits limits = {}) {
    auto m = co_await from.receive(limits);
    co_return m;
}

template <typename Fabric, typename Way = by_rdma_cm>
struct basic_channel_world : Fabric {
    explicit basic_channel_world(rdma::rc_options of_client = {}, rdma::rc_options of_server = {}, rdma::context_options of_both = {})
        : r(this->loop()), here(r), way(r), in(completed(of_both)), listening(way.listen(in, of_server)) {
        run(connect(of_client));
    }
    ~basic_channel_world() override {
        client = {};
        server = {};
    }
    template <typename T>
    T run(task<T> work) {
        task<T> bounded = with_deadline(std::move(work), {.deadline = r.read_clock() + std::chrono::seconds{30}});
        const auto frame = bounded.handle();
        frame.resume();
        while (!frame.done()) this->turn();
        return frame.promise().take();
    }
    /// Turns until `condition()`; fails the test when it does not come about in ten seconds.
    template <typename Condition>
    void until(Condition condition) {
        const time_point end = r.read_clock() + std::chrono::seconds{10};
        while (!condition()) {
            this->turn();
            BOOST_REQUIRE_MESSAGE(r.read_clock() < end, "it does not come about");
        }
    }
    /// One more, from the client's device; `port` 0: to the listener.
    task<rdma::rc_channel> dial(std::uint16_t port = 0, rdma::rc_options options = {}) {
        return way.dial(in, options, port != 0 ? port : listening.port());
    }
    task<> connect(rdma::rc_options options) {
        auto accepted = listening.accept();
        auto made = dial(0, options);
        auto [a, b] = co_await when_all(std::move(accepted), std::move(made));
        server = std::move(a);
        client = std::move(b);
    }
    wait_limits within(duration d) { return {.deadline = r.read_clock() + d}; }
    reactor& r;
    reactor::scope here;
    Way way;
    rdma::context in;
    rdma::listener listening;
    rdma::rc_channel client, server;

private:
    std::size_t calls_under_way() override { return in.waits().under_way(); }
    rdma::context_options completed(rdma::context_options o) const {
        o.verbs = &this->verbs();
        o.cm = &this->cm();
        return o;
    }
};

} // namespace corewire::test
