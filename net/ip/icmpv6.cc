#include <corewire/net/ip/icmpv6.hh>

#include <corewire/net/ip/path_mtu.hh>
#include <corewire/net/wire/ipv6_extensions.hh>

#include <algorithm>
#include <cstring>

namespace corewire {

namespace {

constexpr std::uint32_t ip_size = wire::ipv6_header::size;
constexpr std::uint32_t header_size = wire::icmpv6_header::size;
/// RFC 4443 2.4 (c): as much of the offending packet as keeps the error within the smallest MTU.
constexpr std::uint32_t max_error_size = 1280;

icmp_error_kind kind_of(const wire::icmpv6_view& m) noexcept {
    using enum icmp_error_kind;
    switch (m.type()) {
    case wire::icmpv6_type::packet_too_big: return fragmentation_needed;
    case wire::icmpv6_type::time_exceeded: return time_exceeded;
    case wire::icmpv6_type::parameter_problem: // code 1: nobody there knows the protocol
        return m.code() == 1 ? protocol_unreachable : parameter_problem;
    case wire::icmpv6_type::unreachable: break;
    default: return parameter_problem; // RFC 4443 2.4 (a): of unknown type, for who has sent what it is about
    }
    switch (m.code()) { // RFC 4443 3.1
    case 0: return network_unreachable;
    case 1:
    case 5:
    case 6: return prohibited;
    case 4: return port_unreachable;
    default: return host_unreachable;
    }
}

/// RFC 4443 2.4 (e.1), (e.2): it is an error, or a redirect (RFC 4861 4.5), or its bytes do not say; which they cannot where `error` says
/// that (RFC 7112 5).
bool may_be_error(byte_span packet, const icmpv6_error& error) noexcept {
    constexpr std::uint8_t first_information = 128, redirect = 137;
    const std::optional<wire::ipv6_upper_layer> carried = wire::find_upper_layer(packet);
    if (!carried) return error.type != wire::icmpv6_type::parameter_problem || error.code != icmpv6_error::incomplete_headers;
    if (carried->protocol != wire::ip_protocol::icmpv6) return false;
    if (carried->offset >= packet.size()) return true;
    const std::uint8_t type = load_u8(packet.data() + carried->offset);
    return type < first_information || type == redirect;
}

/// Bytes of the message that lie in p.head.
byte_span in_head(std::uint32_t offset, std::uint32_t size, const packet& p) noexcept {
    return p.head.bytes().subspan(offset, std::min(size, p.head.size() - offset));
}

} // namespace

icmpv6_layer::icmpv6_layer(frame_pool& pool, icmp_options options, std::uint64_t seed)
    : pool_(pool), options_(options),
      errors_(options.errors_a_second, options.error_burst, options.errors_a_second_each, options.error_burst_each, seed),
      echoes_(options.echoes_a_second, options.echo_burst) {}

bool icmpv6_layer::checksum_ok(const wire::ipv6_view& ip, std::uint32_t offset, std::uint32_t size, const packet& p) noexcept {
    const byte_span first = in_head(offset, size, p);
    return wire::pseudo_header_sum(ip.source(), ip.destination(), wire::ip_protocol::icmpv6, size)
        .add(first)
        .add(p.body.bytes().first(size - first.size()))
        .verifies();
}

icmp_verdict icmpv6_layer::input(time_point now, const wire::ipv6_view& ip, std::uint32_t offset, std::uint32_t size, const packet& p,
                                 bool group, packet& out, icmp_report& report) noexcept {
    ++statistics_.received;
    wire::icmpv6_view message;
    if (wire::icmpv6_view::parse(in_head(offset, size, p), message) != wire::parse_error::none) {
        ++statistics_.malformed;
        return icmp_verdict::nothing;
    }
    if (message.type() == wire::icmpv6_type::echo_request) return echo(now, ip, offset, size, p, group, out);
    if (message.is_error()) return report_error(ip, message, report) ? icmp_verdict::report : icmp_verdict::nothing;
    if (message.type() == wire::icmpv6_type::echo_reply) {
        ++statistics_.echo_replies_received;
    } else {
        ++statistics_.ignored; // RFC 4443 2.4 (b): an unknown informational message is silently discarded
    }
    return icmp_verdict::nothing;
}

/// The reply is a frame of our own; with what lies in the body by reference, or in a head that is longer than any frame of ours.
icmp_verdict icmpv6_layer::echo(time_point now, const wire::ipv6_view& ip, std::uint32_t offset, std::uint32_t size, const packet& p,
                                bool group, packet& out) noexcept {
    ++statistics_.echo_requests;
    if (group) { // RFC 4443 4.2 would let us answer, which makes an amplifier of every network that does
        ++statistics_.group_echoes_ignored;
        return icmp_verdict::nothing;
    }
    if (!echoes_.take(now)) {
        ++statistics_.rate_limited;
        return icmp_verdict::nothing;
    }
    byte_span first = in_head(offset, size, p);
    out = packet{};
    out.head = pool_.allocate_buffer();
    const bool by_reference = p.body.empty() && first.size() > header_size && out.head.tailroom() < ip_size + first.size();
    if (by_reference) first = first.first(header_size);
    if (out.head.tailroom() < ip_size + first.size()) {
        out.head = {};
        ++statistics_.no_frame;
        return icmp_verdict::nothing;
    }
    std::byte* const at = out.head.append(static_cast<std::uint32_t>(ip_size + first.size()));
    wire::ipv6_header{.traffic_class = static_cast<std::uint8_t>(ip.traffic_class() & 0xfc),
                      .payload_length = static_cast<std::uint16_t>(size),
                      .next_header = wire::ip_protocol::icmpv6,
                      .hop_limit = options_.ttl,
                      .source = ip.destination(),
                      .destination = ip.source()}
        .emit({at, ip_size});
    std::memcpy(at + ip_size, first.data(), first.size());
    const auto copied = static_cast<std::uint32_t>(first.size());
    out.body = by_reference ? p.head.share(offset + copied, size - copied) : p.body.share(0, size - copied);
    // Source and destination have changed places, which the sum does not see; the type has changed (RFC 1624).
    const std::uint16_t before = load_be16(at + ip_size);
    store_u8(at + ip_size, static_cast<std::uint8_t>(wire::icmpv6_type::echo_reply));
    const std::uint16_t after = load_be16(at + ip_size);
    store_be16(at + ip_size + 2, wire::update_checksum(load_be16(at + ip_size + 2), before, after));
    ++statistics_.echo_replies_sent;
    return icmp_verdict::reply;
}

// ---- errors ----

bool quoted_ipv6_flow(byte_span message, icmp_report& report) noexcept {
    return message.size() >= header_size && ipv6_flow_of(message.subspan(header_size), report);
}

bool ipv6_flow_of(byte_span packet, icmp_report& report) noexcept {
    wire::ipv6_view quoted;
    wire::quoted_transport transport;
    if (wire::ipv6_view::parse_quoted(packet, quoted) != wire::parse_error::none) return false;
    const wire::ipv6_chain chain = wire::walk_extensions(packet.first(ip_size + quoted.payload().size()));
    if (chain.verdict != wire::ipv6_chain_verdict::good || chain.fragment_offset != 0) return false;
    if (chain.protocol != wire::ip_protocol::tcp && chain.protocol != wire::ip_protocol::udp) return false;
    if (chain.offset > packet.size() ||
        wire::quoted_transport::parse(packet.subspan(chain.offset), transport) != wire::parse_error::none)
        return false;
    report.quoted_length = static_cast<std::uint16_t>(std::min<std::uint32_t>(ip_size + quoted.payload_length(), 65'535));
    report.protocol = chain.protocol;
    report.local = quoted.source();
    report.remote = quoted.destination();
    report.local_port = transport.source_port;
    report.remote_port = transport.destination_port;
    report.sequence = transport.sequence;
    report.transport = packet.subspan(chain.offset);
    report.hops = quoted.hop_limit();
    return true;
}

bool icmpv6_layer::report_error(const wire::ipv6_view& ip, const wire::icmpv6_view& message, icmp_report& report) noexcept {
    report = {};
    report.kind = kind_of(message);
    report.code = message.code();
    if (report.kind == icmp_error_kind::none) {
        ++statistics_.ignored;
        return false;
    }
    if (!quoted_ipv6_flow(message.message(), report)) {
        ++statistics_.errors_foreign;
        return false;
    }
    if (report.kind == icmp_error_kind::fragmentation_needed && message.mtu() < path_mtu_cache::ipv6_minimum) {
        ++statistics_.errors_too_small; // RFC 8201 4: it MUST be discarded
        return false;
    }
    if (report.kind == icmp_error_kind::fragmentation_needed)
        report.mtu = static_cast<std::uint16_t>(std::min<std::uint32_t>(message.mtu(), 65'535));
    report.reporter = ip.source();
    report.rest = load_be32(message.message().data() + 4);
    ++statistics_.errors_received;
    return true;
}

bool icmpv6_layer::make_error(time_point now, const icmpv6_error& error, byte_span offending, const ipv6& from, bool group,
                              packet& out) noexcept {
    wire::ipv6_view ip;
    const bool parsed = wire::ipv6_view::parse_quoted(offending, ip) == wire::parse_error::none;
    const ipv6 to = parsed ? ip.source() : ipv6::any();
    const bool to_nobody = to.is_any() || to.is_multicast() || to.is_loopback();
    if (!parsed || may_be_error(offending, error) || (group && !error.about_groups) || to_nobody) {
        ++statistics_.errors_forbidden;
        return false;
    }
    if (!errors_.take(now, to)) {
        ++statistics_.rate_limited;
        return false;
    }
    buffer head = pool_.allocate_buffer();
    if (head.tailroom() < max_error_size) {
        ++statistics_.no_frame;
        return false;
    }
    const byte_span quote = offending.first(std::min<std::size_t>(ip_size + ip.payload().size(), max_error_size - ip_size - header_size));
    const auto size = static_cast<std::uint32_t>(header_size + quote.size());
    std::byte* const at = head.append(ip_size + size);
    wire::ipv6_header{.payload_length = static_cast<std::uint16_t>(size),
                      .next_header = wire::ip_protocol::icmpv6,
                      .hop_limit = options_.ttl,
                      .source = from,
                      .destination = to}
        .emit({at, ip_size});
    wire::icmpv6_header{error.type, error.code, error.rest}.emit({at + ip_size, size}, from, to, quote);
    out = packet{};
    out.head = std::move(head);
    ++statistics_.errors_sent;
    return true;
}

} // namespace corewire
