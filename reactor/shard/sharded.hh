// sharded<Service>: one instance of a class on every shard, each made, used and destroyed on its own.
//
//     sharded<cache> caches;
//     co_await caches.start(size_each);                              // cache(size_each) on every shard
//     bool had = co_await caches.invoke_on(owner_of(key), [key](cache& c) { return c.erase(key); });
//     std::size_t n = co_await caches.map_reduce([](cache& c) { return c.size(); }, std::size_t{0}, std::plus<>{});
//     co_await caches.stop();                                        // before it is destroyed
//
// start() and stop() take limits, too: co_await caches.start({.deadline = soon}, size_each). Each shard goes on with what it was told when
// they have given up; the service is in between then, and stop(), again where it was that, waits for all of it.
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
    }

    /// Makes Service(args...) on every shard, each from its own copies. If one throws, those that were made are stopped, and the
    /// first exception is thrown, whatever their stop() throws. EAGAIN if too many calls of this shard are in flight: where started() says
    /// so, too many were for the undoing as well, and a stop() is due.
    template <typename... Args>
    task<> start(Args... args) {
        return start(wait_limits{}, std::move(args)...);
    }
    /// Throws ETIMEDOUT or ECANCELED by its limits, whatever an instance has thrown meanwhile: then some instances may be there, and
    /// others come yet, until a stop() has ended.
    template <typename... Args>
    task<> start(wait_limits limits, Args... args);
    /// Calls `task<> Service::stop()` where there is one, waits for the calls that have arrived there (given up by their callers or not),
    /// then destroys the instance, on every shard. Throws the first exception of a stop() after all are gone. Without an instance it does
    /// nothing. Not from within a call: it would wait for itself. Throws ETIMEDOUT or ECANCELED by its limits: then it goes on over there,
    /// and the next stop() waits for that; no instance is stopped twice. EAGAIN if too many calls of this shard are in flight, or what the
    /// call to a shard has failed with: the next stop() does the rest. One stop() at a time.
    task<> stop(wait_limits limits = {});

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
        unsigned calls = 0;  ///< that have arrived and not ended
        unsigned making = 0; ///< 1: the instance is to be made
        bool stopping = false, stopped = false;
        std::exception_ptr failure; ///< of the service's stop()
        condition quiet;            ///< one of these has changed
        bool all_gone = false;      ///< the first place's, set by the owner: no shard has an instance any more
    };
    /// Whoever is the last to hold the places, on any shard: with an instance in them they stay for ever.
    struct when_all_gone {
        void operator()(place* first) const noexcept {
            if (first->all_gone) delete[] first;
        }
    };
    /// What is under way on its shard, from its arrival on.
    template <unsigned place::* count>
    class under_way {
    public:
        explicit under_way(place* of) noexcept : of_(of) {
            if (of_ != nullptr) ++(of_->*count);
        }
        under_way(under_way&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
        ~under_way() {
            if (of_ != nullptr && --(of_->*count) == 0) of_->quiet.notify_all();
        }

    private:
        place* of_;
    };
    using in_use = under_way<&place::calls>;
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
    /// What makes the instance there.
    template <typename... Args>
    struct maker {
        sharded* all;
        std::tuple<Args...> arguments;
        under_way<&place::making> hold() const noexcept { return under_way<&place::making>(&all->place_here()); }
        void operator()() {
            std::apply([this](auto&... each) { all->place_here().service.emplace(std::move(each)...); }, arguments);
        }
    };
    place& place_here() const noexcept { return instances_[this_shard::id()]; }
    Service* instance(unsigned shard) noexcept {
        if (instances_ == nullptr || !instances_[shard].service) return nullptr;
        return &*instances_[shard].service;
    }
    /// `f()` on every shard at once; waits for all, then throws the first exception. With `given_up`, whether one of them has not ended:
    /// what gave it up is thrown then, whatever others have thrown.
    template <typename F>
    static task<> on_all(F f, wait_limits limits, bool* given_up = nullptr);
    /// On each shard; answers what the service's stop() has thrown, when the instance is gone.
    static task<std::exception_ptr> stop_local(place& here);

    /// By shard. Held by calls that stop, too: those that were given up may come last, in the line of another group.
    std::shared_ptr<place[]> instances_;
};

template <typename Service>
template <typename F>
task<> sharded<Service>::on_all(F f, wait_limits limits, bool* given_up) {
    std::deque<remote_call<F>> calls; // never moves its elements
    for (unsigned shard = 0; shard < this_shard::count(); ++shard)
        calls.emplace_back(this_shard::mail(), shard, f, limits);
    std::exception_ptr first;
    for (auto& call : calls) {
        try {
            co_await call;
        } catch (...) {
            const bool gives_up = given_up != nullptr && !*given_up && !call.ready();
            if (gives_up) *given_up = true;
            if (!first || gives_up) first = std::current_exception();
        }
    }
    if (first) std::rethrow_exception(first);
}

template <typename Service>
template <typename... Args>
task<> sharded<Service>::start(wait_limits limits, Args... args) {
    CW_ASSERT(instances_ == nullptr, "a sharded<> service is started twice");
    instances_ = std::shared_ptr<place[]>(new place[this_shard::count()], when_all_gone{});
    std::exception_ptr failure;
    bool given_up = false;
    try {
        maker<Args...> make{this, std::tuple<Args...>(std::move(args)...)};
        co_await on_all(std::move(make), limits, &given_up);
        co_return;
    } catch (...) {
        failure = std::current_exception();
    }
    if (!given_up) {
        try {
            co_await stop();
        } catch (...) { // what came first is thrown
        }
    }
    std::rethrow_exception(failure);
}

template <typename Service>
task<std::exception_ptr> sharded<Service>::stop_local(place& here) {
    if (!std::exchange(here.stopping, true)) { // waits in loops, which need no memory
        while (here.making != 0) co_await here.quiet.wait();
        if constexpr (requires(Service& s) { s.stop(); })
            if (here.service) {
                try {
                    task<> stopping = here.service->stop();
                    co_await stopping;
                } catch (...) {
                    here.failure = std::current_exception();
                }
            }
        while (here.calls != 0) co_await here.quiet.wait();
        here.service.reset();
        here.stopped = true;
        here.quiet.notify_all();
    }
    while (!here.stopped) co_await here.quiet.wait();
    co_return here.failure;
}

template <typename Service>
task<> sharded<Service>::stop(wait_limits limits) {
    if (instances_ == nullptr) co_return;
    const auto stop_there = [places = instances_] { return stop_local(places[this_shard::id()]); };
    std::deque<remote_call<std::decay_t<decltype(stop_there)>>> calls;
    for (unsigned shard = 0; shard < this_shard::count(); ++shard)
        calls.emplace_back(this_shard::mail(), shard, stop_there, limits);
    std::exception_ptr failure, no_answer;
    for (auto& call : calls) {
        try {
            std::exception_ptr thrown = co_await call;
            if (!failure) failure = std::move(thrown);
        } catch (...) {
            if (!no_answer) no_answer = std::current_exception();
        }
    }
    if (no_answer) std::rethrow_exception(no_answer); // there may be an instance over there, which is not destroyed here
    instances_[0].all_gone = true;
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
