// A wrapper that writes one line a packet: when, which way, what.
//
//     12.000345678 > 10.0.0.1:7777 > 10.0.0.2:40312 tcp SYN ACK seq 17 ack 4711 win 502 len 0
//
// On the shard of the port inside. For watching, not for speed: it allocates and writes for each packet.
#pragma once

#include <corewire/net/port/wrap/wrapped_port.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <functional>

namespace corewire {

class tracing_port final : public wrapped_port {
public:
    /// Takes one line, without a line feed.
    using sink = std::function<void(std::string_view)>;
    /// `clock` stamps the lines and outlives the port. Without a sink the lines go to stderr.
    tracing_port(std::unique_ptr<port> inner, clock_source& clock, sink to = {});

    std::size_t receive(std::span<packet> out) override;
    std::size_t transmit(std::span<packet> burst) override;

private:
    void trace(char direction, std::string_view text);
    clock_source& clock_;
    sink to_;
};

} // namespace corewire
