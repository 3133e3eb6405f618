// What a shard uses RDMA with: rdma_cm's events, and each device that a connection of the shard goes over. One a shard,
// made by it; everything made with it goes before it does.
#pragma once

#include <corewire/rdma/channel/adapter.hh>
#include <corewire/rdma/channel/cm_events.hh>
#include <corewire/rdma/verbs/waiting_calls.hh>
#include <corewire/net/socket/address.hh>

#include <memory>
#include <string_view>
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
    /// On the running reactor.
    explicit context(context_options options = {}) : options_(options), reactor_(reactor::current()) {}
    ~context(); ///< waits for calls that wait for the network
    context(const context&) = delete;

    /// Throws std::system_error with a sentence when the kernel has no rdma_cm.
    cm_events& events();
    reactor& owner() noexcept { return reactor_; }
    const verbs::cm_api& cm() const noexcept { return *options_.cm; }
    const verbs::verbs_api& verbs() const noexcept { return *options_.verbs; }
    /// Where to make what needs the network's answer about a peer's GID.
    verbs::waiting_calls& waits();
    /// The adapter of the device on which an id of rdma_cm stands; made when it is asked for first. Throws std::system_error ENODEV when
    /// the device has gone.
    adapter& adapter_of(const rdma_cm_id& id);
    /// That of a device by its name, for those who do without rdma_cm: opened here, if it is not known yet. (One that rdma_cm opens later
    /// gets another adapter, with a pool of its own.)
    adapter& adapter_on(std::string_view device);
    /// The one that carries an address of this host, and by which of its ports. Throws std::system_error ENODEV if none does.
    struct place {
        adapter& on;
        std::uint8_t port;
    };
    place place_of(const ip_address& ours);
    adapter& adapter_for(const ip_address& ours) { return place_of(ours).on; }
    /// By an adapter whose device has gone, and on which nothing stands.
    void drop(const adapter& gone) noexcept;

private:
    adapter* known(const ibv_context* opened) const;
    owned_cm_id bound_to(sockaddr& ours);
    adapter& make(verbs::device on, owned_cm_id held);

    context_options options_;
    reactor& reactor_;
    std::unique_ptr<cm_events> events_; ///< from when they are asked for first
    std::unique_ptr<verbs::waiting_calls> waits_; ///< likewise
    std::vector<std::unique_ptr<adapter>> adapters_; ///< before what they stand on
};

/// As the system calls want it.
union socket_name {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
    explicit socket_name(const socket_address& a) noexcept;
};

/// The other way; of another family than IP's: unspecified.
socket_address address_in(const sockaddr& name) noexcept;

} // namespace corewire::rdma
