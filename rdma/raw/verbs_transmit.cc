// The sending half of the verbs port.
//
//     burst -> for each frame: to where the device can read it -> a work request; one doorbell -> keep: what was posted
//              is remembered by position until a completion says that everything up to it has gone
//           -> TCP segments that follow each other -> one work request, which the device cuts again
#include <corewire/rdma/raw/verbs_port.hh>

#include <algorithm>
#include <cerrno>

namespace corewire {

namespace {

/// Headers of a frame that is to be cut into segments: up to the end of the TCP header. 0 if there are none.
std::uint32_t headers_of(const packet& p) noexcept {
    if (p.head.size() < p.l4_offset + 20u) return 0;
    const std::uint32_t size = p.l4_offset + (load_u8(p.head.data() + p.l4_offset + 12) >> 4) * 4u;
    return size <= p.head.size() ? size : 0;
}

/// The pieces that the device reads: what is left of the head behind `skip` bytes, and the body. Their keys are set already.
[[gnu::always_inline]] inline int pieces_of(const packet& p, std::uint32_t skip, ibv_sge* out) noexcept {
    out[0].addr = reinterpret_cast<std::uintptr_t>(p.head.data()) + skip;
    out[0].length = p.head.size() - skip;
    if (p.body.empty()) [[likely]] return 1;
    const int at = out[0].length != 0 ? 1 : 0; // a large segment's head may be all headers
    out[at].addr = reinterpret_cast<std::uintptr_t>(p.body.data());
    out[at].length = p.body.size();
    return at + 1;
}

/// Whether `next` may go together with `p`, by its TCP header: the same flow, ACK and perhaps PSH, the same acknowledgment and window, the
/// bytes behind, and no more of them. joined_segments looks at the rest.
[[gnu::always_inline]] inline bool follows(const packet& p, const packet& next) noexcept {
    if (work_of(p) != offload::l4_checksum_needed || work_of(next) != work_of(p) || next.l4_offset != p.l4_offset) return false;
    const std::uint32_t headers = headers_of(p);
    if (headers == 0 || headers_of(next) != headers) return false;
    const std::byte *a = p.head.data() + p.l4_offset, *b = next.head.data() + p.l4_offset;
    constexpr std::uint32_t plain = 0x0ff7'0000; // flags but PSH, AE among them
    const std::uint32_t flags = load_be32(a + 12);
    return load_be32(a) == load_be32(b) && load_be32(b + 4) == load_be32(a + 4) + (p.size() - headers) && next.size() <= p.size() &&
           load_be32(a + 8) == load_be32(b + 8) && (flags & plain) == 0x0010'0000 && ((flags ^ load_be32(b + 12)) & ~0x0008'0000u) == 0;
}

/// Both offload::..._needed flags ask for the one thing that devices have.
unsigned flags_of(const packet& p) noexcept {
    return has(p.flags, offload::l4_checksum_needed | offload::ipv4_checksum_needed) ? unsigned{IBV_SEND_IP_CSUM} : 0u;
}

} // namespace

/// Whether its first packets are segments that go together. Of small ones, which go inline, this is not asked.
[[gnu::always_inline]] inline bool verbs_port::begins_train(std::span<const packet> burst) const noexcept {
    return work_of(burst.front()) == offload::l4_checksum_needed && joined_pieces_ != 0 && burst.size() > 1 &&
           burst.front().size() > inline_limit_ && follows(burst[0], burst[1]);
}

std::size_t verbs_port::transmit(std::span<packet> burst) {
    if (burst.empty()) return 0;
    if (troubled()) [[unlikely]] look_into_trouble();
    if (!link_up_) [[unlikely]] return drop(burst);
    if (unsent() >= reap_from) reap();
    std::size_t done = 0;
    while (done != burst.size()) {
        const std::uint32_t room = sent_mask_ + 1 - unsent();
        const std::size_t now = std::min({burst.size() - done, std::size_t{room}, burst_size});
        if (now == 0) break; // the send queue is full
        const auto next = burst.subspan(done, now);
        const progress went = begins_train(next) ? post_train(next) : post_each(next);
        done += went.taken;
        if (went.stop) break;
    }
    if (done != burst.size()) ++statistics_.transmit_full;
    return done;
}

