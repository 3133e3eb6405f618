#include <corewire/apps/runtime/verbs_network.hh>

#include <corewire/apps/runtime/setup_error.hh>
#include <corewire/rdma/raw/verbs_port.hh>
#include <corewire/reactor/log/shard_log.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <fmt/format.h>

namespace corewire {

namespace {

constexpr log_event<log_text<200>> device_event{"port", "device_event", log_level::warn, "{}"};

verbs_device_options options_for(const network_options& o, unsigned shards, const verbs::verbs_api& api) {
    verbs_device_options device{.device = o.device, .interface = o.interface, .queues = shards};
    if (o.shared) device.steering = verbs_steering::flows;
    device.vlan = o.vlan;
    device.api = &api;
    return device;
}

} // namespace

unsigned verbs_network::most_shards(const network_options& o, const verbs::verbs_api& api) {
    const std::string name = o.device.empty() ? verbs::device::find_by_interface(o.interface, api).name : o.device;
    const ibv_rss_caps can = verbs::device::open(name, api).attributes().rss_caps;
    const bool spreads = (can.supported_qpts & (1u << IBV_QPT_RAW_PACKET)) != 0;
    return spreads ? std::max(1u, can.max_rwq_indirection_table_size) : 1;
}

verbs_network::verbs_network(const network_options& o, unsigned shards, const verbs::verbs_api& api) : moderation_us_(o.moderation_us) {
    if (shards > 1 && shards > most_shards(o, api))
        throw setup_error(fmt::format("this device spreads packets over {} receive queues, and --cores asks for {} shards: choose "
                                      "--cores={}", most_shards(o, api), shards, most_shards(o, api)));
    device_ = std::make_shared<verbs_device>(options_for(o, shards, api));
    if (o.shared) return; // the addresses are the kernel's: what is ours of them the stacks tell (shared_host)
    if (o.address) device_->own(o.address->address());
    if (o.has_ipv6()) device_->own(ipv6::all_nodes()); // of which the kernel hears copies; our own addresses the stacks tell (group_host)
}

verbs_network::~verbs_network() = default;

std::unique_ptr<port> verbs_network::open_port(unsigned shard) {
    if (shard == 0)
        events_ = std::make_unique<verbs::async_events>(device_->device(), reactor::current(), [this](const verbs::device_event& e) {
            device_->handle(e);
            log_message(device_event, verbs::to_string(e, device_->device().name()));
        });
    return std::make_unique<verbs_port>(device_, shard, verbs_port_options{.moderate_us = moderation_us_});
}

void verbs_network::tear_down(unsigned shard) noexcept {
    if (shard == 0) events_.reset();
}

} // namespace corewire
