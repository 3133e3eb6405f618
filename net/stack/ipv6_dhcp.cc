// DHCPv6 as ipv6_output has it: the client's messages in packets, and a lease's addresses among ours.
#include <corewire/net/stack/ipv6_output.hh>
#include <corewire/net/wire/udp.hh>

#include <algorithm>

namespace corewire {

bool ipv6_output::on_dhcp(time_point now, byte_span message) noexcept {
    if (!dhcp_) return false;
    dhcp_->input(now, message);
    after_dhcp(now);
    return true;
}

/// The client has done something: what it says is sent, and what it has got holds.
void ipv6_output::after_dhcp(time_point now) noexcept {
    for (dhcp6_outgoing message; dhcp_->poll_transmit(message);) send_to_dhcp_servers(message);
    egress_.leave_chores(); // next_timeout() may have come nearer
    if (dhcp_->generation() == lease_generation_) return;
    lease_generation_ = dhcp_->generation();
    lease_changed_ = true;
    follow_lease(now, dhcp_->lease());
}

/// RFC 8415 18.2.10.1: an address that is new is asked for first, as any of ours (duplicate address detection).
void ipv6_output::follow_lease(time_point now, const dhcp6_lease& lease) noexcept {
    const auto leased = [&](const ipv6& a) { return std::ranges::find(lease.addresses.all(), a, &dhcp6_leased::address); };
    bounded_list<ipv6, ipv6_addresses::max_addresses> gone;
    for (const own_ipv6_address& each : addresses_.all())
        if (each.origin == ipv6_address_origin::leased && leased(each.address) == lease.addresses.all().end()) gone.push(each.address);
    for (const ipv6& each : gone.all()) addresses_.remove(each);
    if (!gone.empty()) routes_.touch(); // nothing leaves from them
    for (const dhcp6_leased& each : lease.addresses.all()) {
        own_ipv6_address* const a = addresses_.add(now, each.address, 128, ipv6_address_origin::leased); // on the link: routers say
        if (a == nullptr || a->origin != ipv6_address_origin::leased) continue;
        addresses_.prefer(now, *a, each.preferred_until);
        a->valid_until = each.valid_until;
    }
    follow_groups(now);
    drain();
    egress_.leave_chores();
}

void ipv6_output::release_lease(time_point now) noexcept {
    if (!dhcp_) return;
    dhcp_->release(now);
    after_dhcp(now);
}

/// From our link-local address. While that is tentative nothing is sent: the question is repeated.
void ipv6_output::send_to_dhcp_servers(const dhcp6_outgoing& message) noexcept {
    constexpr std::uint32_t udp_size = wire::udp_header::size, ip_size = wire::ipv6_header::size;
    const own_ipv6_address* const from = addresses_.source_for(dhcp6_servers);
    if (from == nullptr || !from->address.is_link_local()) {
        ++statistics_.ipv6_source_tentative;
        return;
    }
    packet p;
    p.head = device_.pool().allocate_buffer();
    const std::uint32_t length = udp_size + message.size;
    if (p.head.tailroom() < ip_size + length) {
        ++statistics_.no_frame;
        return;
    }
    std::byte* const ip = p.head.append(ip_size + length);
    std::byte* const udp = ip + ip_size;
    wire::udp_header{.source_port = dhcp6_client_port, .destination_port = dhcp6_server_port, .length = static_cast<std::uint16_t>(length)}
        .emit({udp, udp_size});
    std::memcpy(udp + udp_size, message.bytes.data(), message.size);
    const wire::internet_sum sum =
        wire::pseudo_header_sum(from->address, dhcp6_servers, wire::ip_protocol::udp, length).add({udp, length});
    store_be16(udp + wire::udp_header::checksum_offset, sum.udp_checksum());
    wire::ipv6_header{.payload_length = static_cast<std::uint16_t>(length),
                      .next_header = wire::ip_protocol::udp,
                      .hop_limit = config_.hop_limit,
                      .source = from->address,
                      .destination = dhcp6_servers}
        .emit({ip, ip_size});
    const wire::ethernet_header link{
        .destination = wire::multicast_mac(dhcp6_servers), .source = device_.mac(), .type = wire::ether_type::ipv6};
    link.emit({p.head.prepend(wire::ethernet_header::size), wire::ethernet_header::size});
    if (!egress_.push(std::move(p))) ++statistics_.egress_full;
}

} // namespace corewire
