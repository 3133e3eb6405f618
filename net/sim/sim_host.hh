// A simulated host: one shard on a clock of its own, a NIC, and our stack behind it. Services run on it as on a machine:
//
//     sim_host& server = world.add_host("server");
//     server.spawn([] { return serve(7); });        // tcp_listener::bind() and all the rest, unchanged
//
// Owned by its simulation, on the simulation's thread. Bounds: those of its stack_config and of its NIC.
#pragma once

#include <corewire/net/port/sim/sim_port.hh>
#include <corewire/net/socket/orderly_stop.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/reactor/sim/sim_shard.hh>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace corewire {

class sim_network;

struct sim_host_options {
    /// Address and seed are filled in where they are left unset: 10.0.0.N/16 for the N-th host.
    stack_config stack{};
    sim_port_options nic{};
    /// Put something round the NIC: a pcap_port, a tracing_port, a faulty_port. It stands as long as the host, crashes included.
    std::function<std::unique_ptr<port>(std::unique_ptr<port>)> wrap{};
    /// How far the host's clock is ahead of the world's: the time since it was started, so to speak.
    duration uptime = std::chrono::seconds{1'000};
};

class sim_host {
public:
    ~sim_host();
    sim_host(const sim_host&) = delete;
    sim_host& operator=(const sim_host&) = delete;

    const std::string& name() const noexcept { return name_; }
    ipv4 address() const noexcept { return stack_ ? stack_->address() : options_.stack.address.address(); }

    /// Starts `body()` as a task of this host. The callable lives as long as the host.
    void spawn(std::function<task<>()> body);
    /// As SIGTERM does: stop tokens fire, listeners close, quiet sessions end, the others after `grace`; tasks that have not ended
    /// after five seconds (runtime_options::drain) are abandoned. For good: it serves again after crash().
    void request_stop(duration grace = std::chrono::seconds{2});

    // ---- what happens to machines ----
    /// The clock goes forward at once: suspended and resumed, or set.
    void jump_clock(duration forward) noexcept { shard_.clock().jump(forward); }
    /// Takes no turn before the world's time `until`, while its clock goes on: a stopped virtual machine, a stolen core. What
    /// arrives waits in the NIC's ring, or is dropped when that is full. A task that is spawned meanwhile runs up to its first wait. A
    /// crash ends it.
    void freeze(time_point until) noexcept { frozen_until_ = until; }
    /// Tasks and connections are gone from one moment to the next, without a word to anybody, and what run() has on it; then the
    /// host starts anew, with nothing to do, with another reactor and another stack. The seed of its second life is another. Not in
    /// a turn of its own.
    void crash();
    /// The first half of that: until power_on() it does nothing, and what reaches its NIC is lost. It has no stack meanwhile.
    void power_off();
    void power_on();
    bool is_on() const noexcept { return stack_ != nullptr; }

    /// Until the next crash, as loop().
    network_stack& stack() noexcept { return *stack_; }
    sim_shard& shard() noexcept { return shard_; }
    reactor& loop() noexcept { return shard_.loop(); }
    sim_port& nic() noexcept { return *nic_; }
    /// Tasks that an exception has left, in all its lives. The log says which.
    std::uint64_t failed() noexcept { return shard_.failed(); }
    /// By this host's clock.
    time_point now() noexcept { return shard_.clock().now(); }

private:
    friend class simulation;
    sim_host(sim_network& world, std::string name, unsigned number, sim_host_options options);
    void boot();
    void shut_down() noexcept;
    /// Both by the world's time.
    bool turn(time_point now_in_world);
    time_point next_wake(time_point now_in_world);

    class nic_handle; ///< what the stack owns of the NIC and of what is round it, which stay when the stack goes

    std::string name_;
    sim_host_options options_;
    std::unique_ptr<sim_port> nic_;
    std::unique_ptr<port> wrapped_; ///< the NIC with what is round it, if anything is
    sim_shard shard_;
    std::unique_ptr<network_stack> stack_;
    std::optional<orderly_stop> stopping_;
    time_point frozen_until_{};
};

} // namespace corewire
