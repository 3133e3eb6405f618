#include <corewire/rdma/ud_link/peers.hh>

namespace corewire {

void link_peers::learn(const link_peer& who) noexcept {
    const std::uint64_t mac = who.address.mac().value();
    const std::lock_guard guard(one_at_a_time_);
    set& s = sets_[mac % sets_.size()];
    place* free = nullptr;
    for (place& p : s.places) {
        if (p.mac == mac) {
            if (!(p.peer.address == who.address)) ++collisions_;
            p.peer = who;
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
