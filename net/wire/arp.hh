// ARP for IPv4 over Ethernet (RFC 826), 28 bytes.
// The view borrows the packet's bytes for the length of a call; the struct is a plain value.
#pragma once

#include <corewire/net/wire/address.hh>
#include <corewire/net/wire/parse_error.hh>
#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/base/bytes.hh>

#include <cstddef>
#include <cstdint>

namespace corewire::wire {

/// ar$op. Any 16-bit number is a valid value of the enum (RARP and others are not for us).
enum class arp_operation : std::uint16_t { request = 1, reply = 2 };

class arp_view {
public:
    static constexpr std::size_t packet_size = 28; ///< bytes; what follows is the padding of a short frame

    /// unsupported: another hardware or protocol type, or other address lengths (RFC 826 "Packet Reception": discard).
    [[nodiscard]] static parse_error parse(byte_span packet, arp_view& out) noexcept {
        if (packet.size() < packet_size) return parse_error::truncated;
        // Hardware type 1 (Ethernet), protocol type 0x0800 (IPv4); hardware length 6, protocol length 4.
        if (load_be32(packet.data()) != 0x0001'0800 || load_be16(packet.data() + 4) != 0x0604) {
            return parse_error::unsupported;
        }
        out.p_ = packet.data();
        return parse_error::none;
    }

    arp_operation operation() const noexcept { return static_cast<arp_operation>(load_be16(p_ + 6)); }
    mac_address sender_mac() const noexcept { return mac_address::load(p_ + 8); }
    ipv4_address sender_ip() const noexcept { return ipv4_address::load(p_ + 14); }
    mac_address target_mac() const noexcept { return mac_address::load(p_ + 18); }
    ipv4_address target_ip() const noexcept { return ipv4_address::load(p_ + 24); }

    /// Says who it is to everyone (RFC 5227 3, "ARP announcement"; RFC 2002 4.6).
    bool is_gratuitous() const noexcept { return sender_ip() == target_ip() && !sender_ip().is_any(); }
    /// Asks whether an address is taken (RFC 5227 1.1): it must not be used to learn an address from.
    bool is_probe() const noexcept { return operation() == arp_operation::request && sender_ip().is_any(); }

private:
    const std::byte* p_ = nullptr;
};

struct arp_packet {
    arp_operation operation = arp_operation::request;
    mac_address sender_mac;
    ipv4_address sender_ip;
    mac_address target_mac; ///< zero in a request
    ipv4_address target_ip;

    static constexpr std::size_t size = arp_view::packet_size;

    static arp_packet from(const arp_view& v) noexcept {
        return {v.operation(), v.sender_mac(), v.sender_ip(), v.target_mac(), v.target_ip()};
    }
    /// "Who has `wanted`? Tell `our_ip` at `our_mac`."
    static arp_packet request(mac_address our_mac, ipv4_address our_ip, ipv4_address wanted) noexcept {
        return {arp_operation::request, our_mac, our_ip, mac_address{}, wanted};
    }
    /// The answer to `question`: "`our_ip` (what it asked for) is at `our_mac`."
    static arp_packet reply_to(const arp_view& question, mac_address our_mac) noexcept {
        return {arp_operation::reply, our_mac, question.target_ip(), question.sender_mac(), question.sender_ip()};
    }
    /// RFC 5227 2.3: a request in which sender and target are ours, to the broadcast address.
    static arp_packet announcement(mac_address our_mac, ipv4_address our_ip) noexcept {
        return {arp_operation::request, our_mac, our_ip, mac_address{}, our_ip};
    }

    /// Writes 28 bytes to the front of `out`; returns 28. Asserts that they fit.
    std::size_t emit(mutable_byte_span out) const noexcept {
        CW_ASSERT(out.size() >= size, "no room for an ARP packet");
        std::byte* p = out.data();
        store_be32(p, 0x0001'0800);
        store_be16(p + 4, 0x0604);
        store_be16(p + 6, static_cast<std::uint16_t>(operation));
        sender_mac.store(p + 8);
        sender_ip.store(p + 14);
        target_mac.store(p + 18);
        target_ip.store(p + 24);
        return size;
    }

    friend bool operator==(const arp_packet&, const arp_packet&) = default;
};

} // namespace corewire::wire
