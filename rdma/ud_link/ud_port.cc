// The verbs-ud port but for its sending (ud_transmit.cc): making and receiving.
#include <corewire/rdma/ud_link/ud_port.hh>

#include <algorithm>

namespace corewire {

namespace {

constexpr std::uint32_t ethernet_size = wire::ethernet_header::size;

queue_port_layout layout_of(const std::shared_ptr<ud_device>& shared, unsigned number, const ud_port_options& options) {
    const ud_device& device = *shared;
    return {.kind = "verbs-ud",
            .name = "verbs-ud:" + device.device().name() + "/" + std::to_string(number),
            .frames = options.frames,
            .longest = device.mtu() + ethernet_size,
            .receive_depth = device.options().receive_depth,
            .send_depth = device.options().send_depth,
            .inline_bytes = device.options().inline_bytes,
            .send_pieces = 3,
            .link_up = device.link_up(),
            .device = shared};
}

} // namespace

ud_port::ud_port(std::shared_ptr<ud_device> device, unsigned queue, const ud_port_options& options)
    : queue_port(*device->queues_.at(queue), counts_, layout_of(device, queue, options)), device_(std::move(device)),
      mine_(*device_->queues_[queue]),
      handles_(queue_.domain, device_->peers(),
               {.port = device_->options().port, .gid_index = static_cast<std::uint8_t>(device_->gid_.index),
                .ethernet = device_->ethernet(), .retry_after = options.retry_after}),
      constants_(frames_.allocate_buffer()) {
    handles_.use_service_level(mine_.group.service_level);
    mac_ = device_->address().mac();
    mtu_ = device_->mtu();
    for (const wire::ether_type type : {wire::ether_type::ipv4, wire::ether_type::arp, wire::ether_type::ipv6})
        store_be32(constants_.append(encapsulation_size), static_cast<std::uint32_t>(type) << 16);
    begin(landing, grh_size + encapsulation_size + mtu_);
}

ud_port::~ud_port() { end(); }

int ud_port::reset_queue() noexcept {
    const int error = mine_.reset();
    if (device_let_go(error)) handles_.all_completed(); // nothing that uses them is left on the queue
    return error;
}

int ud_port::start_queue() noexcept {
    const int error = take_group();
    return error != 0 ? error : mine_.start(device_->options());
}

/// What the fabric says of the group. Sends that are under way keep the handle that they name. An errno: all is as it was.
int ud_port::take_group() noexcept {
    std::erase_if(former_groups_, [this](const former_group& f) { return f.until <= sent_head_; });
    const verbs::fabric_membership::parameters now = device_->group_parameters();
    try {
        if (now.lid != mine_.group.lid || now.service_level != mine_.group.service_level) {
            verbs::address_handle fresh = mine_.handle_of_group(*device_, now);
            former_groups_.push_back({{}, sent_tail_});
            former_groups_.back().handle = std::exchange(mine_.to_group, std::move(fresh));
        }
    } catch (const std::system_error& e) {
        return e.code().value();
    } catch (const std::exception&) {
        return ENOMEM;
    }
    mine_.group = now;
    handles_.use_service_level(now.service_level);
    return 0;
}

/// What can't be done while the queue pair is in use is done by starting it again.
void ud_port::follow_group() noexcept {
    const std::uint32_t before = mine_.group.key;
    if (take_group() != 0) return queue_.tell(ud_queue::pair_failed);
    if (mine_.group.key == before || !usable()) return;
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTS;
    a.qkey = mine_.group.key;
    if (queue_.pair.try_modify(a, IBV_QP_STATE | IBV_QP_QKEY) != 0) queue_.tell(ud_queue::pair_failed);
}

std::size_t ud_port::receive(std::span<packet> out) {
    if (troubled()) [[unlikely]] look_into_trouble();
    if (handles_.any_being_made()) [[unlikely]] send_held();
    if (!usable() || out.empty()) [[unlikely]] return 0;
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
    if (usable() && wants_refill()) refill();
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
            queue_.tell(ud_queue::pair_failed);
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
    const bool global = (c.wc_flags & IBV_WC_GRH) != 0;
    std::optional<verbs::datagram_header> from_to(std::in_place);
    if (global) from_to = verbs::datagram_header::load(at, device_->ethernet());
    else store_be16(reinterpret_cast<std::byte*>(from_to->from.raw), c.slid); // within an InfiniBand subnet: all there is
    if (!from_to) [[unlikely]] {
        ++statistics_.receive_malformed;
        return false;
    }
    const bool to_group = global && is_group(from_to->to);
    if (to_group) {
        ++counts_.from_group;
        if (device_->is_ours(from_to->from, c.src_qp)) {
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
    link_address{c.src_qp, from_to->from}.mac().store(ethernet + 6);
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

} // namespace corewire
