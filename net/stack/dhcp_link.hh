// The DHCP client of a stack (net/dhcp): its messages into frames, frames into messages; whoever steers frames is told what we wait for.
//
//     a datagram to port 68, ARP, the timer --> dhcp_client --> frames, before there is an address too
//                                                         \--> lease --> network_stack::follow_lease(), dhcp_follower
//
// One stack's; of several shards behind one address, the first's. It owns no socket: it works before there is an address to bind to.
#pragma once

#include <corewire/net/dhcp/dhcp6_client.hh>
#include <corewire/net/dhcp/dhcp_client.hh>
#include <corewire/net/frame/packet.hh>
#include <corewire/net/stack/config.hh>
#include <corewire/net/wire/ipv4.hh>

namespace corewire {

class egress;
class ip_output;

/// Who must know what the client is at. Called on its shard, from within the stack; outlives it.
class dhcp_follower {
public:
    virtual ~dhcp_follower() = default;
    /// Answers come with this number, and frames about `address` (any(): none) concern us: a port that sees only frames that were asked
    /// for asks for these. Called when either changes.
    virtual void on_expected(std::uint32_t transaction, ipv4 address) noexcept = 0;
    /// There is another lease, or (null) none: the stack has followed it already.
    virtual void on_lease(const dhcp_lease* lease) noexcept = 0;
    /// DHCPv6: other addresses (perhaps none), times or settings.
    virtual void on_lease6(const dhcp6_lease& lease) noexcept = 0;
};

class dhcp_link {
public:
    dhcp_link(mac_address mac, ip_output& out, egress& tx, frame_pool& pool, const stack_config& config);

    void start(time_point now) noexcept;
    /// An IPv4 packet in a frame (`frame` starts at its Ethernet header). False: no datagram for a DHCP client, and untouched.
    bool input(time_point now, byte_span frame, wire::ipv4_view ip, bool checksum_good) noexcept;
    void on_arp(time_point now, const wire::arp_packet& arp) noexcept;
    void on_timer(time_point now) noexcept;
    time_point next_timeout() const noexcept { return client_.next_timeout(); }
    void release(time_point now) noexcept;

    /// Sends what there is to say. True: there is another lease.
    bool poll(time_point now) noexcept;
    const dhcp_client& client() const noexcept { return client_; }
    const dhcp_lease* lease() const noexcept { return client_.lease(); }
    dhcp_follower* follower() const noexcept { return follower_; }

private:
    void send(time_point now, const dhcp_outgoing& message) noexcept;
    bool probe(ipv4 target) noexcept;

    mac_address mac_;
    ip_output& out_;
    egress& egress_;
    frame_pool& pool_;
    dhcp_follower* follower_;
    dhcp_client client_;
    std::uint32_t generation_ = 0;
    std::uint32_t transaction_told_ = 0;
    ipv4 address_told_;
    mac_address server_mac_ = mac_address::broadcast(); ///< who brought the last answer: the server, or its relay
};

} // namespace corewire
