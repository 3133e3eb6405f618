#include <corewire/net/stack/network_stack.hh>

#include <corewire/net/port/wrap/vlan_port.hh>
#include <corewire/net/stack/dhcp_link.hh>
#include <corewire/net/stack/header_prediction.hh>
#include <corewire/net/stack/joined_frame.hh>
#include <corewire/net/stack/freebsd_errors.hh>
#include <corewire/net/stack/linux_errors.hh>
#include <corewire/net/stack/quoted_flow.hh>
#include <corewire/net/stack/stack_sockets.hh>
#include <corewire/net/stack/tcp_listen_socket.hh>
#include <corewire/net/wire/arp.hh>

#include <algorithm>

namespace corewire {

network_stack::stack_timer::stack_timer(network_stack* s) noexcept
    : timer([](timer& t) noexcept {
          network_stack& self = *static_cast<stack_timer&>(t).owner;
          self.on_timer(self.reactor_.now());
      }),
      owner(s) {}

/// Half of the datagrams that are put together are for readers who read; of those that loop back to members here, more.
network_stack::long_frames::long_frames(std::uint32_t count)
    : received(count, reassembler::frame_size), sent(8, reassembler::frame_size) {
    received.reserve = count / 2;
    sent.reserve = 6;
}

network_stack::network_stack(reactor& loop, std::unique_ptr<port> device, const stack_config& config)
    : reactor_(loop), long_frames_(std::make_shared<long_frames>(config.reassembly_frames)),
      device_(in_vlan(std::move(device), config.vlan, vlan_)), config_(config), egress_(*device_),
      output_(*device_, egress_, config_, statistics_),
      reassembler_(long_frames_->received, config_.reassembly),
      icmp_(config_.address.address(), device_->pool(), config_.icmp, config_.seed ? *config_.seed ^ 0x69636d70 : random_seed()),
      tcp_(loop, output_, egress_, device_->pool(), config_, statistics_),
      udp_(loop, output_, egress_, device_->pool(), config_, statistics_, long_frames_->sent), timer_(this) {
    device_->keep(long_frames_);
    if (output_.six() != nullptr)
        six_ = std::make_unique<ipv6_input>(*output_.six(), tcp_, udp_, reassembler_, device_->pool(), config_, statistics_);
    loop.add_poller(*this);
    output_.start(loop.now());
    if (config_.dhcp && config_.announce && config_.share == nullptr) {
        dhcp_ = std::make_unique<dhcp_link>(device_->mac(), output_, egress_, device_->pool(), config_);
        dhcp_->start(loop.now());
    }
    arm_timer();
}

std::unique_ptr<port> network_stack::in_vlan(std::unique_ptr<port> device, std::uint16_t id, vlan_port*& made) {
    if (id == 0) return device;
    auto tagging = std::make_unique<vlan_port>(std::move(device), id);
    made = tagging.get();
    return tagging;
}

network_stack::~network_stack() {
    egress_.flush();
    void*& attached = reactor_.attached(reactor::attachment::network);
    if (attached == static_cast<socket_provider*>(this)) attached = nullptr;
}

// ---- the turn ----

bool network_stack::poll(time_point now) {
    if (steering_ != nullptr) return poll_with_steering(now);
    const std::size_t n = device_->receive(received_);
    return n != 0 && take_in(n);
}

[[gnu::noinline]] bool network_stack::poll_with_steering(time_point now) {
    const bool any = steering_->poll(now, *this);
    const std::size_t n = device_->receive(received_);
    return (n != 0 && take_in(n)) || any;
}

/// Asked every turn: the answer is a few loads, and what follows it is elsewhere.
bool network_stack::flush(time_point now) {
    const bool anything = tcp_.anything_to_send() || egress_.waiting() != 0 || egress_.chores();
    return anything && flush_all(now);
}

[[gnu::noinline]] bool network_stack::flush_all(time_point now) {
    bool any = tcp_.flush(now);
    if (egress_.chores()) [[unlikely]] any |= do_chores(now);
    return (egress_.waiting() != 0 && egress_.flush()) || any;
}

/// egress::leave_chores() was called since the last time.
[[gnu::noinline]] bool network_stack::do_chores(time_point now) {
    egress_.begin_chores();
    bool any = tcp_.do_chores(now);
    any |= udp_.flush(now);
    tell_unreachable();
    arm_timer(); // something may have been asked of ARP
    return any;
}

bool network_stack::prepare_sleep() {
    if (egress_.waiting() != 0 || tcp_.anything_to_do()) return false; // the port or the pool was full: keep trying
    if (steering_ != nullptr && !steering_->prepare_sleep()) return false;
    if (device_->prepare_sleep()) return true;
    if (steering_ != nullptr) steering_->finish_sleep();
    return false;
}

void network_stack::finish_sleep() {
    device_->finish_sleep();
    if (steering_ != nullptr) steering_->finish_sleep();
}

void network_stack::watch(sleeper& sleeping) const {
    sleeping.watch(device_->wake_fd());
    if (steering_ != nullptr) steering_->watch(sleeping);
}

void network_stack::on_timer(time_point now) {
    output_.on_timer(now);
    tell_unreachable();
    after_ipv6();
    if (dhcp_ != nullptr && dhcp_->next_timeout() <= now) {
        dhcp_->on_timer(now);
        after_dhcp(now);
    }
    for (expired_datagram gone; reassembler_.expire(now, gone);) {
        packet out;
        // RFC 1122 3.3.2 (MUST): time exceeded, if fragment zero was there.
        const auto late = wire::icmp_header::time_exceeded(wire::icmp_time_exceeded::reassembly);
        if (six_ != nullptr && !gone.quote.empty() && load_u8(gone.quote.data()) >> 4 == 6) {
            six_->on_expired(now, gone.quote.bytes());
        } else if (!gone.quote.empty() && icmp_.make_error(now, late, gone.quote.bytes(), {}, out)) {
            wire::ipv4_view quoted;
            if (wire::ipv4_view::parse_quoted(gone.quote.bytes(), quoted) == wire::parse_error::none) {
                output_.answer(now, std::move(out), quoted.source());
            }
        }
        gone.quote = {};
    }
    arm_timer();
}

void network_stack::arm_timer() noexcept {
    time_point at = std::min(output_.next_timeout(), reassembler_.next_timeout());
    if (dhcp_ != nullptr) at = std::min(at, dhcp_->next_timeout());
    if (at == never || (timer_.armed() && timer_.expiry() <= at)) return;
    reactor_.timers().arm(timer_, at);
}

// ---- frames in ----

/// Asks for the time itself, so that poll(), which nearly always finds nothing, need not keep it.
[[gnu::noinline]] bool network_stack::take_in(std::size_t n) {
    const time_point now = reactor_.now();
    statistics_.received += n;
    const mac_address ours = device_->mac();
    packet* const end = received_.data() + n;
    for (packet* next = received_.data(); next != end; ++next) {
        packet& p = *next;
        if (tcp_.take_expected<ipv4_frame>(now, p, ours)) [[likely]] continue;
        link_input(now, p, false);
        p.head.clear();
        p.body.clear();
    }
    return true;
}

void network_stack::take_over(time_point now, packet& p) { link_input(now, p, true); }

/// `p.head` starts at the Ethernet header still.
[[gnu::always_inline]] inline void network_stack::deliver_tcp(time_point now, wire::ipv4_view ip, packet& p) {
    p.head.remove_prefix(static_cast<std::uint32_t>(ip.header().data() + ip.header_size() - p.head.data()));
    const ip_arrival under{static_cast<wire::ecn_codepoint>(ip.ecn()), ip.ttl(), static_cast<std::uint16_t>(ip.header_size())};
    tcp_.input(now, p, ip.source(), ip.destination(), under);
}

[[gnu::noinline]] void network_stack::link_input(time_point now, packet& p, bool handed_over) {
    wire::ethernet_view frame;
    if (wire::ethernet_view::parse(p.head.bytes(), frame) != wire::parse_error::none) [[unlikely]] {
        ++statistics_.malformed_ethernet;
        return;
    }
    const mac_address to = frame.destination();
    const bool for_us = to == device_->mac();
    if (!for_us && !to.is_multicast()) [[unlikely]] {
        ++statistics_.not_for_us;
        return;
    }
    const wire::ether_type type = frame.type();
    if (type != wire::ether_type::ipv4) [[unlikely]] {
        not_ipv4(now, p, type, !for_us, handed_over);
        return;
    }
    if (address().is_any()) [[unlikely]] {
        no_address_yet(now, p, handed_over);
        return;
    }
    ip_input(now, p, !for_us, handed_over);
}

[[gnu::noinline]] void network_stack::not_ipv4(time_point now, packet& p, wire::ether_type type, bool link_group,
                                                 bool handed_over) {
    if (type == wire::ether_type::ipv6 && six_ != nullptr) {
        if (tcp_.take_expected<ipv6_frame>(now, p, device_->mac())) return;
        ipv6_arrives(now, p, link_group, handed_over);
    } else if (type == wire::ether_type::arp) {
        if (steering_ != nullptr && !handed_over) steering_->share_with_all(p);
        arp_input(now, p, handed_over);
    } else if (type == wire::ether_type::vlan) {
        tagged_input(now, p, handed_over);
    } else {
        ++statistics_.unknown_protocol;
    }
}

void network_stack::ipv6_arrives(time_point now, packet& p, bool link_group, bool handed_over) {
    icmp_report report;
    if (six_->input(now, p, link_group, handed_over, steering_.get(), report)) on_report(now, report);
    after_ipv6();
    arm_timer();
}

/// A priority is no VLAN; every other tag is somebody else's.
void network_stack::tagged_input(time_point now, packet& p, bool handed_over) {
    if (vlan_ != nullptr || !is_priority_tagged(p.head.bytes())) {
        ++statistics_.other_vlan;
    } else if (remove_vlan_tag(p, device_->pool())) {
        link_input(now, p, handed_over);
    } else {
        ++statistics_.no_frame;
    }
}

void network_stack::arp_input(time_point now, const packet& p, bool handed_over) {
    wire::arp_view arp;
    if (wire::arp_view::parse(p.head.bytes().subspan(wire::ethernet_header::size), arp) != wire::parse_error::none) {
        ++statistics_.malformed_ethernet;
        return;
    }
    output_.on_arp(now, wire::arp_packet::from(arp), !handed_over);
    if (dhcp_ != nullptr) {
        dhcp_->on_arp(now, wire::arp_packet::from(arp));
        after_dhcp(now);
    }
    arm_timer();
}

[[gnu::always_inline]] inline void network_stack::ip_input(time_point now, packet& p, bool link_broadcast, bool handed_over) {
    wire::ipv4_view ip;
    // The payload may go on in p.body, so the header may promise more than head holds: checked against both here.
    if (wire::ipv4_view::parse_quoted(p.head.bytes().subspan(wire::ethernet_header::size), ip) != wire::parse_error::none ||
        ip.total_length() > p.size() - wire::ethernet_header::size) [[unlikely]] {
        ++statistics_.malformed_ip;
        return;
    }
    if (!has(p.flags, offload::ipv4_checksum_good) && !ip.checksum_ok()) [[unlikely]] {
        ++statistics_.bad_ip_checksum;
        return;
    }
    const arrival how{.link_broadcast = link_broadcast, .ip_broadcast = ip.destination() != address()};
    if ((link_broadcast || how.ip_broadcast || ip.header_size() != wire::ipv4_view::min_header_size ||
         output_.routes().is_martian_source(ip.source())) && !acceptable(ip, p, link_broadcast, handed_over)) [[unlikely]] {
        return;
    }
    if (steering_ != nullptr && steer_away(ip, p, handed_over)) return;
    // The padding of a short frame goes (RFC 894): what is left is the datagram.
    const std::uint32_t surplus = p.size() - wire::ethernet_header::size - ip.total_length();
    if (surplus != 0) [[unlikely]] {
        const std::uint32_t from_body = std::min(surplus, p.body.size());
        p.body.remove_suffix(from_body);
        p.head.remove_suffix(surplus - from_body);
    }
    if (ip.is_fragment()) [[unlikely]] {
        reassemble(now, ip, p, how);
        return;
    }
    // RFC 9293 3.9.2.3 (MUST-57): TCP is never for a group; deliver() counts that.
    if (ip.protocol() == wire::ip_protocol::tcp && !how.ip_broadcast) [[likely]] {
        deliver_tcp(now, ip, p);
    } else {
        deliver(now, ip, p, how);
    }
}

/// The rarer checks: whose it is, whether its source can be true, and what its options ask for.
[[gnu::noinline]] bool network_stack::acceptable(wire::ipv4_view ip, const packet& p, bool link_broadcast, bool handed_over) {
    const ipv4 to = ip.destination();
    // What is sent to a group is for the members on every shard, wherever it has come in; so are the questions about groups.
    const bool of_groups = to.is_multicast() && (ip.protocol() == wire::ip_protocol::udp || ip.protocol() == wire::ip_protocol::igmp);
    if (of_groups && steering_ != nullptr && !handed_over) steering_->share_with_all(p);
    if (to != address() && !output_.routes().is_broadcast(to) && !udp_.groups().accepts(to)) {
        ++statistics_.not_for_us;
        return false;
    }
    if (link_broadcast && to == address()) { // RFC 1122 3.3.6: one host's datagram, in a frame for many
        ++statistics_.not_for_us;
        return false;
    }
    if (output_.routes().is_martian_source(ip.source())) {
        ++statistics_.martian;
        return false;
    }
    wire::ipv4_option_cursor cursor(ip.options());
    for (wire::ipv4_option o; cursor.next(o);) {
        if (!o.is_source_route()) continue;
        ++statistics_.source_routed; // RFC 7126 4.3, 4.4: hosts drop them
        return false;
    }
    if (cursor.error() == wire::parse_error::none) return true;
    ++statistics_.malformed_ip;
    return false;
}

[[gnu::noinline]] void network_stack::deliver(time_point now, wire::ipv4_view ip, packet& p, arrival how) {
    switch (ip.protocol()) {
    case wire::ip_protocol::tcp:
        if (how.ip_broadcast || how.link_broadcast) {
            ++statistics_.not_for_us;
            return;
        }
        deliver_tcp(now, ip, p);
        return;
    case wire::ip_protocol::udp: {
        const udp_verdict verdict = udp_.input(now, ip, p);
        if (verdict != udp_verdict::no_port || (config_.dhcp && is_for_dhcp(now, ip, p, false))) return;
        packet out;
        const auto error = wire::icmp_header::unreachable(wire::icmp_unreachable::port);
        if (icmp_.make_error(now, error, {ip.header().data(), ip.header().size() + ip.payload().size()}, how, out)) {
            output_.answer(now, std::move(out), ip.source());
        }
        return;
    }
    case wire::ip_protocol::icmp: {
        packet out;
        icmp_report report;
        const ipv4 from = ip.source();
        switch (icmp_.input(now, ip, p, how, out, report)) {
        case icmp_verdict::reply: output_.answer(now, std::move(out), from); break;
        case icmp_verdict::report: on_report(now, report); break;
        case icmp_verdict::nothing: break;
        }
        return;
    }
    case wire::ip_protocol::igmp:
        if (ip.ttl() == 1) output_.on_igmp(now, ip.payload()); // else it has come from beyond a router (RFC 2236 2)
        return;
    default: {
        ++statistics_.unknown_protocol;
        packet out;
        const auto error = wire::icmp_header::unreachable(wire::icmp_unreachable::protocol);
        if (icmp_.make_error(now, error, {ip.header().data(), ip.header().size() + ip.payload().size()}, how, out)) {
            output_.answer(now, std::move(out), ip.source());
        }
    }
    }
}

[[gnu::noinline]] void network_stack::reassemble(time_point now, wire::ipv4_view ip, packet& p, arrival how) {
    buffer whole = reassembler_.add(now, ip, p, how.link_broadcast || how.ip_broadcast);
    arm_timer();
    if (whole.empty()) return;
    move_to_ordinary_frame(whole, device_->pool());
    wire::ipv4_view datagram;
    if (wire::ipv4_view::parse(whole.bytes(), datagram) != wire::parse_error::none) {
        ++statistics_.malformed_ip;
        return;
    }
    packet joined;
    joined.head = std::move(whole);
    if (steering_ != nullptr) { // the flow's shard takes frames
        make_frame(joined, p);
        if (steer_away(datagram, joined, false)) return;
        joined.head.remove_prefix(wire::ethernet_header::size);
    }
    deliver(now, datagram, joined, how);
}

/// Believed only when it quotes what a flow of ours has in flight: IPv4's come from anywhere.
void network_stack::on_redirect(time_point now, const icmp_report& report) {
    const flow_name flow(report.local, report.remote, report.local_port, report.remote_port);
    const bool ours = report.protocol == wire::ip_protocol::tcp ? tcp_.has_in_flight(flow, tcp::seq_number{report.sequence})
                                                                : udp_.has_flow(report);
    if (!ours) {
        ++statistics_.redirects_refused;
    } else if (output_.on_redirect(now, report.remote.v4(), report.gateway, report.reporter)) {
        tcp_.on_routes_changed();
        udp_.on_routes_changed();
    }
}

void network_stack::on_report(time_point now, const icmp_report& report) {
    if (report.kind == icmp_error_kind::redirect) {
        on_redirect(now, report);
        return;
    }
    if (report.protocol == wire::ip_protocol::udp) {
        udp_.on_report(report);
        return;
    }
    if (report.protocol != wire::ip_protocol::tcp) return;
    const flow_name key(report.local, report.remote, report.local_port, report.remote_port);
    const tcp::seq_number seq{report.sequence};
    if (tcp_.is_from_too_far(key, report.hops)) return;
    const bool linux_habits = config_.tcp.like_linux();
    const bool no_route = report.code <= 1 || (report.code == 3 && !report.local.is_v4()); // of ICMPv6 an address that nobody has
    if (no_route && (report.kind == icmp_error_kind::network_unreachable || report.kind == icmp_error_kind::host_unreachable)) {
        tcp_.on_no_route(now, key, seq); // RFC 6069 3
    }
    if (linux_habits && report.kind != icmp_error_kind::fragmentation_needed) {
        const bool hard = report.kind == icmp_error_kind::port_unreachable || report.kind == icmp_error_kind::protocol_unreachable;
        return tcp_.on_icmp_error(key, linux_error_of(report), hard, seq, &report);
    }
    if (config_.tcp.like_freebsd() && report.kind != icmp_error_kind::fragmentation_needed) {
        const freebsd_error e = freebsd_error_of(report);
        if (e.what != std::errc{}) tcp_.on_icmp_error(key, e.what, e.refuses, seq);
        return;
    }
    switch (report.kind) {
    case icmp_error_kind::fragmentation_needed:
        // RFC 5927 7: believed only when it quotes bytes that are in flight, and perhaps later. Then others hear of it, too.
        tcp_.on_path_mtu(now, key, output_.path_mtus().judge(now, report.remote, report.mtu, report.quoted_length).bytes, seq);
        return;
    case icmp_error_kind::port_unreachable:
    case icmp_error_kind::protocol_unreachable:
        tcp_.on_icmp_error(key, std::errc::connection_refused, true, seq);
        return;
    case icmp_error_kind::network_unreachable: tcp_.on_icmp_error(key, std::errc::network_unreachable, false, seq); return;
    default: tcp_.on_icmp_error(key, std::errc::host_unreachable, false, seq); return;
    }
}

/// RFC 4861 7.2.2, RFC 826: nobody answers for the next hop, which ends a connect(); a connection that stands outlives it, as it outlives a
/// router's word. Nothing of this is sent. Where another router is in the place of the silent one, that is tried instead.
void network_stack::tell_unreachable() {
    for (packet p; output_.poll_unreachable(p); p = {}) {
        const byte_span frame = p.head.bytes();
        const byte_span sent = frame.subspan(wire::ethernet_header::size);
        const bool six = load_be16(frame.data() + wire::ethernet_header::size - 2) == static_cast<std::uint16_t>(wire::ether_type::ipv6);
        icmp_report report;
        report.kind = icmp_error_kind::host_unreachable;
        report.own = true;
        if (!(six ? ipv6_flow_of(sent, report) : ipv4_flow_of(sent, report)) || !output_.is_given_up(report.remote)) continue;
        const flow_name flow(report.local, report.remote, report.local_port, report.remote_port);
        if (report.protocol == wire::ip_protocol::udp) udp_.on_report(report);
        else tcp_.on_icmp_error(flow, std::errc::host_unreachable, true, tcp::seq_number{report.sequence});
    }
}

// ---- several shards ----

void network_stack::set_steering(std::unique_ptr<flow_steering> steering) {
    steering_ = std::move(steering);
    flow_steering* s = steering_.get();
    tcp_.set_home_predicate([s](const flow_name& flow) { return s->owner(flow) == s->self(); });
    udp_.set_home_predicate([s](const flow_name& flow) { return s->owner(flow) == s->self(); });
    if (auto all_ports = s->udp_ports()) udp_.demux().share_ports(std::move(all_ports), s->self());
}

/// True if the packet belongs to another shard, and went there.
[[gnu::noinline]] bool network_stack::steer_away(wire::ipv4_view ip, packet& p, bool handed_over) {
    if (handed_over || ip.destination().is_multicast()) return false;
    flow_key key{ip.destination().value(), ip.source().value(), 0, 0};
    const bool has_ports = (ip.protocol() == wire::ip_protocol::tcp || ip.protocol() == wire::ip_protocol::udp) &&
                           !ip.is_fragment() && ip.payload().size() >= 4;
    unsigned to = 0; // fragments, and ICMP that is not about a flow, meet on shard 0
    if (has_ports) {
        key.remote_port = load_be16(ip.payload().data());
        key.local_port = load_be16(ip.payload().data() + 2);
        to = steering_->owner_of(key, ip.protocol());
    } else if (const auto about = quoted_flow(ip)) {
        to = steering_->owner_of(about->flow, about->protocol);
    }
    if (to == steering_->self()) return false;
    if (steering_->hand_over(to, std::move(p))) ++statistics_.handed_over;
    return true;
}

// ---- sockets ----

/// Throws EADDRNOTAVAIL for an address that is none of ours.
void network_stack::require_local(const socket_address& at, const char* what) const {
    const net_address local = at.net();
    const ipv6_output* six = output_.six();
    const bool known = local.is_v4() ? local.is_any() || local.v4() == address()
                                     : six != nullptr && (local.is_any() || six->addresses().is_claimed(local.v6()));
    if (known) return;
    const std::string ours = local.is_v4() || six != nullptr ? "this stack's address is " + describe_addresses() : "this stack has no IPv6";
    throw std::system_error(std::make_error_code(std::errc::address_not_available), what + at.to_string() + ": " + ours);
}

std::unique_ptr<listener_backend> network_stack::listen(const socket_address& at, const listen_options& options) {
    require_local(at, "bind ");
    listen_options ours = options;
    ours.backlog = std::max(options.backlog, 1u); // as the kernel's
    return std::make_unique<tcp_listen_socket>(tcp_, socket_address(at.net(), tcp_.choose_listen_port(at.port)), ours);
}

std::unique_ptr<tcp_backend> network_stack::connect(const socket_address& to, const socket_address& local,
                                                    const tcp_options_set& options) {
    if (output_.six() == nullptr && !(to.is_v4() && local.is_v4()))
        throw std::system_error(EAFNOSUPPORT, std::generic_category(), "connect " + to.to_string());
    require_local(local, "connect from ");
    const net_address remote = to.net();
    net_address from = local.net();
    if (from.is_any() && remote.is_v4()) from = address();
    else if (from.is_any() && output_.six() != nullptr) from = output_.six()->source_for(remote.v6());
    if (from.is_any() || from.is_v4() != remote.is_v4()) {
        throw std::system_error(std::make_error_code(std::errc::network_unreachable),
                                "connect to " + to.to_string() + ": no address of ours can reach it");
    }
    return std::make_unique<stack_tcp_socket>(tcp_.open({from, remote, local.port, to.port}, options));
}

bool network_stack::start_connected(tcp_backend& backend, plain_operation& op) noexcept {
    return static_cast<stack_tcp_socket&>(backend).connection().start_connected(op);
}

void network_stack::cancel_connected(tcp_backend& backend, socket_operation& op) noexcept { backend.cancel(op); }

std::unique_ptr<udp_backend> network_stack::bind_udp(const socket_address& at, const udp_options& options) {
    return udp_.bind(at, options);
}

std::string network_stack::describe() const {
    return device_->name() + ", " + describe_addresses();
}

std::string network_stack::describe_addresses() const {
    std::string all;
    if (!address().is_any() || output_.six() == nullptr) all = wire::to_string(config_.address);
    if (const ipv6_output* six = output_.six()) {
        for (const own_ipv6_address& a : six->addresses().all()) {
            if (!all.empty()) all += ", ";
            all += wire::to_string(ipv6_prefix(a.address, a.prefix_length));
        }
    }
    return all;
}

void network_stack::end_waits(ended_waits which) noexcept {
    tcp_.for_each_connection([this, which](tcp_connection& c) { c.end_waits(reactor_.now(), which); });
    udp_.end_waits(which);
}

void network_stack::check_invariants() const {
    tcp_.check_invariants();
    reassembler_.check_invariants();
    output_.neighbors().check_invariants();
    output_.routes().check_invariants();
    if (dhcp_ != nullptr) dhcp_->client().check_invariants();
    ipv6_output* const six = output_.six();
    if (six == nullptr) return;
    six->neighbors().check_invariants();
    if (six->dhcp() != nullptr) six->dhcp()->check_invariants();
}

} // namespace corewire
