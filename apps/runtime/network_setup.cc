#include <corewire/apps/runtime/network_setup.hh>

#include <corewire/apps/runtime/advertisement_listener.hh>
#include <corewire/apps/runtime/dhcp_host.hh>
#include <corewire/apps/runtime/group_host.hh>
#include <corewire/apps/runtime/icmp_error_listener.hh>
#include <corewire/apps/runtime/kernel_address.hh>
#include <corewire/apps/runtime/port_wrappers.hh>
#include <corewire/apps/runtime/setup_error.hh>
#include <corewire/apps/runtime/shared_host.hh>
#include <corewire/apps/runtime/ud_network.hh>
#include <corewire/apps/runtime/verbs_network.hh>
#include <corewire/net/kernel/kernel_provider.hh>
#include <corewire/net/kernel/system_address.hh>
#include <corewire/net/port/loop/wire_port.hh>
#include <corewire/net/port/tap/tap_port.hh>
#include <corewire/net/port/xdp/xdp_port.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/net/stack/shard_steering.hh>
#include <corewire/net/stack/tcp_tuning.hh>
#include <corewire/reactor/log/shard_log.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/task/sleep.hh>

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fstream>

namespace corewire {

namespace {

constexpr log_event<log_text<32>> pieces_missing{
    "port", "pieces_missing", log_level::warn,
    "{}: before Linux 6.6 a sender at the other end must keep to the MTU, or its long frames are lost: "
    "`ethtool -K THEIR_END tso off gso off`"};

constexpr log_event<> no_server_yet{"dhcp", "no_server_yet", log_level::warn,
                                    "no DHCP server has given us an address for 10 s; it is asked on, and nothing is served until then"};

/// Two owners of one address answer each other's peers with resets.
void refuse_address_of_kernel(const net_address& address) {
    const std::string interface = kernel_interface_with(address);
    if (!interface.empty())
        throw setup_error(fmt::format("--address: the kernel has {} itself, on {}: choose an address that is free", to_string(address),
                                      interface));
}

/// For addresses that are the same at every start (RFC 7217 5): what this machine is known by to itself alone; without that, new ones.
siphash_key machine_secret() {
    std::ifstream file("/etc/machine-id");
    std::string id;
    if (!(file >> id) || id.size() < 32) return siphash_key::random();
    const std::span bytes(reinterpret_cast<const unsigned char*>(id.data()), id.size());
    return {siphash({0x736c616163, 1}, bytes), siphash({0x736c616163, 2}, bytes)};
}

/// Said at the start, not by the first connection.
void require_kernels_congestion(congestion_algorithm how) try {
    if (how == congestion_algorithm::standard) return;
    const unique_fd probe = open_socket(socket_address{}, SOCK_STREAM);
    require_congestion(probe.get(), how);
} catch (const std::system_error& error) {
    throw setup_error(fmt::format("--congestion: {}", error.what()));
}

} // namespace

network_setup::network_setup(const network_options& options, network_plan plan)
    : options_(options), plan_(std::move(plan)), slaac_secret_(plan_.secret ? *plan_.secret : machine_secret()), parts_(plan_.shards) {
    if (!options.shared && !plan_.ports_only && plan_.kind != network_kind::kernel) {
        if (options.address) refuse_address_of_kernel(options.address->address());
        if (options.address6) refuse_address_of_kernel(options.address6->address());
    }
    if (options.shared && plan_.ports_only)
        throw setup_error("--shared takes TCP and UDP flows only: leave it out for bare frames");
    switch (plan_.kind) {
    case network_kind::tap: open_tap(options); break;
    case network_kind::wire: open_wire(); break;
    case network_kind::xdp: open_xdp(options); break;
    case network_kind::verbs:
        verbs_ = std::make_unique<verbs_network>(options, plan_.shards, plan_.verbs ? *plan_.verbs : verbs::system_api());
        break;
    case network_kind::verbs_ud:
        ud_ = std::make_unique<ud_network>(options, plan_.shards, plan_.verbs ? *plan_.verbs : verbs::system_api());
        break;
    case network_kind::kernel:
        require_kernels_congestion(options.congestion);
        if (plan_.ports_only) throw setup_error("--net=kernel has no port of ours: choose --net=xdp, tap or wire");
        break;
    case network_kind::automatic: CW_ASSERT(false, "choose_network() comes first");
    }
    if (options.shared && (xdp_ || verbs_)) share_addresses();
    else if (xdp_ || verbs_)
        groups_ = std::make_unique<group_host>(xdp_, verbs_ ? verbs_->shared_device() : nullptr, host_interface().index);
    if (groups_ && plan_.ports_only && options.address6) // no stack tells of it
        for (const ipv6& each : {options.address6->address(), options.address6->address().solicited_node()})
            if (!groups_->on_join(each)) throw setup_error(fmt::format("--address: {} cannot be steered to us", to_string(each)));
    if ((options.dhcp || options.slaac) && !plan_.ports_only)
        dhcp_ = std::make_unique<dhcp_host>(plan_.shards, xdp_, verbs_ ? verbs_->shared_device() : nullptr,
                                            [this](unsigned shard) { return stack(shard); });
    const bool one_address = plan_.kind == network_kind::tap || plan_.kind == network_kind::xdp || verbs_ || ud_;
    if (!one_address || plan_.ports_only || plan_.shards == 1) return;
    auto steering = shard_steering::make(plan_.shards, verbs_ ? verbs_->device().slots() : 0, link_mtu());
    for (unsigned shard = 0; shard < plan_.shards; ++shard) parts_[shard].steering = std::move(steering[shard]);
}

network_setup::~network_setup() = default;

/// Of the ports that share an address.
std::uint32_t network_setup::link_mtu() const {
    if (xdp_) return xdp_->info().mtu;
    if (verbs_) return verbs_->device().mtu();
    if (ud_) return ud_->device().mtu();
    return parts_[0].near.device != nullptr ? parts_[0].near.device->mtu() : options_.mtu.value_or(1500);
}

void network_setup::open_tap(const network_options& options) {
    tap_options tap;
    if (!options.interface.empty()) tap.interface = options.interface;
    tap.host_address = options.host_address;
    tap.host_address6 = options.host_address6;
    tap.queues = plan_.shards;
    if (options.mtu) tap.mtu = *options.mtu;
    auto ports = tap_port::open(tap);
    for (unsigned shard = 0; shard < plan_.shards; ++shard) parts_[shard].near.device = std::move(ports[shard]);
}

void network_setup::open_wire() {
    if (plan_.shards > 2)
        throw setup_error(fmt::format("--net=wire joins two shards, not {}: choose --cores=2, or 1 for both ends on one core",
                                      plan_.shards));
    // What is damaged on the way must be noticed: then nobody vouches for it.
    const bool damaged = options_.faults && (options_.faults->on_receive.corrupt > 0 || options_.faults->on_transmit.corrupt > 0);
    wire_link::ends ends = wire_link::make({.mtu = options_.mtu.value_or(1500), .vouch_for_checksums = !damaged});
    parts_[0].near.device = std::move(ends.first);
    (plan_.shards == 2 ? parts_[1].near : parts_[0].far).device = std::move(ends.second);
}

void network_setup::open_xdp(const network_options& options) {
    xdp_ = std::make_shared<xdp_device>(
        xdp_device_options{.interface = options.interface,
                           .mode = options.mode,
                           .steering = options.shared ? xdp_steering::flows : xdp_steering::addresses,
                           .pieces = options.pieces,
                           .vlan = options.vlan});
    if (xdp_->info().queues < plan_.shards)
        throw setup_error(fmt::format("{} has {} queue{} and --cores asks for {} shards, a queue each: choose --cores={} "
                                      "(or give it more with `ethtool -L`)",
                                      options.interface, xdp_->info().queues, xdp_->info().queues == 1 ? "" : "s",
                                      plan_.shards, xdp_->info().queues));
    deal_queues();
    if (options.address && !options.shared) xdp_->own(options.address->address()); // of IPv6's the stacks tell (group_host)
}

/// Link-local addresses are the MAC's, unless the MAC is the kernel's, too, or new at every start (verbs-ud; what stays is the port's
/// GID): then one made from it and our own address, or (--slaac without one) from what this machine is known by to itself.
std::optional<std::uint64_t> network_setup::link_identifier() const {
    if ((!xdp_ && !verbs_ && !ud_) || !options_.has_ipv6() || options_.shared) return std::nullopt;
    unsigned char bytes[22];
    const mac_address lasting = xdp_ ? xdp_->info().mac : ud_ ? link_address{0, ud_->device().address().gid}.mac() : verbs_->device().mac();
    store_be64(reinterpret_cast<std::byte*>(bytes), lasting.value() << 16);
    const ipv6 own = options_.address6 ? options_.address6->address() : ipv6::any();
    std::memcpy(bytes + 6, own.octets().data(), 16);
    if (ud_ && options_.address && !options_.address6) // several programs may have one GID
        store_be32(reinterpret_cast<std::byte*>(bytes) + 18, options_.address->address().value());
    return siphash(options_.address6 ? siphash_key{0x6c696e6b, 0x6c6f63616c} : slaac_secret_, bytes);
}

/// The kernel's, in front of our device. Index 0: there is none.
owned_ports::interface network_setup::host_interface() const {
    const std::string& name = xdp_ ? xdp_->interface() : verbs_->device().options().interface;
    return {name.empty() ? 0 : query_interface(name).index, name};
}

/// The kernel's addresses: those that --address names, or its first one of each family on the interface (of IPv6 no link-local one).
void network_setup::share_addresses() {
    const owned_ports::interface on = host_interface();
    if (on.index == 0)
        throw setup_error(fmt::format("--shared: {} has no network interface of the kernel's (`rdma link` shows them): name it with "
                                      "--interface, or give --address A.B.C.D/LENGTH instead of --shared",
                                      options_.device));
    const std::vector<netlink::address_change> known = kernel_addresses(on.index);
    const auto find = [&](bool four, const std::optional<net_address>& wanted) {
        return wanted ? std::optional(named_address(known, *wanted, on.name)) : first_address(known, four);
    };
    const bool named = options_.address || options_.address6;
    std::vector<net_address> ours;
    if (!named || options_.address) {
        const auto four = find(true, options_.address ? std::optional(net_address(options_.address->address())) : std::nullopt);
        if (four) ours.push_back((options_.address = four->v4())->address());
    }
    if (!named || options_.address6) {
        const auto six = find(false, options_.address6 ? std::optional(net_address(options_.address6->address())) : std::nullopt);
        if (six) ours.push_back((options_.address6 = six->v6())->address());
    }
    if (ours.empty())
        throw setup_error(fmt::format("--shared: the kernel has no address on {0} (`ip address add ADDRESS/LENGTH dev {0}`)",
                                      on.name));
    std::shared_ptr<flow_owner> steering = xdp_;
    if (verbs_) steering = verbs_->shared_device();
    owned_ports_ = std::make_unique<owned_ports>(std::move(steering), on, std::move(ours));
    for (shard_part& each : parts_) each.share = std::make_unique<shared_host>(*owned_ports_);
}

/// Those that the placement names, and every other queue in turn: a sender may use any, so none may be without a port.
void network_setup::deal_queues() {
    std::vector<bool> taken(xdp_->info().queues, false);
    for (unsigned shard = 0; shard < std::min<std::size_t>(plan_.shards, plan_.place.shards.size()); ++shard)
        for (const unsigned queue : plan_.place.shards[shard].queues) {
            if (queue >= taken.size())
                throw setup_error(fmt::format("shard {}: {} has queues 0-{}, not {}: `ethtool -L {} combined {}` gives it more, if it can",
                                              shard, options_.interface, taken.size() - 1, queue, options_.interface, queue + 1));
            if (taken[queue]) throw setup_error(fmt::format("shard {}: queue {} is another shard's already", shard, queue));
            taken[queue] = true;
            parts_[shard].queues.push_back(queue);
        }
    unsigned next = 0;
    for (unsigned queue = 0; queue < taken.size(); ++queue) {
        if (taken[queue]) continue;
        // A shard without any comes first: whoever sends needs one of its own.
        const auto without = std::ranges::find_if(parts_, [](const shard_part& p) { return p.queues.empty(); });
        shard_part& to = without != parts_.end() ? *without : parts_[next++ % plan_.shards];
        to.queues.push_back(queue);
    }
    for (unsigned shard = 0; shard < plan_.shards; ++shard)
        if (parts_[shard].queues.empty())
            throw setup_error(fmt::format("shard {} is left without a queue of {}: give it one with queue:N", shard, options_.interface));
}

std::unique_ptr<port> network_setup::open_xdp_port(unsigned shard) {
    xdp_port_options options;
    options.queues = parts_[shard].queues;
    options.transmit_checksum = !options_.xdp_checksums_computed;
    return std::make_unique<xdp_port>(xdp_, options);
}

ip_prefix network_setup::wire_address(unsigned end) noexcept {
    return {ipv4(10, 99, 0, static_cast<std::uint8_t>(1 + end)), 24};
}

ipv6_prefix network_setup::wire_address6(unsigned end) noexcept {
    return {ipv6(ipv6::octet_array{0xfd, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(1 + end)}), 64};
}

stack_config network_setup::config_for(unsigned shard, bool far) const {
    stack_config config;
    choose_congestion(config.tcp, options_.congestion);
    config.tcp.ecn |= options_.ecn == ecn_mode::classic;
    config.tcp.accurate_ecn = options_.ecn == ecn_mode::accurate;
    choose_path_probing(config.tcp, options_.mtu_probing);
    config.tcp.sack = options_.tcp.sack;
    config.tcp.duplicate_sack = options_.tcp.duplicate_sack;
    config.tcp.timestamps = options_.tcp.timestamps;
    config.tcp.window_scaling = options_.tcp.window_scaling;
    config.tcp.pacing = options_.tcp.pacing;
    config.tcp.window_validation = options_.tcp.window_validation;
    if (options_.low_latency) config.tcp.suit_low_latency();
    config.fast_open_key = fast_open_key_;
    config.timestamp_key = timestamp_key_;
    if (plan_.kind == network_kind::wire) {
        config.address = wire_address(far ? 1 : shard);
        if (options_.wire_ipv6) {
            config.ipv6.emplace();
            config.ipv6->address = wire_address6(far ? 1 : shard);
            config.ipv6->duplicate_probes = 0; // a cable of ours: nobody else is there
        }
        return config;
    }
    config.address = options_.address.value_or(ip_prefix(ipv4::any(), 32));
    config.gateway = options_.gateway;
    config.groups = groups_.get();
    config.leases = dhcp_.get();
    if (options_.dhcp) {
        config.dhcp.emplace();
        config.dhcp->client.association = 0x63770000u | options_.vlan; // "cw": not what the kernel's client calls itself
        config.dhcp->follower = dhcp_.get();
    }
    if (options_.has_ipv6()) {
        config.ipv6.emplace();
        config.ipv6->autoconfigure = options_.slaac;
        if (options_.slaac) config.ipv6->secret = slaac_secret_;
        config.ipv6->dhcp.association = 0x63770000u | options_.vlan;
        config.ipv6->address = options_.address6;
        config.ipv6->gateway = options_.gateway6;
        config.ipv6->identifier = link_identifier();
        if (options_.dad_transmits) config.ipv6->duplicate_probes = *options_.dad_transmits;
    }
    config.vlan = options_.vlan;
    config.announce = shard == 0; // one address, one announcement
    config.ask_for_address = true;
    config.share = parts_[shard].share.get();
    if (config.share != nullptr) config.neighbors.max_requests = 10; // longer than the kernel takes to find out
    return config;
}

std::unique_ptr<port> network_setup::wrapped(std::unique_ptr<port> inner, unsigned shard, bool far) const {
    if (plan_.wrap) inner = plan_.wrap(std::move(inner), shard, far);
    return wrap_port(std::move(inner), options_, far ? 1 : shard);
}

void network_setup::finish(end& e, unsigned shard, bool far, const stack_config& config) {
    e.device = wrapped(std::move(e.device), shard, far);
    e.at = e.device.get();
    if (plan_.ports_only) return;
    e.stack = std::make_unique<network_stack>(reactor::current(), std::move(e.device), config);
    e.stop = std::make_unique<orderly_stop>(reactor::current(), *e.stack);
}

void network_setup::set_up(unsigned shard) {
    shard_part& mine = parts_[shard];
    void*& provider = reactor::current().attached(reactor::attachment::network);
    if (plan_.kind == network_kind::kernel) {
        mine.kernel = std::make_unique<kernel_provider>(reactor::current(), kernel_provider_options{.congestion = options_.congestion});
        mine.kernel_stop = std::make_unique<orderly_stop>(reactor::current(), *mine.kernel);
        provider = mine.kernel.get();
        return;
    }
    if (plan_.kind == network_kind::xdp) mine.near.device = open_xdp_port(shard);
    if (xdp_ && shard == 0 && xdp_->pieces_missing() && xdp_->generic() && xdp_->on_veth()) log_message(pieces_missing, options_.interface);
    if (verbs_) mine.near.device = verbs_->open_port(shard);
    if (ud_) mine.near.device = ud_->open_port(shard);
    finish(mine.near, shard, false, plan_.ports_only ? stack_config{} : config_for(shard, false));
    if (mine.far.device) finish(mine.far, shard, true, plan_.ports_only ? stack_config{} : config_for(shard, true));
    if (mine.steering) mine.near.stack->set_steering(std::move(mine.steering));
    if (mine.share) mine.share->follow(*mine.near.stack);
    if (mine.share && verbs_)
        mine.icmp_errors = std::make_unique<icmp_error_listener>(reactor::current(), owned_ports_->on().index, *mine.near.stack);
    if (xdp_ && options_.slaac && mine.near.stack)
        mine.advertisements =
            std::make_unique<advertisement_listener>(reactor::current(), xdp_->info().index, options_.vlan, *mine.near.stack);
    if (mine.near.stack) provider = static_cast<socket_provider*>(mine.near.stack.get());
}

task<> network_setup::after_lease(unsigned shard) {
    const network_stack* const mine = stack(shard);
    const time_point say_so = reactor::current().now() + std::chrono::seconds{10};
    bool said = shard != 0;
    while (mine != nullptr && mine->address().is_any() && !this_shard::stopping().stop_requested()) {
        if (!std::exchange(said, said || reactor::current().now() >= say_so) && said) log_message(no_server_yet);
        co_await sleep_for(std::chrono::milliseconds{10});
    }
}

task<> network_setup::when_addresses_are_there(unsigned shard, std::function<task<>()> body) {
    if (options_.dhcp) co_await after_lease(shard);
    co_await after_address_detection(shard);
    if (this_shard::stopping().stop_requested()) co_return; // it would begin without an address, or wait for what has been ended already
    task<> rest = body();
    co_await rest;
}

task<> network_setup::after_address_detection(unsigned shard) {
    network_stack* const mine = stack(shard);
    const ipv6_output* const six = mine == nullptr ? nullptr : mine->ip().six();
    // A router that has not answered by then may still: its addresses come when it does.
    // A leased address is asked about behind the link's own.
    const std::chrono::seconds asked{options_.dad_transmits.value_or(1) * (options_.slaac ? 2 : 1)};
    const time_point enough = reactor::current().now() + asked + std::chrono::seconds{options_.slaac ? 6 : 2};
    const auto wait = [&] {
        const bool none_yet = options_.slaac && six->automatic() != nullptr && six->automatic()->statistics().advertisements == 0;
        const bool leased_soon = six->dhcp() != nullptr && (six->dhcp()->state() == dhcp6_state::soliciting ||
                                                            six->dhcp()->state() == dhcp6_state::requesting);
        return (six->addresses().any_tentative() || none_yet || leased_soon) && reactor::current().now() < enough;
    };
    while (six != nullptr && wait() && !this_shard::stopping().stop_requested()) co_await sleep_for(std::chrono::milliseconds{10});
}

void network_setup::begin_stop(unsigned shard) noexcept {
    shard_part& mine = parts_[shard];
    for (orderly_stop* each : {mine.kernel_stop.get(), mine.near.stop.get(), mine.far.stop.get()})
        if (each != nullptr) each->begin(plan_.grace);
}

bool network_setup::lingers(unsigned shard) const {
    const socket_provider* const kernel = parts_[shard].kernel.get();
    bool unsent = kernel != nullptr && static_cast<const kernel_provider&>(*kernel).lingers();
    for (const end* e : {&parts_[shard].near, &parts_[shard].far})
        if (e->stack)
            e->stack->tcp().for_each_connection([&](const tcp_connection& c) {
                const tcp::tcp_state state = c.tcb.state();
                unsent |= state == tcp::tcp_state::fin_wait_1 || state == tcp::tcp_state::closing || state == tcp::tcp_state::last_ack ||
                          c.tcb.fin_unsent(); // before its handshake is done (Fast Open)
            });
    return unsent;
}

void network_setup::tear_down(unsigned shard) noexcept {
    shard_part& mine = parts_[shard];
    reactor::current().attached(reactor::attachment::network) = nullptr;
    if (mine.share) mine.share->stop();
    mine.advertisements.reset();
    mine.icmp_errors.reset();
    if (mine.near.stack) mine.near.stack->release_lease();
    mine.far = {};
    mine.near = {};
    if (verbs_) verbs_->tear_down(shard);
    if (ud_) ud_->tear_down(shard);
    mine.share.reset();
    mine.kernel_stop.reset();
    mine.kernel.reset();
}

port* network_setup::device(unsigned shard, bool far) const noexcept {
    return (far ? parts_[shard].far : parts_[shard].near).at;
}
network_stack* network_setup::stack(unsigned shard, bool far) const noexcept {
    return (far ? parts_[shard].far : parts_[shard].near).stack.get();
}

} // namespace corewire
