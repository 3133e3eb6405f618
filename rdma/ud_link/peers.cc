#include <corewire/rdma/ud_link/peers.hh>

namespace corewire {

void link_peers::learn(const link_peer& who) noexcept {
    const std::uint64_t mac = who.address.mac().value();
    const std::lock_guard guard(one_at_a_time_);
    generation_.fetch_add(1, std::memory_order_relaxed);
    set& s = sets_[mac % sets_.size()];
    place* free = nullptr;
    for (place& p : s.places) {
        if (p.mac == mac) {
            if (!(p.peer.address == who.address)) ++collisions_;
            const std::uint32_t told = p.peer.told + 1;
            p.peer = who;
            p.peer.told = told;
            return;
        }
        if (p.mac == 0 && free == nullptr) free = &p;
    }
    if (free == nullptr) {
        free = &s.places[s.next++ % ways];
        ++evicted_;
    }
    *free = {mac, who};
}

void link_peers::doubt_all() noexcept {
    const std::lock_guard guard(one_at_a_time_);
    generation_.fetch_add(1, std::memory_order_relaxed);
    for (set& s : sets_)
        for (place& p : s.places) ++p.peer.told;
}

std::optional<link_peer> link_peers::find(mac_address mac) const noexcept {
    const std::lock_guard guard(one_at_a_time_);
    for (const place& p : sets_[mac.value() % sets_.size()].places)
        if (p.mac == mac.value()) return p.peer;
    return std::nullopt;
}

std::uint64_t link_peers::evicted() const noexcept {
    const std::lock_guard guard(one_at_a_time_);
    return evicted_;
}
std::uint64_t link_peers::collisions() const noexcept {
    const std::lock_guard guard(one_at_a_time_);
    return collisions_;
}

} // namespace corewire
