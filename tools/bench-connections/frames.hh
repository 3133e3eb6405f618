// Segments of simulated peers: no stack, no state but the caller's; one frame a call, from the pool of the port that sends it.
// The port vouches for checksums (a wire does), so TCP's is left out.
#pragma once

#include <corewire/net/port/port.hh>
#include <corewire/net/wire/ethernet.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/net/wire/tcp_options.hh>

#include <cstring>

namespace corewire::bench {

struct peer_segment {
    ipv4 from;
    std::uint16_t from_port = 0;
    std::uint32_t seq = 0, ack = 0;
    wire::tcp_flags flags = wire::tcp_flags::ack;
    std::uint32_t timestamp = 0, echo = 0;
    byte_span payload{};
};

/// The server that all of them talk to, and the way there.
struct server_end {
    ipv4 address;
    std::uint16_t port = 0;
    mac_address mac;
};

/// False when the pool of `out` is empty.
inline bool make_frame(port& out, const server_end& to, const peer_segment& s, packet& p) noexcept {
    buffer b = out.pool().allocate_buffer();
    if (b.underlying_frame() == nullptr) return false;
    wire::tcp_options options;
    const bool syn = wire::has(s.flags, wire::tcp_flags::syn);
    options.set_timestamps(s.timestamp, s.echo);
    if (syn) {
        options.set_mss(1460);
        options.set_sack_permitted();
        options.set_window_scale(7);
    }
    std::array<std::byte, wire::tcp_options::max_size> text;
    const auto option_size = static_cast<std::uint32_t>(options.emit(text));
    const auto payload = static_cast<std::uint32_t>(s.payload.size());
    const std::uint32_t tcp_size = 20 + option_size + payload;
    const std::uint32_t size = 14 + 20 + tcp_size;
    std::byte* at = b.append(size);
    wire::ethernet_header{to.mac, out.mac(), wire::ether_type::ipv4}.emit({at, 14});
    wire::ipv4_header ip;
    ip.total_length = static_cast<std::uint16_t>(20 + tcp_size);
    ip.source = s.from;
    ip.destination = to.address;
    ip.emit({at + 14, 20});
    const wire::tcp_header tcp{.source_port = s.from_port,
                               .destination_port = to.port,
                               .sequence = s.seq,
                               .acknowledgment = s.ack,
                               .flags = s.flags,
                               .window = 64'000};
    tcp.emit({at + 34, 20 + option_size}, option_size);
    std::memcpy(at + 54, text.data(), option_size);
    if (payload != 0) std::memcpy(at + 54 + option_size, s.payload.data(), payload);
    p.head = std::move(b);
    p.body = buffer{};
    p.flags = offload::none;
    return true;
}

/// What a simulated peer needs to know of a segment that the server sent. False: it is no TCP over IPv4.
struct server_segment {
    ipv4 to;
    std::uint16_t to_port = 0;
    std::uint32_t seq = 0, ack = 0, payload = 0, timestamp = 0;
    wire::tcp_flags flags = wire::tcp_flags::none;

    static bool read(const packet& p, server_segment& out) noexcept {
        const std::byte* f = p.head.data();
        if (p.head.size() < 54 || load_be16(f + 12) != 0x0800 || load_u8(f + 14) != 0x45 || load_u8(f + 23) != 6) return false;
        const std::uint32_t header = (load_u8(f + 46) >> 4) * 4u;
        out.to = ipv4(load_be32(f + 30));
        out.to_port = load_be16(f + 36);
        out.seq = load_be32(f + 38);
        out.ack = load_be32(f + 42);
        out.flags = static_cast<wire::tcp_flags>(load_u8(f + 47));
        out.payload = load_be16(f + 16) - 20u - header;
        // NOP NOP timestamps, or a SYN-ACK's: MSS, SACK permitted, timestamps.
        out.timestamp = header >= 32 && load_be16(f + 54) == 0x0101 ? load_be32(f + 58) : header >= 36 ? load_be32(f + 62) : 0;
        return true;
    }
};

/// Resident memory of this process, bytes.
std::uint64_t resident_bytes();

} // namespace corewire::bench
