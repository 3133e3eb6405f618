// A world in one thread: hosts that run real services over our stack, cables, switches, one virtual clock, one seed. The same
// seed and the same calls give the same packets at the same nanoseconds. docs/SIMULATOR.md is its manual.
//
//     simulation world({.seed = 7});
//     sim_host& server = world.add_host("server");
//     sim_host& client = world.add_host("client");
//     sim_link& cable = world.connect(server, client, {.latency = 10ms, .bits_per_second = 1'000'000'000, .loss = 0.01});
//     server.spawn([] { return serve(7); });
//     int answer = world.run(client, [&] { return ask(server.address(), 7); });
//
// One turn: every host's loop is turned, in an order drawn from the seed, until none has work; then time goes on to the next
// packet or timer. Computing takes no time. Ends when asked, at a limit, or when nothing can happen any more.
#pragma once

#include <corewire/net/port/sim/sim_network.hh>
#include <corewire/net/sim/sim_host.hh>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace corewire {

struct sim_options {
    std::uint64_t seed = 1;
    std::uint32_t frames = 16384;    ///< in flight and in the hosts' rings, all together; 2 KiB each
    std::uint32_t frame_size = 2048; ///< bytes; more for a larger MTU
    /// Hosts that always have work (a loop around yield(), or packets over cables without latency) don't stop time: after so many
    /// rounds it goes on by a microsecond.
    unsigned rounds_a_moment = 1'000;
};

/// run() has come to its limit, or to a moment after which nothing can happen, or its host has crashed. Says where the world stood.
class sim_stalled : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

class simulation {
public:
    explicit simulation(const sim_options& options = {});
    ~simulation();
    simulation(const simulation&) = delete;
    simulation& operator=(const simulation&) = delete;

    // ---- the world ----
    sim_host& add_host(std::string name, sim_host_options options = {});
    sim_switch& add_switch() { return network_.make_switch(); }
    /// A cable, whose forward direction leads from the first to the second argument. A host has one NIC, thus one cable.
    sim_link& connect(sim_host& a, sim_host& b, const sim_link_options& options = {});
    sim_link& connect(sim_host& a, sim_switch& b, const sim_link_options& options = {});
    sim_link& connect(sim_switch& a, sim_switch& b, const sim_link_options& options = {});
    sim_host& host(std::size_t number) { return *hosts_.at(number); }
    std::size_t hosts() const noexcept { return hosts_.size(); }

    // ---- time ----
    time_point now() noexcept { return network_.now(); }
    /// Since the beginning.
    duration elapsed() noexcept { return now().time_since_epoch(); }
    /// Calls `what` at that time, between the hosts' turns: partitions, crashes, jumps.
    void at(time_point when, std::function<void()> what);
    void after(duration d, std::function<void()> what) { at(d < never - now() ? now() + d : never, std::move(what)); }
    /// Lets time go on by so much.
    void run_for(duration d) { run_until([] { return false; }, d); }
    /// Until `done()`, asked after every turn of the hosts. False: `limit` has passed first; it is 146 years, or more, and nothing
    /// can happen any more.
    bool run_until(const std::function<bool()>& done, duration limit = std::chrono::hours{1});
    /// Runs `body()` on a host to its end and gives its result, or throws what it threw; sim_stalled if it does not end, or if the
    /// host crashes under it.
    template <typename Body>
    auto run(sim_host& on, Body body, duration limit = std::chrono::hours{1});

    std::uint64_t seed() const noexcept { return network_.seed(); }
    /// For the faults that a scenario draws itself.
    random_generator& random() noexcept { return random_; }
    sim_network& network() noexcept { return network_; }
    /// Called after every turn that did something: for checking invariants.
    void on_turn(std::function<void(sim_host&)> what) { on_turn_ = std::move(what); }
    /// Every frame that arrives somewhere, its time and place in the order included, as one number: two runs are the same when it is.
    std::uint64_t digest() const noexcept { return network_.digest(); }
    /// "12.003 s: server 3 tasks, 1 connection; ...": for messages.
    std::string describe();

private:
    struct planned {
        time_point at;
        std::uint64_t order;
        std::function<void()> what;
    };
    bool turn_hosts();
    bool step(time_point until);
    bool end_of_moment(time_point until);
    void run_planned();
    time_point next_moment();

    random_generator random_;
    sim_network network_; ///< outlives the hosts
    std::vector<std::unique_ptr<sim_host>> hosts_;
    std::vector<planned> planned_; ///< a heap
    std::uint64_t order_ = 0;
    unsigned rounds_ = 0; ///< in this moment
    unsigned rounds_a_moment_;
    std::function<void(sim_host&)> on_turn_;
};

namespace detail {

/// What a task leaves behind.
template <typename T>
struct sim_outcome {
    std::optional<T> value;
    std::exception_ptr failure;
    bool ended = false;
    T take() { return std::move(*value); }
};
template <>
struct sim_outcome<void> {
    std::exception_ptr failure;
    bool ended = false;
    void take() noexcept {}
};

template <typename Task>
struct sim_result;
template <typename T>
struct sim_result<task<T>> {
    using type = T;
};

template <typename T, typename Body>
task<> keep_outcome(Body& body, sim_outcome<T>& into) {
    try {
        task<T> t = body();
        if constexpr (std::is_void_v<T>) {
            co_await t;
        } else {
            T value = co_await t;
            into.value.emplace(std::move(value));
        }
    } catch (...) {
        into.failure = std::current_exception();
    }
    into.ended = true;
}

} // namespace detail

template <typename Body>
auto simulation::run(sim_host& on, Body body, duration limit) {
    using T = typename detail::sim_result<std::invoke_result_t<Body&>>::type;
    detail::sim_outcome<T> outcome;
    sim_shard::guest group(on.shard(), "simulation::run()"); // its task goes on its own host, however this ends
    group.spawn([&] { return detail::keep_outcome<T, Body>(body, outcome); });
    if (!run_until([&] { return outcome.ended || group.destroyed(); }, limit))
        throw sim_stalled("the task on " + on.name() + " has not ended: " + describe());
    if (!outcome.ended) throw sim_stalled("the host crashed under the task on " + on.name() + ": " + describe());
    if (outcome.failure) std::rethrow_exception(outcome.failure);
    return outcome.take();
}

} // namespace corewire
