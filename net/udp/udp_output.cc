#include <corewire/net/udp/udp_output.hh>

#include <cstring>
#include <utility>

namespace corewire {

namespace {
constexpr std::uint32_t ip_at = wire::ethernet_header::size;
constexpr std::uint32_t udp_at = ip_at + wire::ipv4_header::min_size;
static_assert(udp_headers::size == udp_at + wire::udp_header::size);
} // namespace

udp_headers::udp_headers(udp_address local, udp_address remote, std::uint8_t ttl, bool dont_fragment) noexcept
    : local_(local), remote_(remote) {
    std::byte* p = bytes_.data();
    store_be16(p + 12, static_cast<std::uint16_t>(wire::ether_type::ipv4));
    wire::ipv4_header{.total_length = 0, .dont_fragment = dont_fragment, .ttl = ttl, .protocol = wire::ip_protocol::udp,
                      .source = local.address, .destination = remote.address}
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
    const std::uint32_t payload_size = payload.size();
    if (payload.exclusive() && payload.headroom() >= size) [[likely]] {
        payload.prepend(size);
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
    if (head.tailroom() < size) return false;
    head.append(size);
    out.head = std::move(head);
    out.body = std::move(payload);
    stamp(out, payload_size, how, identification);
    return true;
}

bool udp_headers::wrap_copy(byte_span payload, checksum how, std::uint16_t identification, frame_pool& pool,
                            packet& out) const noexcept {
    buffer head = pool.allocate_buffer();
    if (head.tailroom() < size + payload.size()) return false;
    head.append(size);
    const auto payload_size = static_cast<std::uint32_t>(payload.size());
    if (payload_size != 0) std::memcpy(head.append(payload_size), payload.data(), payload_size);
    out.head = std::move(head);
    out.body = {};
    stamp(out, payload_size, how, identification);
    return true;
}

/// The headers, with what this datagram adds to them: lengths, identification, checksums.
void udp_headers::stamp(packet& out, std::uint32_t payload_size, checksum how, std::uint16_t identification) const noexcept {
    CW_DEBUG_ASSERT(payload_size <= 65'507, "a UDP payload of more than 65,507 bytes");
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
    wire::internet_sum sum =
        wire::pseudo_header_sum(local_.address, remote_.address, wire::ip_protocol::udp, udp_length);
    out.segment_size = 0;
    if (how == checksum::offload) {
        out.flags = offload::l4_checksum_needed;
        out.l4_offset = udp_at;
        out.l4_checksum_offset = wire::udp_header::checksum_offset;
        store_be16(at + udp_at + wire::udp_header::checksum_offset, sum.folded());
        return;
    }
    out.flags = offload::none;
    sum.add(out.head.bytes().subspan(udp_at)).add(out.body.bytes());
    store_be16(at + udp_at + wire::udp_header::checksum_offset, sum.udp_checksum());
}

} // namespace corewire
