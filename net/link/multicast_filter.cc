#include <corewire/net/link/multicast_filter.hh>

namespace corewire {

std::size_t multicast_filter::index_of(ipv4 group) const noexcept {
    std::size_t i = 0;
    while (i < count_ && groups_[i].group != group) ++i;
    return i;
}

bool multicast_filter::join(ipv4 group) noexcept {
    if (!group.is_multicast()) return false;
    const std::size_t i = index_of(group);
    if (i == count_) {
        if (count_ == max_groups) {
            ++refused_;
            return false;
        }
        groups_[count_++] = {group, 0};
    }
    if (groups_[i].members == UINT16_MAX) {
        ++refused_;
        return false;
    }
    ++groups_[i].members;
    return true;
}

bool multicast_filter::leave(ipv4 group) noexcept {
    const std::size_t i = index_of(group);
    if (i == count_ || --groups_[i].members != 0) return false;
    groups_[i] = groups_[--count_];
    return true;
}

bool multicast_filter::accepts(ipv4 group) const noexcept {
    return group == ipv4::all_hosts() || index_of(group) != count_;
}

bool multicast_filter::accepts(mac_address group) const noexcept {
    if (group == mac_address::of_multicast(ipv4::all_hosts())) return true;
    for (std::size_t i = 0; i < count_; ++i) {
        if (mac_address::of_multicast(groups_[i].group) == group) return true;
    }
    return false;
}

} // namespace corewire
