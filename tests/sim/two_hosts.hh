// Two simulated hosts and the cable between them.
#pragma once

#include <corewire/net/sim/simulation.hh>
#include <corewire/net/socket/tcp_stream.hh>

#include <utility>

namespace corewire::test {

struct two_hosts {
    explicit two_hosts(const sim_link_options& link = {}, std::uint64_t seed = 1)
        : world({.seed = seed}), server(world.add_host("server")), client(world.add_host("client")),
          cable(world.connect(server, client, link)) {
        world.on_turn([](sim_host& h) { h.stack().check_invariants(); });
    }
    socket_address at(std::uint16_t port) { return {server.address(), port}; }
    simulation world;
    sim_host& server;
    sim_host& client;
    sim_link& cable;
};

/// A session of a server.
inline task<> echo(tcp_stream peer) {
    while (auto data = co_await peer.read()) co_await peer.write(std::move(data));
}

} // namespace corewire::test
