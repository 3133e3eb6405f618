// DHCPv6 as bytes (RFC 8415 8, 21; RFC 3646, 4242, 8415 18): what a client says, and what it reads of a server's answer.
//
//     [ type | transaction 24 bits ] [ option | length | data ] ...         IA_NA: [ IAID T1 T2 | IAADDR: [ address preferred valid ] ]
//
// Plain values; any bytes may come: bounds first, then meaning. Bounded: what a list below has no room for is left out.
#pragma once

#include <corewire/net/dhcp/dhcp_message.hh>
#include <corewire/net/wire/address.hh>
#include <corewire/net/wire/domain_name.hh>
#include <corewire/reactor/base/bytes.hh>

#include <array>
#include <cstdint>
#include <optional>

namespace corewire {

inline constexpr std::uint16_t dhcp6_client_port = 546;
inline constexpr std::uint16_t dhcp6_server_port = 547;
/// ff02::1:2, where all servers and relays of a link hear.
inline constexpr ipv6 dhcp6_servers(ipv6::octet_array{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2});

/// RFC 8415 7.3.
enum class dhcp6_message_type : std::uint8_t {
    none = 0,
    solicit = 1,
    advertise = 2,
    request = 3,
    renew = 5,
    rebind = 6,
    reply = 7,
    release = 8,
    decline = 9,
    information_request = 11,
};

/// RFC 8415 21.13. Any number may come.
enum class dhcp6_status : std::uint16_t { success, unspecified, no_addresses, no_binding, not_on_link, use_multicast };

/// A server's identifier, at most as long as RFC 8415 11.1 lets it be.
using dhcp6_duid = bounded_list<std::byte, 130>;

struct dhcp6_address {
    ipv6 address;
    std::uint32_t preferred = 0, valid = 0; ///< seconds; all ones: for ever
    friend bool operator==(const dhcp6_address&, const dhcp6_address&) = default;
};

struct dhcp6_reply {
    dhcp6_message_type type = dhcp6_message_type::none;
    std::uint32_t transaction = 0;
    dhcp6_duid server;
    bool ours = false;            ///< the client identifier is there, and ours
    bool rapid = false;           ///< rapid commit
    std::uint8_t preference = 0;
    dhcp6_status status = dhcp6_status::success;
    bool has_association = false; ///< IA_NA with our number, and T1 not behind T2
    std::uint32_t t1 = 0, t2 = 0; ///< seconds; 0: ours to choose
    dhcp6_status association_status = dhcp6_status::success;
    bounded_list<dhcp6_address, 4> addresses; ///< in it; those whose times make sense
    bounded_list<ipv6, 4> name_servers;       ///< RFC 3646
    wire::domain_name domain;           ///< the first of the search list
    std::uint16_t left_out = 0;            ///< addresses and name servers for which there was no room
    std::optional<std::uint32_t> solicit_max, information_max, information_refresh; ///< options 82, 83, 32: seconds
};

enum class dhcp6_parse_error : std::uint8_t { none, not_a_reply, bad_option };

/// `duid`: ours. `association`: the number of our IA_NA.
dhcp6_parse_error parse_dhcp6_reply(byte_span message, byte_span duid, std::uint32_t association, dhcp6_reply& out) noexcept;

struct dhcp6_request {
    dhcp6_message_type type = dhcp6_message_type::solicit;
    std::uint32_t transaction = 0;  ///< 24 bits
    byte_span duid;                 ///< ours
    std::uint16_t elapsed = 0;      ///< hundredths of a second since the first of this exchange
    std::uint32_t association = 0;
    bool wants_addresses = true;    ///< an IA_NA goes along
    std::span<const dhcp6_address> addresses{}; ///< in it: those that it is about
    byte_span server{};             ///< its DUID; empty: to all
    bool rapid = false;             ///< offer rapid commit
};

inline constexpr std::size_t dhcp6_request_size = 400; ///< bytes; no request is longer
/// Writes it to the front of `out`, at least dhcp6_request_size bytes. Its size.
std::size_t write_dhcp6_request(const dhcp6_request& request, mutable_byte_span out) noexcept;

} // namespace corewire
