// The world in which a test runs the service: a bad cable, a server that crashes, an hour in a moment.
#pragma once

#include "service.hh"

#include <corewire/sim.hh>

namespace example {

using namespace std::chrono_literals;

struct outcome {
    std::string answer;
    cw::duration took;    ///< simulated
    std::uint64_t digest; ///< of every frame that arrived, and when
};

inline outcome a_server_crashes(std::uint64_t seed) {
    cw::simulation world({.seed = seed});
    cw::sim_host& server = world.add_host("server");
    cw::sim_host& client = world.add_host("client");
    cw::sim_link& cable = world.connect(server, client,
                                        {.latency = 10ms, .bits_per_second = 100'000'000, .queue_bytes = 64 << 10,
                                         .loss = 0.02, .duplicate = 0.01, .corrupt = 0.01, .reorder = 0.05});

    server.spawn([] { return serve(7); });
    world.after(40ms, [&] { cable.cut(true); });
    world.after(3s, [&] { cable.cut(false); });
    world.after(4s, [&] {
        server.crash();                          // connections and tasks are gone
        server.spawn([] { return serve(7); });   // and the machine is up again
    });

    const cw::socket_address to{server.address(), 7};
    outcome result;
    result.answer = world.run(client, [&] { return ask(to, 10'000'000, 100); });
    result.took = world.elapsed();
    result.digest = world.digest();
    return result;
}

} // namespace example
