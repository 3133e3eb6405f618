#include <corewire/net/port/sim/sim_network.hh>

namespace corewire {

namespace {
constexpr std::size_t most_addresses = 1024;
} // namespace

struct sim_switch::socket final : sim_endpoint {
    socket(sim_switch& s, std::size_t n) : owner(s), number(n) {}
    void deliver(frame& f, std::uint32_t size) override { owner.forward(number, f, size); }
    sim_switch& owner;
    std::size_t number;
};

sim_switch::sim_switch(sim_network& network) : network_(&network) {}
sim_switch::~sim_switch() = default;

sim_link& sim_network::connect(sim_port& a, sim_switch& b, const sim_link_options& options) {
    b.sockets_.push_back(std::make_unique<sim_switch::socket>(b, b.sockets_.size()));
    return join(a, *b.sockets_.back(), options);
}

sim_link& sim_network::connect(sim_switch& a, sim_switch& b, const sim_link_options& options) {
    a.sockets_.push_back(std::make_unique<sim_switch::socket>(a, a.sockets_.size()));
    b.sockets_.push_back(std::make_unique<sim_switch::socket>(b, b.sockets_.size()));
    return join(*a.sockets_.back(), *b.sockets_.back(), options, true);
}

void sim_switch::forward(std::size_t from, frame& f, std::uint32_t size) {
    if (size < 14) return release(f);
    const mac_address to = mac_address::load(f.bytes);
    const mac_address sender = mac_address::load(f.bytes + 6);
    if (!sender.is_multicast() && (learned_.size() < most_addresses || learned_.contains(sender))) learned_[sender] = from;
    if (const auto known = learned_.find(to); known != learned_.end()) {
        if (known->second == from) return release(f); // the one it is for has heard it
        return network_->send(*sockets_[known->second]->out_, f, size);
    }
    for (auto& s : sockets_) {
        if (s->number == from) continue;
        if (frame* copy = network_->copy({f.bytes, size}, {})) network_->send(*s->out_, *copy, size);
        else network_->no_frame(*s->out_);
    }
    release(f);
}

} // namespace corewire
