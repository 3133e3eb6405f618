#include <corewire/net/socket/address.hh>

#include <corewire/reactor/base/assert.hh>

#include <charconv>
#include <stdexcept>

namespace corewire {

namespace {

std::uint16_t parse_port(std::string_view text, std::string_view whole) {
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc{} || end != text.data() + text.size() || text.empty()) {
        throw std::invalid_argument("'" + std::string(whole) + "': the port must be a number from 0 to 65535");
    }
    return port;
}

} // namespace

socket_address::socket_address(const net_address& a, std::uint16_t p)
    : address(a.is_v4() ? ip_address(a.v4()) : ip_address(a.v6())), port(p) {}

net_address socket_address::net() const noexcept {
    if (const ipv4* a = std::get_if<ipv4>(&address)) return *a;
    return *std::get_if<ipv6>(&address);
}

ipv4 socket_address::v4() const {
    const ipv4* a = std::get_if<ipv4>(&address);
    CW_ASSERT(a != nullptr, "an IPv4 address was expected");
    return *a;
}

socket_address socket_address::parse(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) {
        throw std::invalid_argument("'" + std::string(text) + "': an address and a port are needed, as in 192.0.2.1:7777");
    }
    std::string_view host = text.substr(0, colon);
    const std::uint16_t port = parse_port(text.substr(colon + 1), text);
    if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
        host = host.substr(1, host.size() - 2);
        if (const auto v6 = ipv6::parse(host)) return {*v6, port};
    } else if (const auto v4 = ipv4::parse(host)) {
        return {*v4, port};
    }
    throw std::invalid_argument("'" + std::string(text) +
                                "': not an IP address; write it as 192.0.2.1:7777 or [2001:db8::1]:7777");
}

std::string socket_address::to_string() const {
    if (const ipv4* a = std::get_if<ipv4>(&address)) return wire::to_string(*a) + ':' + std::to_string(port);
    return '[' + wire::to_string(std::get<ipv6>(address)) + "]:" + std::to_string(port);
}

} // namespace corewire
