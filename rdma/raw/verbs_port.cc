// The verbs port but for its sending (verbs_transmit.cc): making, receiving, sleeping, and what to do about trouble.
#include <corewire/rdma/raw/verbs_port.hh>

#include <corewire/rdma/verbs/error.hh>

#include <algorithm>
#include <bit>

namespace corewire {

namespace {

constexpr std::uint32_t ethernet_and_vlan = 18;
constexpr std::uint32_t ethernet_header = 14;

std::uint32_t frame_size_for(std::uint32_t mtu) {
    return std::max(frame_pool::default_frame_size, std::bit_ceil(mtu + ethernet_and_vlan + frame_headroom));
}

std::uint32_t frame_count_for(const verbs_port_options& options, const verbs_device_options& device) {
    if (options.frames != 0) return options.frames;
    return 2 * (device.receive_depth + device.send_depth);
}

} // namespace

verbs_port::verbs_port(std::shared_ptr<verbs_device> device, unsigned queue, const verbs_port_options& options)
    : device_(std::move(device)), queue_(*device_->queues_.at(queue)),
      frames_(frame_count_for(options, device_->options()), frame_size_for(device_->mtu())),
      region_(queue_.domain, {frames_.region(), frames_.region_size()}, verbs::access::local_write),
      key_(region_.local_key()), inline_limit_(queue_.pair.capacity().max_inline_data),
      longest_(device_->mtu() + ethernet_and_vlan), size_range_(longest_ - smallest_frame),
      receive_room_(frames_.frame_size() - frame_headroom),
      link_up_(device_->link_up()), posted_(std::make_unique<frame*[]>(device_->options().receive_depth)),
      posted_mask_(device_->options().receive_depth - 1), refills_(refill_from, key_),
      sent_(std::make_unique<sent[]>(device_->options().send_depth)), sent_mask_(device_->options().send_depth - 1),
      sends_(burst_size, 2, key_) {
    if (frames_.count() < device_->options().receive_depth + 256)
        verbs::fail(verbs::operation::register_memory, EINVAL,
                    "open a verbs port with too few frames: it needs some to send with beside the " +
                        std::to_string(device_->options().receive_depth) + " that it lends to the device");
    pool_ = &frames_;
    mac_ = device_->mac();
    mtu_ = device_->mtu();
    name_ = "verbs:" + device_->device().name() + "/" + std::to_string(queue);
    inline_limit_ = std::min(inline_limit_, device_->options().inline_bytes);
    capabilities_.gather = true;
    capabilities_.receive_checksum = capabilities_.transmit_checksum = device_->checksums();
    if (queue_.pair.segments() && device_->largest_segmented() != 0) {
        capabilities_.segmentation = true;
        capabilities_.max_segmented = device_->largest_segmented();
    }
    if (options.moderate_us != 0)
        queue_.receives.moderate(std::max(options.moderate_count, std::uint16_t{1}), options.moderate_us);
    while (wants_refill() && frames_.free_count >= refill_from) refill();
}

verbs_port::~verbs_port() {
    // From here on the device reads and writes nothing of our memory.
    queue_.restart(device_->options().port);
    std::array<ibv_wc, burst_size> rest;
    while (queue_.receives.poll(rest) > 0) {}
    while (queue_.sends.poll(rest) > 0) {}
    let_go();
}

std::size_t verbs_port::receive(std::span<packet> out) {
    if (queue_.trouble.load(std::memory_order_relaxed) != 0) [[unlikely]] look_into_trouble();
    if (state_ != condition::works) [[unlikely]] return 0;
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
    std::uint64_t bytes = 0;
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
        p.flags = judged[(c.wc_flags & IBV_WC_IP_CSUM_OK) >> IBV_WC_IP_CSUM_OK_SHIFT];
        bytes += c.byte_len;
    }
    statistics_.received_packets += taken;
    statistics_.received_bytes += bytes;
    if (failed) [[unlikely]] queue_.trouble.fetch_or(verbs_queue::pair_failed, std::memory_order_relaxed);
    else restarts_in_a_row_ = 0;
    return taken;
}

