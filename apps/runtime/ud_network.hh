// --net=verbs-ud: the RDMA device of the whole run, a port of it for each shard, and its events on shard 0.
// Made by main() before the shards; open_port() and tear_down() on each shard's thread.
#pragma once

#include <corewire/apps/runtime/network_options.hh>
#include <corewire/net/port/port.hh>
#include <corewire/rdma/ud_link/fabric_follower.hh>

#include <memory>

namespace corewire {

class ud_network {
public:
    /// Throws setup_error, or std::system_error with a sentence.
    ud_network(const network_options& options, unsigned shards, const verbs::verbs_api& api = verbs::system_api());
    ~ud_network();
    ud_network(const ud_network&) = delete;
    ud_network& operator=(const ud_network&) = delete;

    /// Its port; on shard 0, its reactor hears the device's events from now on. A link that goes down is told to the log.
    std::unique_ptr<port> open_port(unsigned shard);
    void tear_down(unsigned shard) noexcept;
    const ud_device& device() const noexcept { return *device_; }

private:
    std::shared_ptr<ud_device> device_;
    std::unique_ptr<fabric_follower> fabric_; ///< of shard 0, like
    std::unique_ptr<verbs::async_events> events_;
};

} // namespace corewire
