// The frame of an everyday TCP segment: every field at a fixed place, so that it is recognised by a few comparisons and
// written by a few stores, without a parser for each layer.
//
//     0          14          34                54                       66
//     | Ethernet | IPv4 (20) | TCP (20)        | NOP NOP timestamps (12) | payload ...
//                  no options  ACK, perhaps PSH
//
// A view over the bytes of one packet, for the length of a call. What is not recognised goes the general way
// (network_stack::link_input, tcp_layer::emit): this decides nothing, it only is faster.
#pragma once

#include <corewire/net/frame/packet.hh>
#include <corewire/net/stack/flow_table.hh>
#include <corewire/net/stack/output_path.hh>
#include <corewire/net/tcp/plain_segment.hh>
#include <corewire/reactor/base/bytes.hh>

namespace corewire {

class plain_frame {
public:
    static constexpr std::uint32_t tcp_at = link_and_ip_size;
    static constexpr std::uint32_t options_at = tcp_at + 20;
    static constexpr std::uint32_t header_size = options_at + 12;
    static constexpr std::uint32_t timestamp_prefix = 0x0101080a; ///< NOP NOP kind 8 length 10 (RFC 7323 appendix A)
    static constexpr std::uint16_t offset_and_flags = 0x8018;     ///< 32 bytes of header, ACK and PSH

    explicit plain_frame(const std::byte* ethernet) noexcept : p_(ethernet) {}

    /// To `mac` as a whole IPv4 datagram without options and congestion marks, TCP with ACK, timestamps and nothing else,
    /// as long as it says. `p.head` starts at the Ethernet header.
    static bool recognise(const packet& p, mac_address mac) noexcept {
        if (p.head.size() < header_size) return false;
        const std::byte* f = p.head.data();
        constexpr std::uint32_t push = 0x0008;
        return load_be64(f) >> 16 == mac.value() &&
               (load_be32(f + 12) & 0xffff'ff03) == 0x0800'4500 &&              // EtherType, version, IHL, ECN
               load_be16(f + 16) == p.size() - wire::ethernet_header::size &&   // total length: no padding behind it
               (load_be32(f + 20) & 0x3fff'00ff) == 0x0000'0006 &&              // no fragment; TCP
               (load_be16(f + 46) & 0xf1ffu & ~push) == 0x8010 && load_be32(f + options_at) == timestamp_prefix;
    }

    flow_key key() const noexcept {
        return {.local_address = load_be32(p_ + 30),
                .remote_address = load_be32(p_ + 26),
                .local_port = load_be16(p_ + tcp_at + 2),
                .remote_port = load_be16(p_ + tcp_at)};
    }
    /// The same as it stands there: two loads, to be compared with another's.
    wire_flow flow() const noexcept {
        return {load_native<std::uint64_t>(p_ + 26), load_native<std::uint32_t>(p_ + tcp_at)};
    }
    tcp::plain_arrival arrival(std::uint32_t payload_size) const noexcept {
        const std::uint64_t numbers = load_be64(p_ + tcp_at + 4);
        return {.seq = tcp::seq_number(static_cast<std::uint32_t>(numbers >> 32)),
                .ack = tcp::seq_number(static_cast<std::uint32_t>(numbers)),
                .timestamp_value = load_be32(p_ + options_at + 4),
                .payload_size = payload_size,
                .window = load_be16(p_ + tcp_at + 14),
                .stamped = true};
    }

    /// What a connection's plain segments share is kept behind its path's IPv4 header.
    static void prepare(output_path& path, const flow_key& key) noexcept {
        std::byte* tcp = path.headers.data() + tcp_at;
        store_be16(tcp, key.local_port);
        store_be16(tcp + 2, key.remote_port);
        store_be16(tcp + 12, offset_and_flags);
    }
    /// Writes all header_size bytes at `at`, the TCP checksum zero; `path` has been prepare()d and is current.
    static void write(std::byte* at, output_path& path, const tcp::plain_output& s) noexcept {
        path.fit(header_size - tcp_at + s.payload_size);
        std::memcpy(at, path.headers.data(), path.headers.size());
        std::byte* tcp = at + tcp_at;
        store_be64(tcp + 4, std::uint64_t{s.seq.value} << 32 | s.ack.value);
        store_be16(tcp + 14, s.window);
        store_be32(tcp + 16, 0); // checksum, urgent pointer
        store_be32(at + options_at, timestamp_prefix);
        store_be64(at + options_at + 4, std::uint64_t{s.timestamp_value} << 32 | s.timestamp_echo);
    }
    static_assert(std::tuple_size_v<decltype(output_path::headers)> == tcp_at + 14, "ends behind the flags");

private:
    const std::byte* p_;
};

} // namespace corewire
