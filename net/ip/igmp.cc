#include <corewire/net/ip/igmp.hh>

#include <corewire/net/wire/igmp.hh>

#include <algorithm>
#include <climits>

namespace corewire {

namespace {

using wire::igmp_record_type;
using wire::igmp_type;

constexpr unsigned robustness = 2;                                 ///< RFC 3376 8.1: each change is told this often
constexpr duration unsolicited_interval = std::chrono::seconds{1}; ///< RFC 3376 8.11
/// RFC 3376 8.12: how long a router of version 2 is believed to be there: 2 x 125 s + 10 s.
constexpr duration older_router_present = std::chrono::seconds{260};
constexpr duration version_1_response = std::chrono::seconds{10}; ///< RFC 2236 4: what a query of version 1, which names none, allows

igmp_report version_2(igmp_type type, ipv4 group) noexcept {
    igmp_report r;
    r.destination = type == igmp_type::v2_leave ? ipv4::all_routers() : group; // RFC 2236 9
    r.size = static_cast<std::uint8_t>(wire::igmp_message{type, 0, group}.emit(r.bytes));
    return r;
}

/// One group record without sources (RFC 3376 4.2): to_exclude joins, to_include leaves, is_exclude answers a query.
igmp_report version_3(igmp_record_type type, ipv4 group) noexcept {
    const wire::igmp_record record{type, group, {}};
    igmp_report r;
    r.destination = ipv4::igmp_v3_routers();
    r.size = static_cast<std::uint8_t>(wire::emit_igmp_v3_report(r.bytes, {&record, 1}));
    return r;
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
    wire::igmp_view m;
    if (wire::igmp_view::parse(message, m) != wire::parse_error::none || !m.checksum_ok()) {
        ++malformed_;
        return;
    }
    if (m.type() != igmp_type::query) return; // other hosts' reports: version 3 doesn't suppress ours (RFC 3376 A.2)
    const ipv4 group = m.group();
    const bool old = message.size() == wire::igmp_view::min_size; // of version 2, or, without a time to answer in, of version 1
    const bool of_no_version = !old && !m.is_v3_query();          // RFC 3376 7.1
    if (of_no_version || (!group.is_any() && !group.is_multicast())) {
        ++malformed_;
        return;
    }
    if (old) v2_until_ = now + older_router_present;
    settle_version(now);
    const duration allowed = std::chrono::milliseconds{100} * m.max_response();
    on_query(now, group, old && m.max_response() == 0 ? version_1_response : allowed);
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
        g.due = std::min(g.due, now + at_random(within));
    }
}

duration igmp_host::at_random(duration within) noexcept {
    return duration{static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(within.count()) + 1))};
}

time_point igmp_host::next_timeout() const noexcept {
    time_point first = never;
    for (const group_state& g : groups_) {
        if (g.used) first = std::min(first, g.due);
    }
    return first;
}

bool igmp_host::poll_transmit(time_point now, igmp_report& out) noexcept {
    settle_version(now);
    const auto ready = std::find_if(groups_.begin(), groups_.end(), [&](const group_state& g) { return g.used && g.due <= now; });
    if (ready == groups_.end()) return false;
    group_state& g = *ready;
    const bool change = g.left != 0;
    if (v2_router_) {
        out = version_2(g.leaving ? igmp_type::v2_leave : igmp_type::v2_report, g.group);
    } else {
        using enum igmp_record_type;
        out = version_3(g.leaving ? to_include : change ? to_exclude : is_exclude, g.group);
    }
    if (change) --g.left;
    g.due = g.left == 0 ? never : now + at_random(unsolicited_interval); // RFC 3376 5.1
    if (g.leaving && (g.left == 0 || v2_router_)) g = {};
    ++reports_sent_;
    return true;
}

} // namespace corewire
