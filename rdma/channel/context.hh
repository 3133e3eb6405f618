// What a shard uses RDMA with: rdma_cm's events, and each device that a connection of the shard goes over. One a shard,
// made by it; everything made with it goes before it does.
#pragma once

#include <corewire/rdma/channel/adapter.hh>
#include <corewire/rdma/channel/cm_events.hh>
#include <corewire/net/socket/address.hh>

#include <memory>
#include <vector>

namespace corewire::rdma {

struct context_options {
    unsigned completions = 4096; ///< room for the work requests of all channels of this shard on one device
    memory_pool_options memory{}; ///< registered for all of them
    const verbs::verbs_api* verbs = &verbs::system_api(); ///< or those of rdma/fake
    const verbs::cm_api* cm = &verbs::system_cm();
};

class context {
public:
    /// On the running reactor. Throws std::system_error with a sentence when the kernel has no rdma_cm.
    explicit context(context_options options = {})
        : options_(options), reactor_(reactor::current()), events_(reactor_, *options.cm) {}
    context(const context&) = delete;

    cm_events& events() noexcept { return events_; }
    reactor& owner() noexcept { return reactor_; }
    const verbs::cm_api& cm() const noexcept { return *options_.cm; }
    /// The adapter of a device that rdma_cm has opened; made when it is asked for first.
    adapter& adapter_of(ibv_context* opened);
    /// The one that carries an address of this host. Throws std::system_error ENODEV if none does.
    adapter& adapter_for(ipv4 ours);

private:
    context_options options_;
    reactor& reactor_;
    cm_events events_;
    std::vector<std::unique_ptr<adapter>> adapters_;
};

/// As the system calls want it.
union socket_name {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
    explicit socket_name(const socket_address& a) noexcept;
};

} // namespace corewire::rdma
