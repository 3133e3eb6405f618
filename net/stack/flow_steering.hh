// Which shard owns a flow, when several shards serve one address, and how a frame gets there.
//
// The rule is one hash over the 4-tuple, the same on every shard (and the NIC's own where it has RSS): a frame that
// arrives at the wrong shard is handed over, and an active open picks a source port that hashes home. UDP's sockets need no peer
// to receive, so there it is the port that says whose a datagram is, if it is no several shards' (net/udp/udp_port_map.hh).
#pragma once

#include <corewire/net/frame/packet.hh>
#include <corewire/net/stack/flow_name.hh>
#include <corewire/net/udp/udp_port_map.hh>
#include <corewire/net/wire/ip_protocol.hh>
#include <corewire/reactor/base/time.hh>
#include <corewire/reactor/loop/sleeper.hh>

#include <memory>

namespace corewire {

class network_stack;

class flow_steering {
public:
    virtual ~flow_steering() = default;
    /// The number of the shard whose connections have this 4-tuple.
    virtual unsigned owner(const flow_key& key) const noexcept = 0;
    /// The same of a flow of either family.
    virtual unsigned owner(const flow_name& flow) const noexcept = 0;
    /// Whose a datagram to our UDP port is, of a flow that is `by_hash`'s: a shard that has a socket there, if any has.
    virtual unsigned owner_of_datagram(std::uint16_t, unsigned by_hash) const noexcept { return by_hash; }
    /// Of a segment or datagram of this flow, of either family.
    template <typename Flow>
    unsigned owner_of(const Flow& flow, wire::ip_protocol protocol) const noexcept {
        const unsigned by_hash = owner(flow);
        return protocol == wire::ip_protocol::udp ? owner_of_datagram(flow.local_port, by_hash) : by_hash;
    }
    /// Null: owner_of_datagram() asks nobody.
    virtual std::shared_ptr<udp_port_map> udp_ports() const noexcept { return {}; }
    /// The number of this shard.
    virtual unsigned self() const noexcept = 0;
    /// Gives a whole Ethernet frame to another shard. False (the frame is dropped and counted) when the way is full.
    virtual bool hand_over(unsigned shard, packet&& frame) noexcept = 0;
    /// A frame that concerns every shard (an ARP reply, neighbour discovery): a copy to each other one.
    virtual void share_with_all(const packet& frame) noexcept = 0;
    /// Takes in what others handed to us; true if there was anything.
    virtual bool poll(time_point now, network_stack& stack) = 0;
    virtual bool prepare_sleep() noexcept = 0;
    virtual void finish_sleep() noexcept = 0;
    virtual void watch(sleeper& sleeping) const = 0;
};

} // namespace corewire
