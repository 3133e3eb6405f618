#include <corewire/net/link/neighbor_discovery.hh>

#include <algorithm>
#include <utility>

namespace corewire {

namespace {

/// RFC 4861 7.2.5 replaces a MAC whenever the advertisement says so: no lock time.
neighbor_options without_lock(neighbor_options o) noexcept {
    o.lock_time = duration{0};
    return o;
}

constexpr duration redraw_interval = std::chrono::hours{2}; ///< RFC 4861 6.3.2: "every few hours"

} // namespace

neighbor_discovery::neighbor_discovery(neighbor_options options, std::uint64_t seed)
    : neighbor_table(without_lock(options), seed), base_reachable_(options.reachable_time) {
    set_reachable_time(drawn());
}

/// RFC 4861 6.3.2: uniform, so that the hosts of a link do not probe at the same time (MIN_RANDOM_FACTOR 0.5, MAX_RANDOM_FACTOR 1.5).
duration neighbor_discovery::drawn() noexcept {
    const auto range = static_cast<std::uint64_t>(base_reachable_.count());
    return base_reachable_ / 2 + duration{static_cast<std::int64_t>(random_.below(range + 1))};
}

void neighbor_discovery::on_times(time_point now, duration reachable, duration retransmit) noexcept {
    if (reachable > duration{0}) {
        const duration base = std::clamp(reachable, least_reachable, most_reachable);
        if (base != base_reachable_) { // the same one again is no reason to draw again
            base_reachable_ = base;
            set_reachable_time(drawn());
            draw_again_ = now + redraw_interval;
        }
    }
    if (retransmit > duration{0}) set_retransmit_time(std::clamp(retransmit, least_retransmit, most_retransmit));
}

/// Drawing has no timer of its own: where no entry has anything to do, the time is not used either.
void neighbor_discovery::on_timer(time_point now) noexcept {
    if (now >= draw_again_) {
        if (draw_again_ != time_point{}) set_reachable_time(drawn());
        draw_again_ = now + redraw_interval;
    }
    age(now);
}

bool neighbor_discovery::on_solicitation(time_point now, const ipv6& source, const wire::neighbor_solicitation& ns) noexcept {
    if (source.is_any()) { // RFC 4861 7.2.4: unsolicited then, and to all
        announce(ns.target);
        return false;
    }
    if (ns.source_mac) on_sender(now, source, *ns.source_mac, false);
    const neighbor* n = find(source);
    const mac_address to = n != nullptr && n->valid() ? n->mac() : ns.source_mac.value_or(mac_address{});
    if (to.is_zero()) return true;
    if (say({nd_message::kind::answer, ns.target, source, to, true})) ++statistics_.replies_sent;
    return false;
}

/// RFC 4861 7.2.3: makes an entry, or changes the MAC of one that there is; never more than stale.
void neighbor_discovery::on_sender(time_point now, const ipv6& source, mac_address mac, bool router) noexcept {
    if (!mac.is_unicast() || source.is_multicast() || source.is_any()) {
        ++statistics_.ignored_malformed;
        return;
    }
    neighbor* n = find(source);
    if (n == nullptr) n = create(source, on_behalf::stranger);
    if (n == nullptr) return;
    if (n->state() == neighbor_state::permanent) return;
    if (router) n->router_ = true;
    learn(now, *n, mac, false);
}

/// RFC 4861 7.2.5, in the order of its text.
bool neighbor_discovery::on_advertisement(time_point now, const wire::neighbor_advertisement& na) noexcept {
    neighbor* const n = find(na.target);
    if (n == nullptr || n->state() == neighbor_state::failed || n->state() == neighbor_state::unused) {
        ++statistics_.ignored_unsolicited;
        return false;
    }
    if (n->state() == neighbor_state::permanent) return false;
    if (na.target_mac && !na.target_mac->is_unicast()) {
        ++statistics_.ignored_malformed;
        return false;
    }
    if (n->state() == neighbor_state::incomplete) {
        if (!na.target_mac) return false;
        learn(now, *n, *na.target_mac, na.solicited);
        return std::exchange(n->router_, na.router) && !na.router;
    }
    const bool other_mac = na.target_mac && *na.target_mac != n->mac();
    if (other_mac && !na.override) { // (I)
        ++statistics_.mac_change_refused;
        if (n->state() == neighbor_state::reachable) enter(now, *n, neighbor_state::stale);
        return false;
    }
    learn(now, *n, na.target_mac.value_or(n->mac()), na.solicited); // (II)
    return std::exchange(n->router_, na.router) && !na.router;
}

void neighbor_discovery::announce(const ipv6& own) noexcept {
    const ipv6 everybody = ipv6::all_nodes();
    if (say({nd_message::kind::answer, own, everybody, wire::multicast_mac(everybody), false})) ++statistics_.replies_sent;
}

/// RFC 4861 7.2.2; to a neighbour that was known once, a question to it alone (7.3.3).
void neighbor_discovery::ask(const neighbor& n) noexcept {
    const ipv6 target = n.address().v6();
    const ipv6 group = target.solicited_node();
    const bool alone = n.state() == neighbor_state::probe;
    const nd_message m{nd_message::kind::question, target, alone ? target : group, alone ? n.mac() : wire::multicast_mac(group), false};
    if (say(m)) ++statistics_.requests_sent;
}

bool neighbor_discovery::say(const nd_message& m) noexcept {
    if (outbox_.put(m)) return true;
    ++statistics_.outbox_full;
    return false;
}

} // namespace corewire
