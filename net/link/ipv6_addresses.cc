#include <corewire/net/link/ipv6_addresses.hh>

#include <corewire/net/wire/address_policy.hh>

#include <algorithm>

namespace corewire {

namespace {

using phase = ipv6_address_phase;

/// What a silent shard waits for longer than the shard that asks: that may have heard of the address a little later.
constexpr duration silent_margin = std::chrono::milliseconds{200};

/// `a` is a better source than `b` (RFC 6724 5).
bool better(const own_ipv6_address& a, const own_ipv6_address& b, const ipv6& destination) noexcept {
    if ((a.address == destination) != (b.address == destination)) return a.address == destination; // rule 1
    const unsigned sa = wire::scope_of(a.address), sb = wire::scope_of(b.address), sd = wire::scope_of(destination);
    if (sa != sb) return sa < sb ? sa >= sd : sb < sd;                                            // rule 2
    if (a.phase != b.phase) return a.phase == phase::preferred;                                    // rule 3
    const unsigned label = wire::policy_of(destination).label;
    const bool fits = wire::policy_of(a.address).label == label;
    if (fits != (wire::policy_of(b.address).label == label)) return fits;                           // rule 6
    const auto common = [&](const own_ipv6_address& s) {                                           // rule 8
        return std::min<unsigned>(ipv6_prefix::common_prefix(s.address, destination), s.prefix_length);
    };
    return common(a) > common(b);
}

} // namespace

own_ipv6_address* ipv6_addresses::find(const ipv6& address) noexcept {
    for (std::size_t i = 0; i < count_; ++i)
        if (addresses_[i].address == address) return &addresses_[i];
    return nullptr;
}

own_ipv6_address* ipv6_addresses::add(time_point now, const ipv6& address, std::uint8_t prefix_length, ipv6_address_origin origin,
                                      std::uint8_t duplicates) noexcept {
    if (own_ipv6_address* there = find(address)) return there;
    if (count_ == max_addresses) {
        ++refused_;
        return nullptr;
    }
    // Who asks draws for itself: who is silent must not believe the address unique before that has asked.
    const duration drawn{static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(how_.first_delay.count()) + 1))};
    probe_[count_] = false;
    own_ipv6_address& a = addresses_[count_++] = own_ipv6_address{};
    a.address = address;
    a.prefix_length = prefix_length;
    a.origin = origin;
    a.duplicates = duplicates;
    if (how_.probes == 0) {
        a.phase = phase::preferred;
        ++generation_;
    } else {
        a.due = now + (how_.silent ? how_.first_delay + silent_margin : drawn);
    }
    return &a;
}

void ipv6_addresses::remove(const ipv6& address) noexcept {
    own_ipv6_address* a = find(address);
    if (a == nullptr) return;
    const auto i = static_cast<std::size_t>(a - addresses_.data());
    --count_;
    ++generation_;
    addresses_[i] = addresses_[count_];
    probe_[i] = probe_[count_];
}

void ipv6_addresses::prefer(time_point now, own_ipv6_address& a, time_point until) noexcept {
    a.preferred_until = until;
    if (a.phase != phase::deprecated || until <= now) return;
    a.phase = phase::preferred;
    ++generation_;
}

bool ipv6_addresses::is_ours(const ipv6& address) const noexcept {
    return std::ranges::any_of(all(), [&](const own_ipv6_address& a) { return a.usable() && a.address == address; });
}

bool ipv6_addresses::is_claimed(const ipv6& address) const noexcept {
    return std::ranges::any_of(all(), [&](const own_ipv6_address& a) { return a.phase != phase::duplicate && a.address == address; });
}

bool ipv6_addresses::any_tentative() const noexcept {
    return std::ranges::any_of(all(), [](const own_ipv6_address& a) { return a.phase == phase::tentative; });
}

bool ipv6_addresses::is_our_group(const ipv6& group) const noexcept {
    return std::ranges::any_of(all(), [&](const own_ipv6_address& a) {
        return a.phase != phase::duplicate && a.address.solicited_node() == group;
    });
}

bool ipv6_addresses::on_conflict(const ipv6& address) noexcept {
    own_ipv6_address* a = find(address);
    if (a == nullptr || a->phase == phase::duplicate) return false;
    ++conflicts_;
    if (a->phase != phase::tentative) return false; // RFC 4862 5.4.4 leaves this open: kept, as ARP's claim keeps its address
    a->phase = phase::duplicate;
    ++generation_;
    probe_[static_cast<std::size_t>(a - addresses_.data())] = false;
    return true;
}

time_point ipv6_addresses::next_timeout() const noexcept {
    time_point first = never;
    for (const own_ipv6_address& a : all()) {
        if (a.phase == phase::tentative) first = std::min(first, a.due);
        if (a.phase == phase::preferred) first = std::min(first, a.preferred_until);
        first = std::min(first, a.valid_until);
    }
    return first;
}

void ipv6_addresses::on_timer(time_point now) noexcept {
    for (std::size_t i = count_; i-- > 0;) {
        own_ipv6_address& a = addresses_[i];
        if (a.valid_until <= now) {
            remove(ipv6(a.address));
            continue;
        }
        if (a.phase == phase::tentative && a.due <= now) {
            if (a.probes_sent == how_.probes) { // RFC 4862 5.4: nobody has answered for RetransTimer after the last
                a.phase = phase::preferred;
                ++generation_;
            } else {
                ++a.probes_sent;
                a.due = now + how_.retransmit_time;
                probe_[i] = !how_.silent;
            }
        }
        if (a.phase == phase::preferred && a.preferred_until <= now) {
            a.phase = phase::deprecated;
            ++generation_;
        }
    }
}

bool ipv6_addresses::poll_probe(ipv6& target) noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
        if (!probe_[i]) continue;
        probe_[i] = false;
        target = addresses_[i].address;
        return true;
    }
    return false;
}

void ipv6_addresses::on_probe_unsent(const ipv6& target) noexcept {
    own_ipv6_address* const a = find(target);
    if (a != nullptr && a->phase == phase::tentative && a->probes_sent != 0) --a->probes_sent;
}

const own_ipv6_address* ipv6_addresses::source_for(const ipv6& destination, bool tentative_too) const noexcept {
    const own_ipv6_address* best = nullptr;
    for (const own_ipv6_address& a : all())
        if ((a.usable() || (tentative_too && a.phase == phase::tentative)) && (best == nullptr || better(a, *best, destination))) best = &a;
    return best;
}

} // namespace corewire