[[gnu::always_inline]] inline verbs_port::way verbs_port::prepare(packet& p, std::uint32_t size) noexcept {
    if (size - smallest_frame > size_range_) [[unlikely]] return prepare_large(p);
    if (size <= inline_limit_) return way::inlined;
    if (!reachable(p)) [[unlikely]] return gather(p) ? way::plain : way::no_frame;
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

/// Work requests linked once, posted by ibv_post_send().
struct verbs_port::by_chain {
    verbs_port& port;
    ibv_send_wr* next;
    ibv_send_wr* last = nullptr;
    std::uint32_t segmented = 0;
    explicit by_chain(verbs_port& p) noexcept : port(p), next(p.sends_.first()) {}
    [[gnu::always_inline]] void add(packet& p, way how, std::uint64_t position, bool) noexcept {
        last = next;
        ibv_send_wr& w = *next;
        next = next->next;
        w.wr_id = position;
        w.send_flags = flags_of(p);
        if (how == way::segmented) [[unlikely]] {
            ++segmented;
            const std::uint32_t headers = headers_of(p);
            w.opcode = IBV_WR_TSO;
            w.tso.hdr = p.head.mutable_data();
            w.tso.hdr_sz = static_cast<std::uint16_t>(headers);
            w.tso.mss = p.segment_size;
            w.num_sge = pieces_of(p, headers, w.sg_list);
            return;
        }
        if (how == way::inlined) w.send_flags |= IBV_SEND_INLINE;
        w.opcode = IBV_WR_SEND;
        w.num_sge = pieces_of(p, 0, w.sg_list);
    }
    void cut_short() noexcept {}
    outcome finish(unsigned count) noexcept {
        last->send_flags |= IBV_SEND_SIGNALED;
        const auto result = port.sends_.post(port.queue_.pair, *last, count);
        return {result.error, result.posted};
    }
};

/// ibv_wr_*(): the driver's own functions, without the detour over a work request in memory.
struct verbs_port::by_calls {
    verbs_port& port;
    ibv_qp_ex* q;
    std::uint32_t key;
    std::uint32_t segmented = 0;
    explicit by_calls(verbs_port& p) noexcept : port(p), q(p.queue_.pair.extended()), key(p.key_) { ::ibv_wr_start(q); }
    [[gnu::always_inline]] void add(packet& p, way how, std::uint64_t position, bool last) noexcept {
        q->wr_id = position;
        q->wr_flags = flags_of(p) | (last ? unsigned{IBV_SEND_SIGNALED} : 0u);
        if (how == way::segmented) [[unlikely]] {
            ++segmented;
            const std::uint32_t headers = headers_of(p);
            ::ibv_wr_send_tso(q, p.head.mutable_data(), static_cast<std::uint16_t>(headers), p.segment_size);
            set_pieces(p, headers);
            return;
        }
        ::ibv_wr_send(q);
        if (how == way::inlined) set_inline(p);
        else if (p.body.empty()) ::ibv_wr_set_sge(q, key, reinterpret_cast<std::uintptr_t>(p.head.data()), p.head.size());
        else set_pieces(p, 0);
    }
    void set_pieces(const packet& p, std::uint32_t skip) noexcept {
        ibv_sge parts[2] = {{0, 0, key}, {0, 0, key}};
        const int pieces = pieces_of(p, skip, parts);
        ::ibv_wr_set_sge_list(q, static_cast<std::size_t>(pieces), parts);
    }
    [[gnu::always_inline]] void set_inline(packet& p) noexcept {
        if (p.body.empty()) return ::ibv_wr_set_inline_data(q, p.head.mutable_data(), p.head.size());
        const ibv_data_buf parts[2] = {{p.head.mutable_data(), p.head.size()}, {p.body.mutable_data(), p.body.size()}};
        ::ibv_wr_set_inline_data_list(q, 2, parts);
    }
    void cut_short() noexcept { ::ibv_wr_abort(q); }
    outcome finish(unsigned count) noexcept {
        const int error = ::ibv_wr_complete(q);
        return {error, error == 0 ? count : 0u}; // all of them, or none
    }
};

/// Posts what can be sent from the front of a burst, with one doorbell and one completion asked for.
template <typename Poster>
[[gnu::always_inline]] inline verbs_port::progress verbs_port::post(std::span<packet> burst) noexcept {
    std::uint32_t inlined = 0;
    std::uint64_t bytes = 0;
    std::size_t ready = 0;
    Poster poster(*this);
    for (; ready < burst.size(); ++ready) {
        packet& p = burst[ready];
        const std::uint32_t size = p.size();
        const way how = prepare(p, size);
        if (how >= way::unfit) [[unlikely]] break;
        if (how == way::plain && ready != 0 && begins_train(burst.subspan(ready))) [[unlikely]] break;
        const std::uint64_t position = sent_tail_ + ready;
        sent& s = sent_[position & sent_mask_];
        if (how == way::inlined) {
            ++inlined;
            s = {nullptr, nullptr};
        } else {
            s = {p.head.underlying_frame(), p.body.underlying_frame()};
        }
        bytes += size;
        poster.add(p, how, position + 1, ready + 1 == burst.size());
    }
    if (ready != burst.size()) [[unlikely]] {
        poster.cut_short();
        return stopped(burst, ready);
    }
    const outcome result = poster.finish(static_cast<unsigned>(ready));
    return sent_off(burst, inlined, poster.segmented, bytes, result);
}

inline verbs_port::progress verbs_port::post_each(std::span<packet> burst) noexcept {
    return queue_.pair.extended() != nullptr ? post<by_calls>(burst) : post<by_chain>(burst);
}

/// How many packets from the front go together, which joined_ then holds.
std::size_t verbs_port::join(std::span<packet> burst) noexcept {
    const auto within_reach = [this](packet& p) { return reachable(p) || gather(p); };
    if (burst.front().size() > longest_ || !within_reach(burst.front()) || !joined_.begin(burst.front())) return 1;
    std::size_t n = 1;
    while (n < burst.size() && joined_.pieces() + 2 <= joined_pieces_ &&
           joined_.size() + joined_.segment_size() <= capabilities_.max_segmented && follows(burst[n - 1], burst[n]) &&
           within_reach(burst[n]) && joined_.add(burst[n]))
        ++n;
    return n;
}

/// One request for several segments: they are remembered one by one, and the last answers for all.
verbs_port::progress verbs_port::post_train(std::span<packet> burst) noexcept {
    const std::size_t n = join(burst);
    if (n == 1) return post_each(burst.first(1));
    const auto train = burst.first(n);
    std::uint64_t position = sent_tail_;
    std::uint64_t bytes = 0;
    for (const packet& p : train) {
        sent_[position++ & sent_mask_] = {p.head.underlying_frame(), p.body.underlying_frame()};
        bytes += p.size();
    }
    const int error = post_joined(position);
    if (error == 0) [[likely]] return sent_off(train, 0, 1, bytes, {0, static_cast<unsigned>(n)});
    if (error != EINVAL && error != EOPNOTSUPP) return {refused(error, train), true};
    ++counts_.trains_refused;
    joined_pieces_ = 0; // a driver that does not take them gets none: they go one by one
    return {0, false};
}

/// An errno.
int verbs_port::post_joined(std::uint64_t position) noexcept {
    std::array<ibv_sge, verbs_device::segmentation_pieces> pieces;
    const std::span<iovec> parts = joined_.finish().subspan(1);
    const std::size_t count = parts.size() - 1;
    for (std::size_t i = 0; i < count; ++i)
        pieces[i] = {reinterpret_cast<std::uintptr_t>(parts[i + 1].iov_base), static_cast<std::uint32_t>(parts[i + 1].iov_len), key_};
    constexpr unsigned flags = IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM;
    const auto header_size = static_cast<std::uint16_t>(joined_.header_size());
    if (ibv_qp_ex* const q = queue_.pair.extended(); q != nullptr) {
        ::ibv_wr_start(q);
        q->wr_id = position;
        q->wr_flags = flags;
        ::ibv_wr_send_tso(q, parts[0].iov_base, header_size, joined_.segment_size());
        ::ibv_wr_set_sge_list(q, count, pieces.data());
        return ::ibv_wr_complete(q);
    }
    ibv_send_wr w{};
    w.wr_id = position;
    w.opcode = IBV_WR_TSO;
    w.send_flags = flags;
    w.tso.hdr = parts[0].iov_base;
    w.tso.hdr_sz = header_size;
    w.tso.mss = joined_.segment_size();
    w.sg_list = pieces.data();
    w.num_sge = static_cast<int>(count);
    ibv_send_wr* bad = nullptr;
    return queue_.pair.post_send(&w, &bad);
}

/// What is in front of a frame that cannot be sent, or not now, goes, and it is dropped or stays; what is in front of a train goes.
verbs_port::progress verbs_port::stopped(std::span<packet> burst, std::size_t ready) noexcept {
    const way how = prepare(burst[ready], burst[ready].size());
    progress went{0, false};
    if (ready != 0) went = post_each(burst.first(ready));
    if (went.stop || went.taken != ready) return {went.taken, true};
    if (how == way::unfit) return {ready + drop(burst.subspan(ready, 1)), false};
    return {ready, how == way::no_frame};
}

/// What was posted is ours now, until a completion comes; of what went inline the caller's frames are free at once.
[[gnu::always_inline]] inline verbs_port::progress verbs_port::sent_off(std::span<packet> burst, std::uint32_t inlined,
                                                                        std::uint32_t segmented, std::uint64_t bytes,
                                                                        outcome result) noexcept {
    if (inlined != 0) let_go_inlined(burst.first(result.posted));
    else for (packet& p : burst.first(result.posted)) {
        p.head.detach();
        p.body.detach();
    }
    counts_.inlined += inlined;
    counts_.segmented += segmented;
    sent_tail_ += result.posted;
    ++counts_.doorbells;
    ++counts_.signalled;
    statistics_.transmitted_packets += result.posted;
    statistics_.transmitted_bytes += bytes;
    if (result.error == 0) [[likely]] return {result.posted, false};
    std::uint64_t at = sent_tail_;
    for (const packet& p : burst.subspan(result.posted)) {
        statistics_.transmitted_bytes -= p.size();
        counts_.inlined -= sent_[at++ & sent_mask_].head == nullptr;
        counts_.segmented -= p.size() > longest_;
    }
    return {result.posted + refused(result.error, burst.subspan(result.posted)), true};
}

/// The same where the work requests have the bytes of some: those are free at once.
[[gnu::always_inline]] inline void verbs_port::let_go_inlined(std::span<packet> burst) noexcept {
    std::uint64_t at = sent_tail_;
    for (packet& p : burst) {
        if (sent_[at++ & sent_mask_].head == nullptr) {
            release(*p.head.underlying_frame());
            p.body.clear();
        }
        p.head.detach();
        p.body.detach();
    }
}

/// The driver took no more. How many of the rest are dropped: a frame that it will never take must not block those behind it.
std::size_t verbs_port::refused(int error, std::span<packet> rest) noexcept {
    if (rest.empty() || error == ENOMEM) return 0; // its queue is full: later
    send_refused(error);
    return drop(rest.first(1));
}

} // namespace corewire
