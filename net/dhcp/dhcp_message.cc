#include <corewire/net/dhcp/dhcp_message.hh>
#include <corewire/net/wire/domain_name.hh>

#include <corewire/reactor/base/assert.hh>

#include <cstring>

namespace corewire {

namespace {

constexpr std::size_t fixed_size = 236, cookie_size = 4, least_message = 300;
constexpr std::size_t transaction_at = 4, seconds_at = 8, flags_at = 10, ciaddr_at = 12, yiaddr_at = 16, chaddr_at = 28;
constexpr std::size_t sname_at = 44, sname_size = 64, file_at = 108, file_size = 128;
constexpr std::uint32_t cookie = 0x63825363;
constexpr std::uint8_t boot_request = 1, boot_reply = 2, ethernet = 1;

/// RFC 2132, RFC 3442.
enum option : std::uint8_t {
    pad = 0,
    subnet_mask = 1,
    router = 3,
    domain_name_server = 6,
    host_name = 12,
    domain_name = 15,
    interface_mtu = 26,
    requested_address = 50,
    lease_time = 51,
    overload = 52,
    message_type = 53,
    server_identifier = 54,
    parameter_list = 55,
    max_message_size = 57,
    renewal_time = 58,
    rebinding_time = 59,
    client_identifier = 61,
    classless_routes = 121,
    end = 255,
};

/// The fields that hold options, in the order in which pieces of one follow each other (RFC 3396 5).
struct option_fields {
    std::array<byte_span, 3> fields{};
    bool good = true;
};

/// Calls `visit(code, data)` for each option of a field. False: one runs out of it.
template <typename Visit>
bool walk(byte_span field, Visit&& visit) noexcept {
    while (!field.empty()) {
        const std::uint8_t code = load_u8(field.data());
        if (code == end) return true;
        if (code == pad) {
            field = field.subspan(1);
            continue;
        }
        if (field.size() < 2) return false;
        const std::size_t size = load_u8(field.data() + 1);
        if (field.size() < 2 + size) return false;
        visit(code, field.subspan(2, size));
        field = field.subspan(2 + size);
    }
    return true; // without an end: as others, we let it pass
}

option_fields find_fields(byte_span message) noexcept {
    option_fields out;
    out.fields[0] = message.subspan(fixed_size + cookie_size);
    std::uint8_t over = 0;
    out.good = walk(out.fields[0], [&](std::uint8_t code, byte_span data) {
        if (code == overload && data.size() == 1) over = load_u8(data.data());
    });
    if ((over & 1) != 0) out.fields[1] = message.subspan(file_at, file_size);
    if ((over & 2) != 0) out.fields[2] = message.subspan(sname_at, sname_size);
    for (const byte_span field : {out.fields[1], out.fields[2]}) out.good &= walk(field, [](std::uint8_t, byte_span) {});
    return out;
}

/// All pieces of one option, one behind the other (RFC 3396 7).
class gathered {
public:
    gathered(const option_fields& from, std::uint8_t wanted) noexcept {
        for (const byte_span field : from.fields)
            walk(field, [&](std::uint8_t code, byte_span data) {
                if (code != wanted) return;
                there_ = true;
                const std::size_t room = std::min(data.size(), bytes_.size() - size_);
                cut_ |= room != data.size();
                if (room != 0) std::memcpy(bytes_.data() + size_, data.data(), room);
                size_ += room;
            });
    }
    bool there() const noexcept { return there_; }
    byte_span data() const noexcept { return {bytes_.data(), size_}; }
    bool whole() const noexcept { return !cut_; }

private:
    std::array<std::byte, 512> bytes_;
    std::size_t size_ = 0;
    bool there_ = false, cut_ = false;
};

/// False: it is there, with another length than it must have.
bool take(const option_fields& from, std::uint8_t code, std::optional<std::uint32_t>& out) noexcept {
    const gathered g(from, code);
    if (!g.there()) return true;
    if (g.data().size() != 4) return false;
    out = load_be32(g.data().data());
    return true;
}

bool take(const option_fields& from, std::uint8_t code, std::optional<ipv4>& out) noexcept {
    std::optional<std::uint32_t> value;
    if (!take(from, code, value)) return false;
    if (value) out = ipv4(*value);
    return true;
}

/// A length that is no multiple of an address's: nothing of it counts. How many there was no room for.
std::uint16_t take_addresses(const option_fields& from, std::uint8_t code, bounded_list<ipv4, 4>& out) noexcept {
    const gathered g(from, code);
    if (g.data().size() % ipv4::size != 0) return 0;
    std::uint16_t left_out = 0;
    for (std::size_t at = 0; at < g.data().size(); at += ipv4::size)
        if (const ipv4 a = ipv4::load(g.data().data() + at); a.is_unicast() && !a.is_loopback() && !out.push(a)) ++left_out;
    return left_out;
}

/// The default route takes the place of another if there is no room, since a server may name it last: of one over a gateway, or of one
/// that does not lead to its own.
void put_in(const route& wanted, dhcp_reply& out) noexcept {
    if (out.routes->push(wanted)) return;
    ++out.routes_left_out;
    auto& all = out.routes->items;
    const auto is_default = [](const route& r) { return r.destination.length() == 0; };
    if (!is_default(wanted) || std::ranges::any_of(all, is_default)) return;
    const auto over_gateway = [](const route& r) { return !r.gateway.is_any(); };
    const auto leads_elsewhere = [&](const route& r) { return !r.destination.contains(wanted.gateway); };
    auto last = std::find_if(all.rbegin(), all.rend(), over_gateway);
    if (last == all.rend()) last = std::find_if(all.rbegin(), all.rend(), leads_elsewhere);
    *(last != all.rend() ? last : all.rbegin()) = wanted;
}

/// RFC 3442: [length | its significant octets | router] ... Nothing of a list counts in which one is wrong.
void take_routes(const option_fields& from, dhcp_reply& out) noexcept {
    const gathered g(from, classless_routes);
    if (!g.there() || g.data().empty() || !g.whole()) return;
    dhcp_reply all;
    all.routes.emplace();
    for (byte_span rest = g.data(); !rest.empty();) {
        const std::uint8_t length = load_u8(rest.data());
        const std::size_t octets = (length + 7u) / 8;
        if (length > 32 || rest.size() < 1 + octets + ipv4::size) return;
        std::array<std::byte, 4> destination{};
        if (octets != 0) std::memcpy(destination.data(), rest.data() + 1, octets);
        const ip_prefix prefix(ipv4::load(destination.data()), length);
        const ipv4 gateway = ipv4::load(rest.data() + 1 + octets);
        if (gateway.is_any() || (gateway.is_unicast() && !gateway.is_loopback()))
            put_in({ip_prefix(prefix.network(), length), gateway}, all);
        rest = rest.subspan(1 + octets + ipv4::size);
    }
    out.routes = all.routes;
    out.routes_left_out = all.routes_left_out;
}

/// Labels and dots: what a name server may be asked for.
bool is_name(byte_span text) noexcept {
    return std::ranges::all_of(text, [](std::byte b) { return b == std::byte{'.'} || wire::is_of_label(static_cast<char>(b)); });
}

void take_domain(const option_fields& from, bounded_list<char, 255>& out) noexcept {
    const gathered g(from, domain_name);
    byte_span text = g.data();
    while (!text.empty() && text.back() == std::byte{0}) text = text.first(text.size() - 1); // some servers put one there
    if (text.size() > out.items.size() || !is_name(text)) return;
    for (const std::byte b : text) out.push(static_cast<char>(b));
}

bool is_mask(ipv4 mask) noexcept {
    const std::uint32_t hosts = ~mask.value();
    return mask.value() != 0 && (hosts & (hosts + 1)) == 0;
}

} // namespace

dhcp_client_id dhcp_client_id::of(mac_address mac, std::uint32_t association) noexcept {
    constexpr std::uint16_t duid_ll = 3;
    dhcp_client_id out;
    out.size = 15;
    store_u8(out.bytes.data(), 255);
    store_be32(out.bytes.data() + 1, association);
    store_be16(out.bytes.data() + 5, duid_ll);
    store_be16(out.bytes.data() + 7, ethernet);
    mac.store(out.bytes.data() + 9);
    return out;
}

dhcp_parse_error parse_dhcp_reply(byte_span message, mac_address ours, const dhcp_client_id& id, dhcp_reply& out) noexcept {
    out = {};
    if (message.size() < fixed_size + cookie_size || load_u8(message.data()) != boot_reply ||
        load_be32(message.data() + fixed_size) != cookie)
        return dhcp_parse_error::not_a_reply;
    if (load_u8(message.data() + 1) != ethernet || load_u8(message.data() + 2) != mac_address::size ||
        mac_address::load(message.data() + chaddr_at) != ours)
        return dhcp_parse_error::not_ours;
    const option_fields from = find_fields(message);
    if (!from.good) return dhcp_parse_error::bad_option;
    const gathered type(from, message_type);
    if (!type.there()) return dhcp_parse_error::not_a_reply;
    if (type.data().size() != 1 || load_u8(type.data().data()) > static_cast<std::uint8_t>(dhcp_message_type::inform))
        return dhcp_parse_error::bad_option;
    out.type = static_cast<dhcp_message_type>(load_u8(type.data().data()));
    out.transaction = load_be32(message.data() + transaction_at);
    out.client_address = ipv4::load(message.data() + ciaddr_at);
    out.your_address = ipv4::load(message.data() + yiaddr_at);
    if (!take(from, server_identifier, out.server) || !take(from, subnet_mask, out.mask) || !take(from, lease_time, out.lease_seconds) ||
        !take(from, renewal_time, out.renewal_seconds) || !take(from, rebinding_time, out.rebinding_seconds) ||
        (out.mask && !is_mask(*out.mask)))
        return dhcp_parse_error::bad_option;
    if (const gathered mtu(from, interface_mtu); mtu.data().size() == 2) out.mtu = load_be16(mtu.data().data());
    take_addresses(from, router, out.routers);
    out.addresses_left_out = take_addresses(from, domain_name_server, out.name_servers);
    take_routes(from, out);
    take_domain(from, out.domain);
    const gathered client(from, client_identifier);
    out.foreign_client_id = client.there() && !std::ranges::equal(client.data(), id.view());
    return dhcp_parse_error::none;
}

std::size_t write_dhcp_request(const dhcp_request& request, mutable_byte_span out) noexcept {
    CW_ASSERT(out.size() >= dhcp_request_size, "no room for a DHCP message");
    std::byte* const m = out.data();
    std::memset(m, 0, dhcp_request_size);
    store_u8(m, boot_request);
    store_u8(m + 1, ethernet);
    store_u8(m + 2, mac_address::size);
    store_be32(m + transaction_at, request.transaction);
    store_be16(m + seconds_at, request.seconds);
    store_be16(m + flags_at, request.broadcast ? 0x8000 : 0);
    request.client_address.store(m + ciaddr_at);
    request.mac.store(m + chaddr_at);
    store_be32(m + fixed_size, cookie);
    std::size_t size = fixed_size + cookie_size;
    const auto put = [&](option code, byte_span data) {
        store_u8(m + size, code);
        store_u8(m + size + 1, static_cast<std::uint8_t>(data.size()));
        std::memcpy(m + size + 2, data.data(), data.size());
        size += 2 + data.size();
    };
    const auto put_address = [&](option code, const std::optional<ipv4>& address) {
        std::array<std::byte, 4> bytes;
        if (!address) return;
        address->store(bytes.data());
        put(code, bytes);
    };
    const auto type = static_cast<std::byte>(request.type);
    put(message_type, {&type, 1});
    put(client_identifier, request.id.view());
    put_address(requested_address, request.requested);
    put_address(server_identifier, request.server);
    const bool asks = request.type == dhcp_message_type::discover || request.type == dhcp_message_type::request;
    if (asks) {
        // RFC 3442: the classless routes come before the routers.
        constexpr std::uint8_t wanted[] = {subnet_mask, classless_routes, router,       domain_name_server, domain_name,
                                           interface_mtu, lease_time,     renewal_time, rebinding_time};
        put(parameter_list, std::as_bytes(std::span(wanted)));
        std::array<std::byte, 2> most;
        store_be16(most.data(), request.max_size);
        if (request.max_size != 0) put(max_message_size, most);
        if (!request.host_name.empty()) put(host_name, std::as_bytes(std::span(request.host_name.substr(0, 63))));
    }
    store_u8(m + size++, end);
    return std::max(size, least_message);
}

} // namespace corewire
