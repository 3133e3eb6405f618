// --address dhcp, and DHCPv6 with --slaac: what one shard's clients learn, for the whole run. The port is told which frames to
// bring, the other shards what their addresses are now, the log what has happened.
//
//     shard 0's stack --on_expected--> XDP program's maps, RDMA flow rules
//                     --on_lease-----> the other shards' stacks (follow_lease)
//
// Made before the shards and destroyed after them; used on shard 0.
#pragma once

#include <corewire/net/stack/dhcp_link.hh>
#include <corewire/reactor/task/task.hh>

#include <functional>
#include <memory>

namespace corewire {

class network_stack;
class verbs_device;
class xdp_device;

class dhcp_host final : public dhcp_follower {
public:
    /// Of `xdp` and `verbs` one or none is there. `stack_of`: a shard's, on its thread.
    dhcp_host(unsigned shards, std::shared_ptr<xdp_device> xdp, std::shared_ptr<verbs_device> verbs,
              std::function<network_stack*(unsigned)> stack_of);

    void on_expected(std::uint32_t transaction, ipv4 address) noexcept override;
    void on_lease(const dhcp_lease* lease) noexcept override;
    void on_lease6(const dhcp6_lease& lease) noexcept override;

private:
    void steer(ipv4 address) noexcept;
    template <typename Lease>
    task<> tell(unsigned shard, const std::shared_ptr<const Lease>& current);

    unsigned shards_;
    std::shared_ptr<xdp_device> xdp_;
    std::shared_ptr<verbs_device> verbs_;
    std::function<network_stack*(unsigned)> stack_of_;
    std::uint32_t transaction_ = 0;
    ipv4 address_;                              ///< steered to us
    std::shared_ptr<const dhcp_lease> current_; ///< null: none
    std::shared_ptr<const dhcp6_lease> current6_;
};

} // namespace corewire
