// The verbs-ud port but for its sending (ud_transmit.cc): making, receiving, sleeping, and what to do about trouble.
#include <corewire/rdma/ud_link/ud_port.hh>

#include <corewire/rdma/verbs/error.hh>

#include <algorithm>
#include <bit>

namespace corewire {

namespace {

constexpr std::uint32_t ethernet_size = wire::ethernet_header::size;

std::uint32_t frame_size_for(std::uint32_t mtu) {
    return std::max(frame_pool::default_frame_size, std::bit_ceil(mtu + ethernet_size + frame_headroom));
}

std::uint32_t frame_count_for(const ud_port_options& options, const ud_device_options& device) {
    return options.frames != 0 ? options.frames : 2 * (device.receive_depth + device.send_depth);
}

} // namespace

ud_port::ud_port(std::shared_ptr<ud_device> device, unsigned queue, const ud_port_options& options)
    : device_(std::move(device)), queue_(*device_->queues_.at(queue)),
      frames_(frame_count_for(options, device_->options()), frame_size_for(device_->mtu())),
      region_(queue_.domain, {frames_.region(), frames_.region_size()}, verbs::access::local_write), key_(region_.local_key()),
      inline_limit_(std::min(queue_.pair.capacity().max_inline_data, device_->options().inline_bytes)),
      handles_(queue_.domain, device_->peers(), device_->options().port, static_cast<std::uint8_t>(device_->gid_.index),
               options.retry_after),
      constants_(frames_.allocate_buffer()), link_up_(device_->link_up()),
      posted_(std::make_unique<frame*[]>(device_->options().receive_depth)), posted_mask_(device_->options().receive_depth - 1),
      refills_(refill_from, key_), sent_(std::make_unique<sent[]>(device_->options().send_depth)),
      sent_mask_(device_->options().send_depth - 1), sends_(burst_size, 3, key_) {
    if (frames_.count() < device_->options().receive_depth + 256)
        verbs::fail(verbs::operation::register_memory, EINVAL,
                    "open a verbs-ud port with too few frames: it needs some to send with beside the " +
                        std::to_string(device_->options().receive_depth) + " that it lends to the device");
    pool_ = &frames_;
    mac_ = device_->address().mac();
    mtu_ = device_->mtu();
    name_ = "verbs-ud:" + device_->device().name() + "/" + std::to_string(queue);
    capabilities_.gather = true;
    for (const wire::ether_type type : {wire::ether_type::ipv4, wire::ether_type::arp, wire::ether_type::ipv6})
        store_be32(constants_.append(encapsulation_size), static_cast<std::uint32_t>(type) << 16);
    while (wants_refill() && frames_.free_count >= refill_from) refill();
}

ud_port::~ud_port() {
    // From here on the device reads and writes nothing of our memory.
    queue_.restart(device_->options());
    std::array<ibv_wc, burst_size> rest;
    while (queue_.receives.poll(rest) > 0) {}
    while (queue_.sends.poll(rest) > 0) {}
    let_go();
}

// ---- receiving -----------------------------------------------------------------------------------------------------

std::size_t ud_port::receive(std::span<packet> out) {
    if (queue_.trouble.load(std::memory_order_relaxed) != 0) [[unlikely]] look_into_trouble();
    if (state_ != condition::works || out.empty()) [[unlikely]] return 0;
    if (stashed_ == 0) {
        const int there = queue_.receives.poll(std::span(completions_).first(std::min(out.size(), burst_size)));
        stash_at_ = 0;
        stashed_ = static_cast<std::size_t>(std::max(0, there));
        if (there < 0) [[unlikely]] give_up();
    }
    std::size_t taken = 0;
    if (stashed_ != 0) {
        const std::size_t now = std::min(out.size(), stashed_);
        taken = take(out, std::span(completions_).subspan(stash_at_, now));
        stash_at_ += now;
        stashed_ -= now;
    } else if (unsent() != 0) {
        reap();
    }
    if (state_ == condition::works && wants_refill()) refill();
    return taken;
}

/// Makes packets of completions, oldest first; returns how many.
std::size_t ud_port::take(std::span<packet> out, std::span<const ibv_wc> done) noexcept {
    std::size_t taken = 0;
    for (const ibv_wc& c : done) {
        frame& f = *posted_[posted_head_++ & posted_mask_];
        if (c.status != IBV_WC_SUCCESS) [[unlikely]] {
            release(f);
            ++counts_.failed_receives;
            queue_.trouble.fetch_or(ud_queue::pair_failed, std::memory_order_relaxed);
            continue;
        }
        restarts_in_a_row_ = 0;
        if (!take_in(f, c, out[taken])) [[unlikely]] {
            release(f);
            continue;
        }
        statistics_.received_bytes += out[taken++].head.size();
    }
    statistics_.received_packets += taken;
    return taken;
}

/// Puts an Ethernet header over the encapsulation and what stands before it. False: nothing for the stack.
bool ud_port::take_in(frame& f, const ibv_wc& c, packet& out) noexcept {
    if (c.byte_len < grh_size + encapsulation_size) {
        ++statistics_.receive_malformed;
        return false;
    }
    std::byte* const at = f.bytes + landing;
    datagram_header from_to{};
    const bool global = (c.wc_flags & IBV_WC_GRH) != 0;
    if (global) from_to = datagram_header::load(at);
    else store_be16(reinterpret_cast<std::byte*>(from_to.from.raw), c.slid); // within an InfiniBand subnet: all there is
    const bool to_group = global && is_group(from_to.to);
    if (to_group) {
        ++counts_.from_group;
        if (device_->is_ours(from_to.from, c.src_qp)) {
            ++counts_.own_echoes;
            return false;
        }
    }
    const std::uint16_t type = load_be16(at + grh_size);
    std::uint32_t size = c.byte_len - grh_size - encapsulation_size;
    std::byte* const payload = at + grh_size + encapsulation_size;
    if (type == static_cast<std::uint16_t>(wire::ether_type::arp) && !translate_arp(payload, size, c)) return false;
    if (type == static_cast<std::uint16_t>(wire::ether_type::ipv6) && is_discovery({payload, size})) [[unlikely]]
        size = shrink_discovery({payload, size}, device_->peers(), c.slid);
    std::byte* const ethernet = payload - ethernet_size;
    (to_group ? mac_address::broadcast() : mac_).store(ethernet);
    link_address{c.src_qp, from_to.from}.mac().store(ethernet + 6);
    store_be16(ethernet + 12, type);
    out.head.fill(f, ethernet, size + ethernet_size);
    out.body.clear();
    out.flags = offload::none;
    return true;
}

/// Addresses of 20 bytes become MACs, and who sent it is remembered.
bool ud_port::translate_arp(std::byte* arp, std::uint32_t& size, const ibv_wc& c) noexcept {
    link_arp in;
    if (link_arp::parse({arp, size}, in) != wire::parse_error::none || !in.sender.is_host()) {
        ++counts_.bad_arp;
        return false;
    }
    if (!(in.sender == device_->address())) device_->peers().learn({in.sender, c.slid});
    const wire::arp_packet plain{in.operation, in.sender.mac(), in.sender_ip,
                                 in.target.is_host() ? in.target.mac() : mac_address{}, in.target_ip};
    size = static_cast<std::uint32_t>(plain.emit({arp, wire::arp_packet::size}));
    return true;
}

/// Lends the device a batch of empty frames, with one doorbell.
void ud_port::refill() noexcept {
    const std::uint32_t room = grh_size + encapsulation_size + mtu_;
    while (!refills_.full()) {
        frame* const f = frames_.allocate();
        if (f == nullptr) [[unlikely]] break; // all are with the application: what the device drops it counts
        refills_.add(0, f->bytes + landing, room);
        posted_[posted_tail_++ & posted_mask_] = f;
    }
    const std::uint32_t asked = refills_.size();
    if (asked == 0) [[unlikely]] {
        ++statistics_.receive_no_buffer;
        return;
    }
    ++counts_.receive_doorbells;
    const auto result = refills_.post([this](ibv_recv_wr* first, ibv_recv_wr** bad) { return queue_.pair.post_receive(first, bad); });
    if (result.error == 0) [[likely]] return;
    for (std::uint32_t i = result.posted; i < asked; ++i) release(*posted_[--posted_tail_ & posted_mask_]);
    if (result.error != ENOMEM) queue_.trouble.fetch_or(ud_queue::pair_failed, std::memory_order_relaxed);
}

// ---- sleeping ------------------------------------------------------------------------------------------------------

bool ud_port::prepare_sleep() {
    if (queue_.trouble.load(std::memory_order_relaxed) != 0) [[unlikely]] look_into_trouble();
    if (state_ != condition::works) return true;
    reap();
    if (wants_refill()) refill();
    if (stashed_ != 0) return false;
    armed_ = true;
    // A full send queue is worth waking for: somebody waits for room.
    if (queue_.receives.arm() != 0 || (unsent() > sent_mask_ / 2 && queue_.sends.arm() != 0)) {
        queue_.trouble.fetch_or(ud_queue::pair_failed, std::memory_order_relaxed);
        return false;
    }
    const int there = queue_.receives.poll(completions_); // what came before the queue was armed wakes nobody
    if (there == 0) return true;
    if (there < 0) queue_.trouble.fetch_or(ud_queue::lost, std::memory_order_relaxed);
    stash_at_ = 0;
    stashed_ = static_cast<std::size_t>(std::max(0, there));
    finish_sleep();
    return false;
}

void ud_port::finish_sleep() {
    if (!armed_) return;
    armed_ = false;
    statistics_.system_calls += 1 + queue_.channel.drain();
}

// ---- trouble -------------------------------------------------------------------------------------------------------

void ud_port::look_into_trouble() noexcept {
    const std::uint32_t what = queue_.trouble.exchange(0, std::memory_order_relaxed);
    if ((what & ud_queue::link_changed) != 0) {
        link_up_ = device_->link_up();
        ++counts_.link_changes;
    }
    if (state_ != condition::works) return;
    if ((what & (ud_queue::device_gone | ud_queue::lost)) != 0) give_up();
    else if ((what & ud_queue::pair_failed) != 0) restart();
}

/// The queue pair is in error: everything posted is flushed. Takes all frames back and begins again.
void ud_port::restart() noexcept {
    if (++restarts_in_a_row_ > most_restarts) return give_up();
    ++counts_.restarts;
    reap(); // what was sent before the error, and how the rest ended
    if (queue_.restart(device_->options()) != 0) return give_up();
    std::array<ibv_wc, burst_size> stale; // what a driver has not forgotten by itself
    while (queue_.receives.poll(stale) > 0) {}
    while (queue_.sends.poll(stale) > 0) {}
    stashed_ = 0;
    let_go();
    queue_.trouble.fetch_and(~std::uint32_t{ud_queue::pair_failed}, std::memory_order_relaxed);
    while (wants_refill() && frames_.free_count >= refill_from && queue_.trouble.load(std::memory_order_relaxed) == 0) refill();
}

/// Nothing can be received or sent any more. The process lives on, without this port.
void ud_port::give_up() noexcept {
    state_ = condition::unusable;
    link_up_ = false;
    stashed_ = 0;
    queue_.restart(device_->options()); // so that a device which is still there lets go of our memory
    let_go();
}

/// All frames that the device held come home. Their sends, if any, are lost.
void ud_port::let_go() noexcept {
    while (posted_head_ != posted_tail_) release(*posted_[posted_head_++ & posted_mask_]);
    while (sent_head_ != sent_tail_) release_both(sent_[sent_head_++ & sent_mask_]);
    handles_.all_completed();
}

} // namespace corewire
