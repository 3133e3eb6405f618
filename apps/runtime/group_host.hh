// Multicast groups of a whole run, and its IPv6 addresses: the port is told which frames are wanted, once each, whichever shards want
// them.
//
//     each shard's stack --on_join, on_leave--> counted --first, last--> XDP map, flow rules; of groups the kernel's membership
//
// Made before the shards and destroyed after them; used by all of them, under a lock: joining is rare. Bounded by the ports' tables.
#pragma once

#include <corewire/net/stack/group_reports.hh>
#include <corewire/reactor/base/unique_fd.hh>

#include <map>
#include <memory>
#include <mutex>

namespace corewire {

class verbs_device;
class xdp_device;

class group_host final : public group_follower {
public:
    /// Of `xdp` and `verbs` one is there. `interface`: whose network card must let the groups' frames in; 0: none is known.
    group_host(std::shared_ptr<xdp_device> xdp, std::shared_ptr<verbs_device> verbs, unsigned interface);

    bool on_join(const net_address& destination) noexcept override;
    void on_leave(const net_address& destination) noexcept override;

private:
    struct membership {
        unsigned shards = 0;
        unique_fd kernels; ///< the kernel's own, which ends with it
    };
    bool begin(const net_address& destination, membership& m) noexcept;
    void end(const net_address& destination) noexcept;
    unique_fd kernel_joins(const net_address& group) const noexcept;

    std::shared_ptr<xdp_device> xdp_;
    std::shared_ptr<verbs_device> verbs_;
    unsigned interface_;
    std::mutex lock_;
    std::map<std::pair<std::uint64_t, std::uint64_t>, membership> members_; ///< by group or address
};

} // namespace corewire
