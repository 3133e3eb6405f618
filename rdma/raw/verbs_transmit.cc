// The sending half of the verbs port.
//
//     burst -> prepare_burst: each frame to where the device can read it -> post: one doorbell -> keep: what was posted
//              is remembered by position until a completion says that everything up to it has gone
#include <corewire/rdma/raw/verbs_port.hh>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace corewire {

namespace {

constexpr offload any_checksum = offload::l4_checksum_needed | offload::ipv4_checksum_needed;

/// Headers of a frame that is to be cut into segments: up to the end of the TCP header. 0 if there are none.
std::uint32_t headers_of(const packet& p) noexcept {
    if (p.head.size() < p.l4_offset + 20u) return 0;
    const std::uint32_t size = p.l4_offset + (load_u8(p.head.data() + p.l4_offset + 12) >> 4) * 4u;
    return size <= p.head.size() ? size : 0;
}

/// The pieces that the device reads: what is left of the head behind `skip` bytes, and the body.
int pieces_of(const packet& p, std::uint32_t skip, std::uint32_t key, ibv_sge* out) noexcept {
    int count = 0;
    if (p.head.size() > skip) out[count++] = {reinterpret_cast<std::uintptr_t>(p.head.data()) + skip, p.head.size() - skip, key};
    if (!p.body.empty()) out[count++] = {reinterpret_cast<std::uintptr_t>(p.body.data()), p.body.size(), key};
    return count;
}

unsigned flags_of(const packet& p, bool signalled) noexcept {
    return (signalled ? unsigned{IBV_SEND_SIGNALED} : 0u) | (has(p.flags, any_checksum) ? unsigned{IBV_SEND_IP_CSUM} : 0u);
}

} // namespace

std::size_t verbs_port::transmit(std::span<packet> burst) {
    if (burst.empty()) return 0;
    if (queue_.trouble.load(std::memory_order_relaxed) != 0) [[unlikely]] look_into_trouble();
    if (!link_up_) [[unlikely]] return drop(burst);
    if (unsent() >= reap_from) reap();
    std::array<way, burst_size> ways;
    std::size_t done = 0;
    while (done != burst.size()) {
        const std::uint32_t room = sent_mask_ + 1 - unsent();
        const std::size_t now = std::min({burst.size() - done, std::size_t{room}, burst_size});
        const std::size_t ready = prepare_burst(burst.subspan(done, now), ways);
        const std::size_t posted = ready == 0 ? 0 : post(burst.subspan(done, ready), ways);
        done += posted;
        if (posted != ready) break;
        if (ready == now) {
            if (now == 0) break; // the send queue is full
        } else if (ways[ready] == way::unfit) {
            done += drop(burst.subspan(done, 1));
        } else {
            break; // the pool is empty
        }
    }
    if (done != burst.size()) ++statistics_.transmit_full;
    return done;
}

/// Puts frames where the device can read them, from the front; returns how many, up to the first that can't be sent.
std::size_t verbs_port::prepare_burst(std::span<packet> burst, std::array<way, burst_size>& ways) noexcept {
    std::size_t ready = 0;
    for (; ready < burst.size(); ++ready) {
        ways[ready] = prepare(burst[ready]);
        if (ways[ready] >= way::unfit) [[unlikely]] break;
    }
    return ready;
}

[[gnu::always_inline]] inline verbs_port::way verbs_port::prepare(packet& p) noexcept {
    const std::uint32_t size = p.size();
    if (size > longest_ || size < 14) [[unlikely]] return prepare_large(p);
    if (size <= inline_limit_) return way::inlined;
    const bool reachable = p.head.underlying_frame()->owner == &frames_ &&
                           (p.body.empty() || p.body.underlying_frame()->owner == &frames_);
    if (!reachable) [[unlikely]] return gather(p) ? way::plain : way::no_frame;
    return way::plain;
}

/// What is longer than a frame goes only in segments.
verbs_port::way verbs_port::prepare_large(packet& p) noexcept {
    const bool can = has(p.flags, offload::segment) && p.size() <= capabilities_.max_segmented && p.segment_size != 0;
    if (!can) return way::unfit;
    const std::uint32_t headers = headers_of(p);
    if (headers == 0 || headers + p.segment_size > longest_) return way::unfit;
    return gather(p) ? way::segmented : way::no_frame;
}

/// Copies into a frame of ours what lies in somebody else's memory. False if that finds no frame.
bool verbs_port::gather(packet& p) noexcept {
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

/// Posts a burst of prepared frames with one doorbell; returns how many left the caller.
std::size_t verbs_port::post(std::span<packet> burst, const std::array<way, burst_size>& ways) noexcept {
    ++counts_.doorbells;
    const outcome result = queue_.pair.extended() != nullptr ? post_extended(burst, ways) : post_chain(burst, ways);
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < result.posted; ++i) {
        packet& p = burst[i];
        bytes += p.size();
        sent& s = sent_[sent_tail_++ & sent_mask_];
        if (ways[i] == way::inlined) { // the work request has the bytes
            p.head.clear();
            p.body.clear();
            s = {nullptr, nullptr};
            ++counts_.inlined;
        } else {
            s = {p.head.detach(), p.body.detach()};
            counts_.gathered += s.body != nullptr;
        }
    }
    statistics_.transmitted_packets += result.posted;
    statistics_.transmitted_bytes += bytes;
    if (result.error == 0) [[likely]] return result.posted;
    return result.posted + refused(result.error, burst.subspan(result.posted));
}

