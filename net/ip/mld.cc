#include <corewire/net/ip/mld.hh>
#include <corewire/net/wire/address_policy.hh>

#include <algorithm>
#include <chrono>

namespace corewire {

namespace {

constexpr std::uint8_t robustness = 2;                                  // RFC 3810 9.1
constexpr duration unsolicited_interval = std::chrono::seconds{1};      // 9.11
constexpr std::uint8_t report_type = 143, version_1_report_type = 131, version_1_done_type = 132;
constexpr std::size_t version_1_size = 24;                              // RFC 2710 3
constexpr duration version_1_interval = std::chrono::seconds{10};       // RFC 2710 7.10
/// RFC 3810 9.12: how long a version 1 router is believed to be there: 2 x 125 s + 10 s.
constexpr duration older_querier_present = std::chrono::seconds{260};
enum record : std::uint8_t { mode_is_exclude = 2, change_to_include = 3, change_to_exclude = 4 };

} // namespace

duration mld_response_time(std::uint16_t code) noexcept {
    if (code < 32'768) return std::chrono::milliseconds{code};
    const unsigned mantissa = (code & 0xfffu) | 0x1000u, exponent = (code >> 12) & 7u;
    return std::chrono::milliseconds{mantissa << (exponent + 3)};
}

mld_listener::entry* mld_listener::find(const ipv6& group) noexcept {
    for (std::size_t i = 0; i < count_; ++i)
        if (entries_[i].group == group) return &entries_[i];
    return nullptr;
}

std::size_t mld_listener::groups() const noexcept {
    return static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(count_),
                                                  [](const entry& e) { return !e.leaving; }));
}

/// RFC 3810 8.2.1: with another version everything that is pending is cancelled.
void mld_listener::settle_mode(time_point now) noexcept {
    if (version_1(now) == was_version_1_) return;
    was_version_1_ = !was_version_1_;
    cancel_all();
}

void mld_listener::cancel_all() noexcept {
    for (std::size_t i = count_; i-- > 0;) {
        entry& e = entries_[i];
        e.changes = 0;
        e.due = e.answer = never;
        e.told_last = false;
        if (e.leaving) e = entries_[--count_];
    }
}

/// Of the groups whose end is still to be told, the one that most was told of; null: there is none.
mld_listener::entry* mld_listener::least_of_those_left() noexcept {
    entry* least = nullptr;
    for (std::size_t i = 0; i < count_; ++i)
        if (entries_[i].leaving && (least == nullptr || entries_[i].changes < least->changes)) least = &entries_[i];
    return least;
}

duration mld_listener::at_random(duration within) noexcept {
    const auto limit = static_cast<std::uint64_t>(std::max<std::int64_t>(within.count(), 0)) + 1;
    return duration{static_cast<std::int64_t>(random_.below(limit))};
}

/// RFC 3810 6.1: a change is told at once and once more within a second.
void mld_listener::follow(time_point now, std::span<const ipv6> groups) noexcept {
    settle_mode(now);
    for (std::size_t i = 0; i < count_; ++i) {
        entry& e = entries_[i];
        const bool wanted = std::ranges::find(groups, e.group) != groups.end();
        if (wanted != e.leaving) continue;
        e.leaving = !wanted;
        e.changes = robustness;
        e.due = now;
    }
    for (const ipv6& group : groups) {
        if (group == ipv6::all_nodes() || wire::stays_on_host(group) || find(group) != nullptr) continue; // RFC 3810 6
        entry* const place = count_ < max_groups ? &entries_[count_++] : least_of_those_left();
        if (place == nullptr) {
            ++refused_;
            continue;
        }
        *place = entry{.group = group, .changes = robustness, .leaving = false, .due = now};
    }
}

void mld_listener::tell_anew(time_point now) noexcept {
    settle_mode(now);
    for (std::size_t i = 0; i < count_; ++i) {
        entry& e = entries_[i];
        if (e.leaving) continue;
        e.changes = robustness;
        e.due = now;
    }
}

void mld_listener::on_query(time_point now, const ipv6& group, std::uint16_t response_code, std::size_t size) noexcept {
    const bool old = size == version_1_size;
    if (!old && size < 28) return;
    if (old) version_1_until_ = now + older_querier_present;
    settle_mode(now);
    const time_point at = now + at_random(old ? std::chrono::milliseconds{response_code} : mld_response_time(response_code));
    for (std::size_t i = 0; i < count_; ++i) {
        entry& e = entries_[i];
        if (!e.leaving && (group.is_any() || group == e.group)) e.answer = std::min(e.answer, at);
    }
}

void mld_listener::on_report(time_point now, const ipv6& group) noexcept {
    settle_mode(now);
    entry* const e = find(group);
    if (!was_version_1_ || e == nullptr || e->leaving || (e->answer == never && e->due == never)) return;
    e->answer = e->due = never;
    e->changes = 0;
    e->told_last = false;
}

time_point mld_listener::next_timeout() const noexcept {
    time_point first = never;
    for (std::size_t i = 0; i < count_; ++i) first = std::min({first, entries_[i].due, entries_[i].answer});
    return first;
}

/// RFC 2710 3, 4: one group a message, told to its listeners; the end of listening to the routers, if nobody else has told of it since.
mld_report mld_listener::version_1_report(time_point now, mutable_byte_span out) noexcept {
    for (std::size_t i = count_; i-- > 0;) {
        entry& e = entries_[i];
        if (e.due > now && e.answer > now) continue;
        const entry was = e;
        e.answer = e.due = never;
        if (e.leaving) {
            e = entries_[--count_];
            if (!was.told_last) continue;
        } else {
            e.told_last = true;
            if (e.changes != 0 && --e.changes != 0) e.due = now + at_random(version_1_interval);
        }
        store_be64(out.data(), std::uint64_t{was.leaving ? version_1_done_type : version_1_report_type} << 56);
        was.group.store(out.data() + 8);
        return {version_1_size, was.leaving ? ipv6::all_routers() : was.group};
    }
    return {};
}

mld_report mld_listener::poll_report(time_point now, mutable_byte_span out) noexcept {
    settle_mode(now);
    if (was_version_1_) return version_1_report(now, out);
    static const ipv6 routers(ipv6::octet_array{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16});
    std::size_t size = 8;
    std::uint16_t records = 0;
    for (std::size_t i = count_; i-- > 0;) {
        entry& e = entries_[i];
        if (e.due > now && e.answer > now) continue;
        std::byte* const at = out.data() + size;
        const bool change = e.changes != 0;
        store_u8(at, change ? e.leaving ? change_to_include : change_to_exclude : mode_is_exclude);
        store_u8(at + 1, 0);
        store_be16(at + 2, 0); // no sources
        e.group.store(at + 4);
        size += 20;
        ++records;
        e.answer = never; // what is told now answers the query, too
        e.due = never;
        if (change && --e.changes != 0) e.due = now + at_random(unsolicited_interval);
        if (e.leaving && e.changes == 0) e = entries_[--count_];
    }
    if (records == 0) return {};
    store_be32(out.data(), std::uint32_t{report_type} << 24);
    store_be32(out.data() + 4, records);
    return {size, routers};
}

} // namespace corewire
