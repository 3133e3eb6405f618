// What arrives by ARP. The table that it changes is neighbor_table.cc's.
#include <corewire/net/link/neighbors.hh>

#include <corewire/reactor/log/shard_log.hh>

namespace corewire {

namespace {

constexpr log_event<wire::ipv4_address, wire::mac_address> address_conflict{"arp", "address_conflict", log_level::warn,
                                                                "another host has our address {}: its MAC is {}"};

} // namespace

neighbor_cache::neighbor_cache(mac_address own_mac, ip_prefix own, neighbor_options options, std::uint64_t seed)
    : neighbor_table(options, seed), mac_(own_mac), own_(own), claim_(own_mac, own.address()) {}

void neighbor_cache::start(time_point now, bool probe_first, bool ask) {
    claim_.start(now, probe_first, ask, random_);
    while (claim_.next_timeout() <= now && !outbox_.full()) run_claim(now);
}

void neighbor_cache::on_timer(time_point now) noexcept {
    run_claim(now);
    age(now);
}

void neighbor_cache::run_claim(time_point now) noexcept {
    if (now < claim_.next_timeout() || outbox_.full()) return;
    if (const auto message = claim_.on_timer(now, random_)) say(mac_address::broadcast(), *message);
}

/// A question to everybody; to a neighbour that was known once, a question to it alone (RFC 1122 2.3.2.1 (2)).
void neighbor_cache::ask(const neighbor& n) noexcept {
    const mac_address to = n.state() == neighbor_state::probe ? n.mac() : mac_address::broadcast();
    if (say(to, wire::arp_packet::request(mac_, own_.address(), n.address().v4()))) ++statistics_.requests_sent;
}

bool neighbor_cache::say(mac_address destination, const wire::arp_packet& arp) noexcept {
    if (outbox_.put({destination, arp})) return true;
    ++statistics_.outbox_full;
    return false;
}

// ---- what arrives ----

void neighbor_cache::on_arp(time_point now, const wire::arp_packet& arp, arp_arrival how) noexcept {
    const bool believed = how.on_link || own_.contains(arp.sender_ip) || answers_us(arp);
    const bool asked = asks_for_us(arp);
    if (!possible(arp) || !(believed || asked || arp.sender_ip.is_any())) {
        ++statistics_.ignored_malformed;
        return;
    }
    if (claim_.on_arp(now, arp, how.answer)) { // learn nothing from a rival
        if (how.answer) log_message(address_conflict, own_.address(), arp.sender_mac);
        run_claim(now);
        return;
    }
    if (believed && !arp.sender_ip.is_any()) take_sender(now, arp);
    if (asked && how.answer) {
        const wire::arp_packet reply{wire::arp_operation::reply, mac_, own_.address(), arp.sender_mac, arp.sender_ip};
        if (say(arp.sender_mac, reply)) ++statistics_.replies_sent;
    }
}

bool neighbor_cache::asks_for_us(const wire::arp_packet& arp) const noexcept {
    const bool ours_to_answer = claim_.phase() != claim_phase::probing && claim_.phase() != claim_phase::lost;
    return ours_to_answer && arp.operation == wire::arp_operation::request && arp.target_ip == own_.address() &&
           !own_.address().is_any() && arp.sender_mac != mac_;
}

/// The sender could be one machine: neither a group, nor a broadcast address. 0.0.0.0 is a probe's (RFC 5227 1.1), which may ask and from
/// which nothing is learnt.
bool neighbor_cache::possible(const wire::arp_packet& arp) const noexcept {
    const bool request = arp.operation == wire::arp_operation::request;
    if ((!request && arp.operation != wire::arp_operation::reply) || !arp.sender_mac.is_unicast()) return false;
    if (arp.sender_ip.is_any()) return request;
    if (!arp.sender_ip.is_unicast() || arp.sender_ip.is_loopback()) return false;
    return own_.length() >= 31 || (arp.sender_ip != own_.broadcast() && arp.sender_ip != own_.network());
}

/// What we ask for is on the link, wherever our routes have that from.
bool neighbor_cache::answers_us(const wire::arp_packet& arp) noexcept {
    if (arp.operation != wire::arp_operation::reply || arp.target_ip != own_.address()) return false;
    const neighbor* const n = find(arp.sender_ip);
    return n != nullptr && (n->state() == neighbor_state::incomplete || n->state() == neighbor_state::probe);
}

/// RFC 826 "Packet Reception": update a known sender; make an entry only for one that asks for us, as it will send to
/// us next. What was not asked for is never more than stale, so that it is checked before it is trusted for long.
void neighbor_cache::take_sender(time_point now, const wire::arp_packet& arp) noexcept {
    neighbor* n = find(arp.sender_ip);
    if (n == nullptr) {
        if (asks_for_us(arp)) {
            n = create(arp.sender_ip, on_behalf::stranger);
            if (n == nullptr) return;
        } else {
            if (arp.operation == wire::arp_operation::reply || arp.sender_ip == arp.target_ip) ++statistics_.ignored_unsolicited;
            return;
        }
    }
    if (n->state() == neighbor_state::permanent) return;
    const bool asked = n->state() == neighbor_state::incomplete || n->state() == neighbor_state::probe;
    const bool answer = arp.operation == wire::arp_operation::reply && arp.target_ip == own_.address();
    learn(now, *n, arp.sender_mac, asked && answer);
}

} // namespace corewire
