#include <corewire/apps/runtime/group_host.hh>

#include <corewire/net/port/xdp/xdp_device.hh>
#include <corewire/rdma/raw/verbs_device.hh>

#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace corewire {

group_host::group_host(std::shared_ptr<xdp_device> xdp, std::shared_ptr<verbs_device> verbs, unsigned interface)
    : xdp_(std::move(xdp)), verbs_(std::move(verbs)), interface_(interface) {}

namespace {

std::pair<std::uint64_t, std::uint64_t> key_of(const net_address& a) noexcept { return {a.high(), a.low()}; }

} // namespace

bool group_host::on_join(const net_address& destination) noexcept {
    const std::lock_guard one_at_a_time(lock_);
    try {
        membership& m = members_[key_of(destination)];
        if (m.shards == 0 && !begin(destination, m)) {
            members_.erase(key_of(destination));
            return false;
        }
        ++m.shards;
        return true;
    } catch (const std::exception&) { // no memory for an entry
        return false;
    }
}

void group_host::on_leave(const net_address& destination) noexcept {
    const std::lock_guard one_at_a_time(lock_);
    const auto found = members_.find(key_of(destination));
    if (found == members_.end() || --found->second.shards != 0) return;
    members_.erase(found); // and with it the kernel's membership
    end(destination);
}

bool group_host::begin(const net_address& destination, membership& m) noexcept {
    const bool member = interface_ != 0 && destination.is_multicast();
    if (member) m.kernels = kernel_joins(destination);
    if (member && m.kernels.get() < 0) return false;
    try {
        if (xdp_) xdp_->own(destination);
        if (verbs_) verbs_->own(destination);
        return true;
    } catch (const std::exception&) { // the table is full
        return false;
    }
}

void group_host::end(const net_address& destination) noexcept {
    if (xdp_) xdp_->disown(destination);
    if (verbs_) verbs_->disown(destination);
}

/// The kernel has the card let the group in, tells the routers, and answers those that ask about all groups: their questions, to 224.0.0.1
/// and ff02::1, are the kernel's. Where it cannot (it has no IPv6), the card's filter alone is opened.
unique_fd group_host::kernel_joins(const net_address& group) const noexcept {
    if (group.is_v4()) {
        unique_fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        ip_mreqn what{};
        group.v4().store(reinterpret_cast<std::byte*>(&what.imr_multiaddr));
        what.imr_ifindex = static_cast<int>(interface_);
        if (::setsockopt(fd.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &what, sizeof what) == 0) return fd;
    } else {
        unique_fd fd(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        ipv6_mreq what{};
        group.v6().store(reinterpret_cast<std::byte*>(&what.ipv6mr_multiaddr));
        what.ipv6mr_interface = interface_;
        if (::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &what, sizeof what) == 0) return fd;
    }
    unique_fd card(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)); // protocol 0: it hears nothing itself
    packet_mreq what{};
    what.mr_ifindex = static_cast<int>(interface_);
    what.mr_type = PACKET_MR_MULTICAST;
    what.mr_alen = mac_address::size;
    const mac_address mac = group.is_v4() ? mac_address::of_multicast(group.v4()) : wire::multicast_mac(group.v6());
    mac.store(reinterpret_cast<std::byte*>(what.mr_address));
    if (::setsockopt(card.get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &what, sizeof what) != 0) card.reset();
    return card;
}

} // namespace corewire
