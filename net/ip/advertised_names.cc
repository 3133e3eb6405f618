#include <corewire/net/ip/advertised_names.hh>
#include <corewire/net/ip/lifetime.hh>

#include <algorithm>
#include <utility>

namespace corewire {

namespace {

constexpr std::size_t reserved_and_lifetime = 6; // bytes: what both options begin with

std::uint32_t lifetime_of(byte_span option) noexcept { return load_be32(option.data() + 2); }

} // namespace

void advertised_names::on_advertisement(time_point now, byte_span options) noexcept {
    wire::nd_option_cursor cursor(options);
    for (wire::nd_option option; cursor.next(option);) {
        if (option.type == wire::nd_option_type::recursive_dns_server) on_servers(now, option.data);
        if (option.type == wire::nd_option_type::dns_search_list) on_domains(now, option.data);
    }
}

/// RFC 8106 5.1: [ reserved 2 | lifetime 4 | addresses ]
void advertised_names::on_servers(time_point now, byte_span option) noexcept {
    byte_span addresses = option.subspan(reserved_and_lifetime);
    if (addresses.empty() || addresses.size() % ipv6::size != 0) { // 5.3.1
        ++ignored_;
        return;
    }
    for (auto& each : servers_.all()) each.said = false;
    for (std::size_t place = 0; !addresses.empty(); addresses = addresses.subspan(ipv6::size)) {
        const ipv6 server = ipv6::load(addresses.data());
        const bool one_hosts = !server.is_any() && !server.is_multicast() && !server.is_loopback() && !server.is_mapped();
        if (one_hosts && !server.is_link_local()) take(now, servers_, server, lifetime_of(option), place);
        else ++ignored_;
    }
}

/// RFC 8106 5.2: [ reserved 2 | lifetime 4 | names, filled up with zeros ]
void advertised_names::on_domains(time_point now, byte_span option) noexcept {
    byte_span names = option.subspan(reserved_and_lifetime);
    for (auto& each : domains_.all()) each.said = false;
    std::size_t place = 0;
    wire::domain_name domain;
    while (wire::take_domain_name(names, domain)) take(now, domains_, domain, lifetime_of(option), place);
    if (std::ranges::any_of(names, [](std::byte b) { return b != std::byte{}; })) ++ignored_;
}

/// RFC 8106 6.2. `place`: where the next new one of this option belongs.
template <typename T, std::size_t N>
void advertised_names::take(time_point now, bounded_list<advertised<T>, N>& known, const T& value, std::uint32_t lifetime,
                            std::size_t& place) noexcept {
    const std::span<advertised<T>> all = known.all();
    if (const auto found = std::ranges::find(all, value, &advertised<T>::value); found != all.end()) {
        if (lifetime != 0) { // (c)
            found->until = end_of_lifetime(now, lifetime);
            found->said = true;
            return;
        }
        known.erase(static_cast<std::size_t>(found - all.begin())); // (b)
        ++generation_;
        return;
    }
    if (lifetime == 0) return;
    if (known.count == N) { // (d)
        const auto first = std::ranges::min_element(all, {}, [](const advertised<T>& a) { return std::pair{a.said, a.until}; });
        if (first->said) {
            ++ignored_;
            return;
        }
        known.erase(static_cast<std::size_t>(first - all.begin()));
    }
    known.insert(place++, {value, end_of_lifetime(now, lifetime), true});
    ++generation_;
}

template <typename T, std::size_t N>
void advertised_names::forget_ended(time_point now, bounded_list<advertised<T>, N>& known) noexcept {
    for (std::size_t i = known.count; i-- > 0;) {
        if (known.items[i].until > now) continue;
        known.erase(i);
        ++generation_;
    }
}

time_point advertised_names::next_timeout() const noexcept {
    time_point first = never;
    for (const auto& server : servers()) first = std::min(first, server.until);
    for (const auto& domain : domains()) first = std::min(first, domain.until);
    return first;
}

void advertised_names::on_timer(time_point now) noexcept {
    forget_ended(now, servers_);
    forget_ended(now, domains_);
}

} // namespace corewire
