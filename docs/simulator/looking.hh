// A world that is looked into: a file for Wireshark, and what cable, NIC and stack have counted.
#pragma once

#include "service.hh"

#include <corewire/net/port/wrap/pcap_port.hh>
#include <corewire/sim.hh>

#include <memory>
#include <string>

namespace example {

using namespace std::chrono_literals;

struct counted {
    std::uint64_t captured, sent, lost, arrived, understood;
};

/// Loses packets on the way from the client, and none on the way to it. `file`: where the client's packets are written.
inline counted a_bad_way_there(const std::string& file) {
    cw::simulation world({.seed = 7});
    cw::pcap_port* capture = nullptr;
    const auto record = [&](std::unique_ptr<cw::port> nic) -> std::unique_ptr<cw::port> {
        auto around = std::make_unique<cw::pcap_port>(std::move(nic), world.network(), cw::pcap_options{.path = file});
        capture = around.get(); // it stands as long as the host
        return around;
    };
    cw::sim_host& server = world.add_host("server");
    cw::sim_host& client = world.add_host("client", {.wrap = record});
    cw::sim_link& cable = world.connect(server, client, {.latency = 10ms, .bits_per_second = 100'000'000});

    constexpr auto from_client = cw::sim_link::direction::backward; // forward: from the first to the second
    cw::sim_link_options bad = cable.options(from_client);
    bad.loss = 0.05;
    cable.configure(from_client, bad);

    server.spawn([] { return serve(7); });
    const cw::socket_address to{server.address(), 7};
    world.run(client, [&] { return ask(to, 1'000'000, 3); });
    world.run_for(1s); // what is on its way arrives

    capture->flush();
    return {.captured = capture->written(),                        // both ways
            .sent = client.nic().statistics().transmitted_packets, // cw::port_statistics
            .lost = cable.statistics(from_client).lost,            // cw::sim_link_statistics
            .arrived = server.nic().statistics().received_packets,
            .understood = server.stack().statistics().tcp_segments_in()}; // cw::stack_statistics: also why a packet was dropped
}

} // namespace example
