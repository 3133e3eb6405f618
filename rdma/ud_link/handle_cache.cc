#include <corewire/rdma/ud_link/handle_cache.hh>

#include <algorithm>

namespace corewire {

handle_cache::handle_cache(const verbs::protection_domain& in, const link_peers& peers, std::uint8_t port, std::uint8_t gid_index,
                           std::chrono::milliseconds retry_after)
    : in_(in), peers_(peers), port_(port), gid_index_(gid_index), retry_after_(retry_after), entries_(capacity) {}

void handle_cache::all_completed() noexcept {
    for (entry& e : entries_) {
        e.busy = false;
        e.before = {};
    }
    last_ = nullptr; // its next send says that it is busy again
}

handle_cache::entry* handle_cache::look_up(std::uint64_t mac, std::uint32_t position, std::uint32_t completed) noexcept {
    if (mac == 0) return nullptr;
    seen_ = peers_.generation();
    const std::span<entry, ways> set(&entries_[mac % (capacity / ways) * ways], ways);
    entry* e = nullptr;
    for (entry& each : set)
        if (each.mac == mac) e = &each;
    const bool retry = e != nullptr && !e->handle;
    if (retry && std::chrono::steady_clock::now() < e->retry) {
        ++counts_.unreachable;
        return nullptr;
    }
    if (e == nullptr || retry) {
        if (e == nullptr) e = room_in(set, completed);
        if (e == nullptr) {
            ++counts_.no_room;
            return nullptr;
        }
        e = fill(*e, mac);
    }
    if (e == nullptr) return nullptr;
    const bool settled = refresh(*e, completed);
    e->used = ++clock_;
    e->busy = true;
    e->last_send = position + 1;
    last_ = settled ? e : nullptr; // else it is looked up again for the next packet
    return e;
}

/// A free place, or that of the least recently used one which no send names any more.
handle_cache::entry* handle_cache::room_in(std::span<entry, ways> set, std::uint32_t completed) noexcept {
    entry* oldest = nullptr;
    for (entry& e : set) {
        if (e.mac == 0) return &e;
        if (e.busy && static_cast<std::int32_t>(e.last_send - completed) > 0) continue;
        if (oldest == nullptr || e.used < oldest->used) oldest = &e;
    }
    if (oldest == nullptr) return nullptr;
    if (last_ == oldest) last_ = nullptr;
    ++counts_.evicted;
    --count_;
    *oldest = {};
    return oldest;
}

/// Makes the handle for a MAC. Null when nobody has told of it, or the device can't.
handle_cache::entry* handle_cache::fill(entry& e, std::uint64_t mac) noexcept {
    const auto peer = peers_.find(mac_address(mac));
    if (!peer) {
        ++counts_.unknown_peer;
        return nullptr;
    }
    if (e.mac == 0) ++count_;
    e.mac = mac;
    e.queue_pair = peer->address.queue_pair;
    e.told = peer->told;
    e.lid = peer->lid;
    e.retry = std::chrono::steady_clock::now() + retry_after_;
    try {
        e.handle = make(*peer);
    } catch (const std::exception&) {
        e.used = ++clock_;
        ++counts_.unreachable;
        return nullptr;
    }
    ++counts_.made;
    return &e;
}

verbs::address_handle handle_cache::make(const link_peer& peer) {
    return verbs::address_handle(in_, {.gid = peer.address.gid, .lid = peer.lid, .port = port_, .gid_index = gid_index_,
                                       .service_level = service_level_});
}

/// Of one that is there: anew, if its peer has been heard of since it was made. What can't be made anew stays as it was. False: it is
/// still to be made anew.
bool handle_cache::refresh(entry& e, std::uint32_t completed) noexcept {
    const auto under_way = [completed](std::uint32_t until) { return static_cast<std::int32_t>(until - completed) > 0; };
    if (e.before && !under_way(e.before_until)) e.before = {};
    const auto peer = peers_.find(mac_address(e.mac));
    if (!peer || peer->told == e.told) return true;
    if (e.before) return false;
    const auto now = std::chrono::steady_clock::now();
    if (peer->lid == e.lid && now < e.retry) return false;
    e.retry = now + retry_after_;
    verbs::address_handle fresh;
    try {
        fresh = make(*peer);
    } catch (const std::exception&) {
        return false;
    }
    if (e.busy && under_way(e.last_send)) {
        e.before = std::move(e.handle);
        e.before_until = e.last_send;
    }
    e.handle = std::move(fresh);
    e.queue_pair = peer->address.queue_pair;
    e.told = peer->told;
    e.lid = peer->lid;
    ++counts_.refreshed;
    return true;
}

} // namespace corewire
