#include <corewire/net/ip/path_mtu.hh>

#include <algorithm>

namespace corewire {

std::uint32_t plateau_below(std::uint32_t length) noexcept {
    // RFC 1191 7.1, table 7-1.
    constexpr std::uint32_t plateaus[] = {65535, 32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68};
    for (std::uint32_t p : plateaus) {
        if (p < length) return p;
    }
    return 68;
}

path_mtu path_mtu_cache::find(time_point now, const net_address& destination) const noexcept {
    for (std::size_t i = 0; i < used_; ++i) {
        const entry& e = entries_[i];
        if (e.destination == destination && now < e.expiry) return {e.mtu};
    }
    return {link_mtu_};
}

path_mtu path_mtu_cache::judge(time_point now, const net_address& destination, std::uint32_t reported,
                               std::uint32_t quoted_length) noexcept {
    const path_mtu before = find(now, destination);
    if (!destination.is_v4() && reported < ipv6_minimum) { // RFC 8201 4: it MUST be discarded
        ++below_minimum_;
        return before;
    }
    // RFC 1191 5: a router of old says nothing. RFC 1191 7.1's note on 4.2BSD (a total length with the header added)
    // needs no care: an estimate that doesn't shrink is ignored, and the next report is for a shorter datagram.
    std::uint32_t mtu = reported != 0 ? reported : plateau_below(std::min(quoted_length, before.bytes));
    if (destination.is_v4() && mtu < minimum) {
        ++below_minimum_;
        mtu = minimum;
    }
    if (mtu >= before.bytes) {
        ++ignored_;
        return before;
    }
    return {mtu};
}

void path_mtu_cache::lower(time_point now, const net_address& destination, std::uint32_t mtu) noexcept {
    if (mtu >= find(now, destination).bytes) return;
    entry& e = *slot_for(now, destination);
    e = {destination, mtu, now + lifetime};
    ++generation_;
}

path_mtu path_mtu_cache::on_too_big(time_point now, const net_address& destination, std::uint32_t reported,
                                    std::uint32_t quoted_length) noexcept {
    const path_mtu told = judge(now, destination, reported, quoted_length);
    lower(now, destination, told.bytes);
    return told;
}

path_mtu_cache::entry* path_mtu_cache::slot_for(time_point now, const net_address& destination) noexcept {
    entry* oldest = nullptr;
    for (std::size_t i = 0; i < used_; ++i) {
        entry& e = entries_[i];
        if (e.destination == destination) return &e;
        if (oldest == nullptr || e.expiry < oldest->expiry) oldest = &e;
    }
    if (oldest != nullptr && oldest->expiry <= now) return oldest;
    if (used_ < max_entries) return &entries_[used_++];
    ++evicted_;
    return oldest;
}

std::size_t path_mtu_cache::size(time_point now) const noexcept {
    return static_cast<std::size_t>(
        std::count_if(entries_.begin(), entries_.begin() + used_, [&](const entry& e) { return now < e.expiry; }));
}

} // namespace corewire
