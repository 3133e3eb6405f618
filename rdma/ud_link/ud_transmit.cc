// The sending half of the verbs-ud port.
//
//     burst -> for each frame: whose MAC -> handle and number; [encapsulation][frame behind its Ethernet header][body] -> one
//              doorbell -> what was posted is remembered by position until a completion says that everything up to it has gone
#include <corewire/rdma/ud_link/ud_port.hh>

#include <algorithm>

namespace corewire {

namespace {

constexpr std::uint32_t ethernet_size = wire::ethernet_header::size;

ibv_sge piece_of(const std::byte* at, std::uint32_t size, std::uint32_t key) noexcept {
    return {reinterpret_cast<std::uintptr_t>(at), size, key};
}

} // namespace

std::size_t ud_port::transmit(std::span<packet> burst) {
    if (burst.empty()) return 0;
    if (troubled()) [[unlikely]] look_into_trouble();
    if (!link_up_) [[unlikely]] return drop(burst);
    if (unsent() >= reap_from) reap();
    std::size_t done = 0;
    for (bool stop = false; done != burst.size() && !stop;) {
        const std::uint32_t room = sent_mask_ + 1 - unsent();
        const std::size_t now = std::min({burst.size() - done, std::size_t{room}, burst_size});
        if (now == 0) break; // the send queue is full
        done += post(burst.subspan(done, now), stop);
    }
    if (done != burst.size()) ++statistics_.transmit_full;
    return done;
}

/// What has waited for handles that have been made since, or can't be.
void ud_port::send_held() noexcept {
    std::array<packet, handle_cache::most_held> held;
    std::size_t count = 0;
    while (handles_.next_made(sent_head_, held, count)) {
        const auto waited = std::span(held).first(count);
        drop(waited.subspan(transmit(waited))); // the send queue may be full
    }
}

/// Posts a burst that the send queue has room for, with one doorbell; returns how many packets of its front are done with.
std::size_t ud_port::post(std::span<packet> burst, bool& stop) noexcept {
    ibv_send_wr* next = sends_.first();
    ibv_send_wr* last = nullptr;
    std::uint32_t count = 0;
    std::size_t taken = 0;
    for (packet& p : burst) {
        const verdict how = prepare(p, *next, sent_tail_ + count);
        if (how == verdict::later) [[unlikely]] {
            stop = true;
            break;
        }
        ++taken;
        if (how == verdict::held) [[unlikely]] continue;
        if (how == verdict::lost) [[unlikely]] {
            drop({&p, 1});
            continue;
        }
        ++count;
        last = next;
        next = next->next;
    }
    if (count == 0) return taken;
    last->send_flags |= IBV_SEND_SIGNALED;
    const auto result = sends_.post(queue_.pair, *last, count);
    ++counts_.doorbells;
    posted_off(count, result.posted, result.error);
    stop |= result.error != 0;
    return taken;
}

/// Fills in a work request, and takes the packet's frames over. The caller counts and frees what is lost.
ud_port::verdict ud_port::prepare(packet& p, ibv_send_wr& wr, std::uint64_t position) noexcept {
    if (p.head.size() < ethernet_size || p.size() - ethernet_size > mtu_) [[unlikely]] {
        ++counts_.too_long;
        return verdict::lost;
    }
    const std::byte* const ethernet = p.head.data();
    const std::uint16_t type = load_be16(ethernet + 12);
    const std::byte* const encapsulation = encapsulation_for(type);
    if (encapsulation == nullptr) [[unlikely]] return verdict::lost; // neither IP nor ARP
    const handle_cache::destination to = destination_of(mac_address::load(ethernet), position);
    if (to.handle == nullptr) [[unlikely]] return handles_.hold(mac_address::load(ethernet), p) ? verdict::held : verdict::lost;
    std::uint32_t skip = ethernet_size;
    if (type == static_cast<std::uint16_t>(wire::ether_type::arp)) [[unlikely]] {
        buffer arp = rewritten_arp(p);
        if (arp.underlying_frame() == nullptr) return verdict::lost;
        p.head = std::move(arp);
        skip = 0;
    } else if (type == static_cast<std::uint16_t>(wire::ether_type::ipv6) &&
               is_discovery(p.head.bytes().subspan(ethernet_size))) [[unlikely]] {
        buffer message = rewritten_discovery(p);
        if (message.underlying_frame() == nullptr) return verdict::lost;
        p.head = std::move(message);
        p.body.clear();
        skip = 0;
    }
    const bool inlined = p.size() - skip + encapsulation_size <= inline_limit_;
    if (!inlined && !reachable(p) && !gather(p)) [[unlikely]] return verdict::later;
    wr.sg_list[0] = piece_of(encapsulation, encapsulation_size, key_);
    wr.sg_list[1] = piece_of(p.head.data() + skip, p.head.size() - skip, key_);
    wr.sg_list[2] = piece_of(p.body.data(), p.body.size(), key_);
    wr.num_sge = p.body.empty() ? 2 : 3;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = inlined ? unsigned{IBV_SEND_INLINE} : 0u;
    wr.wr_id = position + 1;
    wr.wr.ud = {to.handle, to.queue_pair, mine_.group.key};
    counts_.inlined += inlined;
    ++statistics_.transmitted_packets;
    statistics_.transmitted_bytes += p.size() - skip + ethernet_size;
    sent_[position & sent_mask_] = {p.head.detach(), p.body.detach()};
    return verdict::goes;
}

/// Four bytes in registered memory; null for what IPoIB does not carry here.
const std::byte* ud_port::encapsulation_for(std::uint16_t type) const noexcept {
    switch (static_cast<wire::ether_type>(type)) {
    case wire::ether_type::ipv4: return constants_.data();
    case wire::ether_type::arp: return constants_.data() + encapsulation_size;
    case wire::ether_type::ipv6: return constants_.data() + 2 * encapsulation_size;
    default: return nullptr;
    }
}

handle_cache::destination ud_port::destination_of(mac_address to, std::uint64_t position) noexcept {
    if (!to.is_multicast()) [[likely]] return handles_.find(to, position, sent_head_);
    ++counts_.to_group;
    return {mine_.to_group.get(), link_address::group_pair};
}

/// In a frame of its own, without an Ethernet header. Empty if there is no frame, or the target is nobody we know.
buffer ud_port::rewritten_arp(const packet& p) noexcept {
    wire::arp_view view;
    if (wire::arp_view::parse(p.head.bytes().subspan(ethernet_size), view) != wire::parse_error::none) return {};
    link_arp out{view.operation(), device_->address(), view.sender_ip(), {}, view.target_ip()};
    if (!view.target_mac().is_zero()) {
        const auto peer = device_->peers().find(view.target_mac());
        if (!peer) return {};
        out.target = peer->address;
    }
    buffer b = frames_.allocate_buffer();
    if (b.underlying_frame() != nullptr) out.emit(b.append(link_arp::size));
    return b;
}

/// Likewise. Such messages are short and in one piece.
buffer ud_port::rewritten_discovery(const packet& p) noexcept {
    buffer b = frames_.allocate_buffer();
    if (b.underlying_frame() == nullptr || !p.body.empty()) return {};
    const std::span<std::byte> room{b.mutable_data(), std::min(b.tailroom(), mtu_)};
    const std::uint32_t size = expand_discovery(p.head.bytes().subspan(ethernet_size), room, device_->peers(), mac_, device_->address());
    if (size == 0) return {};
    b.append(size);
    return b;
}

/// Of `count` prepared sends the device has taken the first `went`; the rest are lost.
void ud_port::posted_off(std::uint32_t count, std::uint32_t went, int error) noexcept {
    const ibv_send_wr* wr = sends_.first();
    for (std::uint32_t i = 0; i < count; ++i, wr = wr->next)
        if (i >= went || (wr->send_flags & IBV_SEND_INLINE) != 0) let_go(sent_[(sent_tail_ + i) & sent_mask_]);
    sent_tail_ += went;
    if (error == 0) [[likely]] return;
    statistics_.transmitted_packets -= count - went;
    statistics_.transmit_dropped += count - went;
    send_refused(error);
}

} // namespace corewire
