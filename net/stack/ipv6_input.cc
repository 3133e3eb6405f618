#include <corewire/net/stack/ipv6_input.hh>

#include <corewire/net/stack/joined_frame.hh>
#include <corewire/net/stack/tcp_layer.hh>
#include <corewire/net/stack/udp_layer.hh>
#include <corewire/net/wire/address_policy.hh>
#include <corewire/net/wire/udp.hh>

#include <algorithm>

namespace corewire {

namespace {

constexpr std::uint32_t link_size = wire::ethernet_header::size;
constexpr std::uint32_t ip_size = wire::ipv6_header::size;
constexpr std::uint8_t link_hop_limit = 255;

bool is_discovery(wire::icmpv6_type type) noexcept {
    return type >= wire::icmpv6_type::router_solicitation && type <= wire::icmpv6_type::redirect;
}

} // namespace

ipv6_input::ipv6_input(ipv6_output& out, tcp_layer& tcp, udp_layer& udp, reassembler& fragments, frame_pool& pool,
                       const stack_config& config, stack_statistics& statistics)
    : out_(out), tcp_(tcp), udp_(udp), fragments_(fragments), pool_(pool), statistics_(statistics),
      icmp_(pool, config.icmp, config.seed ? *config.seed ^ 0x69636d36 : random_seed()) {}

/// The packet, as far as it lies in p.head.
byte_span ipv6_input::arrived::bytes(const packet& p) const noexcept {
    return p.head.bytes().subspan(ip_at, std::min(size, p.head.size() - ip_at));
}

bool ipv6_input::input(time_point now, packet& p, bool link_group, bool handed_over, flow_steering* steering, icmp_report& report) {
    arrived a;
    a.ip_at = link_size;
    a.handed_over = handed_over;
    // The payload may go on in p.body, so the header may promise more than head holds: checked against both here.
    if (wire::ipv6_view::parse_quoted(p.head.bytes().subspan(link_size), a.ip) != wire::parse_error::none ||
        ip_size + a.ip.payload_length() > p.size() - link_size) {
        ++statistics_.malformed_ip;
        return false;
    }
    a.size = ip_size + a.ip.payload_length();
    a.group = link_group || a.ip.destination().is_multicast();
    // A group's datagrams are for the members on every shard, wherever they have come in.
    if (steering != nullptr && !handed_over && a.ip.destination().is_multicast() && is_datagram(a, p)) steering->share_with_all(p);
    if (!acceptable(a)) return false;
    // The padding of a short frame goes (RFC 894): what is left is the packet.
    const std::uint32_t surplus = p.size() - link_size - a.size;
    const std::uint32_t from_body = std::min(surplus, p.body.size());
    p.body.remove_suffix(from_body);
    p.head.remove_suffix(surplus - from_body);
    if (!take_chain(now, a, p)) return false;
    if (steering != nullptr && !handed_over && steer_away(a, p, *steering)) return false;
    if (a.chain.fragment) return reassemble(now, a, p, steering, report);
    return deliver(now, a, p, steering, report);
}

/// A datagram of UDP, or a piece of one, whatever extension headers stand before it.
bool ipv6_input::is_datagram(const arrived& a, const packet& p) const noexcept {
    if (a.ip.next_header() == wire::ip_protocol::udp) return true;
    const wire::ipv6_chain chain = wire::walk_extensions(a.bytes(p));
    if (chain.verdict != wire::ipv6_chain_verdict::good) return false;
    return chain.protocol == wire::ip_protocol::udp || (chain.fragment && chain.protocol != wire::ip_protocol::icmpv6);
}

/// RFC 8200 4.5. What is not as it must be is told with the octet that is wrong.
bool ipv6_input::reassemble(time_point now, const arrived& a, const packet& p, flow_steering* steering, icmp_report& report) {
    constexpr std::uint32_t length_at = 4, fragment_offset_at = 2;
    const std::uint32_t length = a.transport_size();
    if (a.chain.more_fragments && length % 8 != 0) {
        ++statistics_.ipv6_fragments_refused;
        refuse(now, a, p, icmpv6_error::parameter_problem(0, length_at));
        return false;
    }
    if (a.chain.fragment_at - ip_size + a.chain.fragment_offset + length > 65'535) {
        ++statistics_.ipv6_fragments_refused;
        refuse(now, a, p, icmpv6_error::parameter_problem(0, a.chain.fragment_at + fragment_offset_at));
        return false;
    }
    if (a.ip_at + a.chain.offset > p.head.size()) {
        ++statistics_.malformed_ip;
        return false;
    }
    const byte_span in_head = a.bytes(p);
    if (a.chain.fragment_offset == 0 && !wire::has_all_headers(in_head, a.chain)) {
        if (in_head.size() < a.size) { // they go on in the second piece: nobody sends so
            ++statistics_.malformed_ip;
            return false;
        }
        ++statistics_.ipv6_fragments_refused;
        refuse(now, a, p, icmpv6_error::parameter_problem(icmpv6_error::incomplete_headers, 0));
        return false;
    }
    packet joined;
    joined.head = fragments_.add(now, a.ip, a.chain, a.ip_at, a.size, p, a.group);
    if (joined.head.empty()) return false;
    move_to_ordinary_frame(joined.head, pool_);
    arrived whole;
    whole.group = a.group;
    whole.handed_over = a.handed_over;
    whole.size = joined.head.size();
    if (wire::ipv6_view::parse(joined.head.bytes(), whole.ip) != wire::parse_error::none) {
        ++statistics_.malformed_ip;
        return false;
    }
    if (!take_chain(now, whole, joined)) return false;
    if (whole.chain.fragment || whole.chain.protocol == wire::ip_protocol::icmpv6) { // fragments of fragments; RFC 6980: no discovery
        const bool discovery = !whole.chain.fragment && whole.chain.offset < whole.size &&
                               is_discovery(static_cast<wire::icmpv6_type>(load_u8(joined.head.data() + whole.chain.offset)));
        if (whole.chain.fragment || discovery) {
            ++statistics_.ipv6_fragments_refused;
            return false;
        }
    }
    if (steering != nullptr) { // the flow's shard takes frames
        make_frame(joined, p);
        whole.ip_at = link_size;
        if (steer_away(whole, joined, *steering)) return false;
    }
    return deliver(now, whole, joined, steering, report);
}

void ipv6_input::on_expired(time_point now, byte_span quote) noexcept {
    wire::ipv6_view ip;
    if (wire::ipv6_view::parse_quoted(quote, ip) != wire::parse_error::none) return;
    packet out;
    if (icmp_.make_error(now, icmpv6_error::reassembly_took_too_long(), quote, ip.destination(), ip.destination().is_multicast(), out))
        static_cast<void>(out_.answer(now, std::move(out), ip.source()));
}

/// Whose it is, and whether its source can be true.
bool ipv6_input::acceptable(arrived& a) {
    const ipv6 to = a.ip.destination();
    const ipv6 from = a.ip.source();
    // RFC 4291 2.7, 2.5.3; RFC 4942 2.2: addresses that stand on no wire. What claims to come from us does not: heard is only that somebody
    // else has the address (RFC 4862 5.4.4), in what is never in pieces or behind extension headers.
    a.in_our_name = out_.addresses().is_ours(from);
    if (from.is_multicast() || from.is_loopback() || from.is_mapped() || to.is_loopback() || to.is_mapped() || wire::stays_on_host(to) ||
        (a.in_our_name && a.ip.next_header() != wire::ip_protocol::icmpv6)) {
        ++statistics_.martian;
        return false;
    }
    const bool ours = to.is_multicast() ? out_.hears(to) : out_.addresses().is_ours(to);
    if (ours) return true;
    ++statistics_.not_for_us;
    return false;
}

/// False: its extension headers take it no further.
bool ipv6_input::take_chain(time_point now, arrived& a, const packet& p) {
    a.chain = wire::walk_extensions(a.bytes(p));
    if (a.chain.verdict == wire::ipv6_chain_verdict::good && a.chain.offset <= a.size) return true;
    ++statistics_.ipv6_extensions;
    if (a.chain.verdict == wire::ipv6_chain_verdict::problem)
        refuse(now, a, p, icmpv6_error::parameter_problem(a.chain.problem_code, a.chain.problem_at, a.chain.problem_told_to_group));
    return false;
}

/// True if the packet belongs to another shard, and went there. What is about no flow stays where it has come.
bool ipv6_input::steer_away(const arrived& a, packet& p, flow_steering& steering) {
    const byte_span transport = a.bytes(p).subspan(std::min<std::size_t>(a.chain.offset, a.bytes(p).size()));
    flow_name flow(a.ip.destination(), a.ip.source(), 0, 0);
    unsigned to = steering.self();
    if (a.ip.destination().is_multicast()) return false;
    if (a.chain.fragment) {
        to = 0; // fragments meet
    } else if ((a.chain.protocol == wire::ip_protocol::tcp || a.chain.protocol == wire::ip_protocol::udp) && transport.size() >= 4) {
        flow.remote_port = load_be16(transport.data());
        flow.local_port = load_be16(transport.data() + 2);
        to = steering.owner_of(flow, a.chain.protocol);
    } else if (a.chain.protocol == wire::ip_protocol::icmpv6 && !transport.empty() && load_u8(transport.data()) < 128) {
        icmp_report quoted;
        if (quoted_ipv6_flow(transport, quoted))
            to = steering.owner_of(flow_name(quoted.local, quoted.remote, quoted.local_port, quoted.remote_port), quoted.protocol);
    }
    if (to == steering.self()) return false;
    if (steering.hand_over(to, std::move(p))) ++statistics_.handed_over;
    return true;
}

bool ipv6_input::deliver(time_point now, arrived& a, packet& p, flow_steering* steering, icmp_report& report) {
    const std::uint32_t transport_at = a.ip_at + a.chain.offset;
    if (transport_at > p.head.size()) { // extension headers fill the head, and the rest is in the body: nobody sends so
        ++statistics_.malformed_ip;
        return false;
    }
    if (a.ip.source().is_any() && a.chain.protocol != wire::ip_protocol::icmpv6) { // RFC 4291 2.5.2: nobody answers it
        ++statistics_.martian;
        return false;
    }
    switch (a.chain.protocol) {
    case wire::ip_protocol::tcp: {
        if (a.group) { // RFC 9293 3.9.2.3 (MUST-57)
            ++statistics_.not_for_us;
            return false;
        }
        const net_address from = a.ip.source(), to = a.ip.destination();
        const auto header_size = static_cast<std::uint16_t>(a.chain.offset);
        const ip_arrival under{static_cast<wire::ecn_codepoint>(a.ip.ecn()), a.ip.hop_limit(), header_size};
        p.head.remove_prefix(transport_at);
        tcp_.input(now, p, from, to, under);
        return false;
    }
    case wire::ip_protocol::udp: deliver_udp(now, a, p, steering); return false;
    case wire::ip_protocol::icmpv6: return deliver_icmp(now, a, p, steering, report);
    case wire::ip_protocol::ipv6_no_next: return false; // RFC 8200 4.7
    default:
        ++statistics_.unknown_protocol;
        refuse(now, a, p, icmpv6_error::parameter_problem(1, a.chain.named_at)); // RFC 8200 4
        return false;
    }
}

/// True: a DHCPv6 server speaks to us. The client is on the first shard, whichever the ports lead to.
bool ipv6_input::is_for_dhcp(time_point now, const arrived& a, packet& p, flow_steering* steering) {
    const std::uint32_t at = a.ip_at + a.chain.offset, size = a.transport_size();
    wire::udp_view udp;
    if (a.ip_at != link_size || !p.body.empty()) return false;
    if (!a.ip.destination().is_link_local()) return false; // the address that we ask from: no router brings answers from beyond the link
    const wire::parse_error parsed = wire::udp_view::parse(p.head.bytes().subspan(at, size), udp);
    if (parsed != wire::parse_error::none || udp.destination_port() != dhcp6_client_port) return false;
    if (out_.on_dhcp(now, udp.payload())) return true;
    if (steering == nullptr || steering->self() == 0) return false;
    if (steering->hand_over(0, std::move(p))) ++statistics_.handed_over;
    return true;
}

void ipv6_input::deliver_udp(time_point now, const arrived& a, packet& p, flow_steering* steering) {
    const udp_verdict verdict = udp_.input(a.ip.source(), a.ip.destination(), a.ip_at + a.chain.offset, a.transport_size(), p);
    if (verdict == udp_verdict::no_port && is_for_dhcp(now, a, p, steering)) return;
    if (verdict == udp_verdict::no_port) refuse(now, a, p, icmpv6_error::port_unreachable());
}

/// True: `report` is to be told to whom it concerns.
bool ipv6_input::deliver_icmp(time_point now, const arrived& a, packet& p, flow_steering* steering, icmp_report& report) {
    const std::uint32_t at = a.ip_at + a.chain.offset, size = a.transport_size();
    wire::icmpv6_view message;
    const byte_span in_head = a.bytes(p).subspan(a.chain.offset);
    if (wire::icmpv6_view::parse(in_head, message) != wire::parse_error::none) {
        icmp_.count_malformed();
        return false;
    }
    if (!icmpv6_layer::checksum_ok(a.ip, at, size, p)) {
        icmp_.count_bad_checksum();
        return false;
    }
    if (a.in_our_name && message.type() != wire::icmpv6_type::neighbor_advertisement) {
        ++statistics_.martian;
        return false;
    }
    if (is_discovery(message.type())) {
        if (a.chain.fragment_header) { // RFC 6980 5: of one that is all there is (RFC 6946), too
            ++statistics_.ipv6_fragments_refused;
            return false;
        }
        discover(now, a, p, message, steering);
        return false;
    }
    const bool query = message.type() == wire::icmpv6_type::group_query;
    if ((query || message.type() == wire::icmpv6_type::group_report_v1) && a.ip.hop_limit() == 1 && a.ip.source().is_link_local() &&
        a.chain.router_alert && in_head.size() >= 24) { // RFC 3810 6.2, RFC 2710 3, 4
        if (steering != nullptr && !a.handed_over) steering->share_with_all(p);
        const ipv6 group = ipv6::load(message.payload().data());
        if (query) out_.on_group_query(now, group, load_be16(message.message().data() + 4), size);
        else out_.on_group_report(now, group);
        return false;
    }
    packet out;
    const ipv6 from = a.ip.source();
    switch (icmp_.input(now, a.ip, at, size, p, a.group || from.is_any(), out, report)) {
    case icmp_verdict::reply: static_cast<void>(out_.answer(now, std::move(out), from)); return false;
    case icmp_verdict::report: return true;
    case icmp_verdict::nothing: break;
    }
    return false;
}

/// RFC 4861 7.1: what does not hold is discarded in silence, before it costs other shards anything.
void ipv6_input::discover(time_point now, const arrived& a, const packet& p, const wire::icmpv6_view& message, flow_steering* steering) {
    const auto share = [&] {
        if (steering != nullptr && !a.handed_over) steering->share_with_all(p);
    };
    const bool whole = p.body.empty() && message.code() == 0;
    const ipv6 from = a.ip.source(), to = a.ip.destination();
    if (whole && a.ip.hop_limit() == link_hop_limit) {
        if (wire::neighbor_solicitation ns; wire::neighbor_solicitation::parse(message, ns) == wire::parse_error::none) {
            // From ::, it goes to a solicited-node group and says no link-layer address.
            const bool probe_as_it_should_be = to == ns.target.solicited_node() && !ns.source_mac;
            if (!from.is_any() || probe_as_it_should_be) return share(), out_.on_solicitation(now, from, ns, !a.handed_over);
        }
        if (wire::neighbor_advertisement na; wire::neighbor_advertisement::parse(message, na) == wire::parse_error::none) {
            const bool good = !(to.is_multicast() && na.solicited) && (!a.in_our_name || na.target == from);
            if (good) return share(), out_.on_advertisement(now, na, !a.handed_over);
        }
        if (message.type() == wire::icmpv6_type::router_solicitation) return; // for routers
        wire::neighbor_redirect better;
        if (from.is_link_local() && wire::neighbor_redirect::parse(message, better) == wire::parse_error::none) {
            if (out_.on_redirect(now, from, better, a.handed_over)) share();
            return;
        }
        if (wire::router_advertisement ra; wire::router_advertisement::parse(message, ra) == wire::parse_error::none) {
            std::optional<mac_address> mac;
            wire::nd_option_cursor cursor(ra.options);
            for (wire::nd_option option; cursor.next(option);)
                if (option.type == wire::nd_option_type::source_link_layer) mac = option.mac();
            if (from.is_link_local()) { // RFC 4861 6.1.2
                // Each shard asks: where copies come of the kernel, all have their own.
                if (out_.automatic() == nullptr || !out_.may_take_advertisement(now)) return;
                share();
                out_.on_router_advertisement(now, from, ra, mac);
                if (out_.automatic()->hop_limit() != 0) icmp_.set_hop_limit(out_.hop_limit());
                return;
            }
        }
    }
    ++statistics_.ipv6_discovery_invalid;
}

void ipv6_input::refuse(time_point now, const arrived& a, const packet& p, const icmpv6_error& error) {
    packet out;
    const ipv6 to = a.ip.source();
    const ipv6 from = a.ip.destination().is_multicast() ? out_.source_for(to) : a.ip.destination();
    if (icmp_.make_error(now, error, a.bytes(p), from, a.group, out))
        static_cast<void>(out_.answer(now, std::move(out), to));
}

} // namespace corewire
