// The flow of ours that an ICMP error speaks of, by the datagram it quotes: with it the error finds the shard that the
// flow lives on. A plain function over hostile bytes: what does not parse speaks of nothing.
#pragma once

#include <corewire/net/stack/flow_table.hh>
#include <corewire/net/wire/icmp.hh>
#include <corewire/net/wire/ipv4.hh>

#include <optional>

namespace corewire {

struct quoted_datagram {
    flow_key flow;
    wire::ip_protocol protocol;
};

/// `ip`: a datagram that came in. Nothing unless it is a whole ICMP error (RFC 792) that quotes TCP or UDP.
inline std::optional<quoted_datagram> quoted_flow(wire::ipv4_view ip) noexcept {
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
    wire::ipv4_view sent;
    wire::quoted_transport ports;
    if (wire::ipv4_view::parse_quoted(ip.payload().subspan(header_size), sent) != wire::parse_error::none) return {};
    if (sent.fragment_offset() != 0) return {};
    if (sent.protocol() != wire::ip_protocol::tcp && sent.protocol() != wire::ip_protocol::udp) return {};
    if (wire::quoted_transport::parse(sent.payload(), ports) != wire::parse_error::none) return {};
    return quoted_datagram{{.local_address = sent.source().value(),
                            .remote_address = sent.destination().value(),
                            .local_port = ports.source_port,
                            .remote_port = ports.destination_port},
                           sent.protocol()};
}

} // namespace corewire
