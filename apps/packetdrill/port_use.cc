// Whose a port is, for bind(2): sockets with an fd, and connections that have outlived theirs.
#include "calls.hh"

#include <algorithm>

namespace corewire::packetdrill {

using posix::stream_socket;

namespace {

/// Whether addresses of one port stand in each other's way. At `::` a socket has IPv4's, too, unless it is for IPv6 alone
/// (ipv6_rcv_saddr_equal()).
bool share(const net_address& a, bool a_six_only, const net_address& b, bool b_six_only) {
    if (a.is_v4() == b.is_v4()) return a.is_any() || b.is_any() || a == b;
    return a.is_v4() ? b.is_any() && !b_six_only : a.is_any() && !a_six_only;
}

} // namespace

/// Another has the port, at an address that this one would share, and they have not both agreed to that (inet_csk_bind_conflict()).
bool calls::in_use(stream_socket& s, const socket_address& at) {
    const posix::stream_settings& own = s.settings();
    bool taken = false;
    fds_.for_each([&](int, posix::descriptor& d) {
        auto* const other = dynamic_cast<stream_socket*>(&d);
        if (other == nullptr || other == &s || !other->keeps_port()) return;
        const socket_address has = other->local_address();
        const posix::stream_settings& its = other->settings();
        const bool any = own.like_freebsd && (has.net().is_any() || at.net().is_any());
        const bool same = has.port == at.port && (any || share(has.net(), its.ipv6_only, at.net(), own.ipv6_only));
        const bool agreed = own.reuse_address && its.reuse_address && !other->listening();
        if (same && !agreed && !(own.reuse_port && its.reuse_port)) taken = true;
    });
    forget_free_ports();
    return taken || std::ranges::any_of(port_keepers_, [&](const port_keeper& k) {
        const bool same = k.flow.local_port == at.port && share(k.flow.local, false, at.net(), own.ipv6_only);
        return same && !(own.reuse_address && k.reuse_address) && !(own.reuse_port && k.reuse_port);
    });
}

/// Before its last fd is closed.
void calls::keep_port(stream_socket& s) {
    const tcp_connection* const c = s.connection();
    if (c == nullptr || s.settings().like_freebsd) return;
    if (port_keepers_.size() >= host_.stack().tcp().connections()) forget_free_ports();
    port_keepers_.push_back({c->name(), s.settings().reuse_address, s.settings().reuse_port});
}

void calls::forget_free_ports() {
    if (port_keepers_.empty()) return;
    std::vector<flow_name> taken;
    host_.stack().tcp().for_each_connection([&](const tcp_connection& c) {
        if (c.tcb.state() != tcp::tcp_state::closed) taken.push_back(c.name());
    });
    std::erase_if(port_keepers_, [&](const port_keeper& k) { return std::ranges::find(taken, k.flow) == taken.end(); });
}

} // namespace corewire::packetdrill
