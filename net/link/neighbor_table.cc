// The table: lookups, resolve(), what has been learnt. The states and their timers are in neighbor_states.cc, the packets that
// wait in neighbor_queue.cc.
#include <corewire/net/link/neighbor_table.hh>

#include <corewire/net/wire/ethernet.hh>

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

namespace corewire {

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

neighbor_table::neighbor_table(const neighbor_options& options, std::uint64_t seed)
    : options_(options), random_(seed), bucket_mask_(std::bit_ceil(std::size_t{options.max_entries} * 2) - 1),
      entries_(std::make_unique<neighbor[]>(options.max_entries)),
      buckets_(std::make_unique<neighbor*[]>(bucket_mask_ + 1)),
      slots_(std::make_unique<waiting_slot[]>(options.max_waiting_total)) {
    CW_ASSERT(options.max_entries > 0, "a neighbour cache needs an entry");
    hash_key_.k0 = random_.next();
    hash_key_.k1 = random_.next();
    for (std::size_t i = 0; i < options.max_entries; ++i) list_of(neighbor_state::unused).push_back(entries_[i]);
    for (std::uint16_t i = options.max_waiting_total; i-- > 0;) slots_[i].next = std::exchange(free_slot_, i);
}

neighbor_table::~neighbor_table() = default;

/// Keyed: nobody outside can aim for one bucket.
std::size_t neighbor_table::bucket_of(const net_address& address) const noexcept {
    __extension__ using wide = unsigned __int128;
    const wide m = static_cast<wide>(address.high() ^ hash_key_.k0) * (address.low() ^ hash_key_.k1);
    const auto folded = static_cast<std::uint64_t>(m >> 64) ^ static_cast<std::uint64_t>(m);
    return static_cast<std::size_t>(folded ^ folded >> 32) & bucket_mask_;
}

neighbor* neighbor_table::find(const net_address& address) noexcept {
    neighbor* n = buckets_[bucket_of(address)];
    while (n != nullptr && n->address_ != address) n = n->next_in_bucket_;
    return n;
}

bool neighbor_table::has_failed(const net_address& address) const noexcept {
    const neighbor* n = buckets_[bucket_of(address)];
    while (n != nullptr && n->address_ != address) n = n->next_in_bucket_;
    return n != nullptr && n->state_ == neighbor_state::failed;
}

neighbor* neighbor_table::use(time_point now, const net_address& address) noexcept {
    neighbor* n = find(address);
    if (n == nullptr || !n->valid()) return nullptr;
    if (n->state_ == neighbor_state::stale) enter(now, *n, neighbor_state::delay);
    return n;
}

resolution neighbor_table::resolve(time_point now, const net_address& next_hop, packet& p, on_behalf who) noexcept {
    CW_DEBUG_ASSERT(p.head.size() >= wire::ethernet_header::size, "a packet without its Ethernet header");
    if (neighbor* n = use(now, next_hop)) {
        n->mac_.store(p.head.mutable_data());
        return resolution::ready;
    }
    if (who == on_behalf::stranger && is_gateway(next_hop)) who = on_behalf::ourselves;
    neighbor* n = find(next_hop);
    if (n != nullptr && n->state_ == neighbor_state::failed) {
        if (now < n->deadline_) return resolution::failed;
        forget(*n);
        n = nullptr;
    }
    if (n == nullptr) {
        if (who == on_behalf::stranger && !make_room_for_stranger()) return resolution::failed;
        n = create(next_hop, who);
        if (n == nullptr) return resolution::failed;
        n->for_stranger_ = who == on_behalf::stranger;
        if (n->for_stranger_) ++strangers_;
        enter(now, *n, neighbor_state::incomplete);
        question(*n);
    } else if (who == on_behalf::ourselves) {
        adopt(*n);
    }
    enqueue(*n, std::move(p));
    return resolution::queued;
}

void neighbor_table::learn(time_point now, neighbor& n, mac_address mac, bool solicited) noexcept {
    const bool had_mac = n.valid();
    const bool changed = had_mac && n.mac_ != mac;
    if (changed && now - n.changed_ < options_.lock_time) { // two machines answer: the first keeps the entry
        ++statistics_.mac_change_refused;
        return;
    }
    if (changed) ++statistics_.mac_changed;
    if (!had_mac) {
        ++statistics_.resolved;
        adopt(n);
    }
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

void neighbor_table::confirm(time_point now, const net_address& address) noexcept {
    if (neighbor* n = find(address)) n->confirm(now);
}

// ---- entries ----

neighbor* neighbor_table::create(const net_address& address, on_behalf who) noexcept {
    state_list& unused = list_of(neighbor_state::unused);
    if (unused.empty() && !make_room(who)) {
        ++statistics_.table_full;
        return nullptr;
    }
    neighbor& n = unused.pop_front();
    n.address_ = address;
    n.requests_ = 0;
    n.pins_ = 0;
    n.router_ = false;
    n.confirmed_ = n.changed_ = time_point{};
    neighbor*& bucket = buckets_[bucket_of(address)];
    n.next_in_bucket_ = std::exchange(bucket, &n);
    ++size_;
    ++statistics_.created;
    return &n;
}

namespace {

/// What makes room, what is least worth keeping first. Who is being asked for stays: forgotten, he would be asked again at once, and no
/// destination is to be asked more than once a second (RFC 1122 2.3.2.1). A stranger makes us forget only what we don't use.
std::span<const neighbor_state> gives_way_to(on_behalf who) noexcept {
    using enum neighbor_state;
    static constexpr neighbor_state order[] = {failed, stale, reachable, delay, incomplete, probe};
    switch (who) {
    case on_behalf::stranger: return std::span(order).first(2);
    case on_behalf::ourselves: return std::span(order).first(4);
    case on_behalf::configuration: break;
    }
    return order;
}

} // namespace

/// Within a state, what was confirmed longest ago.
bool neighbor_table::make_room(on_behalf who) noexcept {
    for (const neighbor_state s : gives_way_to(who)) {
        neighbor* const victim = list_of(s).find_first([&](const neighbor& n) { return n.pins_ == 0 && !is_gateway(n.address_); });
        if (victim == nullptr) continue;
        ++statistics_.evicted;
        forget(*victim);
        return true;
    }
    return false;
}

/// Of a stranger's entry one more: within their share, or in the place of one that has not answered.
bool neighbor_table::make_room_for_stranger() noexcept {
    if (strangers_ < std::max(options_.max_entries / 8, 1)) return true;
    neighbor* const victim = list_of(neighbor_state::failed).find_first([](const neighbor& n) { return n.for_stranger_ && n.pins_ == 0; });
    if (victim == nullptr) {
        ++statistics_.strangers_refused;
        return false;
    }
    ++statistics_.evicted;
    forget(*victim);
    return true;
}

/// It has a MAC, or we want something of it ourselves: no stranger any more.
void neighbor_table::adopt(neighbor& n) noexcept {
    if (!n.for_stranger_) return;
    n.for_stranger_ = false;
    --strangers_;
    strangers_waiting_ = static_cast<std::uint16_t>(strangers_waiting_ - n.waiting_);
}

void neighbor_table::forget(neighbor& n) noexcept {
    statistics_.queue_dropped += drop_waiting(n);
    adopt(n);
    neighbor** link = &buckets_[bucket_of(n.address_)];
    while (*link != &n) link = &(*link)->next_in_bucket_;
    *link = n.next_in_bucket_;
    n.next_in_bucket_ = nullptr;
    --size_;
    enter(time_point{}, n, neighbor_state::unused);
}

void neighbor_table::forget_learnt() noexcept {
    using enum neighbor_state;
    for (const neighbor_state s : {incomplete, reachable, stale, delay, probe, failed}) {
        state_list& all = list_of(s);
        while (!all.empty()) forget(all.front());
    }
}

bool neighbor_table::set_permanent(const net_address& address, mac_address mac) noexcept {
    neighbor* n = find(address);
    if (n == nullptr) n = create(address, on_behalf::configuration);
    if (n == nullptr) return false;
    adopt(*n);
    if (!n->valid() || n->mac_ != mac) ++n->generation_;
    n->mac_ = mac;
    enter(time_point{}, *n, neighbor_state::permanent);
    release_waiting(*n);
    return true;
}

void neighbor_table::told(time_point now, const net_address& address, mac_address mac, bool reachable) noexcept {
    neighbor* n = find(address);
    if (n == nullptr) n = create(address, on_behalf::stranger);
    if (n == nullptr) return;
    n->changed_ = now - options_.lock_time; // the host has its own ways with rivals
    learn(now, *n, mac, reachable);
}

void neighbor_table::told_unknown(const net_address& address) noexcept {
    neighbor* n = find(address);
    if (n != nullptr && n->valid()) forget(*n);
}

void neighbor_table::remove(const net_address& address) noexcept {
    if (neighbor* n = find(address)) forget(*n);
}

} // namespace corewire
