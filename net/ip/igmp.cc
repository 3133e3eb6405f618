#include <corewire/net/ip/igmp.hh>

#include <corewire/net/wire/checksum.hh>

#include <algorithm>
#include <climits>

namespace corewire {

namespace {

constexpr std::uint8_t membership_query = 0x11;
constexpr std::uint8_t v2_report = 0x16;
constexpr std::uint8_t v2_leave = 0x17;
constexpr std::uint8_t v3_report = 0x22;
constexpr std::uint8_t change_to_include = 3; ///< with no sources: leaves (RFC 3376 4.2.12)
constexpr std::uint8_t change_to_exclude = 4; ///< with no sources: joins, from any source
constexpr std::uint8_t mode_is_exclude = 2;   ///< the answer to a query
constexpr unsigned robustness = 2;            ///< RFC 3376 8.1: each change is told this often
constexpr duration unsolicited_interval = std::chrono::seconds{1}; ///< RFC 3376 8.11
/// RFC 3376 8.12: how long a router of version 2 is believed to be there: 2 x 125 s + 10 s.
constexpr duration older_router_present = std::chrono::seconds{260};

void seal(igmp_message& m) noexcept {
    store_be16(m.bytes.data() + 2, wire::internet_checksum(byte_span(m.bytes).first(m.size)));
}

igmp_message version_2(std::uint8_t type, ipv4 group) noexcept {
    igmp_message m;
    m.destination = type == v2_leave ? ipv4::all_routers() : group; // RFC 2236 9
    m.size = 8;
    store_u8(m.bytes.data(), type);
    group.store(m.bytes.data() + 4);
    seal(m);
    return m;
}

/// One group record without sources (RFC 3376 4.2).
igmp_message version_3(std::uint8_t record_type, ipv4 group) noexcept {
    igmp_message m;
    m.destination = ipv4::igmp_v3_routers();
    m.size = 16;
    store_u8(m.bytes.data(), v3_report);
    store_be16(m.bytes.data() + 6, 1);
    store_u8(m.bytes.data() + 8, record_type);
    group.store(m.bytes.data() + 12);
    seal(m);
    return m;
}

/// RFC 3376 4.1.1: tenths of a second; from 128 on a floating-point code.
duration response_time(std::uint8_t code) noexcept {
    unsigned tenths = code;
    if (code >= 128) tenths = ((code & 0xfu) | 0x10u) << ((code >> 4 & 7u) + 3);
    return std::chrono::milliseconds{tenths * 100};
}

} // namespace

igmp_host::group_state* igmp_host::find(ipv4 group) noexcept {
    const auto found = std::find_if(groups_.begin(), groups_.end(),
                                    [&](const group_state& g) { return g.used && g.group == group; });
    return found == groups_.end() ? nullptr : &*found;
}

void igmp_host::on_join(time_point now, ipv4 group) noexcept {
    if (!group.is_multicast() || group == ipv4::all_hosts()) return; // never reported (RFC 2236 6)
    group_state* g = find(group);
    if (g == nullptr) {
        // One whose end is still to be told makes room: first who has told most of it.
        const auto weight = [](const group_state& s) { return !s.used ? 0u : s.leaving ? 1u + s.left : UINT_MAX; };
        g = &*std::ranges::min_element(groups_, {}, weight);
        if (weight(*g) == UINT_MAX) {
            ++refused_;
            return;
        }
    }
    *g = {group, true, false, robustness, now};
}

void igmp_host::on_leave(time_point now, ipv4 group) noexcept {
    group_state* g = find(group);
    if (g == nullptr) return;
    *g = {group, true, true, robustness, now};
}

void igmp_host::input(time_point now, byte_span message) noexcept {
    if (message.size() < 8 || !wire::checksum_ok(message)) {
        ++malformed_;
        return;
    }
    const std::uint8_t type = load_u8(message.data());
    if (type != membership_query) return; // other hosts' reports: version 3 doesn't suppress ours (RFC 3376 A.2)
    const ipv4 group = ipv4::load(message.data() + 4);
    if (!group.is_any() && !group.is_multicast()) {
        ++malformed_;
        return;
    }
    const std::uint8_t code = load_u8(message.data() + 1);
    if (message.size() > 8 && message.size() < 12) { // RFC 3376 7.1: of no version
        ++malformed_;
        return;
    }
    if (message.size() == 8) v2_until_ = now + older_router_present; // of version 2, or, with code 0, of version 1
    settle_version(now);
    if (message.size() == 8) {
        on_query(now, group, code == 0 ? std::chrono::seconds{10} : std::chrono::milliseconds{code * 100});
        return;
    }
    on_query(now, group, response_time(code));
}

/// RFC 3376 7.2.1: with another version what is pending is cancelled; but a change of which nothing was told yet is told, in that version.
void igmp_host::settle_version(time_point now) noexcept {
    if ((now < v2_until_) == v2_router_) return;
    v2_router_ = !v2_router_;
    for (group_state& g : groups_) {
        if (!g.used || g.left == robustness) continue;
        if (g.leaving) g = {};
        g.left = 0;
        g.due = never;
    }
}

/// RFC 3376 5.2: answer at a random time within what the router allows; an answer due earlier stands.
void igmp_host::on_query(time_point now, ipv4 group, duration within) noexcept {
    for (group_state& g : groups_) {
        if (!g.used || g.leaving || (!group.is_any() && g.group != group)) continue;
        const auto wait = duration{static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(within.count()) + 1))};
        g.due = std::min(g.due, now + wait);
    }
}

time_point igmp_host::next_timeout() const noexcept {
    time_point first = never;
    for (const group_state& g : groups_) {
        if (g.used) first = std::min(first, g.due);
    }
    return first;
}

bool igmp_host::poll_transmit(time_point now, igmp_message& out) noexcept {
    settle_version(now);
    const auto ready = std::find_if(groups_.begin(), groups_.end(), [&](const group_state& g) { return g.used && g.due <= now; });
    if (ready == groups_.end()) return false;
    group_state& g = *ready;
    const bool change = g.left != 0;
    if (v2_router_) {
        out = version_2(g.leaving ? v2_leave : v2_report, g.group);
    } else {
        out = version_3(g.leaving ? change_to_include : change ? change_to_exclude : mode_is_exclude, g.group);
    }
    if (change) --g.left;
    g.due = g.left == 0 ? never : now + unsolicited_interval;
    if (g.leaving && (g.left == 0 || v2_router_)) g = {};
    ++reports_sent_;
    return true;
}

} // namespace corewire
