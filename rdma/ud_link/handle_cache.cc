#include <corewire/rdma/ud_link/handle_cache.hh>

#include <algorithm>

namespace corewire {

handle_cache::handle_cache(const verbs::protection_domain& in, const link_peers& peers, std::uint8_t port, std::uint8_t gid_index,
                           std::chrono::milliseconds retry_after)
    : in_(in), peers_(peers), port_(port), gid_index_(gid_index), retry_after_(retry_after), entries_(capacity) {}

void handle_cache::all_completed() noexcept {
    for (entry& e : entries_) e.busy = false;
}

handle_cache::entry* handle_cache::look_up(std::uint64_t mac, std::uint32_t position, std::uint32_t completed) noexcept {
    if (mac == 0) return nullptr;
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
    e->used = ++clock_;
    e->busy = true;
    e->last_send = position + 1;
    return last_ = e;
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
    try {
        e.handle = verbs::address_handle(in_, {.gid = peer->address.gid, .lid = peer->lid, .port = port_, .gid_index = gid_index_});
    } catch (const std::exception&) {
        e.retry = std::chrono::steady_clock::now() + retry_after_;
        e.used = ++clock_;
        ++counts_.unreachable;
        return nullptr;
    }
    ++counts_.made;
    return &e;
}

} // namespace corewire
