#include <corewire/net/stack/dhcp_link.hh>

#include <corewire/net/stack/egress.hh>
#include <corewire/net/stack/ip_output.hh>
#include <corewire/net/wire/arp.hh>
#include <corewire/net/wire/ethernet.hh>
#include <corewire/net/wire/udp.hh>

#include <cstring>

namespace corewire {

namespace {

constexpr std::uint32_t link_size = wire::ethernet_header::size, ip_size = wire::ipv4_header::min_size, udp_size = wire::udp_header::size;

dhcp_options options_of(const stack_config& config, std::uint32_t mtu) {
    dhcp_options o = config.dhcp->client;
    o.max_message = static_cast<std::uint16_t>(std::min<std::uint32_t>(mtu, o.max_message));
    return o;
}

} // namespace

dhcp_link::dhcp_link(mac_address mac, ip_output& out, egress& tx, frame_pool& pool, const stack_config& config)
    : mac_(mac), out_(out), egress_(tx), pool_(pool), follower_(config.dhcp->follower),
      client_(mac, options_of(config, out.mtu()), config.seed ? *config.seed ^ 0x64686370 : random_seed()) {}

void dhcp_link::start(time_point now) noexcept { client_.start(now, std::nullopt); }

bool dhcp_link::input(time_point now, byte_span frame, wire::ipv4_view ip, bool checksum_good) noexcept {
    wire::udp_view udp;
    if (ip.protocol() != wire::ip_protocol::udp || ip.is_fragment() ||
        wire::udp_view::parse(ip.payload(), udp) != wire::parse_error::none || udp.destination_port() != dhcp_client_port)
        return false;
    if (!checksum_good && !udp.checksum_ok(ip.source(), ip.destination())) return true;
    const std::uint64_t known = client_.statistics().received - client_.statistics().ignored - client_.statistics().malformed;
    client_.input(now, udp.payload());
    const dhcp_statistics& s = client_.statistics();
    if (s.received - s.ignored - s.malformed != known) server_mac_ = mac_address::load(frame.data() + 6);
    return true;
}

void dhcp_link::on_arp(time_point now, const wire::arp_packet& arp) noexcept { client_.on_arp(now, arp); }
void dhcp_link::on_timer(time_point now) noexcept { client_.on_timer(now); }
void dhcp_link::release(time_point now) noexcept { client_.release(now); }

bool dhcp_link::poll(time_point now) noexcept {
    // Who steers is told before anything is sent, or the answer might come before he knows.
    const ipv4 about = client_.lease() != nullptr ? client_.lease()->address.address() : client_.candidate();
    if (follower_ != nullptr && (client_.transaction() != transaction_told_ || about != address_told_)) {
        transaction_told_ = client_.transaction();
        address_told_ = about;
        follower_->on_expected(transaction_told_, about);
    }
    for (dhcp_outgoing message; client_.poll_transmit(message);) send(now, message);
    for (ipv4 target; client_.poll_probe(target);)
        if (!probe(target)) client_.on_probe_unsent();
    if (client_.generation() == generation_) return false;
    generation_ = client_.generation();
    return true;
}

void dhcp_link::send(time_point now, const dhcp_outgoing& message) noexcept {
    packet p;
    p.head = pool_.allocate_buffer();
    const std::uint32_t udp_length = udp_size + message.size;
    if (p.head.tailroom() < link_size + ip_size + udp_length) return; // the question is repeated
    std::byte* const link = p.head.append(link_size + ip_size + udp_length);
    std::byte* const ip = link + link_size;
    std::byte* const udp = ip + ip_size;
    wire::udp_header{.source_port = dhcp_client_port,
                     .destination_port = dhcp_server_port,
                     .length = static_cast<std::uint16_t>(udp_length)}
        .emit({udp, udp_size});
    std::memcpy(udp + udp_size, message.bytes.data(), message.size);
    wire::ipv4_header{.total_length = static_cast<std::uint16_t>(ip_size + udp_length),
                      .protocol = wire::ip_protocol::udp,
                      .source = message.source,
                      .destination = message.destination}
        .emit({ip, ip_size});
    store_be16(udp + wire::udp_header::checksum_offset,
               wire::pseudo_header_sum(message.source, message.destination, wire::ip_protocol::udp, udp_length)
                   .add({udp, udp_length})
                   .udp_checksum());
    const bool last_word = message.type == dhcp_message_type::release; // no time to ask where the server is
    if (!message.destination.is_broadcast() && !last_word) {
        p.head.remove_prefix(link_size);
        static_cast<void>(out_.send(now, std::move(p), message.destination));
        return;
    }
    wire::ethernet_header{.destination = message.destination.is_broadcast() ? mac_address::broadcast() : server_mac_,
                          .source = mac_,
                          .type = wire::ether_type::ipv4}
        .emit({link, link_size});
    egress_.push(std::move(p));
}

/// False: it has not left.
bool dhcp_link::probe(ipv4 target) noexcept {
    packet p;
    p.head = pool_.allocate_buffer();
    if (p.head.underlying_frame() == nullptr) return false;
    const wire::ethernet_header link{.destination = mac_address::broadcast(), .source = mac_, .type = wire::ether_type::arp};
    link.emit({p.head.append(wire::ethernet_header::size), wire::ethernet_header::size});
    wire::arp_packet::request(mac_, ipv4::any(), target).emit({p.head.append(wire::arp_packet::size), wire::arp_packet::size});
    return egress_.push(std::move(p));
}

} // namespace corewire
