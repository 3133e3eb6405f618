#include <corewire/net/ip/mld.hh>

#include <algorithm>
#include <chrono>

namespace corewire {

namespace {

constexpr std::uint8_t robustness = 2;                                  // RFC 3810 9.1
constexpr duration unsolicited_interval = std::chrono::seconds{1};      // 9.11
constexpr std::uint8_t report_type = 143;
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

/// RFC 3810 6.1: a change is told at once and once more within a second.
void mld_listener::follow(time_point now, std::span<const ipv6> groups) noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
        entry& e = entries_[i];
        const bool wanted = std::ranges::find(groups, e.group) != groups.end();
        if (wanted != e.leaving) continue;
        e.leaving = !wanted;
        e.changes = robustness;
        e.due = now;
    }
    for (const ipv6& group : groups) {
        if (group == ipv6::all_nodes() || find(group) != nullptr) continue;
        if (count_ == max_groups) {
            ++refused_;
            continue;
        }
        entries_[count_++] = entry{.group = group, .changes = robustness, .leaving = false, .due = now};
    }
}

void mld_listener::on_query(time_point now, const ipv6& group, duration within) noexcept {
    const auto limit = static_cast<std::uint64_t>(std::max<std::int64_t>(within.count(), 0)) + 1;
    const time_point at = now + duration{static_cast<std::int64_t>(random_.below(limit))};
    for (std::size_t i = 0; i < count_; ++i) {
        entry& e = entries_[i];
        if (!e.leaving && (group.is_any() || group == e.group)) e.answer = std::min(e.answer, at);
    }
}

time_point mld_listener::next_timeout() const noexcept {
    time_point first = never;
    for (std::size_t i = 0; i < count_; ++i) first = std::min({first, entries_[i].due, entries_[i].answer});
    return first;
}

std::size_t mld_listener::poll_report(time_point now, mutable_byte_span out) noexcept {
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
        if (change && --e.changes != 0)
            e.due = now + duration{static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(unsolicited_interval.count())))};
        if (e.leaving && e.changes == 0) e = entries_[--count_];
    }
    if (records == 0) return 0;
    store_be32(out.data(), std::uint32_t{report_type} << 24);
    store_be32(out.data() + 4, records);
    return size;
}

} // namespace corewire
