#include <corewire/net/resolve/destination_order.hh>

#include <corewire/net/wire/address_policy.hh>

#include <algorithm>

namespace corewire {

namespace {

/// Rule 9. Of IPv4 only whether it is our own network counts: elsewhere numbers that are alike say nothing of the way, and would undo the
/// turns in which a name server gives its addresses.
unsigned shared_bits(const destination& d) noexcept {
    const chosen_source& s = *d.source;
    const unsigned common = std::min(wire::common_prefix(s.address, d.address), s.prefix_length);
    return d.address.is_v4() && common != s.prefix_length ? 0 : common;
}

} // namespace

bool goes_before(const destination& a, const destination& b) noexcept {
    if (a.source.has_value() != b.source.has_value()) return a.source.has_value(); // rule 1: avoid what cannot be reached
    const unsigned scope_a = wire::scope_of(a.address), scope_b = wire::scope_of(b.address);
    const wire::address_policy policy_a = wire::policy_of(a.address), policy_b = wire::policy_of(b.address);
    if (a.source) {
        const bool fits_a = wire::scope_of(a.source->address) == scope_a, fits_b = wire::scope_of(b.source->address) == scope_b;
        if (fits_a != fits_b) return fits_a; // 2: matching scopes
        if (a.source->deprecated != b.source->deprecated) return b.source->deprecated; // 3
        const bool same_a = wire::policy_of(a.source->address).label == policy_a.label;
        const bool same_b = wire::policy_of(b.source->address).label == policy_b.label;
        if (same_a != same_b) return same_a; // 5: matching labels
    }
    if (policy_a.precedence != policy_b.precedence) return policy_a.precedence > policy_b.precedence; // 6
    if (scope_a != scope_b) return scope_a < scope_b; // 8: the smaller scope
    return a.source && a.address.is_v4() == b.address.is_v4() && shared_bits(a) > shared_bits(b); // 9
}

void sort_destinations(std::vector<ip_address>& all) {
    if (all.size() < 2) return;
    const auto* const provider = static_cast<const socket_provider*>(reactor::current().attached(reactor::attachment::network));
    if (provider == nullptr) return;
    const auto address_of = [](const ip_address& a) {
        socket_address at;
        at.address = a;
        return at.net();
    };
    struct candidate {
        destination to;
        ip_address as_it_came;
    };
    std::vector<candidate> candidates;
    for (const ip_address& a : all) candidates.push_back({{address_of(a), provider->source_for(address_of(a))}, a});
    std::stable_sort(candidates.begin(), candidates.end(), [](const candidate& a, const candidate& b) { return goes_before(a.to, b.to); });
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = candidates[i].as_it_came;
}

} // namespace corewire
