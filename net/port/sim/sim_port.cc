#include <corewire/net/port/sim/sim_port.hh>

#include <corewire/net/port/sim/sim_network.hh>

#include <algorithm>
#include <bit>
#include <cstring>

namespace corewire {

sim_port::sim_port(sim_network& network, mac_address mac, const sim_port_options& options)
    : network_(&network), frames_(options.frames, std::max(frame_pool::default_frame_size,
                                                           std::bit_ceil(options.mtu + 18 + frame_headroom))),
      inbox_(options.inbox), vouch_(options.vouch_for_checksums) {
    pool_ = &frames_;
    mac_ = mac;
    mtu_ = options.mtu;
    name_ = "sim:" + to_string(mac);
    capabilities_.receive_checksum = vouch_;
    capabilities_.gather = true;
}

sim_port::~sim_port() {
    if (network_ == nullptr) return;
    drop_all();
    for (auto& link : network_->links_) {
        for (auto& lane : link->lanes_) {
            if (lane.to == this) lane.to = nullptr;
        }
    }
    std::erase(network_->ports_, this);
}

void sim_port::drop_all() noexcept {
    for (; count_ != 0; --count_, first_ = (first_ + 1) % inbox_.size()) release(*inbox_[first_].what);
}

void sim_port::set_deaf(bool deaf) noexcept {
    deaf_ = deaf;
    drop_all();
}

void sim_port::network_gone() noexcept {
    network_ = nullptr;
    out_ = nullptr;
    count_ = 0;
}

void sim_port::deliver(frame& f, std::uint32_t size) {
    if (deaf_ || count_ == inbox_.size()) {
        ++statistics_.receive_no_buffer;
        release(f);
        return;
    }
    inbox_[(first_ + count_++) % inbox_.size()] = {&f, size};
}

std::size_t sim_port::receive(std::span<packet> out) {
    std::size_t taken = 0;
    while (taken < out.size() && count_ != 0) {
        const arrival a = inbox_[first_];
        buffer b = frames_.allocate_buffer();
        if (b.underlying_frame() == nullptr) break; // it waits until a frame comes home
        first_ = (first_ + 1) % inbox_.size();
        --count_;
        if (a.size > b.tailroom() || a.size < 14) {
            ++statistics_.receive_malformed;
        } else {
            std::memcpy(b.append(a.size), a.what->bytes, a.size);
            ++statistics_.received_packets;
            statistics_.received_bytes += a.size;
            out[taken].head = std::move(b);
            out[taken].body = buffer{};
            out[taken].flags =
                vouch_ ? offload::l4_checksum_good | offload::ipv4_checksum_good : offload::none;
            ++taken;
        }
        release(*a.what);
    }
    return taken;
}

std::size_t sim_port::transmit(std::span<packet> burst) {
    for (packet& p : burst) {
        frame* f = out_ == nullptr ? nullptr : network_->copy(p.head.bytes(), p.body.bytes());
        if (f != nullptr) {
            ++statistics_.transmitted_packets;
            statistics_.transmitted_bytes += p.size();
            network_->send(*out_, *f, p.size());
        } else {
            ++statistics_.transmit_dropped;
            if (out_ != nullptr) network_->no_frame(*out_);
        }
        p.head = buffer{};
        p.body = buffer{};
    }
    return burst.size();
}

} // namespace corewire
