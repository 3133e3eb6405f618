#include <corewire/net/stack/network_stack.hh>

#include <corewire/net/stack/dhcp_link.hh>

#include <algorithm>
#include <string>
#include <utility>

namespace corewire {

/// IPv6 alone, or there is no lease: what a DHCP server says is all that concerns us, to whatever address it says it.
[[gnu::noinline]] void network_stack::no_address_yet(time_point now, packet& p, bool handed_over) {
    wire::ipv4_view ip;
    const byte_span datagram = p.head.bytes().subspan(wire::ethernet_header::size);
    if (!config_.dhcp || wire::ipv4_view::parse(datagram, ip) != wire::parse_error::none || !ip.checksum_ok() ||
        !is_for_dhcp(now, ip, p, handed_over))
        ++statistics_.not_for_us;
}

/// True: it was, and has been dealt with. The client is on the first shard.
bool network_stack::is_for_dhcp(time_point now, wire::ipv4_view ip, packet& p, bool handed_over) {
    // A datagram put together from fragments is in no frame any more: no server sends one.
    if (ip.header().data() != p.head.data() + wire::ethernet_header::size || ip.protocol() != wire::ip_protocol::udp ||
        ip.payload().size() < 4 || load_be16(ip.payload().data() + 2) != dhcp_client_port)
        return false;
    if (dhcp_ == nullptr) {
        if (steering_ == nullptr || steering_->self() == 0 || handed_over) return false;
        if (steering_->hand_over(0, std::move(p))) ++statistics_.handed_over;
        return true;
    }
    const bool mine = dhcp_->input(now, p.head.bytes(), ip, has(p.flags, offload::l4_checksum_good));
    after_dhcp(now);
    return mine;
}

/// The client has done something: what it says is sent, and what it has got holds.
void network_stack::after_dhcp(time_point now) {
    if (dhcp_->poll(now)) {
        follow_lease(dhcp_->lease());
        if (dhcp_->follower() != nullptr) dhcp_->follower()->on_lease(dhcp_->lease());
    }
    arm_timer();
}

void network_stack::follow_lease(const dhcp_lease* lease) {
    const time_point now = reactor_.now();
    const ipv4 before = address();
    const std::uint32_t took = output_.mtu();
    config_.address = lease == nullptr ? ip_prefix(ipv4::any(), 32) : lease->address;
    if (!before.is_any() && before != address()) { // who hears of it does while its neighbours are known
        tcp_.on_address_gone(before);
        flush_all(now);
    }
    icmp_.set_address(address());
    const std::span<const route> routes = lease == nullptr ? std::span<const route>{} : lease->routes.all();
    output_.set_address(now, config_.address, routes, lease == nullptr ? 0 : lease->mtu);
    tcp_.on_routes_changed();
    udp_.set_address(address());
    udp_.on_routes_changed();
    if (output_.mtu() < took) tcp_.fit_into_paths();
    names4_ = {};
    if (lease != nullptr) {
        for (const ipv4 server : lease->name_servers.all()) names4_.servers.emplace_back(server, std::uint16_t{53});
        if (!lease->domain.empty()) names4_.search.emplace_back(lease->domain.items.data(), lease->domain.count);
    }
    learn_names();
    arm_timer();
}

void network_stack::follow_lease6(const dhcp6_lease& lease) {
    if (output_.six() == nullptr) return;
    if (output_.six()->dhcp() == nullptr) { // else it has
        output_.six()->follow_lease(reactor_.now(), lease);
        tell_of_ipv6_ways();
    }
    names6_ = {};
    for (const ipv6& server : lease.name_servers.all())
        if (!server.is_link_local()) names6_.servers.emplace_back(server, std::uint16_t{53});
    if (!lease.domain.empty()) names6_.search.emplace_back(lease.domain.items.data(), lease.domain.count);
    learn_names();
    arm_timer();
}

/// Routes, or addresses to send from, may be others. Connections notice by themselves.
void network_stack::tell_of_ipv6_ways() noexcept {
    const std::uint32_t ways = output_.six()->routes().generation() + output_.six()->addresses().generation(); // both only grow
    if (std::exchange(ipv6_ways_, ways) == ways) return;
    udp_.on_ipv6_addresses_changed();
    udp_.on_routes_changed();
}

/// A router may have said something, and a DHCPv6 client may have got something.
void network_stack::after_ipv6() {
    if (output_.six() == nullptr) return;
    tell_of_ipv6_ways();
    const autoconfiguration* const automatic = output_.six()->automatic();
    if (automatic != nullptr && automatic->names().generation() != advertised_names_) {
        advertised_names_ = automatic->names().generation();
        learn_names();
    }
    if (!output_.six()->lease_changed()) return;
    follow_lease6(output_.six()->dhcp()->lease());
    if (config_.leases != nullptr) config_.leases->on_lease6(output_.six()->dhcp()->lease());
}

/// IPv6's servers first, and DHCPv6's before those of routers (RFC 8106 5.3.1); each once, whoever has said it.
void network_stack::learn_names() {
    learned_names all = names6_;
    const auto add = [](auto& to, auto&& what) {
        if (std::ranges::find(to, what) == to.end()) to.push_back(what);
    };
    if (output_.six() != nullptr && output_.six()->automatic() != nullptr) {
        const advertised_names& routers = output_.six()->automatic()->names();
        for (const auto& server : routers.servers()) add(all.servers, socket_address(server.value, 53));
        for (const auto& domain : routers.domains()) add(all.search, std::string(domain.value.items.data(), domain.value.count));
    }
    for (const socket_address& server : names4_.servers) add(all.servers, server);
    for (const std::string& domain : names4_.search) add(all.search, domain);
    learn(std::move(all));
}

void network_stack::release_lease() noexcept {
    const time_point now = reactor_.now();
    if (dhcp_ != nullptr) {
        dhcp_->release(now);
        static_cast<void>(dhcp_->poll(now));
    }
    if (output_.six() != nullptr) output_.six()->release_lease(now);
    egress_.flush();
}

} // namespace corewire
