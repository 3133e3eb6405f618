#include <corewire/rdma/ud_link/discovery.hh>

#include <corewire/net/wire/icmpv6.hh>
#include <corewire/net/wire/ipv6.hh>

#include <cstring>

namespace corewire {

namespace {

constexpr std::uint32_t ip_size = 40;
constexpr std::uint8_t unit = 8;            ///< options are counted in these
constexpr std::uint32_t ethernet_option = 8, infiniband_option = 24;

/// Bytes in front of the options, by type (RFC 4861 4).
std::uint32_t fixed_size(std::uint8_t type) noexcept {
    switch (type) {
    case 133: return 8;
    case 134: return 16;
    case 135:
    case 136: return 24;
    default: return 40; // redirect
    }
}

bool is_link_layer(std::uint8_t option) noexcept { return option == 1 || option == 2; }

wire::internet_sum pseudo_sum(const std::byte* ip, std::size_t message) noexcept {
    return wire::pseudo_header_sum(ipv6::load(ip + 8), ipv6::load(ip + 24), wire::ip_protocol::icmpv6, message);
}

/// The packet's whole size, if it holds a whole message with a good checksum and well-formed options; else 0.
std::uint32_t size_of_sound(byte_span ip) noexcept {
    const std::uint32_t message = load_be16(ip.data() + 4);
    if (message > ip.size() - ip_size) return 0;
    const std::uint32_t end = ip_size + message;
    std::uint32_t at = ip_size + fixed_size(load_u8(ip.data() + ip_size));
    if (at > end || !pseudo_sum(ip.data(), message).add(ip.subspan(ip_size, message)).verifies()) return 0;
    while (at != end) {
        if (end - at < unit) return 0;
        const std::uint32_t length = std::uint32_t{load_u8(ip.data() + at + 1)} * unit;
        if (length == 0 || length > end - at) return 0;
        at += length;
    }
    return end;
}

void seal(std::byte* ip, std::uint32_t size) noexcept {
    const std::uint32_t message = size - ip_size;
    store_be16(ip + 4, static_cast<std::uint16_t>(message));
    store_be16(ip + ip_size + 2, 0);
    store_be16(ip + ip_size + 2, pseudo_sum(ip, message).add({ip + ip_size, message}).checksum());
}

} // namespace

std::uint32_t shrink_discovery(std::span<std::byte> ip, link_peers& peers, std::uint16_t lid) noexcept {
    const auto all = static_cast<std::uint32_t>(ip.size());
    const std::uint32_t end = size_of_sound(ip);
    if (end == 0) return all;
    std::byte* const p = ip.data();
    std::uint32_t to = ip_size + fixed_size(load_u8(p + ip_size));
    for (std::uint32_t from = to; from != end;) {
        const std::uint32_t length = std::uint32_t{load_u8(p + from + 1)} * unit;
        if (is_link_layer(load_u8(p + from)) && length == infiniband_option) {
            const link_address who = link_address::load(p + from + 4);
            if (who.is_host()) {
                peers.learn({who, lid});
                p[to] = p[from];
                p[to + 1] = std::byte{1};
                who.mac().store(p + to + 2);
                to += ethernet_option;
            } // else it is left out: nobody can be reached there
        } else {
            std::memmove(p + to, p + from, length);
            to += length;
        }
        from += length;
    }
    seal(p, to);
    return to;
}

std::uint32_t expand_discovery(byte_span ip, std::span<std::byte> out, const link_peers& peers, mac_address our_mac,
                               const link_address& ours) noexcept {
    const std::uint32_t end = size_of_sound(ip);
    if (end == 0) return 0;
    const std::byte* const p = ip.data();
    std::uint32_t to = ip_size + fixed_size(load_u8(p + ip_size));
    if (to > out.size()) return 0;
    std::memcpy(out.data(), p, to);
    for (std::uint32_t from = to; from != end;) {
        const std::uint32_t length = std::uint32_t{load_u8(p + from + 1)} * unit;
        const bool named = is_link_layer(load_u8(p + from)) && length == ethernet_option;
        if (to + (named ? infiniband_option : length) > out.size()) return 0;
        if (named) {
            const mac_address mac = mac_address::load(p + from + 2);
            const auto peer = mac == our_mac ? link_peer{ours} : peers.find(mac).value_or(link_peer{});
            if (peer.address.is_host()) {
                out[to] = p[from];
                out[to + 1] = std::byte{infiniband_option / unit};
                store_be16(out.data() + to + 2, 0);
                peer.address.store(out.data() + to + 4);
                to += infiniband_option;
            }
        } else {
            std::memcpy(out.data() + to, p + from, length);
            to += length;
        }
        from += length;
    }
    seal(out.data(), to);
    return to;
}

} // namespace corewire
