#include <corewire/net/udp/udp_output.hh>

#include <corewire/net/wire/ipv6.hh>

#include <cstring>
#include <utility>

namespace corewire {

namespace {
constexpr std::uint32_t ip_at = wire::ethernet_header::size;
constexpr std::uint32_t udp_at = ip_at + wire::ipv4_header::min_size;
constexpr std::uint32_t udp_at_v6 = ip_at + wire::ipv6_header::size;
static_assert(udp_headers::size == udp_at + wire::udp_header::size && udp_headers::ipv6_size == udp_at_v6 + wire::udp_header::size);
} // namespace

udp_headers::udp_headers(udp_address local, udp_address remote, std::uint8_t ttl, bool dont_fragment,
                         std::uint8_t traffic_class) noexcept
    : local_(local), remote_(remote) {
    std::byte* p = bytes_.data();
    if (!local.address.is_v4()) {
        store_be16(p + 12, static_cast<std::uint16_t>(wire::ether_type::ipv6));
        wire::ipv6_header{.traffic_class = traffic_class, .next_header = wire::ip_protocol::udp, .hop_limit = ttl,
                          .source = local.address.v6(), .destination = remote.address.v6()}
            .emit({p + ip_at, wire::ipv6_header::size});
        store_be16(p + udp_at_v6, local.port);
        store_be16(p + udp_at_v6 + 2, remote.port);
        return;
    }
    store_be16(p + 12, static_cast<std::uint16_t>(wire::ether_type::ipv4));
    wire::ipv4_header{.total_length = 0, .dscp = static_cast<std::uint8_t>(traffic_class >> 2),
                      .ecn = static_cast<std::uint8_t>(traffic_class & 3), .dont_fragment = dont_fragment, .ttl = ttl,
                      .protocol = wire::ip_protocol::udp, .source = local.address.v4(), .destination = remote.address.v4()}
        .emit({p + ip_at, wire::ipv4_header::min_size});
    store_be16(p + ip_at + wire::ipv4_header::checksum_offset, 0);
    for (std::uint32_t i = 0; i < wire::ipv4_header::min_size; i += 2) ip_sum_ += load_be16(p + ip_at + i);
    store_be16(p + udp_at, local.port);
    store_be16(p + udp_at + 2, remote.port);
}

void udp_headers::set_link(mac_address source, mac_address destination) noexcept {
    destination.store(bytes_.data());
    source.store(bytes_.data() + 6);
}

bool udp_headers::wrap(buffer& payload, checksum how, std::uint16_t identification, frame_pool& pool,
                       packet& out) const noexcept {
    const std::uint32_t payload_size = payload.size(), headers = header_size();
    if (payload.exclusive() && payload.headroom() >= headers) [[likely]] {
        payload.prepend(headers);
        out.head = std::move(payload);
        out.body = {};
        stamp(out, payload_size, how, identification);
        return true;
    }
    if (payload_size <= copy_limit) {
        if (!wrap_copy(payload.bytes(), how, identification, pool, out)) return false;
        payload = {};
        return true;
    }
    buffer head = pool.allocate_buffer();
    if (head.tailroom() < headers) return false;
    head.append(headers);
    out.head = std::move(head);
    out.body = std::move(payload);
    stamp(out, payload_size, how, identification);
    return true;
}

bool udp_headers::wrap_copy(byte_span payload, checksum how, std::uint16_t identification, frame_pool& pool,
                            packet& out) const noexcept {
    const std::uint32_t headers = header_size();
    buffer head = pool.allocate_buffer();
    if (head.tailroom() < headers + payload.size()) return false;
    head.append(headers);
    const auto payload_size = static_cast<std::uint32_t>(payload.size());
    if (payload_size != 0) std::memcpy(head.append(payload_size), payload.data(), payload_size);
    out.head = std::move(head);
    out.body = {};
    stamp(out, payload_size, how, identification);
    return true;
}

/// The headers, with what this datagram adds to them: lengths, identification, checksums.
void udp_headers::stamp(packet& out, std::uint32_t payload_size, checksum how, std::uint16_t identification) const noexcept {
    CW_DEBUG_ASSERT(payload_size <= most_payload(local_.address.is_v4()), "a UDP payload that no length stands for");
    if (!local_.address.is_v4()) return stamp_over_ipv6(out, payload_size, how);
    std::byte* at = out.head.mutable_data();
    std::memcpy(at, bytes_.data(), size);
    const std::uint32_t udp_length = payload_size + wire::udp_header::size;
    const std::uint32_t total = udp_length + wire::ipv4_header::min_size;
    store_be16(at + ip_at + 2, static_cast<std::uint16_t>(total));
    store_be16(at + ip_at + 4, identification);
    std::uint32_t ip_sum = ip_sum_ + total + identification;
    ip_sum = (ip_sum & 0xffff) + (ip_sum >> 16);
    ip_sum += ip_sum >> 16;
    store_be16(at + ip_at + wire::ipv4_header::checksum_offset, static_cast<std::uint16_t>(~ip_sum));
    store_be16(at + udp_at + 4, static_cast<std::uint16_t>(udp_length));
    finish(out, at + udp_at, how, wire::pseudo_header_sum(local_.address.v4(), remote_.address.v4(), wire::ip_protocol::udp, udp_length));
}

void udp_headers::stamp_over_ipv6(packet& out, std::uint32_t payload_size, checksum how) const noexcept {
    std::byte* at = out.head.mutable_data();
    std::memcpy(at, bytes_.data(), ipv6_size);
    const std::uint32_t udp_length = payload_size + wire::udp_header::size;
    store_be16(at + ip_at + 4, static_cast<std::uint16_t>(udp_length));
    store_be16(at + udp_at_v6 + 4, static_cast<std::uint16_t>(udp_length));
    finish(out, at + udp_at_v6, how, wire::pseudo_header_sum(local_.address, remote_.address, wire::ip_protocol::udp, udp_length));
}

/// The checksum of the datagram at `udp`; `sum`: of its pseudo-header.
inline void udp_headers::finish(packet& out, std::byte* udp, checksum how, wire::internet_sum sum) const noexcept {
    const auto udp_offset = static_cast<std::uint16_t>(udp - out.head.data());
    out.segment_size = 0;
    if (how == checksum::offload) {
        out.flags = offload::l4_checksum_needed;
        out.l4_offset = udp_offset;
        out.l4_checksum_offset = wire::udp_header::checksum_offset;
        store_be16(udp + wire::udp_header::checksum_offset, sum.folded());
        return;
    }
    out.flags = offload::none;
    sum.add(out.head.bytes().subspan(udp_offset)).add(out.body.bytes());
    store_be16(udp + wire::udp_header::checksum_offset, sum.udp_checksum());
}

} // namespace corewire
