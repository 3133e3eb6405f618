#include <corewire/net/ip/autoconfiguration.hh>
#include <corewire/net/ip/lifetime.hh>

#include <algorithm>
#include <chrono>
#include <span>

namespace corewire {

namespace {

constexpr duration solicitation_delay = std::chrono::seconds{1}; // RFC 4861 10
// RFC 7559 2: IRT, MRT.
constexpr duration first_solicitation_wait = std::chrono::seconds{4};
constexpr duration longest_solicitation_wait = std::chrono::hours{1};
constexpr std::uint8_t max_duplicates = 3;                    // RFC 7217 6: at least IDGEN_RETRIES addresses, and not without end
constexpr duration two_hours = std::chrono::hours{2};         // RFC 4862 5.5.3 (e)
constexpr std::uint32_t least_mtu = 1280;

} // namespace

bool autoconfiguration::is_reserved(std::uint64_t identifier) noexcept {
    return identifier == 0 || (identifier | 0x7f) == 0xfdffffffffffffff || (identifier & 0xffffffffff000000) == 0x02005efffe000000;
}

std::uint64_t autoconfiguration::stable_identifier(const ipv6& prefix, mac_address mac, std::uint8_t counter,
                                                   const siphash_key& secret) noexcept {
    return identifier_by(prefix, mac, counter, [&](std::span<const unsigned char> about) { return siphash(secret, about); });
}

void autoconfiguration::start(time_point now, random_generator& random) noexcept {
    solicit_at_ = now + duration{static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(solicitation_delay.count())))};
    solicit_after_ = {};
}

/// RFC 4861 6.3.7: solicitations are four seconds apart, whatever routers say in between.
void autoconfiguration::follow_routers(time_point now, random_generator& random) noexcept {
    if (!heard_ || routes_.has_router()) return;
    heard_ = false;
    start(now, random);
    solicit_at_ = std::max(solicit_at_, solicited_at_ + first_solicitation_wait);
}

/// RFC 7559 2, RFC 8415 15: twice as long each time, a tenth of what it was more or less, and without end: a switch may let nothing
/// through yet.
bool autoconfiguration::poll_solicitation(time_point now, random_generator& random) noexcept {
    if (now < solicit_at_) return false;
    const auto a_tenth_more_or_less = [&](duration of) {
        const std::int64_t tenth = of.count() / 10;
        return duration{static_cast<std::int64_t>(random.below(2 * static_cast<std::uint64_t>(tenth) + 1)) - tenth};
    };
    const bool first = solicit_after_ == duration{};
    const duration before = first ? first_solicitation_wait : solicit_after_;
    solicit_after_ = (first ? before : 2 * before) + a_tenth_more_or_less(before);
    if (solicit_after_ > longest_solicitation_wait)
        solicit_after_ = longest_solicitation_wait + a_tenth_more_or_less(longest_solicitation_wait);
    solicited_at_ = now;
    solicit_at_ = now + solicit_after_;
    ++statistics_.solicitations_sent;
    return true;
}

void autoconfiguration::on_advertisement(time_point now, const ipv6& router, const wire::router_advertisement& ra) noexcept {
    ++statistics_.advertisements;
    if (ra.lifetime != 0) { // RFC 4861 6.3.7: it has answered
        solicit_at_ = never;
        heard_ = true;
        static_cast<void>(routes_.add_router(router, now + std::chrono::seconds{ra.lifetime}, ra.preference));
    } else {
        routes_.end_router(now, router);
    }
    if (ra.hop_limit >= least_hop_limit) hop_limit_ = ra.hop_limit;
    else if (ra.hop_limit != 0) ++statistics_.hop_limits_refused;
    names_.on_advertisement(now, ra.options);
    wire::nd_option_cursor cursor(ra.options);
    for (wire::nd_option option; cursor.next(option);) {
        if (option.type == wire::nd_option_type::prefix_information && option.data.size() == 30) on_prefix(now, option.data);
        if (option.type == wire::nd_option_type::mtu && option.data.size() == 6) {
            const std::uint32_t mtu = load_be32(option.data.data() + 2);
            if (mtu >= least_mtu) mtu_ = mtu;
            else ++statistics_.mtus_refused;
        }
    }
}

/// RFC 4861 4.6.2; RFC 4862 5.5.3 by its letters.
void autoconfiguration::on_prefix(time_point now, byte_span option) noexcept {
    const std::uint8_t length = load_u8(option.data()), flags = load_u8(option.data() + 1);
    const std::uint32_t valid = load_be32(option.data() + 2), preferred = load_be32(option.data() + 6);
    const ipv6_prefix prefix(ipv6::load(option.data() + 14), length);
    const ipv6 network = prefix.network();
    const bool usable = length <= 128 && !network.is_link_local() && !network.is_multicast() && length != 0;
    const bool on_link = (flags & 0x80) != 0, autonomous = (flags & 0x40) != 0;
    if (!usable) { // (b)
        ++statistics_.prefixes_ignored;
        return;
    }
    const time_point valid_until = end_of_lifetime(now, valid), preferred_until = end_of_lifetime(now, preferred);
    if (on_link && (valid != 0 || routes_.on_link(network))) static_cast<void>(routes_.add_prefix(prefix, valid_until));
    if (!autonomous) return; // (a)
    if (preferred > valid || length != 64) { // (c), (d)
        ++statistics_.prefixes_ignored;
        return;
    }
    bool known = false;
    for (const own_ipv6_address& each : addresses_.all()) {
        if (each.origin != ipv6_address_origin::autoconfigured || !prefix.contains(each.address)) continue;
        known = true;
        own_ipv6_address& a = *addresses_.find(ipv6(each.address));
        addresses_.prefer(now, a, preferred_until); // (e)
        if (valid_until > a.valid_until || valid_until - now > two_hours) a.valid_until = valid_until;
        else if (a.valid_until - now > two_hours) a.valid_until = now + two_hours;
    }
    if (!known && valid != 0) static_cast<void>(make_address(now, network, 0, preferred_until, valid_until));
}

const own_ipv6_address* autoconfiguration::make_address(time_point now, const ipv6& prefix, std::uint8_t counter,
                                                        time_point preferred_until, time_point valid_until) noexcept {
    const ipv6 address = wire::with_identifier(prefix, stable_identifier(prefix, mac_, counter, secret_));
    own_ipv6_address* const a = addresses_.add(now, address, 64, ipv6_address_origin::autoconfigured, counter);
    if (a == nullptr) return nullptr;
    a->preferred_until = preferred_until;
    a->valid_until = valid_until;
    return a;
}

const own_ipv6_address* autoconfiguration::on_duplicate(time_point now, const own_ipv6_address& lost) noexcept {
    if (lost.duplicates + 1 >= max_duplicates) {
        ++statistics_.given_up;
        return nullptr;
    }
    const own_ipv6_address old = lost;
    addresses_.remove(old.address);
    return make_address(now, ipv6_prefix(old.address, 64).network(), static_cast<std::uint8_t>(old.duplicates + 1), old.preferred_until,
                        old.valid_until);
}

} // namespace corewire
