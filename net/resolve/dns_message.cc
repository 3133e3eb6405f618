#include <corewire/net/resolve/dns_message.hh>

#include <algorithm>
#include <ares.h>
#include <array>
#include <memory>
#include <optional>
#include <string_view>

namespace corewire {

namespace {

constexpr std::size_t header_size = 12;
constexpr unsigned response = 0x8000, opcode = 0x7800, authority = 0x0400, truncation = 0x0200, recursion = 0x0080,
                   code = 0x000f; ///< of the flags (RFC 1035 4.1.1)
constexpr unsigned code_not_understood = 1, code_no_such_name = 3, code_not_implemented = 4;
constexpr std::uint16_t internet = 1, name_server = 2, start_of_authority = 6;
constexpr duration longest = std::chrono::hours{24};
constexpr duration longest_without = std::chrono::minutes{5}; ///< RFC 2308 5 allows hours; a name that has just been made is asked for

struct ares_deleter {
    void operator()(void* p) const noexcept { ::ares_free_string(p); }
};

/// Walks over a message, record by record. Every step says whether it was within bounds.
class cursor {
public:
    explicit cursor(byte_span message) noexcept : message_(message), at_(header_size) {}

    std::optional<std::string> name() {
        if (at_ >= message_.size()) return std::nullopt;
        char* text = nullptr;
        long length = 0;
        const int size = static_cast<int>(message_.size());
        if (::ares_expand_name(bytes() + at_, bytes(), size, &text, &length) != ARES_SUCCESS) return std::nullopt;
        const std::unique_ptr<char, ares_deleter> owner(text);
        at_ += static_cast<std::size_t>(length);
        return std::string(text);
    }
    /// `n` bytes; empty when there are fewer.
    byte_span take(std::size_t n) noexcept {
        if (message_.size() - at_ < n) return {};
        at_ += n;
        return message_.subspan(at_ - n, n);
    }

private:
    const unsigned char* bytes() const noexcept { return reinterpret_cast<const unsigned char*>(message_.data()); }
    byte_span message_;
    std::size_t at_;
};

bool same_name(std::string_view a, std::string_view b) noexcept {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    const auto undotted = [](std::string_view s) { return s.ends_with('.') ? s.substr(0, s.size() - 1) : s; };
    a = undotted(a);
    b = undotted(b);
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

/// RFC 5452 9.1: the one question is ours. Leaves the cursor behind it.
bool repeats(cursor& at, const dns_question& asked) {
    const auto name = at.name();
    if (!name || !same_name(*name, asked.name)) return false;
    const byte_span rest = at.take(4);
    return rest.size() == 4 && load_be16(rest.data()) == static_cast<std::uint16_t>(asked.type) && load_be16(rest.data() + 2) == internet;
}

/// Seconds. RFC 2181 8: with the first bit set it is 0.
std::uint32_t time_to_live(const std::byte* at) noexcept {
    const std::uint32_t seconds = load_be32(at);
    return seconds > INT32_MAX ? 0 : seconds;
}

/// What the authority section says of an answer without addresses.
struct authorities_say {
    duration lifetime{0};  ///< RFC 2308 5: the lesser of the zone's SOA's TTL and its MINIMUM. 0: there is none
    bool elsewhere = false; ///< RFC 2308 2.2.1: there are name servers and no SOA
};

authorities_say look_at_authorities(cursor at, unsigned answers, unsigned authorities) {
    authorities_say out;
    for (unsigned i = 0; i < answers + authorities; ++i) {
        if (!at.name()) break;
        const byte_span fixed = at.take(10); // type, class, TTL, length
        if (fixed.size() != 10) break;
        const std::size_t length = load_be16(fixed.data() + 8);
        const byte_span data = at.take(length);
        if (data.size() != length) break;
        if (i < answers) continue;
        const std::uint16_t type = load_be16(fixed.data());
        if (type == name_server) out.elsewhere = true;
        if (type != start_of_authority || length < 22) continue;
        const std::uint32_t seconds = std::min(time_to_live(fixed.data() + 4), time_to_live(data.data() + length - 4));
        return {.lifetime = std::min<duration>(std::chrono::seconds{seconds}, longest_without)};
    }
    return out;
}

template <typename Entry>
dns_answer of(int status, const std::array<Entry, dns_max_addresses>& found, int count, ip_address (*address)(const Entry&)) {
    if (status != ARES_SUCCESS && status != ARES_ENODATA) return {.outcome = dns_outcome::unusable};
    dns_answer out{.outcome = dns_outcome::no_data};
    if (status != ARES_SUCCESS || count <= 0) return out;
    out.outcome = dns_outcome::answer;
    out.lifetime = longest;
    for (int i = 0; i < count; ++i) {
        out.addresses.push_back(address(found[static_cast<std::size_t>(i)]));
        out.lifetime = std::min<duration>(out.lifetime, std::chrono::seconds{std::max(found[static_cast<std::size_t>(i)].ttl, 0)});
    }
    return out;
}

dns_answer addresses_in(byte_span message, dns_type type) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(message.data());
    const int size = static_cast<int>(message.size());
    int count = dns_max_addresses;
    if (type == dns_type::a) {
        std::array<::ares_addrttl, dns_max_addresses> found{};
        const int status = ::ares_parse_a_reply(bytes, size, nullptr, found.data(), &count);
        return of<::ares_addrttl>(status, found, count, [](const ::ares_addrttl& each) -> ip_address {
            return ipv4::load(reinterpret_cast<const std::byte*>(&each.ipaddr));
        });
    }
    std::array<::ares_addr6ttl, dns_max_addresses> found{};
    const int status = ::ares_parse_aaaa_reply(bytes, size, nullptr, found.data(), &count);
    return of<::ares_addr6ttl>(status, found, count, [](const ::ares_addr6ttl& each) -> ip_address {
        return ipv6::load(reinterpret_cast<const std::byte*>(&each.ip6addr));
    });
}

} // namespace

std::vector<std::byte> encode_dns_question(const dns_question& q) {
    if (q.name.empty() || q.name.find('\0') != std::string::npos) return {};
    unsigned char* made = nullptr;
    int size = 0;
    if (::ares_create_query(q.name.c_str(), internet, static_cast<int>(q.type), q.id, 1, &made, &size,
                            q.edns ? static_cast<int>(dns_max_datagram) : 0) != ARES_SUCCESS) {
        return {};
    }
    const std::unique_ptr<unsigned char, ares_deleter> owner(made);
    const auto* first = reinterpret_cast<const std::byte*>(made);
    return {first, first + size};
}

dns_answer decode_dns_answer(byte_span message, const dns_question& asked) {
    if (message.size() < header_size || message.size() > 65'535 || load_be16(message.data()) != asked.id) return {};
    const unsigned flags = load_be16(message.data() + 2);
    if ((flags & (response | opcode)) != response) return {};
    const unsigned said = flags & code;
    const bool lost = said == code_not_understood || said == code_not_implemented;
    const dns_answer not_understood{.outcome = asked.edns ? dns_outcome::no_edns : dns_outcome::unusable};
    if (lost && message.size() == header_size) return not_understood; // some repeat no question that they can't read
    if (load_be16(message.data() + 4) != 1) return {};
    cursor at(message);
    if (!repeats(at, asked)) return {};
    if ((flags & truncation) != 0) return {.outcome = dns_outcome::truncated};
    const unsigned answers = load_be16(message.data() + 6), authorities = load_be16(message.data() + 8);
    if (lost) return not_understood;
    dns_answer out{.outcome = dns_outcome::no_such_name};
    if (said == 0) out = addresses_in(message, asked.type);
    else if (said != code_no_such_name) return {.outcome = dns_outcome::unusable};
    if (out.outcome == dns_outcome::no_data || out.outcome == dns_outcome::no_such_name) {
        const authorities_say said_of_it = look_at_authorities(at, answers, authorities);
        out.lifetime = said_of_it.lifetime;
        // A referral of a server that asks nobody: another may know (RFC 2308 2.2.1).
        const bool referral = said_of_it.elsewhere && (flags & (authority | recursion)) == 0;
        if (out.outcome == dns_outcome::no_data && referral) return {.outcome = dns_outcome::unusable};
    }
    return out;
}

} // namespace corewire
