#include <corewire/net/wire/net_address.hh>

#include <charconv>
#include <ostream>

namespace corewire::wire {

std::optional<ipv6_prefix> ipv6_prefix::parse(std::string_view text) noexcept {
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos) return std::nullopt;
    const auto address = ipv6_address::parse(text.substr(0, slash));
    const std::string_view number = text.substr(slash + 1);
    unsigned length = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), length);
    const bool whole = error == std::errc{} && end == number.data() + number.size();
    if (!address || !whole || length > 128 || (number.size() > 1 && number.front() == '0')) return std::nullopt;
    return ipv6_prefix(*address, static_cast<std::uint8_t>(length));
}

ipv6_address ipv6_prefix::network() const noexcept {
    const net_address a(address_);
    const auto kept = [](std::uint64_t word, unsigned bits) -> std::uint64_t {
        return bits == 0 ? 0 : bits >= 64 ? word : word & ~std::uint64_t{0} << (64 - bits);
    };
    std::byte bytes[16];
    store_be64(bytes, kept(a.high(), length_));
    store_be64(bytes + 8, kept(a.low(), length_ > 64 ? length_ - 64u : 0u));
    return ipv6_address::load(bytes);
}

ipv6_address with_identifier(const ipv6_address& prefix, std::uint64_t identifier) noexcept {
    std::byte bytes[16];
    store_be64(bytes, net_address(prefix).high());
    store_be64(bytes + 8, identifier);
    return ipv6_address::load(bytes);
}

ipv6_address link_local_address(mac_address mac) noexcept {
    return with_identifier(ipv6_address(ipv6_address::octet_array{0xfe, 0x80}), interface_identifier(mac));
}

std::string to_string(const net_address& a) { return a.is_v4() ? to_string(a.v4()) : to_string(a.v6()); }
std::ostream& operator<<(std::ostream& out, const net_address& a) { return out << to_string(a); }
std::string to_string(const ipv6_prefix& p) { return to_string(p.address()) + '/' + std::to_string(p.length()); }
std::ostream& operator<<(std::ostream& out, const ipv6_prefix& p) { return out << to_string(p); }

} // namespace corewire::wire
