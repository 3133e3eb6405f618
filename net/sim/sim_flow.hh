// A one-way TCP flow between two simulated hosts that always has something to send: for measuring what a path and a congestion
// control make of each other.
//
//     sim_flow flow(sender, receiver, 7);
//     world.run_for(10s);
//     flow.delivered();          // payload bytes that the receiving service has read
//
// The tasks belong to the hosts and may outlive this object. Its stream is one buffer, sent again and again without a copy.
#pragma once

#include <corewire/net/sim/sim_host.hh>
#include <corewire/net/socket/provider.hh>
#include <corewire/net/socket/tcp_stream.hh>

#include <cstdint>
#include <memory>

namespace corewire {

struct sim_flow_options {
    tcp_options_set stream{.receive_buffer = 4u << 20, .send_buffer = 4u << 20};
    std::uint64_t bytes = ~std::uint64_t{0}; ///< then it ends
};

class sim_flow {
public:
    /// Listens on `port` of `to`, and connects from `from` at once.
    sim_flow(sim_host& from, sim_host& to, std::uint16_t port, const sim_flow_options& options = {});

    /// Bytes that the receiver has read, in order.
    std::uint64_t delivered() const noexcept;
    /// The sender's side; nothing before the handshake is over and after the end.
    const tcp_stream* sender() const noexcept;
    /// The receiver has read to the end of the stream.
    bool ended() const noexcept;
    /// An end has failed.
    bool failed() const noexcept;

private:
    struct state;
    static task<> send(std::shared_ptr<state> s, socket_address to, sim_flow_options options);
    static task<> receive(std::shared_ptr<state> s, std::uint16_t port, sim_flow_options options);

    std::shared_ptr<state> state_;
};

} // namespace corewire
