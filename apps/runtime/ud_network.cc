#include <corewire/apps/runtime/ud_network.hh>

#include <corewire/apps/runtime/setup_error.hh>
#include <corewire/rdma/ud_link/ud_port.hh>
#include <corewire/reactor/log/shard_log.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <fmt/format.h>

namespace corewire {

namespace {

constexpr log_event<log_text<200>> ud_device_event{"port", "ud_device_event", log_level::warn, "{}"};

ud_device_options options_for(const network_options& o, unsigned shards, const verbs::verbs_api& api) {
    ud_device_options device{.device = o.device, .interface = o.interface, .queues = shards};
    if (o.address) device.network = *o.address;
    else device.network6 = o.address6;
    device.api = &api;
    return device;
}

} // namespace

ud_network::ud_network(const network_options& o, unsigned shards, const verbs::verbs_api& api)
    : device_(std::make_shared<ud_device>(options_for(o, shards, api))) {
    constexpr std::uint32_t least = 1280; // RFC 8200 5
    if (o.slaac && !o.address && !o.address6 && device_->ethernet())
        throw setup_error("--slaac: over RoCE the hosts of a network find each other by its address: give --address ADDRESS/LENGTH, too");
    if (o.has_ipv6() && device_->mtu() < least)
        throw setup_error(fmt::format("--address: IPv6 needs packets of {} bytes, and {} carries {}: give its network interface a larger "
                                      "MTU (`ip link set IFNAME mtu 2200`), or leave IPv6 out",
                                      least, device_->device().name(), device_->mtu()));
}

ud_network::~ud_network() = default;

std::unique_ptr<port> ud_network::open_port(unsigned shard) {
    if (shard == 0) {
        fabric_ = std::make_unique<fabric_follower>(device_, reactor::current(),
                                                    [](const std::string& what) { log_message(ud_device_event, what); });
        events_ = std::make_unique<verbs::async_events>(device_->device(), reactor::current(), [this](const verbs::device_event& e) {
            device_->handle(e);
            fabric_->handle(e);
            log_message(ud_device_event, verbs::to_string(e, device_->device().name()));
        });
    }
    return std::make_unique<ud_port>(device_, shard);
}

void ud_network::tear_down(unsigned shard) noexcept {
    if (shard != 0) return;
    events_.reset();
    fabric_.reset();
}

} // namespace corewire
