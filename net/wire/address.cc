#include <corewire/net/wire/address.hh>
#include <corewire/net/wire/parse_error.hh>

#include <arpa/inet.h>

#include <charconv>
#include <ostream>

namespace corewire::wire {

namespace {

/// Takes a decimal number of at most `max` off the front of `text`: digits only, no sign, no leading zero.
std::optional<std::uint8_t> take_number(std::string_view& text, unsigned max) noexcept {
    unsigned value = 0;
    std::size_t digits = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
        if (digits == 3 || (digits == 1 && value == 0)) return std::nullopt;
        value = value * 10 + static_cast<unsigned>(text[digits] - '0');
        ++digits;
    }
    if (digits == 0 || value > max) return std::nullopt;
    text.remove_prefix(digits);
    return static_cast<std::uint8_t>(value);
}

bool take_char(std::string_view& text, char c) noexcept {
    if (text.empty() || text.front() != c) return false;
    text.remove_prefix(1);
    return true;
}

std::optional<ipv4_address> take_ipv4(std::string_view& text) noexcept {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
        if (i != 0 && !take_char(text, '.')) return std::nullopt;
        const auto octet = take_number(text, 255);
        if (!octet) return std::nullopt;
        value = value << 8 | *octet;
    }
    return ipv4_address(value);
}

int hex_digit(char c) noexcept {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

void append_number(std::string& out, unsigned value, int base) {
    char digits[8];
    const auto end = std::to_chars(digits, digits + sizeof digits, value, base).ptr;
    out.append(digits, end);
}

} // namespace

std::optional<ipv4_address> ipv4_address::parse(std::string_view text) noexcept {
    const auto address = take_ipv4(text);
    return text.empty() ? address : std::nullopt;
}

std::optional<ip_prefix> ip_prefix::parse(std::string_view text) noexcept {
    const auto address = take_ipv4(text);
    if (!address || !take_char(text, '/')) return std::nullopt;
    const auto length = take_number(text, 32);
    if (!length || !text.empty()) return std::nullopt;
    return ip_prefix(*address, *length);
}

std::optional<mac_address> mac_address::parse(std::string_view text) noexcept {
    if (text.size() != 17) return std::nullopt;
    const char separator = text[2];
    if (separator != ':' && separator != '-') return std::nullopt;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 17; ++i) {
        if (i % 3 == 2) {
            if (text[i] != separator) return std::nullopt;
            continue;
        }
        const int digit = hex_digit(text[i]);
        if (digit < 0) return std::nullopt;
        value = value << 4 | static_cast<unsigned>(digit);
    }
    return mac_address(value);
}

std::optional<ipv6_address> ipv6_address::parse(std::string_view text) noexcept {
    char terminated[INET6_ADDRSTRLEN]; // the longest valid text, with its NUL
    if (text.size() >= sizeof terminated || text.find('\0') != std::string_view::npos) return std::nullopt;
    text.copy(terminated, text.size());
    terminated[text.size()] = '\0';
    octet_array octets;
    if (::inet_pton(AF_INET6, terminated, octets.data()) != 1) return std::nullopt;
    return ipv6_address(octets);
}

std::string to_string(ipv4_address a) {
    std::string out;
    for (const auto octet : a.octets()) {
        if (!out.empty()) out += '.';
        append_number(out, octet, 10);
    }
    return out;
}

std::string to_string(mac_address a) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string out;
    for (const auto octet : a.octets()) {
        if (!out.empty()) out += ':';
        out += digits[octet >> 4];
        out += digits[octet & 15];
    }
    return out;
}

std::string to_string(const ip_prefix& p) { return to_string(p.address()) + '/' + std::to_string(p.length()); }

std::string to_string(const ipv6_address& a) {
    // RFC 5952 5: a mapped address shows its IPv4 part in decimal.
    if (a.is_mapped()) return "::ffff:" + to_string(a.embedded());

    // RFC 5952 4.2.2, 4.2.3: "::" stands for the longest run of two or more zero groups, the first of equal ones.
    std::size_t run_begin = 8;
    std::size_t run_length = 1;
    for (std::size_t i = 0; i < 8;) {
        std::size_t end = i;
        while (end < 8 && a.group(end) == 0)
            ++end;
        if (end - i > run_length) {
            run_begin = i;
            run_length = end - i;
        }
        i = end + 1;
    }
    std::string out;
    for (std::size_t i = 0; i < 8;) {
        if (i == run_begin) {
            out += "::";
            i += run_length;
            continue;
        }
        if (!out.empty() && out.back() != ':') out += ':';
        append_number(out, a.group(i), 16);
        ++i;
    }
    return out;
}

std::ostream& operator<<(std::ostream& out, ipv4_address a) { return out << to_string(a); }
std::ostream& operator<<(std::ostream& out, mac_address a) { return out << to_string(a); }
std::ostream& operator<<(std::ostream& out, const ipv6_address& a) { return out << to_string(a); }
std::ostream& operator<<(std::ostream& out, const ip_prefix& p) { return out << to_string(p); }
std::ostream& operator<<(std::ostream& out, parse_error e) { return out << to_string(e); }

} // namespace corewire::wire
