#include <corewire/net/stack/listener_table.hh>

#include <algorithm>

namespace corewire {

/// Of the same port: either has addresses that the other has.
bool listener_table::overlaps(const tcp_listen_socket& listener) const noexcept {
    const auto covers = [](const tcp_listen_socket& a, const tcp_listen_socket& b) {
        const net_address wide = a.bound_to().net(), narrow = b.bound_to().net();
        return wide == narrow || (wide.is_any() && (wide.is_v4() == narrow.is_v4() || is_for_both(a)));
    };
    return std::ranges::any_of(all_, [&](const auto& each) {
        return each.first.port == listener.bound_to().port && (covers(*each.second, listener) || covers(listener, *each.second));
    });
}

bool listener_table::add(tcp_listen_socket& listener, bool alone) {
    const place first = first_place_of(listener), second{ipv4::any(), first.port};
    if (at(first) != nullptr || (is_for_both(listener) && at(second) != nullptr) || (alone && overlaps(listener))) return false;
    all_.emplace(first, &listener);
    try {
        if (is_for_both(listener)) all_.emplace(second, &listener);
    } catch (...) {
        all_.erase(first);
        throw;
    }
    return true;
}

bool listener_table::remove(tcp_listen_socket& listener) noexcept {
    const place first = first_place_of(listener), second{ipv4::any(), first.port};
    if (at(first) != &listener) return false;
    all_.erase(first);
    if (at(second) == &listener) all_.erase(second);
    return true;
}

bool listener_table::has_port(std::uint16_t port) const noexcept {
    return std::ranges::any_of(all_, [port](const auto& each) { return each.first.port == port; });
}

} // namespace corewire
