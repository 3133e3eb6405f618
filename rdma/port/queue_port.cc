#include <corewire/rdma/port/queue_port.hh>

#include <corewire/rdma/verbs/error.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace corewire {

namespace {

/// A child of fork(2) has nothing to do with frames, which are the device's too: it gets no copies of them, and kernels that give the copy
/// to the parent's side (before 5.12) cannot pull a page from under the device. The pool has whole huge pages to itself.
void keep_from_children(const frame_pool& pool) noexcept {
    constexpr std::uint64_t page = 2u << 20;
    ::madvise(pool.region(), (pool.region_size() + page - 1) / page * page, MADV_DONTFORK);
}

} // namespace

queue_port::queue_port(port_queue& queue, queue_port_statistics& counts, const queue_port_layout& l)
    : device_in_use_(l.device), queue_(queue), frames_(l.frames != 0 ? l.frames : 2 * (l.receive_depth + l.send_depth),
                             std::max(frame_pool::default_frame_size, std::bit_ceil(l.longest + frame_headroom))),
      region_(queue.domain, {frames_.region(), frames_.region_size()}, verbs::access::local_write), key_(region_.local_key()),
      inline_limit_(std::min(queue.pair.capacity().max_inline_data, l.inline_bytes)), link_up_(l.link_up),
      posted_(std::make_unique<frame*[]>(l.receive_depth)), posted_mask_(l.receive_depth - 1),
      sent_(std::make_unique<sent[]>(l.send_depth)), sent_mask_(l.send_depth - 1), sends_(burst_size, l.send_pieces, key_),
      counts_(counts), refills_(refill_from, key_) {
    keep_from_children(frames_);
    if (frames_.count() < l.receive_depth + 256)
        verbs::fail(verbs::operation::register_memory, EINVAL,
                    "open a " + l.kind + " port with too few frames: it needs some to send with beside the " +
                        std::to_string(l.receive_depth) + " that it lends to the device");
    pool_ = &frames_;
    name_ = l.name;
    capabilities_.gather = true;
}

void queue_port::begin(std::uint32_t landing, std::uint32_t room) noexcept {
    landing_ = landing;
    room_ = room;
    while (wants_refill() && frames_.free_count >= refill_from) refill();
}

void queue_port::end() noexcept {
    rest_timer_.cancel();
    // What cannot be taken from the device is taken from its reach: with the region goes the device's right to the memory (and if that
    // is refused as well, the kernel keeps the pages for it: nobody else gets them).
    if (!device_let_go(reset_queue())) region_ = {};
    forget_completions();
    let_go_all();
}

// ---- frames that the device has ------------------------------------------------------------------------------------

/// Lends the device a batch of empty frames, with one doorbell.
void queue_port::refill() noexcept {
    while (!refills_.full()) {
        frame* const f = frames_.allocate();
        if (f == nullptr) [[unlikely]] break; // all are with the application: what the device drops it counts
        refills_.add(0, f->bytes + landing_, room_);
        posted_[posted_tail_++ & posted_mask_] = f;
    }
    const std::uint32_t asked = refills_.size();
    if (asked == 0) [[unlikely]] {
        ++statistics_.receive_no_buffer;
        return;
    }
    ++counts_.receive_doorbells;
    const auto result = refills_.post([this](ibv_recv_wr* first, ibv_recv_wr** bad) { return post_receives(first, bad); });
    if (result.error == 0) [[likely]] return;
    for (std::uint32_t i = result.posted; i < asked; ++i) release(*posted_[--posted_tail_ & posted_mask_]);
    if (result.error != ENOMEM) queue_.tell(port_queue::pair_failed);
}

/// The frames of all sends before `up_to`. All are of our own pool, so that its list may wait in a register.
[[gnu::always_inline]] inline void queue_port::take_back(std::uint64_t up_to) noexcept {
    frame* free_list = frames_.free_list;
    std::uint32_t count = 0;
    const auto take = [&](frame& f) {
        if (--f.references != 0) return;
        f.next_free = free_list;
        free_list = &f;
        ++count;
    };
    for (; sent_head_ != up_to; ++sent_head_) {
        const sent s = sent_[sent_head_ & sent_mask_];
        if (s.head == nullptr) continue; // went inline
        take(*s.head);
        if (s.body != nullptr) take(*s.body);
    }
    frames_.free_list = free_list;
    frames_.free_count += count;
}

/// Frames come home: each completion answers for all sends up to its own.
void queue_port::reap() noexcept {
    std::array<ibv_wc, 16> done;
    int n;
    do {
        n = queue_.sends.poll(done);
        for (int i = 0; i < n; ++i) {
            const ibv_wc& c = done[static_cast<std::size_t>(i)];
            take_back(c.wr_id);
            if (c.status == IBV_WC_SUCCESS) [[likely]] {
                restarts_in_a_row_ = 0;
                continue;
            }
            ++counts_.failed_sends;
            ++statistics_.transmit_dropped;
            queue_.tell(port_queue::pair_failed);
        }
    } while (n == static_cast<int>(done.size()));
    if (n < 0) [[unlikely]] queue_.tell(port_queue::lost);
}

void queue_port::let_go(sent& s) noexcept {
    if (s.head != nullptr) release(*std::exchange(s.head, nullptr));
    if (s.body != nullptr) release(*std::exchange(s.body, nullptr));
}

/// All frames that the device held come home. Their sends, if any, are lost.
void queue_port::let_go_all() noexcept {
    while (posted_head_ != posted_tail_) release(*posted_[posted_head_++ & posted_mask_]);
    while (sent_head_ != sent_tail_) let_go(sent_[sent_head_++ & sent_mask_]);
}