/// Lends the device a batch of empty frames, with one doorbell.
void verbs_port::refill() noexcept {
    while (!refills_.full()) {
        frame* const f = frames_.allocate();
        if (f == nullptr) [[unlikely]] break; // all are with the application: what the device drops it counts
        refills_.add(0, f->bytes + frame_headroom, receive_room_);
        posted_[posted_tail_++ & posted_mask_] = f;
    }
    const std::uint32_t asked = refills_.size();
    if (asked == 0) [[unlikely]] {
        ++statistics_.receive_no_buffer;
        return;
    }
    ++counts_.receive_doorbells;
    const auto result = refills_.post([this](ibv_recv_wr* first, ibv_recv_wr** bad) { return queue_.post_receives(first, bad); });
    if (result.error == 0) [[likely]] return;
    for (std::uint32_t i = result.posted; i < asked; ++i) release(*posted_[--posted_tail_ & posted_mask_]);
    if (result.error != ENOMEM) queue_.trouble.fetch_or(verbs_queue::pair_failed, std::memory_order_relaxed);
}

bool verbs_port::prepare_sleep() {
    if (queue_.trouble.load(std::memory_order_relaxed) != 0) [[unlikely]] look_into_trouble();
    if (state_ != condition::works) return true;
    reap();
    if (wants_refill()) refill();
    if (stashed_ != 0) return false;
    armed_ = true;
    // A full send queue is worth waking for: somebody waits for room.
    if (queue_.receives.arm() != 0 || (unsent() > sent_mask_ / 2 && queue_.sends.arm() != 0)) {
        queue_.trouble.fetch_or(verbs_queue::pair_failed, std::memory_order_relaxed);
        return false;
    }
    // What came before the queue was armed wakes nobody.
    const int there = queue_.receives.poll(completions_);
    if (there == 0) return true;
    if (there < 0) queue_.trouble.fetch_or(verbs_queue::lost, std::memory_order_relaxed);
    stash_at_ = 0;
    stashed_ = static_cast<std::size_t>(std::max(0, there));
    finish_sleep();
    return false;
}

void verbs_port::finish_sleep() {
    if (!armed_) return;
    armed_ = false;
    statistics_.system_calls += 1 + queue_.channel.drain();
}

void verbs_port::look_into_trouble() noexcept {
    const std::uint32_t what = queue_.trouble.exchange(0, std::memory_order_relaxed);
    if ((what & verbs_queue::link_changed) != 0) {
        link_up_ = device_->link_up();
        ++counts_.link_changes;
    }
    if (state_ != condition::works) return;
    if ((what & (verbs_queue::device_gone | verbs_queue::lost)) != 0) give_up();
    else if ((what & verbs_queue::pair_failed) != 0) restart();
}

/// The queue pair is in error: everything posted is flushed. Takes all frames back and begins again.
void verbs_port::restart() noexcept {
    if (++restarts_in_a_row_ > most_restarts) return give_up();
    ++counts_.restarts;
    reap(); // what was sent before the error, and how the rest ended
    if (queue_.restart(device_->options().port) != 0) return give_up();
    std::array<ibv_wc, burst_size> stale; // what a driver has not forgotten by itself
    while (queue_.receives.poll(stale) > 0) {}
    while (queue_.sends.poll(stale) > 0) {}
    stashed_ = 0;
    let_go();
    queue_.trouble.fetch_and(~std::uint32_t{verbs_queue::pair_failed}, std::memory_order_relaxed);
    while (wants_refill() && frames_.free_count >= refill_from && queue_.trouble.load(std::memory_order_relaxed) == 0) refill();
}

/// Nothing can be received or sent any more. The process lives on, without this port.
void verbs_port::give_up() noexcept {
    state_ = condition::unusable;
    link_up_ = false;
    stashed_ = 0;
    queue_.restart(device_->options().port); // so that a device which is still there lets go of our memory
    let_go();
}

/// All frames that the device held come home. Their sends, if any, are lost.
void verbs_port::let_go() noexcept {
    while (posted_head_ != posted_tail_) release(*posted_[posted_head_++ & posted_mask_]);
    for (; sent_head_ != sent_tail_; ++sent_head_) {
        sent& s = sent_[sent_head_ & sent_mask_];
        if (s.head != nullptr) release(*s.head);
        if (s.body != nullptr) release(*s.body);
    }
}

} // namespace corewire
