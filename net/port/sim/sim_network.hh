// A network in memory and in virtual time: hosts, cables, switches, one seed. The same seed and the same calls give the
// same packets at the same nanoseconds. One thread drives all of it:
//
//     for (;;) { turn every host's reactor until none has work;  t = earliest of next_event() and their timers;
//                advance_to(t); }
//
// It is the clock of its hosts' reactors. Packets travel in frames of the network's own; bounded by their number.
#pragma once

#include <corewire/net/frame/frame_pool.hh>
#include <corewire/net/port/sim/sim_link.hh>
#include <corewire/net/port/sim/sim_port.hh>
#include <corewire/net/wire/address.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <memory>
#include <unordered_map>
#include <vector>

namespace corewire {

struct sim_network_options {
    std::uint64_t seed = 1;
    std::uint32_t frames = 16384;    ///< in flight and in the hosts' inboxes, all together
    std::uint32_t frame_size = 2048; ///< bytes
};

class sim_network;

/// A learning Ethernet switch: unknown and group addresses go out everywhere else. At most 1,024 addresses.
class sim_switch {
    friend class sim_network;
    struct socket;
    sim_network* network_ = nullptr;
    std::vector<std::unique_ptr<socket>> sockets_;
    std::unordered_map<mac_address, std::size_t> learned_;
    void forward(std::size_t from, frame& f, std::uint32_t size);

public:
    explicit sim_switch(sim_network& network);
    ~sim_switch();
};

class sim_network final : public clock_source {
public:
    explicit sim_network(sim_network_options options = {});
    ~sim_network();
    sim_network(const sim_network&) = delete;
    sim_network& operator=(const sim_network&) = delete;

    /// A host's NIC. It may outlive the network, deaf and mute. Throws std::invalid_argument if its MTU needs larger frames.
    std::unique_ptr<sim_port> make_port(mac_address mac, const sim_port_options& options = {});
    sim_switch& make_switch();
    /// A cable; the port is in no other. Its forward direction leads from the first to the second argument. Throws as
    /// sim_link::configure() does.
    sim_link& connect(sim_port& a, sim_port& b, const sim_link_options& options = {});
    sim_link& connect(sim_port& a, sim_switch& b, const sim_link_options& options = {});
    sim_link& connect(sim_switch& a, sim_switch& b, const sim_link_options& options = {});

    time_point now() noexcept override { return now_; }
    /// When the next packet arrives somewhere; `never` if none is on its way.
    time_point next_event() const noexcept { return events_.empty() ? never : events_.front().at; }
    /// Delivers what is due until then, in order, and makes it `t` o'clock. Asserts that time does not go back.
    void advance_to(time_point t);
    std::uint64_t seed() const noexcept { return seed_; }
    /// Every delivery so far, as one number: when, in which order, and each byte. The same for the same run.
    std::uint64_t digest() const noexcept { return digest_; }
    /// Packets on their way.
    std::size_t in_flight() const noexcept { return events_.size(); }
    /// Packets lost for want of a frame to travel in, on all cables: no loss that a real network would have.
    std::uint64_t no_frames() const noexcept { return no_frames_; }

    /// Whatever sim_link::drop_if() was given.
    void forget_filters() noexcept;

private:
    friend class sim_port;
    friend class sim_switch;
    struct event {
        time_point at;
        std::uint64_t order; ///< of sending: packets due at the same time arrive in this order
        frame* what;
        std::uint32_t size;
        sim_link::one_way* lane;
    };
    static bool later(const event& a, const event& b) noexcept;
    sim_link& join(sim_endpoint& a, sim_endpoint& b, const sim_link_options& options, bool switches = false);
    frame* copy(byte_span head, byte_span body) noexcept;
    /// Sends a packet, taking over the frame. It is delivered, or counted.
    void send(sim_link::one_way& lane, frame& f, std::uint32_t size);
    time_point enqueue(sim_link::one_way& lane, std::uint32_t size);
    void schedule(sim_link::one_way& lane, frame& f, std::uint32_t size, time_point sent);
    void remember(const event& e) noexcept;
    void no_frame(sim_link::one_way& lane) noexcept;
    static bool damage(sim_link::one_way& lane, frame& f, std::uint32_t size);
    static void mark(sim_link::one_way& lane, frame& f, std::uint32_t size);

    std::uint64_t seed_;
    frame_pool frames_;
    time_point now_{};
    std::uint64_t sent_ = 0;
    std::uint64_t digest_ = 0;
    std::uint64_t no_frames_ = 0;
    std::vector<event> events_; ///< a heap; reserved once
    std::vector<std::unique_ptr<sim_link>> links_;
    std::vector<std::unique_ptr<sim_switch>> switches_;
    std::vector<sim_port*> ports_;
};

} // namespace corewire
