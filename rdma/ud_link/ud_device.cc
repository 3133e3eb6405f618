#include <corewire/rdma/ud_link/ud_device.hh>

#include <corewire/rdma/verbs/error.hh>

#include <algorithm>
#include <bit>
#include <fmt/format.h>

namespace corewire {

namespace {

verbs::device open(ud_device_options& o) {
    if (o.device.empty() && std::ranges::count(verbs::device_names(*o.api), o.interface) != 0) o.device = o.interface;
    if (o.device.empty()) {
        const auto found = verbs::device::find_by_interface(o.interface, *o.api);
        o.device = found.name;
        o.port = found.port;
    }
    verbs::device opened = verbs::device::open(o.device, *o.api);
    const auto limit = static_cast<unsigned>(opened.limits().max_qp_wr);
    for (unsigned* depth : {&o.receive_depth, &o.send_depth})
        *depth = std::bit_floor(std::clamp(*depth, 64u, std::max(64u, limit)));
    return opened;
}

verbs::fabric_membership::parameters group_parameters_of(const ud_device_options& o) {
    return {.key = o.key, .lid = o.group_lid, .service_level = o.service_level};
}

verbs::datagram_parameters parameters(const ud_device_options& o) { return {.port = o.port, .key = o.key}; }

/// 239.192.0.0/14 and a hash of the network. Two networks with one group hear each other's ARP, and ignore it.
ipv4 group_of(const ud_device_options& o) {
    constexpr std::uint32_t organization_local = 239u << 24 | 192u << 16;
    constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;
    std::uint64_t h = (std::uint64_t{o.network.network().value()} << 8 | o.network.length()) * golden;
    if (o.network6) {
        const ipv6 network = o.network6->network();
        const auto* const p = reinterpret_cast<const std::byte*>(network.octets().data());
        h = ((load_be64(p) * golden ^ load_be64(p + 8)) * golden ^ o.network6->length()) * golden;
    }
    return ipv4(organization_local | static_cast<std::uint32_t>(h >> 46));
}

/// RFC 4391 4: link-local scope, IPv4's signature, the partition with its full-membership bit, and all ones.
ibv_gid infiniband_group(std::uint16_t partition) {
    ibv_gid g{};
    auto* const p = reinterpret_cast<std::byte*>(g.raw);
    store_be32(p, 0xff12'401b);
    store_be16(p + 4, static_cast<std::uint16_t>(partition | 0x8000));
    store_be32(p + 12, 0xffff'ffff);
    return g;
}

} // namespace

ud_queue::ud_queue(const verbs::device& on, const ud_device_options& o)
    : port_queue(on, o.receive_depth, o.send_depth,
                 {.type = verbs::transport::unreliable_datagram, .max_sends = o.send_depth, .max_receives = o.receive_depth,
                  .send_pieces = 3, .inline_bytes = o.inline_bytes}) {
    pair.activate(parameters(o));
    group = group_parameters_of(o);
}

verbs::address_handle ud_queue::handle_of_group(const ud_device& d, const verbs::fabric_membership::parameters& as) const {
    return {domain, {.gid = d.group_, .lid = as.lid, .port = d.options_.port, .gid_index = static_cast<std::uint8_t>(d.gid_.index),
                     .service_level = as.service_level}};
}

int ud_queue::reset() noexcept {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RESET;
    return pair.try_modify(a, IBV_QP_STATE);
}

int ud_queue::start(const ud_device_options& o) noexcept {
    ibv_qp_attr a{};
    a.port_num = o.port;
    a.qkey = group.key;
    const auto to = [&](ibv_qp_state state, int mask) {
        a.qp_state = state;
        return pair.try_modify(a, IBV_QP_STATE | mask);
    };
    int error = to(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    if (error == 0) error = to(IBV_QPS_RTR, 0);
    if (error == 0) error = to(IBV_QPS_RTS, IBV_QP_SQ_PSN);
    return error;
}

ud_device::ud_device(ud_device_options options) : options_(std::move(options)), device_(open(options_)) {
    const ibv_port_attr port = device_.port(options_.port);
    ethernet_ = port.link_layer == IBV_LINK_LAYER_ETHERNET;
    link_up_ = port.state == IBV_PORT_ACTIVE;
    mtu_ = verbs::bytes_of(port.active_mtu) - 4;
    choose_address();
    choose_group();
    if (!ethernet_ && options_.group_lid == 0) join_fabric();
    for (unsigned i = 0; i < options_.queues; ++i) {
        queues_.push_back(std::make_unique<ud_queue>(device_, options_));
        numbers_.push_back(queues_.back()->pair.number());
    }
    ours_ = {numbers_.front(), gid_.gid};
    join_group();
}

ud_device::~ud_device() = default;

void ud_device::choose_address() {
    const std::vector<verbs::port_address> all = device_.addresses(options_.port);
    const auto wanted = std::ranges::find_if(all, [this](const verbs::port_address& a) {
        if (options_.gid_index) return a.index == *options_.gid_index;
        return !ethernet_ || (a.type == IBV_GID_TYPE_ROCE_V2 && a.is_ipv4());
    });
    if (wanted == all.end())
        verbs::fail(verbs::operation::query, ENOENT,
                    options_.gid_index ? fmt::format("find GID index {} on {}", *options_.gid_index, device_.name())
                                       : fmt::format("find a RoCE version 2 address on {}: give its network interface an IPv4 address",
                                                     device_.name()));
    gid_ = *wanted;
}

void ud_device::choose_group() {
    if (options_.group) group_ = *options_.group;
    else if (ethernet_) group_ = mapped(group_of(options_));
    else group_ = infiniband_group(device_.partition(0, options_.port));
}

void ud_device::join_fabric() {
    if (options_.beside == ipv4{}) {
        const auto found = verbs::find_ipoib(device_, options_.port);
        if (!found)
            verbs::fail(verbs::operation::find_ipoib, ENODEV,
                        fmt::format("find an address of the kernel's IPoIB interface on port {} of {}, beside which the group is joined",
                                    options_.port, device_.name()));
        options_.beside = found->address;
        mtu_ = std::min(mtu_, found->mtu);
    }
    fabric_ = verbs::fabric_membership(options_.beside, group_, std::chrono::seconds{5}, *options_.cm);
    options_.key = fabric_.group().key;
    options_.group_lid = fabric_.group().lid;
    options_.service_level = fabric_.group().service_level;
}

/// Shard 0 hears the group; every shard sends to it.
void ud_device::join_group() {
    membership_ = verbs::group_membership(gid_, group_);
    said_ = group_parameters_of(options_);
    for (const auto& q : queues_) q->to_group = q->handle_of_group(*this, said_);
    attach(said_.lid);
}

/// Shard 0's queue pair hears what is sent to the group.
void ud_device::attach(std::uint16_t lid) {
    attached_.reset();
    attached_.emplace(device_.api(), queues_.front()->pair.get(), group_, lid);
    attached_lid_ = lid;
}

std::optional<int> ud_device::membership_news() noexcept {
    const std::optional<int> heard = fabric_.heard();
    if (heard != 0) return heard;
    const verbs::fabric_membership::parameters& now = fabric_.group();
    try {
        if (!attached_ || attached_lid_ != now.lid) attach(now.lid);
    } catch (const std::system_error& e) {
        return e.code().value();
    }
    {
        const std::lock_guard one_at_a_time(saying_);
        if (now == said_) return 0;
        said_ = now;
    }
    for (const auto& q : queues_) q->tell(ud_queue::group_changed);
    return 0;
}

verbs::fabric_membership::parameters ud_device::group_parameters() const {
    const std::lock_guard one_at_a_time(saying_);
    return said_;
}

bool ud_device::is_ours(const ibv_gid& gid, std::uint32_t queue_pair) const noexcept {
    return std::memcmp(gid.raw, ours_.gid.raw, sizeof gid.raw) == 0 &&
           std::find(numbers_.begin(), numbers_.end(), queue_pair) != numbers_.end();
}

void ud_device::handle(const verbs::device_event& event) noexcept {
    const bool about_port = event.port == options_.port &&
                            (event.what == IBV_EVENT_PORT_ERR || event.what == IBV_EVENT_PORT_ACTIVE);
    if (about_port) link_up_ = event.what == IBV_EVENT_PORT_ACTIVE;
    if (event.port == options_.port && !about_port) peers_.doubt_all(); // our LID, our GIDs, the subnet's manager, partitions
    for (const auto& q : queues_) {
        if (event.device_gone()) q->tell(ud_queue::device_gone);
        else if (event.pair != nullptr && q->concerns(event.pair)) q->tell(ud_queue::pair_failed);
        else if (event.completions != nullptr && q->concerns(event.completions)) q->tell(ud_queue::lost);
        else if (about_port) q->tell(ud_queue::link_changed);
    }
}

} // namespace corewire
