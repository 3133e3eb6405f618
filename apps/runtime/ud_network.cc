#include <corewire/apps/runtime/ud_network.hh>

#include <corewire/rdma/ud_link/ud_port.hh>
#include <corewire/reactor/log/shard_log.hh>
#include <corewire/reactor/loop/reactor.hh>

namespace corewire {

namespace {

constexpr log_event<log_text<200>> ud_device_event{"port", "ud_device_event", log_level::warn, "{}"};

ud_device_options options_for(const network_options& o, unsigned shards, const verbs::verbs_api& api) {
    ud_device_options device{.device = o.device, .interface = o.interface, .queues = shards};
    if (o.address) device.network = *o.address;
    device.api = &api;
    return device;
}

} // namespace

ud_network::ud_network(const network_options& o, unsigned shards, const verbs::verbs_api& api)
    : device_(std::make_shared<ud_device>(options_for(o, shards, api))) {}

ud_network::~ud_network() = default;

std::unique_ptr<port> ud_network::open_port(unsigned shard) {
    if (shard == 0)
        events_ = std::make_unique<verbs::async_events>(device_->device(), reactor::current(), [this](const verbs::device_event& e) {
            device_->handle(e);
            log_message(ud_device_event, verbs::to_string(e, device_->device().name()));
        });
    return std::make_unique<ud_port>(device_, shard);
}

void ud_network::tear_down(unsigned shard) noexcept {
    if (shard == 0) events_.reset();
}

} // namespace corewire
