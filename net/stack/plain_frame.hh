// The frame of an everyday TCP segment: every field at a fixed place, so that it is recognised by a few comparisons and
// written by a few stores, without a parser for each layer.
//
//     0          14               34 | 54                   +20                       +32
//     | Ethernet | IPv4 (20) or IPv6 | TCP (20)              | NOP NOP timestamps (12) | payload ...
//                  (40), no options    ACK, perhaps PSH
//
// plain_frame is TCP's part, the same for both families; plain_ipv4 and plain_ipv6 say what stands in front of it.
// A view over the bytes of one packet, for the length of a call. What is not recognised goes the general way
// (network_stack::link_input, tcp_layer::emit): this decides nothing, it only is faster.
#pragma once

#include <corewire/net/frame/packet.hh>
#include <corewire/net/stack/flow_table.hh>
#include <corewire/net/stack/ipv6_path.hh>
#include <corewire/net/stack/output_path.hh>
#include <corewire/net/tcp/plain_segment.hh>
#include <corewire/net/wire/net_address.hh>
#include <corewire/net/wire/tcp_options.hh>
#include <corewire/reactor/base/bytes.hh>

namespace corewire {

/// `f` is where the frame's Ethernet header begins.
struct plain_ipv4 {
    using path = output_path;
    using key = flow_key;
    using flow = wire_flow;
    /// What a port vouches for that has checked all of the frame.
    static constexpr offload good = offload::ipv4_checksum_good | offload::l4_checksum_good;

    /// A whole datagram without options and congestion marks, as long as it says, the frame being of `size` bytes.
    static bool recognise(const std::byte* f, std::uint32_t size) noexcept {
        return (load_be32(f + 12) & 0xffff'ff03) == 0x0800'4500 &&    // EtherType, version, IHL, ECN
               load_be16(f + 16) == size - wire::ethernet_header::size && // total length: no padding behind it
               (load_be32(f + 20) & 0x3fff'00ff) == 0x0000'0006;      // no fragment; TCP
    }
    static flow_key key_of(const std::byte* f) noexcept {
        return {.local_address = load_be32(f + 30),
                .remote_address = load_be32(f + 26),
                .local_port = load_be16(f + 36),
                .remote_port = load_be16(f + 34)};
    }
    static wire_flow flow_of(const std::byte* f) noexcept {
        return {load_native<std::uint64_t>(f + 26), load_native<std::uint32_t>(f + 34)};
    }
    static bool header_holds(const std::byte* f) noexcept {
        return wire::checksum_ok({f + wire::ethernet_header::size, wire::ipv4_header::min_size});
    }
    static wire::internet_sum pseudo_header(const std::byte* f, std::size_t length) noexcept {
        return wire::pseudo_header_sum(ipv4::load(f + 26), ipv4::load(f + 30), wire::ip_protocol::tcp, length);
    }
};

struct plain_ipv6 {
    using path = ipv6_path;
    using key = flow_name;
    using flow = ipv6_wire_flow;
    static constexpr offload good = offload::l4_checksum_good; ///< there is no other checksum

    /// Without extension headers and congestion marks. Flow label and hop limit are not TCP's affair.
    static bool recognise(const std::byte* f, std::uint32_t size) noexcept {
        return (load_be32(f + 12) & 0xffff'f030) == 0x86dd'6000 &&              // EtherType, version, ECN
               load_be32(f + 18) >> 8 == ((size - link_and_ipv6_size) << 8 | 6); // payload length: no padding behind it; TCP
    }
    static flow_name key_of(const std::byte* f) noexcept {
        return {ipv6::load(f + 38), ipv6::load(f + 22), load_be16(f + 56), load_be16(f + 54)};
    }
    static ipv6_wire_flow flow_of(const std::byte* f) noexcept {
        const auto word = [f](int i) { return load_native<std::uint64_t>(f + 22 + 8 * i); };
        return {{word(0), word(1), word(2), word(3)}, load_native<std::uint32_t>(f + 54)};
    }
    static bool header_holds(const std::byte*) noexcept { return true; }
    static wire::internet_sum pseudo_header(const std::byte* f, std::size_t length) noexcept {
        return wire::pseudo_header_sum(ipv6::load(f + 22), ipv6::load(f + 38), wire::ip_protocol::tcp, length);
    }
};

template <typename Ip>
class plain_frame {
public:
    using ip = Ip;
    using path = typename Ip::path;
    static constexpr std::uint32_t tcp_at = path::transport_at;
    static constexpr std::uint32_t options_at = tcp_at + 20;
    static constexpr std::uint32_t header_size = options_at + wire::tcp_options::timestamps_size;
    static constexpr std::uint16_t offset_and_flags = 0x8018;     ///< 32 bytes of header, ACK and PSH

    explicit plain_frame(const std::byte* ethernet) noexcept : p_(ethernet) {}

    /// To `mac`, with an everyday IP header; TCP with ACK, timestamps and nothing else. `p.head` starts at the Ethernet header.
    static bool recognise(const packet& p, mac_address mac) noexcept {
        if (p.head.size() < header_size) return false;
        const std::byte* f = p.head.data();
        constexpr std::uint32_t push = 0x0008;
        return load_be64(f) >> 16 == mac.value() && Ip::recognise(f, p.size()) &&
               (load_be16(f + tcp_at + 12) & 0xf1ffu & ~push) == 0x8010 &&
               load_be32(f + options_at) == wire::tcp_options::nop_nop_timestamps;
    }

    typename Ip::key key() const noexcept { return Ip::key_of(p_); }
    /// The same as it stands there: a few loads, to be compared with another's.
    typename Ip::flow flow() const noexcept { return Ip::flow_of(p_); }
    tcp::plain_arrival arrival(std::uint32_t payload_size) const noexcept {
        const std::uint64_t numbers = load_be64(p_ + tcp_at + 4);
        return {.seq = tcp::seq_number(static_cast<std::uint32_t>(numbers >> 32)),
                .ack = tcp::seq_number(static_cast<std::uint32_t>(numbers)),
                .timestamp_value = load_be32(p_ + options_at + 4),
                .payload_size = payload_size,
                .window = load_be16(p_ + tcp_at + 14),
                .stamped = true};
    }

    /// What a connection's plain segments share is kept behind its path's IP header. `ports`: a key that has the connection's.
    static void prepare(path& along, const flow_key& ports) noexcept {
        std::byte* tcp = along.headers.data() + tcp_at;
        store_be16(tcp, ports.local_port);
        store_be16(tcp + 2, ports.remote_port);
        store_be16(tcp + 12, offset_and_flags);
    }
    /// Writes all header_size bytes at `at`, the TCP checksum zero; `along` has been prepare()d and is current.
    static void write(std::byte* at, path& along, const tcp::plain_output& s) noexcept {
        along.fit(header_size - tcp_at + s.payload_size);
        std::memcpy(at, along.headers.data(), along.headers.size());
        std::byte* tcp = at + tcp_at;
        store_be64(tcp + 4, std::uint64_t{s.seq.value} << 32 | s.ack.value);
        store_be16(tcp + 14, s.window);
        store_be32(tcp + 16, 0); // checksum, urgent pointer
        store_be32(at + options_at, wire::tcp_options::nop_nop_timestamps);
        store_be64(at + options_at + 4, std::uint64_t{s.timestamp_value} << 32 | s.timestamp_echo);
    }
    static_assert(sizeof(path::headers) == tcp_at + 14, "ends behind the flags");

private:
    const std::byte* p_;
};

using ipv4_frame = plain_frame<plain_ipv4>;
using ipv6_frame = plain_frame<plain_ipv6>;

} // namespace corewire
