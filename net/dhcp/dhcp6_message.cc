#include <corewire/net/dhcp/dhcp6_message.hh>

#include <corewire/net/wire/domain_name.hh>
#include <corewire/reactor/base/assert.hh>

#include <cstring>

namespace corewire {

namespace {

/// RFC 8415 21, RFC 3646, RFC 7083.
enum option : std::uint16_t {
    client_identifier = 1,
    server_identifier = 2,
    association_of_addresses = 3,
    association_address = 5,
    option_request = 6,
    preference = 7,
    elapsed_time = 8,
    status_code = 13,
    rapid_commit = 14,
    name_servers = 23,
    domain_list = 24,
    information_refresh_time = 32,
    solicit_max_time = 82,
    information_max_time = 83,
};

constexpr std::size_t header_size = 4;

/// Calls `visit(code, data)` for each option. False: one runs out of its place, or `visit` refuses it.
template <typename Visit>
bool walk(byte_span options, Visit&& visit) noexcept {
    while (!options.empty()) {
        if (options.size() < header_size) return false;
        const std::size_t size = load_be16(options.data() + 2);
        if (options.size() < header_size + size) return false;
        if (!visit(load_be16(options.data()), options.subspan(header_size, size))) return false;
        options = options.subspan(header_size + size);
    }
    return true;
}

bool take_status(byte_span data, dhcp6_status& out) noexcept {
    if (data.size() < 2) return false;
    out = static_cast<dhcp6_status>(load_be16(data.data()));
    return true;
}

bool take_seconds(byte_span data, std::optional<std::uint32_t>& out) noexcept {
    if (data.size() != 4) return false;
    out = load_be32(data.data());
    return true;
}

/// RFC 8415 21.6: an address that no host can have, or whose times make no sense, is left out. One with a status has none.
bool take_address(byte_span data, dhcp6_reply& out) noexcept {
    constexpr std::size_t fixed = 24;
    if (data.size() < fixed) return false;
    const dhcp6_address a{ipv6::load(data.data()), load_be32(data.data() + 16), load_be32(data.data() + 20)};
    dhcp6_status status = dhcp6_status::success;
    if (!walk(data.subspan(fixed), [&](std::uint16_t code, byte_span inner) { return code != status_code || take_status(inner, status); }))
        return false;
    const bool possible = !a.address.is_multicast() && !a.address.is_any() && !a.address.is_loopback() && !a.address.is_link_local() &&
                          !a.address.is_mapped();
    if (possible && a.preferred <= a.valid && status == dhcp6_status::success && !out.addresses.push(a)) ++out.left_out;
    return true;
}

bool take_association(byte_span data, std::uint32_t ours, dhcp6_reply& out) noexcept {
    constexpr std::size_t fixed = 12;
    if (data.size() < fixed) return false;
    if (load_be32(data.data()) != ours || out.has_association) return true; // another's
    const std::uint32_t t1 = load_be32(data.data() + 4), t2 = load_be32(data.data() + 8);
    if (t1 > t2 && t2 != 0) return true; // RFC 8415 21.4: as if it were not there
    out.has_association = true;
    out.t1 = t1;
    out.t2 = t2;
    return walk(data.subspan(fixed), [&](std::uint16_t code, byte_span inner) {
        if (code == status_code) return take_status(inner, out.association_status);
        return code != association_address || take_address(inner, out);
    });
}

bool take_option(std::uint16_t code, byte_span data, byte_span duid, std::uint32_t association, dhcp6_reply& out) noexcept {
    switch (code) {
    case client_identifier: out.ours = std::ranges::equal(data, duid); return true;
    case server_identifier:
        if (data.empty() || data.size() > out.server.items.size()) return false;
        out.server = {};
        for (const std::byte b : data) out.server.push(b);
        return true;
    case association_of_addresses: return take_association(data, association, out);
    case preference:
        if (data.size() != 1) return false;
        out.preference = load_u8(data.data());
        return true;
    case status_code: return take_status(data, out.status);
    case rapid_commit: out.rapid = true; return true;
    case name_servers:
        for (std::size_t at = 0; data.size() % ipv6::size == 0 && at < data.size(); at += ipv6::size)
            if (const ipv6 a = ipv6::load(data.data() + at);
                !a.is_multicast() && !a.is_any() && !a.is_loopback() && !out.name_servers.push(a))
                ++out.left_out;
        return true;
    case domain_list: // the first
        if (wire::domain_name name; wire::take_domain_name(data, name)) out.domain = name;
        return true;
    case information_refresh_time: return take_seconds(data, out.information_refresh);
    case solicit_max_time: return take_seconds(data, out.solicit_max);
    case information_max_time: return take_seconds(data, out.information_max);
    default: return true;
    }
}

} // namespace

dhcp6_parse_error parse_dhcp6_reply(byte_span message, byte_span duid, std::uint32_t association, dhcp6_reply& out) noexcept {
    out = {};
    if (message.size() < header_size) return dhcp6_parse_error::not_a_reply;
    const auto type = static_cast<dhcp6_message_type>(load_u8(message.data()));
    if (type != dhcp6_message_type::advertise && type != dhcp6_message_type::reply) return dhcp6_parse_error::not_a_reply;
    out.type = type;
    out.transaction = load_be32(message.data()) & 0xffffff;
    const bool good = walk(message.subspan(header_size), [&](std::uint16_t code, byte_span data) {
        return take_option(code, data, duid, association, out);
    });
    return good ? dhcp6_parse_error::none : dhcp6_parse_error::bad_option;
}

std::size_t write_dhcp6_request(const dhcp6_request& request, mutable_byte_span out) noexcept {
    CW_ASSERT(out.size() >= dhcp6_request_size, "no room for a DHCPv6 message");
    std::byte* const m = out.data();
    store_be32(m, static_cast<std::uint32_t>(request.type) << 24 | (request.transaction & 0xffffff));
    std::size_t size = header_size;
    const auto begin = [&](option code, std::size_t length) {
        store_be16(m + size, code);
        store_be16(m + size + 2, static_cast<std::uint16_t>(length));
        size += header_size;
        return m + size;
    };
    const auto put = [&](option code, byte_span data) {
        std::memcpy(begin(code, data.size()), data.data(), data.size());
        size += data.size();
    };
    put(client_identifier, request.duid);
    if (!request.server.empty()) put(server_identifier, request.server);
    store_be16(begin(elapsed_time, 2), request.elapsed);
    size += 2;
    const bool asks = request.type != dhcp6_message_type::release && request.type != dhcp6_message_type::decline;
    if (asks) {
        const bool information = request.type == dhcp6_message_type::information_request;
        std::byte* const list = begin(option_request, information ? 8 : 6);
        store_be16(list, name_servers);
        store_be16(list + 2, domain_list);
        store_be16(list + 4, information ? information_max_time : solicit_max_time); // RFC 8415 21.24, 21.25 (MUST)
        if (information) store_be16(list + 6, information_refresh_time);
        size += information ? 8 : 6;
    }
    if (request.rapid) begin(rapid_commit, 0);
    if (!request.wants_addresses) return size;
    constexpr std::size_t address_size = 24;
    std::byte* const ia = begin(association_of_addresses, 12 + request.addresses.size() * (header_size + address_size));
    store_be32(ia, request.association);
    store_be32(ia + 4, 0);
    store_be32(ia + 8, 0);
    size += 12;
    for (const dhcp6_address& each : request.addresses) {
        std::byte* const at = begin(association_address, address_size);
        each.address.store(at);
        store_be32(at + 16, 0); // RFC 8415 21.6: ours to leave open
        store_be32(at + 20, 0);
        size += address_size;
    }
    return size;
}

} // namespace corewire
