// --net=verbs: the RDMA device of the whole run, a port of it for each shard, and its events on shard 0.
// Made by main() before the shards; open_port() and tear_down() on each shard's thread.
#pragma once

#include <corewire/apps/runtime/network_options.hh>
#include <corewire/net/port/port.hh>
#include <corewire/rdma/raw/verbs_device.hh>

#include <memory>

namespace corewire {

class verbs_network {
public:
    /// Throws setup_error, or std::system_error with a sentence.
    verbs_network(const network_options& options, unsigned shards, const verbs::verbs_api& api = verbs::system_api());
    ~verbs_network();
    verbs_network(const verbs_network&) = delete;
    verbs_network& operator=(const verbs_network&) = delete;

    /// Its port; on shard 0, its reactor hears the device's events from now on. A link that goes down is told on stderr.
    std::unique_ptr<port> open_port(unsigned shard);
    void tear_down(unsigned shard) noexcept;
    const verbs_device& device() const noexcept { return *device_; }
    std::shared_ptr<verbs_device> shared_device() const noexcept { return device_; }

    /// How many shards the device can feed.
    static unsigned most_shards(const network_options& options, const verbs::verbs_api& api = verbs::system_api());

private:
    std::uint16_t moderation_us_;
    std::shared_ptr<verbs_device> device_;
    std::unique_ptr<verbs::async_events> events_;
};

} // namespace corewire
