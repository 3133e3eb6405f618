#include "raw_ip_port.hh"

#include <corewire/net/wire/checksum.hh>
#include <corewire/net/wire/ethernet.hh>

#include <algorithm>
#include <bit>
#include <cstring>

namespace corewire::packetdrill {

namespace {

constexpr std::uint32_t ordinary_bytes = 32 << 20; ///< of frames, whatever their size; but not less than
constexpr std::uint32_t least_frames = 1024;
constexpr std::uint32_t large_frames = 256;
constexpr std::uint32_t large_frame_size = 66 * 1024;

/// For any packet that fits the MTU: what leaves is built in one frame.
std::uint32_t frame_size_for(std::uint32_t mtu) noexcept {
    return std::max(frame_pool::default_frame_size, std::bit_ceil(mtu + std::uint32_t{wire::ethernet_header::size} + frame_headroom));
}

wire::ether_type type_of(byte_span ip_packet) noexcept {
    return load_u8(ip_packet.data()) >> 4 == 6 ? wire::ether_type::ipv6 : wire::ether_type::ipv4;
}

bool is_v6(byte_span ip) noexcept { return load_u8(ip.data()) >> 4 == 6; }
std::size_t tcp_offset(byte_span ip) noexcept { return is_v6(ip) ? 40 : (load_u8(ip.data()) & 15) * 4u; }
/// Of a TCP segment: where its payload begins.
std::size_t payload_offset(byte_span ip) noexcept {
    const std::size_t tcp = tcp_offset(ip);
    return tcp + (load_u8(ip.data() + tcp + 12) >> 4) * 4u;
}
constexpr std::size_t sequence = 4, flags = 13, tcp_checksum = 16; // from the start of TCP's header

/// Lengths and checksums of a TCP segment that has grown.
void finish(mutable_byte_span ip) noexcept {
    const std::size_t tcp = tcp_offset(ip);
    std::byte* const at = ip.data();
    wire::internet_sum sum;
    if (is_v6(ip)) {
        store_be16(at + 4, static_cast<std::uint16_t>(ip.size() - tcp));
        sum.add(byte_span(at + 8, 32));
    } else {
        store_be16(at + 2, static_cast<std::uint16_t>(ip.size()));
        store_be16(at + 10, 0);
        store_be16(at + 10, wire::internet_sum{}.add(byte_span(at, tcp)).checksum());
        sum.add(byte_span(at + 12, 8));
    }
    store_be16(at + tcp + tcp_checksum, 0);
    sum.add_u16(6).add_u32(static_cast<std::uint32_t>(ip.size() - tcp)).add(byte_span(at + tcp, ip.size() - tcp));
    store_be16(at + tcp + tcp_checksum, sum.checksum());
}

} // namespace

raw_ip_port::raw_ip_port(std::uint32_t mtu, bool joins)
    : joins_(joins), frames_(std::max(ordinary_bytes / frame_size_for(mtu), least_frames), frame_size_for(mtu)),
      large_frames_(large_frames, large_frame_size) {
    pool_ = &frames_;
    mac_ = own_mac;
    mtu_ = mtu;
    name_ = "packetdrill";
    capabilities_.gather = true;
}

bool raw_ip_port::put(byte_span ip_packet) {
    const unsigned version = ip_packet.empty() ? 0 : load_u8(ip_packet.data()) >> 4;
    if ((version != 4 && version != 6) || ip_packet.size() > largest_packet) {
        ++statistics_.receive_malformed;
        return false;
    }
    if (inbox_.size() == inbox_limit) {
        ++statistics_.receive_no_buffer;
        return false;
    }
    inbox_.emplace_back(ip_packet.begin(), ip_packet.end());
    return true;
}

std::size_t raw_ip_port::receive(std::span<packet> out) {
    std::size_t taken = 0;
    while (taken < out.size() && !inbox_.empty()) {
        const std::vector<std::byte>& ip = inbox_.front();
        const std::size_t size = ip.size() + wire::ethernet_header::size;
        frame_pool& pool = size <= frames_.frame_size() - frame_headroom ? frames_ : large_frames_;
        buffer b = pool.allocate_buffer();
        if (b.underlying_frame() == nullptr) break; // it waits until a frame comes home
        const wire::ethernet_header link{.destination = own_mac, .source = peer_mac, .type = type_of(ip)};
        link.emit({b.append(wire::ethernet_header::size), wire::ethernet_header::size});
        std::memcpy(b.append(static_cast<std::uint32_t>(ip.size())), ip.data(), ip.size());
        ++statistics_.received_packets;
        statistics_.received_bytes += ip.size();
        out[taken].head = std::move(b);
        out[taken].body = buffer{};
        out[taken].flags = offload::none;
        ++taken;
        inbox_.pop_front();
    }
    return taken;
}

/// Puts the payload of `segment` (which `rest` goes on with) behind the packet that left last, if that is what it continues.
bool raw_ip_port::join(byte_span segment, byte_span rest) {
    if (!joins_ || outbox_.empty() || outbox_.back().at != now_) return false;
    std::vector<std::byte>& packet = outbox_.back().bytes;
    const std::size_t tcp = tcp_offset(segment), payload = payload_offset(segment);
    const std::size_t before = tcp_offset(packet);
    if (is_v6(packet) != is_v6(segment) || load_be32(packet.data() + before) != load_be32(segment.data() + tcp)) return false;
    const auto held = static_cast<std::uint32_t>(packet.size() - payload_offset(packet));
    if (load_be32(packet.data() + before + sequence) + held != load_be32(segment.data() + tcp + sequence)) return false;
    const byte_span more = segment.subspan(payload);
    if (packet.size() + more.size() + rest.size() > largest_packet) return false;
    packet.insert(packet.end(), more.begin(), more.end());
    packet.insert(packet.end(), rest.begin(), rest.end());
    std::byte* const set = packet.data() + before + flags;
    store_u8(set, static_cast<std::uint8_t>(load_u8(set) | load_u8(segment.data() + tcp + flags)));
    finish(packet);
    statistics_.transmitted_bytes += more.size() + rest.size();
    return true;
}

std::size_t raw_ip_port::transmit(std::span<packet> burst) {
    for (packet& p : burst) {
        wire::ethernet_view link;
        const bool whole = wire::ethernet_view::parse(p.head.bytes(), link) == wire::parse_error::none;
        const bool is_ip = whole && (link.type() == wire::ether_type::ipv4 || link.type() == wire::ether_type::ipv6);
        if (is_ip && outbox_.size() < outbox_limit) {
            const byte_span head = p.head.bytes().subspan(wire::ethernet_header::size);
            if (!has(p.flags, offload::joins) || !join(head, p.body.bytes())) {
                left_packet& left = outbox_.emplace_back();
                left.at = now_;
                left.bytes.assign(head.begin(), head.end());
                left.bytes.insert(left.bytes.end(), p.body.bytes().begin(), p.body.bytes().end());
                ++statistics_.transmitted_packets;
                statistics_.transmitted_bytes += left.bytes.size();
            }
        } else if (is_ip) {
            ++statistics_.transmit_dropped;
        }
        p.head = buffer{};
        p.body = buffer{};
    }
    return burst.size();
}

} // namespace corewire::packetdrill
