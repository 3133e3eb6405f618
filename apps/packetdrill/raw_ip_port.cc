#include "raw_ip_port.hh"

#include <corewire/net/wire/ethernet.hh>

#include <cstring>

namespace corewire::packetdrill {

namespace {

constexpr std::uint32_t frames = 16'384;
constexpr std::uint32_t large_frames = 256;
constexpr std::uint32_t large_frame_size = 66 * 1024;

wire::ether_type type_of(byte_span ip_packet) noexcept {
    return load_u8(ip_packet.data()) >> 4 == 6 ? wire::ether_type::ipv6 : wire::ether_type::ipv4;
}

} // namespace

raw_ip_port::raw_ip_port(std::uint32_t mtu) : frames_(frames), large_frames_(large_frames, large_frame_size) {
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

std::size_t raw_ip_port::transmit(std::span<packet> burst) {
    for (packet& p : burst) {
        wire::ethernet_view link;
        const bool whole = wire::ethernet_view::parse(p.head.bytes(), link) == wire::parse_error::none;
        const bool is_ip = whole && (link.type() == wire::ether_type::ipv4 || link.type() == wire::ether_type::ipv6);
        if (is_ip && outbox_.size() < outbox_limit) {
            const byte_span head = p.head.bytes().subspan(wire::ethernet_header::size);
            left_packet& left = outbox_.emplace_back();
            left.at = now_;
            left.bytes.assign(head.begin(), head.end());
            left.bytes.insert(left.bytes.end(), p.body.bytes().begin(), p.body.bytes().end());
            ++statistics_.transmitted_packets;
            statistics_.transmitted_bytes += left.bytes.size();
        } else if (is_ip) {
            ++statistics_.transmit_dropped;
        }
        p.head = buffer{};
        p.body = buffer{};
    }
    return burst.size();
}

} // namespace corewire::packetdrill
