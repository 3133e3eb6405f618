#include <corewire/rdma/raw/verbs_device.hh>

#include <corewire/net/port/rss.hh>
#include <corewire/net/port/xdp/interface.hh>
#include <corewire/rdma/verbs/error.hh>

#include <algorithm>
#include <fmt/format.h>
#include <system_error>

namespace corewire {

namespace {

constexpr std::uint16_t arp = 0x0806, ipv4_type = 0x0800, ipv6_type = 0x86dd;
constexpr std::uint16_t experimental = 0x88b5; ///< IEEE 802 local experimental: bare frames of our own tools
constexpr std::uint16_t segmentation_header = 128; ///< Ethernet, IP and TCP with all options, rounded
const mac_address broadcast(0xff'ff'ff'ff'ff'ff);

verbs::device open(verbs_device_options& o) {
    if (o.device.empty()) {
        const auto found = verbs::device::find_by_interface(o.interface, *o.api);
        o.device = found.name;
        o.port = found.port;
    }
    return verbs::device::open(o.device, *o.api);
}

mac_address group_mac(const net_address& group) {
    return group.is_v4() ? mac_address::of_multicast(group.v4()) : wire::multicast_mac(group.v6());
}

verbs::queue_pair_options pair_options(unsigned receives, unsigned sends, unsigned inline_bytes, bool extended, bool segments,
                                       unsigned most_pieces) {
    verbs::queue_pair_options o{.type = verbs::transport::raw_packet};
    o.max_sends = sends;
    o.max_receives = receives;
    o.send_pieces = 2;
    o.inline_bytes = inline_bytes;
    if (segments) {
        o.segmentation_header = segmentation_header;
        o.send_pieces = std::clamp(most_pieces, 2u, verbs_device::segmentation_pieces);
    }
    if (extended) o.send_operations = IBV_QP_EX_WITH_SEND;
    if (extended && segments) o.send_operations |= IBV_QP_EX_WITH_TSO;
    return o;
}

bool device_segments(const verbs::device& d) {
    const ibv_tso_caps& caps = d.attributes().tso_caps;
    return caps.max_tso != 0 && (caps.supported_qpts & (1u << IBV_QPT_RAW_PACKET)) != 0;
}

} // namespace

verbs_queue::verbs_queue(const verbs::device& on, unsigned receive_depth, unsigned send_depth, unsigned inline_bytes, bool spread,
                         bool extended, std::uint8_t port)
    : port_queue(on, receive_depth, send_depth,
                 pair_options(spread ? 0 : receive_depth, send_depth, inline_bytes, extended, device_segments(on),
                              static_cast<unsigned>(on.limits().max_sge))) {
    if (spread) work.emplace(domain, receives, receive_depth);
    pair.activate_raw(port);
}

int verbs_queue::reset() noexcept {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RESET;
    const int error = pair.try_modify(a, IBV_QP_STATE);
    return error == 0 && work ? work->reset() : error;
}

int verbs_queue::start(std::uint8_t port) noexcept {
    const auto to = [this](ibv_qp_state state, int mask, std::uint8_t on) {
        ibv_qp_attr a{};
        a.qp_state = state;
        a.port_num = on;
        return pair.try_modify(a, IBV_QP_STATE | mask);
    };
    int error = work ? work->start() : 0;
    if (error == 0) error = to(IBV_QPS_INIT, IBV_QP_PORT, port);
    if (error == 0) error = to(IBV_QPS_RTR, 0, 0);
    if (error == 0) error = to(IBV_QPS_RTS, 0, 0);
    return error;
}

verbs_device::verbs_device(verbs_device_options options) : options_(std::move(options)), device_(open(options_)) {
    learn();
    open_queues();
    if (options_.queues > 1) spread_flows();
    take_common();
}

verbs_device::~verbs_device() = default;

/// What the device, its port and the interface in front of it say about themselves.
void verbs_device::learn() {
    const ibv_port_attr port = device_.port(options_.port);
    if (port.link_layer != IBV_LINK_LAYER_ETHERNET)
        verbs::fail(verbs::operation::create_raw_queue_pair, EOPNOTSUPP,
                    fmt::format("send Ethernet frames on port {} of {}, an InfiniBand link", options_.port, device_.name()));
    link_up_ = port.state == IBV_PORT_ACTIVE;
    const auto addresses = device_.addresses(options_.port);
    if (options_.interface.empty()) options_.interface = device_.interface_of(options_.port);
    if (!options_.interface.empty()) {
        const interface_info info = query_interface(options_.interface);
        mac_ = info.mac;
        mtu_ = info.mtu;
    } else if (!addresses.empty()) { // fe80::/64 and the modified EUI-64 of the MAC (RFC 4291 A)
        std::byte bytes[6];
        const std::uint8_t* id = addresses.front().gid.raw + 8;
        for (unsigned i = 0; i < 6; ++i) bytes[i] = static_cast<std::byte>(id[i < 3 ? i : i + 2]);
        bytes[0] ^= std::byte{2};
        mac_ = mac_address::load(bytes);
    }
    mac_ = options_.mac.value_or(mac_);
    mtu_ = options_.mtu.value_or(mtu_);
    const ibv_device_attr_ex& can = device_.attributes();
    checksums_ = (can.raw_packet_caps & IBV_RAW_PACKET_CAP_IP_CSUM) != 0 ||
                 (can.orig_attr.device_cap_flags & IBV_DEVICE_RAW_IP_CSUM) != 0;
    largest_segmented_ = device_segments(device_) ? std::min(can.tso_caps.max_tso, 65535u) : 0;
}

void verbs_device::open_queues() {
    const auto limit = static_cast<unsigned>(device_.limits().max_qp_wr);
    options_.receive_depth = std::bit_ceil(std::clamp(options_.receive_depth, 64u, std::max(64u, std::bit_floor(limit))));
    options_.send_depth = std::bit_ceil(std::clamp(options_.send_depth, 64u, std::max(64u, std::bit_floor(limit))));
    for (unsigned i = 0; i < options_.queues; ++i)
        queues_.push_back(std::make_unique<verbs_queue>(device_, options_.receive_depth, options_.send_depth, options_.inline_bytes,
                                                        options_.queues > 1, options_.extended, options_.port));
}

void verbs_device::spread_flows() {
    std::vector<verbs::receive_work_queue*> every;
    for (const auto& q : queues_) every.push_back(&*q->work);
    // Several slots a queue, so that a number of queues that is no power of two shares nearly evenly.
    const unsigned most = std::max(1u, device_.attributes().rss_caps.max_rwq_indirection_table_size);
    all_.emplace(device_, every, std::min(std::bit_ceil(options_.queues * 8), std::bit_floor(most)));
    first_.emplace(device_, std::span(every).first(1), 1);
    const verbs::protection_domain& in = queues_.front()->domain;
    for (const bool six : {false, true}) {
        tcp_[six].emplace(all_->pair_for(in, verbs::hashed::tcp, rss::symmetric_key, six));
        udp_[six].emplace(all_->pair_for(in, verbs::hashed::udp, rss::symmetric_key, six));
        other_[six].emplace(all_->pair_for(in, verbs::hashed::addresses, rss::symmetric_key, six));
    }
    unhashed_.emplace(first_->pair_for(in, verbs::hashed::addresses, rss::symmetric_key));
}

/// The pair that packets of an IP protocol go to; protocol 0: no IP packet at all.
ibv_qp* verbs_device::pair_for(std::uint8_t protocol, bool six) const noexcept {
    if (options_.queues == 1) return queues_.front()->pair.get();
    if (protocol == 0) return unhashed_->get();
    return (protocol == 6 ? tcp_ : protocol == 17 ? udp_ : other_)[six]->get();
}

verbs::flow_rule verbs_device::rule(ibv_qp* to, verbs::flow_match match, std::uint16_t priority, bool copy) {
    if (options_.vlan != 0 && options_.steering != verbs_steering::everything) match.vlan = options_.vlan;
    return {device_.api(), to, match, {.port = options_.port, .priority = priority, .copy = copy}};
}

/// What comes to us whatever addresses we own.
void verbs_device::take_common() {
    if (options_.steering == verbs_steering::everything) {
        for (const bool six : {false, true}) {
            for (const std::uint8_t protocol : {6, 17})
                common_.push_back(rule(pair_for(protocol, six), {.over_ipv6 = six, .protocol = protocol}));
            common_.push_back(rule(pair_for(1, six), {.ether_type = six ? ipv6_type : ipv4_type}, 1));
        }
        common_.push_back(rule(pair_for(0), {}, 2));
    } else if (options_.steering == verbs_steering::addresses) {
        // The kernel hears ARP as well: these rules hand over copies.
        common_.push_back(rule(pair_for(0), {.destination_mac = broadcast, .ether_type = arp}, 0, true));
        common_.push_back(rule(pair_for(0), {.destination_mac = mac_, .ether_type = arp}, 0, true));
        common_.push_back(rule(pair_for(0), {.ether_type = experimental}));
    }
}

verbs_device::rules verbs_device::rules_for(const net_address& address) {
    rules all;
    const bool six = !address.is_v4();
    if (address.is_multicast()) { // the kernel may have joined as well; of IPv6's, neighbour discovery comes this way
        all.push_back(rule(pair_for(six ? 1 : 17, six), {.destination_mac = group_mac(address), .destination = address}, 0, true));
        return all;
    }
    if (!six && address.v4().is_broadcast()) { // as far as it is a DHCP server's answer; the kernel's client hears it, too
        const verbs::flow_match to_clients{.destination_mac = broadcast, .destination = address, .protocol = 17, .destination_port = 68};
        all.push_back(rule(pair_for(17), to_clients, 0, true));
        return all;
    }
    if (options_.queues > 1)
        for (const std::uint8_t protocol : {6, 17})
            all.push_back(rule(pair_for(protocol, six), {.destination_mac = mac_, .destination = address, .protocol = protocol}));
    all.push_back(rule(pair_for(1, six), {.destination_mac = mac_, .destination = address}, 1));
    return all;
}

void verbs_device::own(const net_address& address) {
    const std::lock_guard one_at_a_time(set_up_);
    if (options_.steering == verbs_steering::everything || addresses_.contains({address.high(), address.low()})) return;
    addresses_.emplace(std::pair(address.high(), address.low()), rules_for(address));
}

void verbs_device::disown(const net_address& address) noexcept {
    const std::lock_guard one_at_a_time(set_up_);
    addresses_.erase({address.high(), address.low()});
}

verbs_device::rules verbs_device::rules_for(const steered_flow& flow) {
    const bool both = flow.local.is_any_of_both() && flow.remote.is_any();
    const net_address& of = flow.local.is_any() ? flow.remote : flow.local; // whose family it is
    rules all;
    for (const bool six : {false, true}) {
        if (!both && six == (of.is_v4() || of.is_any())) continue;
        verbs::flow_match match{.destination_mac = mac_, .over_ipv6 = six, .protocol = flow.protocol, .destination_port = flow.local_port};
        if (!flow.local.is_any()) match.destination = flow.local;
        if (!flow.remote.is_any()) match.source = flow.remote;
        if (flow.remote_port != 0) match.source_port = flow.remote_port;
        all.push_back(rule(pair_for(flow.protocol, six), match));
    }
    return all;
}

int verbs_device::own_flow(const steered_flow& flow) noexcept {
    const std::lock_guard one_at_a_time(set_up_);
    try {
        if (options_.steering != verbs_steering::everything && !flows_.contains(flow)) flows_.emplace(flow, rules_for(flow));
        return 0;
    } catch (const std::system_error& e) {
        switch (const int error = e.code().value()) {
        case ENOMEM:
        case ENOSPC: return ENOBUFS;
        case EEXIST:
        case EBUSY: return EADDRINUSE;
        case EIO: return ENODEV;
        default: return error;
        }
    } catch (const std::exception&) { // no memory of ours
        return ENOBUFS;
    }
}

void verbs_device::disown_flow(const steered_flow& flow) noexcept {
    const std::lock_guard one_at_a_time(set_up_);
    flows_.erase(flow);
}

void verbs_device::handle(const verbs::device_event& event) noexcept {
    const bool of_link = event.what == IBV_EVENT_PORT_ERR || event.what == IBV_EVENT_PORT_ACTIVE;
    if (of_link) {
        if (event.port != options_.port) return;
        link_up_ = event.what == IBV_EVENT_PORT_ACTIVE;
    }
    for (const auto& q : queues_) {
        if (event.device_gone()) q->tell(verbs_queue::device_gone);
        else if (event.pair != nullptr && q->concerns(event.pair)) q->tell(verbs_queue::pair_failed);
        else if (event.receives != nullptr && q->concerns(event.receives)) q->tell(verbs_queue::pair_failed);
        else if (event.completions != nullptr && q->concerns(event.completions)) q->tell(verbs_queue::lost);
        else if (of_link) q->tell(verbs_queue::link_changed);
    }
}

void verbs_device::pretend_failure() noexcept {
    for (const auto& q : queues_) q->tell(verbs_queue::pair_failed);
}

} // namespace corewire
