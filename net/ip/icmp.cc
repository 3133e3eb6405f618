#include <corewire/net/ip/icmp.hh>

#include <algorithm>
#include <cstring>
#include <utility>

namespace corewire {

namespace {

/// RFC 1812 4.3.2.3, RFC 1122 3.2.2: as much of the offending datagram as keeps the error within 576 bytes.
constexpr std::uint32_t max_error_size = 576;
constexpr std::uint32_t ip_size = wire::ipv4_header::min_size;

icmp_error_kind kind_of(const wire::icmp_view& m) noexcept {
    using enum icmp_error_kind;
    if (m.type() == wire::icmp_type::time_exceeded) return time_exceeded;
    if (m.type() == wire::icmp_type::parameter_problem) return parameter_problem;
    // RFC 1122 3.2.2.2: a redirect of a network counts as one of the host.
    if (m.type() == wire::icmp_type::redirect) return m.code() <= 3 ? redirect : none;
    if (m.type() != wire::icmp_type::unreachable) return none; // source quenches are ignored (RFC 6633)
    switch (static_cast<wire::icmp_unreachable>(m.code())) {
    case wire::icmp_unreachable::network:
    case wire::icmp_unreachable::network_unknown: return network_unreachable;
    case wire::icmp_unreachable::host:
    case wire::icmp_unreachable::source_route_failed:
    case wire::icmp_unreachable::host_unknown: return host_unreachable;
    case wire::icmp_unreachable::protocol: return protocol_unreachable;
    case wire::icmp_unreachable::port: return port_unreachable;
    case wire::icmp_unreachable::fragmentation_needed: return fragmentation_needed;
    case wire::icmp_unreachable::network_prohibited:
    case wire::icmp_unreachable::host_prohibited:
    case wire::icmp_unreachable::administratively_prohibited: return prohibited;
    }
    return host_unreachable; // RFC 1122 3.2.2.1: unknown codes; whatever they are, it did not arrive
}

/// Bytes of the ICMP message that lie in p.head.
byte_span message_in_head(const wire::ipv4_view& ip, const packet& p) noexcept {
    const std::byte* start = ip.header().data() + ip.header_size();
    const byte_span head = p.head.bytes();
    const std::size_t size = ip.total_length() - ip.header_size();
    return {start, std::min<std::size_t>(size, static_cast<std::size_t>(head.data() + head.size() - start))};
}

} // namespace

icmp_layer::icmp_layer(ipv4 own, frame_pool& pool, icmp_options options, std::uint64_t seed)
    : own_(own), pool_(pool), options_(options),
      errors_(options.errors_a_second, options.error_burst, options.errors_a_second_each, options.error_burst_each, seed),
      echoes_(options.echoes_a_second, options.echo_burst) {}

icmp_verdict icmp_layer::input(time_point now, const wire::ipv4_view& ip, packet& p, const arrival& how, packet& out,
                               icmp_report& report) noexcept {
    ++statistics_.received;
    const byte_span in_head = message_in_head(ip, p);
    const std::size_t size = ip.total_length() - ip.header_size();
    wire::icmp_view message;
    if (wire::icmp_view::parse(in_head, message) != wire::parse_error::none || in_head.size() + p.body.size() < size) {
        ++statistics_.malformed;
        return icmp_verdict::nothing;
    }
    wire::internet_sum sum;
    if (!sum.add(in_head).add(p.body.bytes().first(size - in_head.size())).verifies()) {
        ++statistics_.bad_checksum;
        return icmp_verdict::nothing;
    }
    if (message.type() == wire::icmp_type::echo_request) return echo(now, ip, p, how, out);
    if (message.is_error()) return report_error(ip, message, report) ? icmp_verdict::report : icmp_verdict::nothing;
    if (message.type() == wire::icmp_type::echo_reply) {
        ++statistics_.echo_replies_received;
    } else {
        ++statistics_.ignored; // RFC 1122 3.2.2: an unknown type is silently discarded
    }
    return icmp_verdict::nothing;
}

icmp_verdict icmp_layer::echo(time_point now, const wire::ipv4_view& ip, packet& p, const arrival& how,
                              packet& out) noexcept {
    ++statistics_.echo_requests;
    // RFC 1122 3.2.2.6 lets us ignore echoes to groups, which make an amplifier of every network that answers.
    if (how.link_broadcast || how.ip_broadcast || ip.destination().is_multicast() || ip.destination().is_broadcast()) {
        ++statistics_.group_echoes_ignored;
        return icmp_verdict::nothing;
    }
    if (!echoes_.take(now)) {
        ++statistics_.rate_limited;
        return icmp_verdict::nothing;
    }
    const wire::ipv4_header request = wire::ipv4_header::from(ip);
    if (!(p.head.exclusive() ? reuse(ip, p, out) : copy_reply(ip, p, out))) {
        ++statistics_.no_frame;
        return icmp_verdict::nothing;
    }
    // Room for a header without options, then the message as it came. The identification is the request's: if the
    // reply has to be fragmented, it is as unique as the request's was.
    const wire::ipv4_header header{.total_length = static_cast<std::uint16_t>(out.size()),
                                   .dscp = request.dscp,
                                   .identification = request.identification,
                                   .dont_fragment = false,
                                   .ttl = options_.ttl,
                                   .protocol = wire::ip_protocol::icmp,
                                   .source = request.destination,
                                   .destination = request.source};
    header.emit(out.head.mutable_bytes());
    wire::make_echo_reply(out.head.mutable_bytes().subspan(ip_size));
    ++statistics_.echo_replies_sent;
    return icmp_verdict::reply;
}

/// The request's own bytes become the reply: its message stays where it is.
bool icmp_layer::reuse(const wire::ipv4_view& ip, packet& p, packet& out) noexcept {
    const auto in_head = static_cast<std::uint32_t>(message_in_head(ip, p).size());
    const std::uint32_t in_body = static_cast<std::uint32_t>(ip.total_length() - ip.header_size()) - in_head;
    const auto message_at = static_cast<std::uint32_t>(ip.header().data() + ip.header_size() - p.head.data());
    out = std::move(p);
    out.flags = offload::none;
    out.head.remove_prefix(message_at - ip_size);
    out.head.truncate(ip_size + in_head);
    out.body.truncate(in_body);
    return true;
}

/// Somebody else sees the request's bytes: a frame of our own, and what lies in the body by reference.
bool icmp_layer::copy_reply(const wire::ipv4_view& ip, const packet& p, packet& out) noexcept {
    const byte_span in_head = message_in_head(ip, p);
    const auto size = static_cast<std::uint32_t>(ip.total_length() - ip.header_size());
    out = packet{};
    out.head = pool_.allocate_buffer();
    if (out.head.tailroom() < ip_size + in_head.size()) {
        out.head = {};
        return false;
    }
    std::byte* to = out.head.append(static_cast<std::uint32_t>(ip_size + in_head.size()));
    std::memcpy(to + ip_size, in_head.data(), in_head.size());
    out.body = p.body.share(0, size - static_cast<std::uint32_t>(in_head.size()));
    return true;
}

// ---- errors ----

bool ipv4_flow_of(byte_span datagram, icmp_report& report) noexcept {
    wire::ipv4_view quoted;
    wire::quoted_transport transport;
    if (wire::ipv4_view::parse_quoted(datagram, quoted) != wire::parse_error::none || quoted.fragment_offset() != 0) return false;
    if (quoted.protocol() != wire::ip_protocol::tcp && quoted.protocol() != wire::ip_protocol::udp) return false;
    if (wire::quoted_transport::parse(quoted.payload(), transport) != wire::parse_error::none) return false;
    report.quoted_length = quoted.total_length();
    report.protocol = quoted.protocol();
    report.local = quoted.source();
    report.remote = quoted.destination();
    report.local_port = transport.source_port;
    report.remote_port = transport.destination_port;
    report.sequence = transport.sequence;
    report.transport = quoted.payload();
    report.hops = quoted.ttl();
    return true;
}

bool icmp_layer::report_error(const wire::ipv4_view& ip, const wire::icmp_view& message, icmp_report& report) noexcept {
    report = {};
    report.kind = kind_of(message);
    report.code = message.code();
    if (report.kind == icmp_error_kind::none) {
        ++statistics_.ignored;
        return false;
    }
    if (!ipv4_flow_of(message.quoted(), report) || report.local.v4() != own_) {
        ++statistics_.errors_foreign;
        return false;
    }
    if (report.kind == icmp_error_kind::fragmentation_needed) report.mtu = message.next_hop_mtu();
    if (report.kind == icmp_error_kind::redirect) report.gateway = message.gateway();
    report.reporter = ip.source();
    report.rest = message.gateway().value();
    ++statistics_.errors_received;
    return true;
}

/// RFC 1122 3.2.2 (MUST NOT): no error about an ICMP error, a datagram to a group (IP or link), a fragment but the
/// first, or a source that is no single host. Source addresses that are broadcasts of our own networks are the caller's
/// to drop before (route_table::is_martian_source).
bool icmp_layer::error_allowed(const wire::ipv4_view& offending, const arrival& how) const noexcept {
    if (how.link_broadcast || how.ip_broadcast) return false;
    if (!offending.destination().is_unicast() || !offending.source().is_unicast()) return false;
    if (offending.source().is_loopback() || offending.source() == own_) return false;
    if (offending.fragment_offset() != 0) return false;
    if (offending.protocol() != wire::ip_protocol::icmp) return true;
    wire::icmp_view message;
    return wire::icmp_view::parse(offending.payload(), message) == wire::parse_error::none && !message.is_error();
}

bool icmp_layer::make_error(time_point now, const wire::icmp_header& error, byte_span offending, const arrival& how,
                            packet& out) noexcept {
    wire::ipv4_view ip;
    if (wire::ipv4_view::parse_quoted(offending, ip) != wire::parse_error::none || !error_allowed(ip, how)) {
        ++statistics_.errors_forbidden;
        return false;
    }
    if (!errors_.take(now, ip.source())) {
        ++statistics_.rate_limited;
        return false;
    }
    buffer head = pool_.allocate_buffer();
    constexpr std::uint32_t headers = ip_size + wire::icmp_header::size;
    if (head.tailroom() < max_error_size) {
        ++statistics_.no_frame;
        return false;
    }
    const byte_span quote = offending.first(std::min<std::size_t>({offending.size(), ip.total_length(), max_error_size - headers}));
    const auto size = static_cast<std::uint32_t>(headers + quote.size());
    std::byte* at = head.append(size);
    // RFC 1812 4.3.2.5: the class of service is the offending datagram's; RFC 6864: never fragmented, so any identification.
    wire::ipv4_header{.total_length = static_cast<std::uint16_t>(size),
                      .dscp = ip.dscp(),
                      .ttl = options_.ttl,
                      .protocol = wire::ip_protocol::icmp,
                      .source = own_,
                      .destination = ip.source()}
        .emit({at, ip_size});
    error.emit({at + ip_size, size - ip_size}, quote);
    out = packet{};
    out.head = std::move(head);
    ++statistics_.errors_sent;
    return true;
}

} // namespace corewire
