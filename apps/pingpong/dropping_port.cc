#include <corewire/apps/pingpong/dropping_port.hh>

#include <algorithm>

namespace corewire::pingpong {

dropping_port::dropping_port(std::unique_ptr<port> inner, std::uint32_t every)
    : inner_(std::move(inner)), every_(every), until_drop_(every) {
    pool_ = &inner_->pool();
    capabilities_ = inner_->capabilities();
    statistics_ = inner_->statistics();
    mac_ = inner_->mac();
    mtu_ = inner_->mtu();
    name_ = inner_->name() + ", losing frames";
}

std::size_t dropping_port::receive(std::span<packet> out) {
    const std::size_t got = inner_->receive(out);
    if (got != 0) update_statistics();
    return got;
}

std::size_t dropping_port::transmit(std::span<packet> burst) {
    std::size_t taken = 0;
    while (taken < burst.size()) {
        const std::size_t run = std::min<std::size_t>(burst.size() - taken, until_drop_ - 1);
        const std::size_t sent = run == 0 ? 0 : inner_->transmit(burst.subspan(taken, run));
        taken += sent;
        until_drop_ -= static_cast<std::uint32_t>(sent);
        if (sent < run || taken == burst.size()) break; // the port is full, or all is done
        burst[taken++] = packet{};
        ++dropped_;
        until_drop_ = every_;
    }
    update_statistics();
    return taken;
}

void dropping_port::update_statistics() noexcept {
    statistics_ = inner_->statistics();
    statistics_.transmit_dropped += dropped_;
}

} // namespace corewire::pingpong
