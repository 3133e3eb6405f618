// sharded<Service>: one instance of a class on every shard, each made, used and destroyed on its own.
//
//     sharded<cache> caches;
//     co_await caches.start(size_each);                              // cache(size_each) on every shard
//     bool had = co_await caches.invoke_on(owner_of(key), [key](cache& c) { return c.erase(key); });
//     std::size_t n = co_await caches.map_reduce([](cache& c) { return c.size(); }, std::size_t{0}, std::plus<>{});
//     co_await caches.stop();                                        // before it is destroyed
//
// With g++, a callable that owns something (a string, a unique_ptr) gets a name before the co_await: see remote_call.hh.
//
// The object itself lives on the shard that made it; start() and stop() are called there, the rest from any shard while it
// is started. Bounded: one instance a shard; a whole-service call has one message to each shard in flight.
#pragma once

#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/shard/this_shard.hh>
#include <corewire/reactor/task/condition.hh>
#include <corewire/reactor/task/task.hh>

#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace corewire {

template <typename Service>
class sharded {
public:
    sharded() = default;
    sharded(const sharded&) = delete;
    sharded& operator=(const sharded&) = delete;
    /// After stop(). Its owner may also have been abandoned at shutdown: the instances are left as they are then, since
    /// each could only be destroyed on its own shard.
    ~sharded() {
        if (instances_ == nullptr) return;
        CW_ASSERT(this_shard::stopping().stop_requested(), "a sharded<> service is destroyed before its stop() has ended");
        static_cast<void>(instances_.release());
    }

    /// Makes Service(args...) on every shard, each from its own copies. If one throws, those that were made are stopped, and the
    /// first exception is thrown.
    template <typename... Args>
    task<> start(Args... args);
    /// Calls `task<> Service::stop()` where there is one, waits for the calls that have arrived there (given up by their callers or not),
    /// then destroys the instance, on every shard. Throws the first exception of a stop() after all are gone. Without an instance it does
    /// nothing. Not from within a call: it would wait for itself.
    task<> stop();

    bool started() const noexcept { return instances_ != nullptr; }
    /// This shard's own instance.
    Service& local() noexcept {
        Service* mine = instance(this_shard::id());
        CW_ASSERT(mine != nullptr, "sharded<>::local() on a shard that has no instance");
        return *mine;
    }

    /// Runs `f(Service&)` on one shard: an awaitable of what it returns (submit_to).
    template <typename F>
    auto invoke_on(unsigned shard, F f, wait_limits limits = {}) {
        return submit_to(shard, call_of<F>{this, std::move(f)}, limits);
    }
    /// Runs `f(Service&)`, with a copy of `f` each, on every shard, and waits for all. `f` may return a task<>; what else it returns
    /// is dropped. Throws the first exception, by shard number, when all have ended.
    template <typename F>
    task<> invoke_on_all(F f, wait_limits limits = {});
    /// Folds `map(Service&)` of every shard, in order of shard number, into `initial` with `reduce(R, mapped) -> R`.
    template <typename Map, typename R, typename Reduce>
    task<R> map_reduce(Map map, R initial, Reduce reduce, wait_limits limits = {});

private:
    struct alignas(cache_line) place {
        std::optional<Service> service;
        unsigned calls = 0; ///< that have arrived and not ended
        condition quiet;
    };
    /// A call under way on its shard.
    class in_use {
    public:
        explicit in_use(place* of) noexcept : of_(of) {
            if (of_ != nullptr) ++of_->calls;
        }
        in_use(in_use&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
        ~in_use() {
            if (of_ != nullptr && --of_->calls == 0) of_->quiet.notify_all();
        }

    private:
        place* of_;
    };
    /// What is sent to a shard.
    template <typename F>
    struct call_of {
        sharded* all;
        F called;
        in_use hold() const noexcept {
            return in_use(all->instance(this_shard::id()) == nullptr ? nullptr : &all->instances_[this_shard::id()]);
        }
        decltype(auto) operator()() { return called(all->local()); }
    };
    Service* instance(unsigned shard) noexcept {
        if (instances_ == nullptr || !instances_[shard].service) return nullptr;
        return &*instances_[shard].service;
    }
    /// `f()` on every shard at once; waits for all, then throws the first exception.
    template <typename F>
    static task<> on_all(F f, wait_limits limits);
    task<> stop_local();

    std::unique_ptr<place[]> instances_; ///< by shard
};

template <typename Service>
template <typename F>
task<> sharded<Service>::on_all(F f, wait_limits limits) {
    std::deque<remote_call<F>> calls; // never moves its elements
    for (unsigned shard = 0; shard < this_shard::count(); ++shard)
        calls.emplace_back(this_shard::mail(), shard, f, limits);
    std::exception_ptr first;
    for (auto& call : calls) {
        try {
            co_await call;
        } catch (...) {
            if (!first) first = std::current_exception();
        }
    }
    if (first) std::rethrow_exception(first);
}

template <typename Service>
template <typename... Args>
task<> sharded<Service>::start(Args... args) {
    CW_ASSERT(instances_ == nullptr, "a sharded<> service is started twice");
    instances_ = std::make_unique<place[]>(this_shard::count());
    std::exception_ptr failure;
    try {
        auto make = [this, arguments = std::make_tuple(std::move(args)...)]() mutable {
            auto& here = instances_[this_shard::id()].service;
            std::apply([&](auto&... each) { here.emplace(std::move(each)...); }, arguments);
        };
        co_await on_all(std::move(make), wait_limits{});
        co_return;
    } catch (...) {
        failure = std::current_exception();
    }
    co_await stop();
    std::rethrow_exception(failure);
}

template <typename Service>
task<> sharded<Service>::stop_local() {
    std::exception_ptr failure;
    Service* mine = instance(this_shard::id());
    if constexpr (requires(Service& s) { s.stop(); })
        if (mine != nullptr) {
            try {
                task<> stopping = mine->stop();
                co_await stopping;
            } catch (...) {
                failure = std::current_exception();
            }
        }
    place& here = instances_[this_shard::id()];
    co_await here.quiet.wait_until([&here] { return here.calls == 0; });
    here.service.reset();
    if (failure) std::rethrow_exception(failure);
    co_return;
}

template <typename Service>
task<> sharded<Service>::stop() {
    if (instances_ == nullptr) co_return;
    std::exception_ptr failure;
    try {
        co_await on_all([this] { return stop_local(); }, wait_limits{});
    } catch (...) {
        failure = std::current_exception();
    }
    instances_.reset();
    if (failure) std::rethrow_exception(failure);
}

template <typename Service>
template <typename F>
task<> sharded<Service>::invoke_on_all(F f, wait_limits limits) {
    co_await on_all(call_of<F>{this, std::move(f)}, limits);
}

template <typename Service>
template <typename Map, typename R, typename Reduce>
task<R> sharded<Service>::map_reduce(Map map, R initial, Reduce reduce, wait_limits limits) {
    call_of<Map> on_each{this, std::move(map)};
    std::deque<remote_call<call_of<Map>>> calls;
    for (unsigned shard = 0; shard < this_shard::count(); ++shard)
        calls.emplace_back(this_shard::mail(), shard, on_each, limits);
    for (auto& call : calls) {
        auto mapped = co_await call;
        initial = reduce(std::move(initial), std::move(mapped));
    }
    co_return std::move(initial);
}

} // namespace corewire
