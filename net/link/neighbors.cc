// The table and what comes in: lookups, resolve(), ARP packets. The states and their timers are in neighbor_states.cc,
// the packets that wait in neighbor_queue.cc.
#include <corewire/net/link/neighbors.hh>

#include <corewire/net/wire/ethernet.hh>
#include <corewire/reactor/log/shard_log.hh>

#include <bit>
#include <utility>

namespace corewire {

namespace {

constexpr log_event<wire::ipv4_address, wire::mac_address> address_conflict{"arp", "address_conflict", log_level::warn,
                                                                "another host has our address {}: its MAC is {}"};

} // namespace

std::string_view to_string(neighbor_state s) noexcept {
    switch (s) {
    case neighbor_state::unused: return "unused";
    case neighbor_state::incomplete: return "incomplete";
    case neighbor_state::reachable: return "reachable";
    case neighbor_state::stale: return "stale";
    case neighbor_state::delay: return "delay";
    case neighbor_state::probe: return "probe";
    case neighbor_state::failed: return "failed";
    case neighbor_state::permanent: return "permanent";
    }
    return "unknown";
}

neighbor_cache::neighbor_cache(mac_address own_mac, ip_prefix own, neighbor_options options, std::uint64_t seed)
    : mac_(own_mac), own_(own), options_(options), random_(seed), claim_(own_mac, own.address()),
      hash_key_(random_.next() | 1), hash_offset_(random_.next()),
      bucket_mask_(std::bit_ceil(std::size_t{options.max_entries} * 2) - 1),
      entries_(std::make_unique<neighbor[]>(options.max_entries)),
      buckets_(std::make_unique<neighbor*[]>(bucket_mask_ + 1)),
      slots_(std::make_unique<waiting_slot[]>(options.max_waiting_total)) {
    CW_ASSERT(options.max_entries > 0, "a neighbour cache needs an entry");
    for (std::size_t i = 0; i < options.max_entries; ++i) list_of(neighbor_state::unused).push_back(entries_[i]);
    for (std::uint16_t i = options.max_waiting_total; i-- > 0;) slots_[i].next = std::exchange(free_slot_, i);
}

neighbor_cache::~neighbor_cache() = default;

void neighbor_cache::start(time_point now, bool probe_first, bool ask) {
    claim_.start(now, probe_first, ask, random_);
    while (claim_.next_timeout() <= now && outbox_count_ != outbox_size) run_claim(now);
}

/// Multiply-shift under a secret key: nobody outside can aim for one bucket.
std::size_t neighbor_cache::bucket_of(ipv4 address) const noexcept {
    return static_cast<std::size_t>((address.value() * hash_key_ + hash_offset_) >> 32) & bucket_mask_;
}

neighbor* neighbor_cache::find(ipv4 address) noexcept {
    neighbor* n = buckets_[bucket_of(address)];
    while (n != nullptr && n->address_ != address) n = n->next_in_bucket_;
    return n;
}

neighbor* neighbor_cache::use(time_point now, ipv4 address) noexcept {
    neighbor* n = find(address);
    if (n == nullptr || !n->valid()) return nullptr;
    if (n->state_ == neighbor_state::stale) enter(now, *n, neighbor_state::delay);
    return n;
}

resolution neighbor_cache::resolve(time_point now, ipv4 next_hop, packet& p) noexcept {
    CW_DEBUG_ASSERT(p.head.size() >= wire::ethernet_header::size, "a packet without its Ethernet header");
    if (neighbor* n = use(now, next_hop)) {
        n->mac_.store(p.head.mutable_data());
        return resolution::ready;
    }
    neighbor* n = find(next_hop);
    if (n != nullptr && n->state_ == neighbor_state::failed) {
        if (now < n->deadline_) return resolution::failed;
        forget(*n);
        n = nullptr;
    }
    if (n == nullptr) {
        n = create(next_hop, false);
        if (n == nullptr) return resolution::failed;
        enter(now, *n, neighbor_state::incomplete);
        request(*n);
    }
    enqueue(*n, std::move(p));
    return resolution::queued;
}

// ---- what arrives ----

void neighbor_cache::on_arp(time_point now, const wire::arp_packet& arp) noexcept {
    const bool known_operation =
        arp.operation == wire::arp_operation::request || arp.operation == wire::arp_operation::reply;
    if (!known_operation || !believable(arp)) {
        ++statistics_.ignored_malformed;
        return;
    }
    if (claim_.on_arp(now, arp)) { // learn nothing from a rival
        log_message(address_conflict, own_.address(), arp.sender_mac);
        run_claim(now);
        return;
    }
    if (!arp.sender_ip.is_any()) take_sender(now, arp);
    if (asks_for_us(arp)) {
        const wire::arp_packet reply{wire::arp_operation::reply, mac_, own_.address(), arp.sender_mac, arp.sender_ip};
        if (say(arp.sender_mac, reply)) ++statistics_.replies_sent;
    }
}

bool neighbor_cache::asks_for_us(const wire::arp_packet& arp) const noexcept {
    const bool ours_to_answer = claim_.phase() != claim_phase::probing && claim_.phase() != claim_phase::lost;
    return ours_to_answer && arp.operation == wire::arp_operation::request && arp.target_ip == own_.address() &&
           !own_.address().is_any() && arp.sender_mac != mac_;
}

/// The sender could be one machine of this network: neither a group, nor a broadcast address, nor from elsewhere.
/// 0.0.0.0 is a probe's (RFC 5227 1.1), which may ask and from which nothing is learnt.
bool neighbor_cache::believable(const wire::arp_packet& arp) const noexcept {
    if (!arp.sender_mac.is_unicast()) return false;
    if (arp.sender_ip.is_any()) return arp.operation == wire::arp_operation::request;
    if (!arp.sender_ip.is_unicast() || !own_.contains(arp.sender_ip)) return false;
    return own_.length() >= 31 || (arp.sender_ip != own_.broadcast() && arp.sender_ip != own_.network());
}

/// RFC 826 "Packet Reception": update a known sender; make an entry only for one that asks for us, as it will send to
/// us next. What was not asked for is never more than stale, so that it is checked before it is trusted for long.
void neighbor_cache::take_sender(time_point now, const wire::arp_packet& arp) noexcept {
    neighbor* n = find(arp.sender_ip);
    if (n == nullptr) {
        if (asks_for_us(arp)) {
            n = create(arp.sender_ip, true);
            if (n == nullptr) return;
        } else {
            if (arp.operation == wire::arp_operation::reply || arp.sender_ip == arp.target_ip) ++statistics_.ignored_unsolicited;
            return;
        }
    }
    if (n->state_ == neighbor_state::permanent) return;
    const bool asked = n->state_ == neighbor_state::incomplete || n->state_ == neighbor_state::probe;
    const bool answer = arp.operation == wire::arp_operation::reply && arp.target_ip == own_.address();
    learn(now, *n, arp.sender_mac, asked && answer);
}

void neighbor_cache::learn(time_point now, neighbor& n, mac_address mac, bool solicited) noexcept {
    const bool had_mac = n.valid();
    const bool changed = had_mac && n.mac_ != mac;
    if (changed && now - n.changed_ < options_.lock_time) { // two machines answer: the first keeps the entry
        ++statistics_.mac_change_refused;
        return;
    }
    if (changed) ++statistics_.mac_changed;
    if (!had_mac) ++statistics_.resolved;
    if (changed || !had_mac) {
        n.mac_ = mac;
        n.changed_ = now;
        ++n.generation_;
    }
    if (solicited) {
        n.confirmed_ = now;
        enter(now, n, neighbor_state::reachable);
    } else if (changed || !had_mac) {
        enter(now, n, n.waiting_ != 0 ? neighbor_state::delay : neighbor_state::stale);
    }
    release_waiting(n);
}

void neighbor_cache::confirm(time_point now, ipv4 address) noexcept {
    if (neighbor* n = find(address)) n->confirm(now);
}

// ---- entries ----

neighbor* neighbor_cache::create(ipv4 address, bool for_stranger) noexcept {
    state_list& unused = list_of(neighbor_state::unused);
    if (unused.empty() && !make_room(for_stranger)) {
        ++statistics_.table_full;
        return nullptr;
    }
    neighbor& n = unused.pop_front();
    n.address_ = address;
    n.requests_ = 0;
    n.pins_ = 0;
    n.confirmed_ = n.changed_ = time_point{};
    neighbor*& bucket = buckets_[bucket_of(address)];
    n.next_in_bucket_ = std::exchange(bucket, &n);
    ++size_;
    ++statistics_.created;
    return &n;
}

/// What is least worth keeping goes first; within a state, what was confirmed longest ago. A stranger's question makes
/// us forget only what we don't use.
bool neighbor_cache::make_room(bool for_stranger) noexcept {
    using enum neighbor_state;
    constexpr neighbor_state order[] = {failed, stale, incomplete, reachable, delay, probe};
    for (std::size_t i = 0; i < (for_stranger ? std::size_t{2} : std::size(order)); ++i) {
        neighbor* victim = nullptr;
        list_of(order[i]).for_each([&](neighbor& n) {
            if (victim == nullptr && n.pins_ == 0) victim = &n;
        });
        if (victim == nullptr) continue;
        ++statistics_.evicted;
        forget(*victim);
        return true;
    }
    return false;
}

void neighbor_cache::forget(neighbor& n) noexcept {
    statistics_.queue_dropped += drop_waiting(n);
    neighbor** link = &buckets_[bucket_of(n.address_)];
    while (*link != &n) link = &(*link)->next_in_bucket_;
    *link = n.next_in_bucket_;
    n.next_in_bucket_ = nullptr;
    --size_;
    enter(time_point{}, n, neighbor_state::unused);
}

bool neighbor_cache::set_permanent(ipv4 address, mac_address mac) noexcept {
    neighbor* n = find(address);
    if (n == nullptr) n = create(address, false);
    if (n == nullptr) return false;
    if (!n->valid() || n->mac_ != mac) ++n->generation_;
    n->mac_ = mac;
    enter(time_point{}, *n, neighbor_state::permanent);
    release_waiting(*n);
    return true;
}

void neighbor_cache::told(time_point now, ipv4 address, mac_address mac, bool reachable) noexcept {
    neighbor* n = find(address);
    if (n == nullptr) n = create(address, true);
    if (n == nullptr) return;
    n->changed_ = now - options_.lock_time; // the host has its own ways with rivals
    learn(now, *n, mac, reachable);
}

void neighbor_cache::told_unknown(ipv4 address) noexcept {
    neighbor* n = find(address);
    if (n != nullptr && n->valid()) forget(*n);
}

void neighbor_cache::remove(ipv4 address) noexcept {
    if (neighbor* n = find(address)) forget(*n);
}

} // namespace corewire
