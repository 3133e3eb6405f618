// The headers of the datagrams of one flow, made once and then copied in front of each payload.
//
//     [ Ethernet 14 | IPv4 20 or IPv6 40 | UDP 8 ] payload        in place when the payload's frame has room and is nobody else's,
//                                                     else in a head frame: small payload copied, large by reference
//
// A value: an endpoint keeps the one of its last destination. One shard's.
#pragma once

#include <corewire/net/frame/frame_pool.hh>
#include <corewire/net/frame/packet.hh>
#include <corewire/net/udp/udp_endpoint.hh>
#include <corewire/net/wire/ethernet.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/udp.hh>

#include <array>
#include <cstdint>

namespace corewire {

class udp_headers {
public:
    static constexpr std::uint32_t size = 14 + 20 + 8;      ///< bytes, over IPv4
    static constexpr std::uint32_t ipv6_size = 14 + 40 + 8; ///< bytes, over IPv6
    /// Payloads up to this many bytes are copied behind their headers rather than sent by reference.
    static constexpr std::uint32_t copy_limit = 192;
    /// Bytes of payload: IPv4's length counts its header, IPv6's does not.
    static constexpr std::uint32_t most_payload(bool over_ipv4) noexcept { return over_ipv4 ? 65'507 : 65'527; }

    udp_headers() noexcept = default;
    /// `source`, `destination` MACs may be zero until the neighbour is known: see set_link().
    udp_headers(udp_address local, udp_address remote, std::uint8_t ttl = 64, bool dont_fragment = true,
                std::uint8_t traffic_class = 0) noexcept;
    void set_link(mac_address source, mac_address destination) noexcept;

    const udp_address& local() const noexcept { return local_; }
    const udp_address& remote() const noexcept { return remote_; }
    std::uint32_t header_size() const noexcept { return local_.address.is_v4() ? size : ipv6_size; }

    /// How the checksum of UDP is to be filled in.
    enum class checksum : std::uint8_t {
        compute, ///< here
        offload, ///< by the port: flags, l4_offset and l4_checksum_offset are set
    };
    /// Makes `out` the datagram, head starting at its Ethernet header. `payload` is moved in, or copied and dropped.
    /// `identification` matters only without the don't-fragment flag. False when a head frame was needed and the pool
    /// is empty: then payload is untouched. payload.size() <= most_payload().
    bool wrap(buffer& payload, checksum how, std::uint16_t identification, frame_pool& pool, packet& out) const noexcept;
    /// The same from bytes that stay the caller's: copied into one frame. False when they do not fit or there is none.
    bool wrap_copy(byte_span payload, checksum how, std::uint16_t identification, frame_pool& pool, packet& out) const noexcept;

private:
    void stamp(packet& out, std::uint32_t payload_size, checksum how, std::uint16_t identification) const noexcept;

    void stamp_over_ipv6(packet& out, std::uint32_t payload_size, checksum how) const noexcept;
    void finish(packet& out, std::byte* udp, checksum how, wire::internet_sum sum) const noexcept;

    alignas(16) std::array<std::byte, 64> bytes_{}; ///< the headers, lengths and checksums zero
    std::uint32_t ip_sum_ = 0; ///< of the IPv4 header as in bytes_: its 16-bit words, host order
    udp_address local_;
    udp_address remote_;
};

} // namespace corewire
