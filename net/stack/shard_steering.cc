#include <corewire/net/stack/shard_steering.hh>

#include <corewire/net/port/rss.hh>
#include <corewire/net/stack/network_stack.hh>

#include <algorithm>
#include <array>
#include <cstring>

namespace corewire {

namespace {

constexpr std::uint32_t lent_unread = 1024; ///< frames of a port that queues without a reader may hold on all other shards together

/// Where it lies must wait for another shard's reader, and the frames are needed to receive into. Less than what a queue of our own
/// leaves (udp_demux), so that those who read are served.
bool is_scarce(const buffer& piece) noexcept {
    const frame* const f = piece.underlying_frame();
    return f != nullptr && f->owner->free_count < f->owner->reserve / 4 * 3;
}
/// What is short is copied into the ring.
bool would_be_lent(const packet& frame) noexcept { return frame.size() > wire_detail::inline_limit; }

} // namespace

std::vector<std::unique_ptr<shard_steering>> shard_steering::make(unsigned shards, unsigned slots, std::uint32_t mtu) {
    const std::uint32_t each = std::max(lent_unread / std::max(shards - 1, 1u), 32u);
    std::vector<std::unique_ptr<shard_steering>> all;
    const auto udp_ports = std::make_shared<udp_port_map>();
    for (unsigned i = 0; i < shards; ++i) {
        all.push_back(std::unique_ptr<shard_steering>{new shard_steering(i, shards, slots)});
        all.back()->udp_ports_ = udp_ports;
    }
    for (unsigned a = 0; a < shards; ++a) {
        for (unsigned b = a + 1; b < shards; ++b) {
            wire_link::ends ends = wire_link::make({.frames = 1024, .mtu = mtu, .relay = true, .held_unread = each});
            all[a]->wires_[b] = std::move(ends.first);
            all[b]->wires_[a] = std::move(ends.second);
        }
    }
    return all;
}

unsigned shard_steering::owner(const flow_key& key) const noexcept {
    return owner_of(rss::symmetric_hash(ipv4(key.remote_address), key.remote_port, ipv4(key.local_address), key.local_port));
}

unsigned shard_steering::owner(const flow_name& flow) const noexcept {
    if (flow.is_v4()) return owner(flow.key());
    return owner_of(rss::symmetric_hash(flow.remote.v6(), flow.remote_port, flow.local.v6(), flow.local_port));
}

unsigned shard_steering::owner_of(std::uint32_t hash) const noexcept {
    const auto shards = static_cast<unsigned>(wires_.size());
    return slots_ != 0 ? (hash & (slots_ - 1)) % shards : rss::queue_for(hash, shards);
}

bool shard_steering::hand_over(unsigned shard, packet&& frame) noexcept {
    packet one = std::move(frame);
    const bool scarce = would_be_lent(one) && (is_scarce(one.head) || is_scarce(one.body));
    if (!scarce && wires_[shard]->transmit({&one, 1}) == 1) return true;
    ++dropped_;
    return false;
}

void shard_steering::share_with_all(const packet& frame) noexcept {
    for (const auto& wire : wires_) {
        if (wire == nullptr) continue;
        // Copied: several shards can't write into one frame, and these are rare and small.
        packet copy;
        if (!would_be_lent(frame) || !wire->pool().scarce()) copy.head = wire->pool().allocate_buffer();
        if (copy.head.underlying_frame() == nullptr || frame.size() > copy.head.tailroom()) {
            ++dropped_;
            continue;
        }
        copy.flags = frame.flags;
        std::memcpy(copy.head.append(frame.head.size()), frame.head.data(), frame.head.size());
        if (!frame.body.empty()) std::memcpy(copy.head.append(frame.body.size()), frame.body.data(), frame.body.size());
        if (wire->transmit({&copy, 1}) == 0) ++dropped_;
    }
}

bool shard_steering::poll(time_point now, network_stack& stack) {
    bool any = false;
    std::array<packet, 16> burst;
    for (const auto& wire : wires_) {
        if (wire == nullptr) continue;
        const std::size_t n = wire->receive(burst);
        for (std::size_t i = 0; i < n; ++i) {
            stack.take_over(now, burst[i]);
            burst[i] = {};
        }
        any |= n != 0;
    }
    return any;
}

bool shard_steering::prepare_sleep() noexcept {
    for (std::size_t i = 0; i < wires_.size(); ++i) {
        if (wires_[i] == nullptr || wires_[i]->prepare_sleep()) continue;
        while (i-- > 0) {
            if (wires_[i] != nullptr) wires_[i]->finish_sleep();
        }
        return false;
    }
    return true;
}

void shard_steering::finish_sleep() noexcept {
    for (const auto& wire : wires_) {
        if (wire != nullptr) wire->finish_sleep();
    }
}

void shard_steering::watch(sleeper& sleeping) const {
    for (const auto& wire : wires_) {
        if (wire != nullptr) sleeping.watch(wire->wake_fd());
    }
}

} // namespace corewire
