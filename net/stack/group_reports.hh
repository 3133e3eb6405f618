// IPv4 groups that sockets here have joined, told to routers and switches (IGMP): net/ip/igmp.hh's messages in frames. IPv6's are
// ipv6_output's (MLD).
//
//     join(), leave(), a query --> igmp_host --> due() --> frames to the group or to the routers, TTL 1, with a router alert
//
// One stack's. Several shards behind one address tell their own each: a router hears every query answered by who is a member.
#pragma once

#include <corewire/net/ip/igmp.hh>
#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/time.hh>

namespace corewire {

class egress;
class port;

/// Who must know what frames are wanted that no configuration names: a port that sees only what was asked for asks for these. Groups,
/// when the shard's first socket joins and its last has left; and IPv6 addresses of ours with their solicited-node groups, tentative
/// ones too, as they come (router advertisements, DHCPv6) and go. Called on the shard; outlives the stack.
class group_follower {
public:
    virtual ~group_follower() = default;
    /// What is sent to `destination` is wanted. False: the port can't (its table is full): the socket, or the log, hears of it.
    virtual bool on_join(const net_address& destination) noexcept = 0;
    virtual void on_leave(const net_address& destination) noexcept = 0;
};

class group_reports {
public:
    group_reports(port& device, egress& tx, std::uint64_t seed) noexcept : device_(device), egress_(tx), host_(seed) {}

    void join(time_point now, ipv4 group) noexcept;
    void leave(time_point now, ipv4 group) noexcept;
    /// The payload of an IGMP datagram.
    void input(time_point now, byte_span message) noexcept;
    /// Kept, for it is asked after everything that may have something to say.
    time_point due() const noexcept { return due_; }
    /// Sends what is due. `own`: our address; 0.0.0.0 while there is none (RFC 3376 4.2.13).
    void send(time_point now, ipv4 own) noexcept;
    const igmp_host& host() const noexcept { return host_; }

private:
    port& device_;
    egress& egress_;
    igmp_host host_;
    time_point due_ = never;
};

} // namespace corewire
