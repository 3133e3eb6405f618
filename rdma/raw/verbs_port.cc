// The verbs port but for its sending (verbs_transmit.cc): making and receiving.
#include <corewire/rdma/raw/verbs_port.hh>

#include <corewire/rdma/verbs/error.hh>

#include <algorithm>
#include <cerrno>

namespace corewire {

namespace {

constexpr std::uint32_t ethernet_and_vlan = 18;
constexpr std::uint32_t ethernet_header = 14;

queue_port_layout layout_of(const std::shared_ptr<verbs_device>& shared, unsigned number, const verbs_port_options& options) {
    const verbs_device& device = *shared;
    return {.kind = "verbs",
            .name = "verbs:" + device.device().name() + "/" + std::to_string(number),
            .frames = options.frames,
            .longest = device.mtu() + ethernet_and_vlan,
            .receive_depth = device.options().receive_depth,
            .send_depth = device.options().send_depth,
            .inline_bytes = device.options().inline_bytes,
            .send_pieces = 2,
            .link_up = device.link_up(),
            .device = shared};
}

} // namespace

verbs_port::verbs_port(std::shared_ptr<verbs_device> device, unsigned queue, const verbs_port_options& options)
    : queue_port(*device->queues_.at(queue), counts_, layout_of(device, queue, options)), device_(std::move(device)),
      mine_(*device_->queues_[queue]), longest_(device_->mtu() + ethernet_and_vlan), size_range_(longest_ - smallest_frame) {
    mac_ = device_->mac();
    mtu_ = device_->mtu();
    capabilities_.receive_checksum = capabilities_.transmit_checksum = device_->checksums();
    if (queue_.pair.segments() && device_->largest_segmented() != 0) {
        capabilities_.segmentation = true;
        capabilities_.max_segmented = device_->largest_segmented();
        const auto pieces = std::min(queue_.pair.capacity().max_send_sge, verbs_device::segmentation_pieces);
        if (pieces >= 4) joined_pieces_ = pieces; // two whole segments
    }
    if (options.moderate_us != 0 && !queue_.receives.moderate(std::max(options.moderate_count, std::uint16_t{1}), options.moderate_us))
        verbs::fail(verbs::operation::moderate_events, errno, "have " + name_ + " wait for more frames before it wakes a sleeping core");
    begin(frame_headroom, frames_.frame_size() - frame_headroom);
}

verbs_port::~verbs_port() { end(); }

std::size_t verbs_port::receive(std::span<packet> out) {
    if (troubled()) [[unlikely]] look_into_trouble();
    if (!usable()) [[unlikely]] return 0;
    if (stashed_ != 0) [[unlikely]] return take_stashed(out);
    const int there = queue_.receives.poll(std::span(completions_).first(std::min(out.size(), burst_size)));
    if (there <= 0) {
        if (unsent() != 0) reap();
        if (wants_refill()) [[unlikely]] refill(); // frames have come home meanwhile
        if (there < 0) [[unlikely]] give_up();
        return 0;
    }
    const std::size_t taken = take(out, std::span(completions_).first(static_cast<std::size_t>(there)));
    if (wants_refill()) refill();
    return taken;
}

/// What prepare_sleep() found when it looked for the last time.
std::size_t verbs_port::take_stashed(std::span<packet> out) noexcept {
    const std::size_t now = std::min(out.size(), stashed_);
    const std::size_t taken = take(out, std::span(completions_).subspan(stash_at_, now));
    stash_at_ += now;
    stashed_ -= now;
    return taken;
}

/// Makes packets of completions, oldest first; returns how many.
std::size_t verbs_port::take(std::span<packet> out, std::span<const ibv_wc> done) noexcept {
    static constexpr offload judged[2] = {offload::none, offload::l4_checksum_good | offload::ipv4_checksum_good};
    std::size_t taken = 0;
    std::uint64_t bytes = 0, vouched_for = 0;
    bool failed = false;
    for (const ibv_wc& c : done) {
        frame& f = *posted_[posted_head_++ & posted_mask_];
        if (c.status != IBV_WC_SUCCESS || c.byte_len < ethernet_header) [[unlikely]] {
            release(f);
            failed |= c.status != IBV_WC_SUCCESS;
            ++(c.status != IBV_WC_SUCCESS ? counts_.failed_receives : statistics_.receive_malformed);
            continue;
        }
        packet& p = out[taken++];
        p.head.fill(f, f.bytes + frame_headroom, c.byte_len);
        p.body.clear();
        const unsigned good = (c.wc_flags & IBV_WC_IP_CSUM_OK) >> IBV_WC_IP_CSUM_OK_SHIFT;
        p.flags = judged[good];
        vouched_for += good;
        bytes += c.byte_len;
    }
    statistics_.received_packets += taken;
    statistics_.received_bytes += bytes;
    counts_.judged += vouched_for;
    if (failed) [[unlikely]] queue_.tell(verbs_queue::pair_failed);
    else restarts_in_a_row_ = 0;
    return taken;
}

} // namespace corewire
