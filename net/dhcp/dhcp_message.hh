// DHCP for IPv4 as bytes (RFC 2131 2, RFC 2132): what a client says, and what it reads of a server's answer.
//
//     [ op htype hlen hops | xid | secs flags | ciaddr yiaddr siaddr giaddr | chaddr 16 | sname 64 | file 128 | cookie | options ]
//
// Plain values; any bytes may come: bounds first, then meaning. Bounded: what a list below has no room for is left out.
#pragma once

#include <corewire/net/ip/routes.hh>
#include <corewire/net/wire/address.hh>
#include <corewire/reactor/base/bounded_list.hh>
#include <corewire/reactor/base/bytes.hh>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace corewire {

inline constexpr std::uint16_t dhcp_server_port = 67;
inline constexpr std::uint16_t dhcp_client_port = 68;

/// RFC 2132 9.6.
enum class dhcp_message_type : std::uint8_t { none, discover, offer, request, decline, ack, nak, release, inform };

/// RFC 3442: as many different ones as option 121 has room for in one piece.
using dhcp_routes = bounded_list<route, 42>;

/// Option 61 as RFC 4361 6.1 has it: 255, the number of the interface's association, the host's DUID.
struct dhcp_client_id {
    std::array<std::byte, 32> bytes{};
    std::uint8_t size = 0;
    byte_span view() const noexcept { return {bytes.data(), size}; }
    /// The DUID is made of the MAC (DUID-LL, RFC 8415 11.4). `association`: what tells us from the kernel's client, which may have
    /// the same MAC.
    static dhcp_client_id of(mac_address mac, std::uint32_t association) noexcept;
};

/// What a server has said, as far as we use it. Every field has been looked at alone; whether they fit together is the client's business.
struct dhcp_reply {
    dhcp_message_type type = dhcp_message_type::none;
    std::uint32_t transaction = 0;
    ipv4 client_address, your_address;
    std::optional<ipv4> server;                 ///< option 54
    std::optional<ipv4> mask;                   ///< option 1, of contiguous ones
    std::optional<std::uint32_t> lease_seconds, renewal_seconds, rebinding_seconds; ///< options 51, 58, 59; all ones: for ever
    std::optional<std::uint16_t> mtu;           ///< option 26
    bounded_list<ipv4, 4> routers;                 ///< option 3
    bounded_list<ipv4, 4> name_servers;            ///< option 6
    std::optional<dhcp_routes> routes;          ///< option 121 (RFC 3442); a gateway of any(): on the link
    bounded_list<char, 255> domain;                ///< option 15
    std::uint16_t routes_left_out = 0;          ///< for which there was no room; never the default route
    std::uint16_t addresses_left_out = 0;       ///< of name servers
    bool foreign_client_id = false;             ///< option 61 is there, and is not ours (RFC 6842)
};

enum class dhcp_parse_error : std::uint8_t {
    none,
    not_a_reply, ///< too short, a request, BOOTP without DHCP's cookie
    not_ours,    ///< another machine's MAC
    bad_option,  ///< an option runs out of its field, or one that we need has a wrong length
};

/// `ours`: chaddr must be it. Options that go on in `file` and `sname` (overload), or in several pieces (RFC 3396), are put together.
dhcp_parse_error parse_dhcp_reply(byte_span message, mac_address ours, const dhcp_client_id& id, dhcp_reply& out) noexcept;

/// What a client says.
struct dhcp_request {
    dhcp_message_type type = dhcp_message_type::discover;
    std::uint32_t transaction = 0;
    std::uint16_t seconds = 0;          ///< since it began to ask
    bool broadcast = false;             ///< answers must be broadcast: we have no address yet
    ipv4 client_address;                ///< any(): none that is in use
    mac_address mac;
    std::optional<ipv4> requested, server; ///< options 50, 54
    std::uint16_t max_size = 0;         ///< option 57; 0: not said
    dhcp_client_id id;
    std::string_view host_name{};       ///< option 12, of 63 bytes at most; empty: not said
};

inline constexpr std::size_t dhcp_request_size = 400; ///< bytes; no request is longer
/// Writes it to the front of `out`, at least dhcp_request_size bytes. Its size (300 or more: RFC 1542 2.1).
std::size_t write_dhcp_request(const dhcp_request& request, mutable_byte_span out) noexcept;

} // namespace corewire
