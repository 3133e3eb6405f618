// drill_host: one host of our stack on a clock that only the script moves. A reactor, a network_stack on a raw_ip_port,
// and the lock under which packetdrill's two threads take turns with them.
//
//     script's thread:  usleep, netdev_receive --> advance the clock, timer by timer, the stack transmits between
//     its other thread: accept, read ...       --> wait(): asleep until something has changed
//
// Before the clock moves, every other thread of the process has gone to sleep: one that was woken has looked at the clock,
// and one that was sent to make a call has made it. So a script's times are exact, and the same in each run.
//
// Everything is called with an `access` held. Bounded: one stack; waits by real time are patience_limit at most.
#pragma once

#include "raw_ip_port.hh"
#include "wire_habits.hh"

#include <corewire/net/stack/network_stack.hh>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace corewire::packetdrill {

class drill_host {
public:
    explicit drill_host(wire_habits habits);
    ~drill_host();

    /// The host is this thread's, until the end of the scope or a wait.
    class access {
    public:
        explicit access(drill_host& h) : lock_(h.mutex_), here_(*h.loop_) {}

    private:
        friend class drill_host;
        std::unique_lock<std::mutex> lock_;
        reactor::scope here_;
    };

    const wire_habits& habits() const noexcept { return habits_; }
    /// Settings of the host that scripts change while they run.
    void read_settings() {
        habits_.read_settings();
        apply_settings();
    }
    time_point now() const noexcept { return clock_.time; }
    /// now(), for a script. Who looks at the clock `spin_limit` times and does nothing else is spinning: it moves a microsecond.
    time_point look(access& a);

    /// The stack; made on first use. `hint`: an address that has turned out to be ours; any: the habits'.
    network_stack& stack(const net_address& hint = {});
    /// A script binds to this IPv6 address: it is ours from now on, as the habits' own is.
    void adopt(const ipv6& address);
    raw_ip_port& wire() noexcept { return *port_; }

    /// Done when the stack has done what was to be done at a moment; what it gives the stack to do is done as well.
    void set_follow_up(std::function<void()> what) { follow_up_ = std::move(what); }
    /// Lets the stack do what is to be done at this moment, and tells who waits.
    void settle();
    /// Moves the clock to `target`; timers on the way run at their times, one that is due at `target` behind what the script does then.
    void advance_to(access& a, time_point target);
    /// Moves the clock to the next timer and runs it. False: there is none before `limit`.
    bool advance_to_next_timer(access& a, time_point limit = never);
    /// For a call that blocks: until something has changed, or `deadline`. False: nothing ever will.
    bool wait(access& a, time_point deadline);
    /// Ends every wait(): calls that block return as if they did not. Returns when all have left.
    void end_waits(access& a);
    /// Until every other thread of this process sleeps; gives up after patience_limit of real time.
    void let_others_finish(access& a);

private:
    /// Those that are the stack's.
    void apply_settings() noexcept;
    static constexpr std::chrono::seconds patience_limit{5};
    static constexpr unsigned spin_limit = 1000;

    struct script_clock final : clock_source {
        time_point time{std::chrono::seconds{1'000'000}};
        time_point now() noexcept override { return time; }
    };
    bool is_driver() const noexcept { return std::this_thread::get_id() == driver_; }

    wire_habits habits_;
    std::function<void()> follow_up_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t changes_ = 0;
    unsigned looks_ = 0;   ///< since something was done
    unsigned waiting_ = 0; ///< threads in wait()
    bool ended_ = false;
    std::thread::id driver_ = std::this_thread::get_id();
    script_clock clock_;
    std::unique_ptr<reactor> loop_;
    raw_ip_port* port_ = nullptr; ///< the stack's
    std::unique_ptr<network_stack> stack_;
};

} // namespace corewire::packetdrill