verbs_port::outcome verbs_port::post_chain(std::span<packet> burst, const std::array<way, burst_size>& ways) noexcept {
    std::uint32_t position = sent_tail_;
    for (std::size_t i = 0; i < burst.size(); ++i) {
        const packet& p = burst[i];
        ibv_send_wr& w = sends_.next();
        const bool signalled = signalling_.next(i + 1 == burst.size());
        counts_.signalled += signalled;
        w.wr_id = ++position;
        w.opcode = IBV_WR_SEND;
        w.send_flags = flags_of(p, signalled);
        std::uint32_t skip = 0;
        if (ways[i] == way::inlined) {
            w.send_flags |= IBV_SEND_INLINE;
        } else if (ways[i] == way::segmented) [[unlikely]] {
            skip = headers_of(p);
            w.opcode = IBV_WR_TSO;
            w.tso.hdr = burst[i].head.mutable_data();
            w.tso.hdr_sz = static_cast<std::uint16_t>(skip);
            w.tso.mss = p.segment_size;
            ++counts_.segmented;
        }
        w.num_sge = pieces_of(p, skip, key_, w.sg_list);
    }
    const auto result = sends_.post(queue_.pair);
    return {result.error, result.posted};
}

verbs_port::outcome verbs_port::post_extended(std::span<packet> burst, const std::array<way, burst_size>& ways) noexcept {
    ibv_qp_ex* const q = queue_.pair.extended();
    std::uint32_t position = sent_tail_;
    ::ibv_wr_start(q);
    for (std::size_t i = 0; i < burst.size(); ++i) {
        packet& p = burst[i];
        const bool signalled = signalling_.next(i + 1 == burst.size());
        counts_.signalled += signalled;
        q->wr_id = ++position;
        q->wr_flags = flags_of(p, signalled);
        std::uint32_t skip = 0;
        if (ways[i] == way::segmented) [[unlikely]] {
            skip = headers_of(p);
            ::ibv_wr_send_tso(q, p.head.mutable_data(), static_cast<std::uint16_t>(skip), p.segment_size);
            ++counts_.segmented;
        } else {
            ::ibv_wr_send(q);
        }
        if (ways[i] == way::inlined) {
            const ibv_data_buf parts[2] = {{p.head.mutable_data(), p.head.size()}, {p.body.mutable_data(), p.body.size()}};
            if (p.body.empty()) ::ibv_wr_set_inline_data(q, parts[0].addr, parts[0].length);
            else ::ibv_wr_set_inline_data_list(q, 2, parts);
        } else if (p.body.empty() && skip == 0) {
            ::ibv_wr_set_sge(q, key_, reinterpret_cast<std::uintptr_t>(p.head.data()), p.head.size());
        } else {
            ibv_sge parts[2];
            const int count = pieces_of(p, skip, key_, parts);
            ::ibv_wr_set_sge_list(q, static_cast<std::size_t>(count), parts);
        }
    }
    const int error = ::ibv_wr_complete(q);
    return {error, error == 0 ? static_cast<unsigned>(burst.size()) : 0u}; // all of them, or none
}

/// Frames come home: each completion answers for all sends up to its own.
void verbs_port::reap() noexcept {
    std::array<ibv_wc, 16> done;
    int n;
    do {
        n = queue_.sends.poll(done);
        for (int i = 0; i < n; ++i) {
            const ibv_wc& c = done[static_cast<std::size_t>(i)];
            const auto up_to = static_cast<std::uint32_t>(c.wr_id);
            for (; sent_head_ != up_to; ++sent_head_) {
                sent& s = sent_[sent_head_ & sent_mask_];
                if (s.head != nullptr) release(*s.head);
                if (s.body != nullptr) release(*s.body);
            }
            if (c.status == IBV_WC_SUCCESS) [[likely]] {
                restarts_in_a_row_ = 0;
                continue;
            }
            ++counts_.failed_sends;
            ++statistics_.transmit_dropped;
            queue_.trouble.fetch_or(verbs_queue::pair_failed, std::memory_order_relaxed);
        }
    } while (n == static_cast<int>(done.size()));
    if (n < 0) [[unlikely]] queue_.trouble.fetch_or(verbs_queue::lost, std::memory_order_relaxed);
}

std::size_t verbs_port::drop(std::span<packet> burst) noexcept {
    for (packet& p : burst) {
        p.head.clear();
        p.body.clear();
    }
    statistics_.transmit_dropped += burst.size();
    return burst.size();
}

/// The driver took no more. How many of the rest are dropped: a frame that it will never take must not block those behind it.
std::size_t verbs_port::refused(int error, std::span<packet> rest) noexcept {
    if (error == ENOMEM) return 0; // its queue is full: later
    queue_.trouble.fetch_or(error == EIO || error == ENODEV ? verbs_queue::device_gone : verbs_queue::pair_failed,
                            std::memory_order_relaxed);
    return drop(rest.first(1));
}

} // namespace corewire