// ---- frames that it cannot have ------------------------------------------------------------------------------------

/// Copies into a frame of ours what lies in somebody else's memory. False if that finds no frame.
bool queue_port::gather(packet& p) noexcept {
    for (buffer* part : {&p.head, &p.body}) {
        if (part->empty() || part->underlying_frame()->owner == &frames_) continue;
        buffer ours = frames_.allocate_buffer();
        if (ours.underlying_frame() == nullptr || part->size() > ours.tailroom()) return false;
        std::memcpy(ours.append(part->size()), part->data(), part->size());
        *part = std::move(ours);
        ++counts_.copied;
    }
    return true;
}

std::size_t queue_port::drop(std::span<packet> burst) noexcept {
    for (packet& p : burst) {
        p.head.clear();
        p.body.clear();
    }
    statistics_.transmit_dropped += burst.size();
    return burst.size();
}

// ---- sleeping ------------------------------------------------------------------------------------------------------

bool queue_port::prepare_sleep() {
    if (troubled()) [[unlikely]] look_into_trouble();
    if (!usable()) return true;
    reap();
    if (wants_refill()) refill();
    if (stashed_ != 0) return false;
    armed_ = true;
    // A full send queue is worth waking for: somebody waits for room.
    if (queue_.receives.arm() != 0 || (unsent() > sent_mask_ / 2 && queue_.sends.arm() != 0)) {
        queue_.tell(port_queue::pair_failed);
        return false;
    }
    const int there = queue_.receives.poll(completions_); // what came before the queue was armed wakes nobody
    if (there == 0) return true;
    if (there < 0) queue_.tell(port_queue::lost);
    stash_at_ = 0;
    stashed_ = static_cast<std::size_t>(std::max(0, there));
    finish_sleep();
    return false;
}

void queue_port::finish_sleep() {
    if (!armed_) return;
    armed_ = false;
    statistics_.system_calls += 1 + queue_.channel.drain();
}

// ---- trouble -------------------------------------------------------------------------------------------------------

void queue_port::look_into_trouble() noexcept {
    const std::uint32_t what = queue_.trouble.exchange(0, std::memory_order_relaxed);
    if ((what & port_queue::link_changed) != 0) {
        link_up_ = usable() && device_link_up();
        ++counts_.link_changes;
    }
    if (state_ == condition::unusable) return;
    if ((what & port_queue::group_changed) != 0) follow_group();
    if ((what & (port_queue::device_gone | port_queue::lost)) != 0) give_up();
    else if ((what & port_queue::pair_failed) != 0 && usable()) restart();
}

void queue_port::send_refused(int error) noexcept {
    if (error == ENOMEM) return; // its queue is full, though we thought otherwise: later
    queue_.tell(device_gone(error) ? port_queue::device_gone : port_queue::pair_failed);
}

/// The queue pair is in error: everything posted is flushed. Takes all frames back and begins again.
void queue_port::restart() noexcept {
    if (restarts_in_a_row_ == 0) next_rest_ = first_rest;
    if (restarts_in_a_row_ >= most_restarts) return rest();
    ++restarts_in_a_row_;
    ++counts_.restarts;
    reap(); // what was sent before the error, and how the rest ended
    if (const int error = reset_queue(); error != 0) return device_gone(error) ? give_up() : rest();
    forget_completions();
    stashed_ = 0;
    let_go_all();
    if (const int error = start_queue(); error != 0) return device_gone(error) ? give_up() : rest();
    queue_.trouble.fetch_and(~std::uint32_t{port_queue::pair_failed}, std::memory_order_relaxed);
    while (wants_refill() && frames_.free_count >= refill_from && !troubled()) refill();
}

/// Restarts do not help, or fail: perhaps later. Meanwhile the link counts as down.
void queue_port::rest() noexcept {
    reactor* const here = reactor::current_or_null();
    if (here == nullptr) return give_up();
    ++counts_.rests;
    stop(condition::rests);
    here->timers().arm(rest_timer_, here->now() + next_rest_);
    next_rest_ = std::min(2 * next_rest_, longest_rest);
}

/// One more restart; when that does not help it rests again.
void queue_port::rested() noexcept {
    state_ = condition::works;
    link_up_ = device_link_up();
    restarts_in_a_row_ = most_restarts - 1;
    restart();
}

/// Nothing can be received or sent any more. The process lives on, without this port.
void queue_port::give_up() noexcept {
    rest_timer_.cancel();
    stop(condition::unusable);
}

void queue_port::stop(condition as) noexcept {
    state_ = as;
    link_up_ = false;
    for (; stashed_ != 0; --stashed_) release(*posted_[posted_head_++ & posted_mask_]);
    if (!device_let_go(reset_queue())) return take_completed(); // the rest is the device's, until a reset succeeds
    forget_completions();
    let_go_all();
}

/// Frames of which the device itself says that it has done with them, while it cannot be made to let go of all. In error it flushes.
void queue_port::take_completed() noexcept {
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    queue_.pair.try_modify(error, IBV_QP_STATE);
    std::array<ibv_wc, burst_size> done;
    for (int n; (n = queue_.receives.poll(done)) > 0;)
        for (int i = 0; i < n && posted() != 0; ++i) release(*posted_[posted_head_++ & posted_mask_]);
    for (int n; (n = queue_.sends.poll(done)) > 0;) take_back(done[static_cast<std::size_t>(n) - 1].wr_id);
}

/// What a driver has not forgotten by itself.
void queue_port::forget_completions() noexcept {
    std::array<ibv_wc, burst_size> stale;
    while (queue_.receives.poll(stale) > 0) {}
    while (queue_.sends.poll(stale) > 0) {}
}

} // namespace corewire
