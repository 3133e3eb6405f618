// flow_steering over cables in memory: every pair of shards that share an address has a wire between them, and a frame for
// somebody else's flow goes there by reference and comes home to be freed.
//
//     shard A's port --frame of B's flow--> A's wire to B ....> B's wire to A --> B's stack, as if its own port had it
//
// owner() is the symmetric Toeplitz hash of the 4-tuple modulo the number of shards: the same on every shard and for both
// directions. A datagram goes to a shard that has its port. Bounded by the wires' rings, and by the frames that are left: where they are
// scarce, none is lent. What finds no way is dropped and counted.
#pragma once

#include <corewire/net/port/loop/wire_port.hh>
#include <corewire/net/stack/flow_steering.hh>

#include <memory>
#include <vector>

namespace corewire {

class shard_steering final : public flow_steering {
public:
    /// One for each of `shards` shards, with all the wires between them. Give each to its shard's stack, on its own thread.
    /// `slots`: a NIC spreads flows by a table of so many entries (a power of two) that name the shards in turn, and the
    /// owner is the shard whose queue that leads to. 0: no NIC does. `mtu`: the ports'.
    static std::vector<std::unique_ptr<shard_steering>> make(unsigned shards, unsigned slots = 0, std::uint32_t mtu = 1500);

    unsigned owner(const flow_key& key) const noexcept override;
    unsigned owner(const flow_name& flow) const noexcept override;
    unsigned owner_of_datagram(std::uint16_t local_port, unsigned by_hash) const noexcept override {
        return udp_ports_->owner(local_port, by_hash);
    }
    std::shared_ptr<udp_port_map> udp_ports() const noexcept override { return udp_ports_; }
    unsigned self() const noexcept override { return self_; }
    bool hand_over(unsigned shard, packet&& frame) noexcept override;
    void share_with_all(const packet& frame) noexcept override;
    bool poll(time_point now, network_stack& stack) override;
    bool prepare_sleep() noexcept override;
    void finish_sleep() noexcept override;
    void watch(sleeper& sleeping) const override;
    /// Frames dropped because the way was full, or too few were left.
    std::uint64_t dropped() const noexcept { return dropped_; }

private:
    unsigned owner_of(std::uint32_t hash) const noexcept;
    shard_steering(unsigned self, unsigned shards, unsigned slots) : self_(self), slots_(slots), wires_(shards) {}
    unsigned self_;
    unsigned slots_;
    std::shared_ptr<udp_port_map> udp_ports_;       ///< one for all
    std::vector<std::unique_ptr<wire_port>> wires_; ///< by shard; null for ourselves
    std::uint64_t dropped_ = 0;
};

} // namespace corewire
