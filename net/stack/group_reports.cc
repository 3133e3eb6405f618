#include <corewire/net/stack/group_reports.hh>

#include <corewire/net/port/port.hh>
#include <corewire/net/stack/egress.hh>
#include <corewire/net/wire/ethernet.hh>
#include <corewire/net/wire/ipv4.hh>

#include <cstring>

namespace corewire {

void group_reports::join(time_point now, ipv4 group) noexcept {
    host_.on_join(now, group);
    due_ = host_.next_timeout();
}

void group_reports::leave(time_point now, ipv4 group) noexcept {
    host_.on_leave(now, group);
    due_ = host_.next_timeout();
}

void group_reports::input(time_point now, byte_span message) noexcept {
    host_.input(now, message);
    due_ = host_.next_timeout();
}

void group_reports::send(time_point now, ipv4 own) noexcept {
    constexpr std::uint32_t ip_size = wire::ipv4_header::min_size + sizeof wire::ipv4_router_alert;
    if (due_ > now) return;
    for (igmp_report m; host_.poll_transmit(now, m);) {
        packet p;
        p.head = device_.pool().allocate_buffer();
        if (p.head.underlying_frame() == nullptr) continue; // as if it had been lost: it is told twice, and asked for
        const wire::ethernet_header link{
            .destination = mac_address::of_multicast(m.destination), .source = device_.mac(), .type = wire::ether_type::ipv4};
        link.emit({p.head.append(wire::ethernet_header::size), wire::ethernet_header::size});
        wire::ipv4_header{.total_length = static_cast<std::uint16_t>(ip_size + m.size),
                          .dscp = 48, // internetwork control, as RFC 3376 4 wants
                          .ttl = 1,
                          .protocol = wire::ip_protocol::igmp,
                          .source = own,
                          .destination = m.destination}
            .emit({p.head.append(ip_size), ip_size}, wire::ipv4_router_alert);
        std::memcpy(p.head.append(m.size), m.bytes.data(), m.size);
        egress_.push(std::move(p));
    }
    due_ = host_.next_timeout();
}

} // namespace corewire
