// The flow of ours that an ICMP error speaks of, by the datagram it quotes: with it the error finds the shard that the
// flow lives on. A plain function over hostile bytes: what does not parse speaks of nothing.
#pragma once

#include <corewire/net/stack/flow_table.hh>
#include <corewire/net/wire/icmp.hh>
#include <corewire/net/wire/ipv4.hh>

#include <optional>

namespace corewire {

/// `ip`: a datagram that came in. Nothing unless it is a whole ICMP error (RFC 792) that quotes TCP or UDP.
inline std::optional<flow_key> quoted_flow(wire::ipv4_view ip) noexcept {
    constexpr std::size_t header_size = 8;
    if (ip.protocol() != wire::ip_protocol::icmp || ip.is_fragment() || ip.payload().size() <= header_size) return {};
    switch (load_u8(ip.payload().data())) {
    case 3:  // destination unreachable
    case 4:  // source quench
    case 5:  // redirect
    case 11: // time exceeded
    case 12: // parameter problem
        break;
    default: return {};
    }
    wire::ipv4_view quoted;
    wire::quoted_transport ports;
    if (wire::ipv4_view::parse_quoted(ip.payload().subspan(header_size), quoted) != wire::parse_error::none) return {};
    if (quoted.fragment_offset() != 0) return {};
    if (quoted.protocol() != wire::ip_protocol::tcp && quoted.protocol() != wire::ip_protocol::udp) return {};
    if (wire::quoted_transport::parse(quoted.payload(), ports) != wire::parse_error::none) return {};
    return flow_key{.local_address = quoted.source().value(),
                    .remote_address = quoted.destination().value(),
                    .local_port = ports.source_port,
                    .remote_port = ports.destination_port};
}

} // namespace corewire
