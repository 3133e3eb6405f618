// The data path of the xdp port; setting one up is in xdp_setup.cc.
#include <corewire/net/port/xdp/xdp_port.hh>

#include <corewire/net/port/ipv4_checksum.hh>
#include <corewire/net/port/xdp/partial_checksum.hh>
#include <corewire/net/port/xdp/xdp_queue.hh>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <x86intrin.h>

namespace corewire {

namespace {

constexpr std::uint32_t ethernet_header = 14;
constexpr std::uint32_t receive_burst = 64; ///< frames taken from one queue at a time
constexpr std::uint32_t reap_from = 16;     ///< unsent frames from which looking for completions pays
constexpr std::uint32_t refill_from = 16;   ///< frames lent to the kernel at a time: two cache lines of its ring
constexpr std::uint32_t scarce_from = 64;   ///< free frames: what the stack keeps from those who write
constexpr int kicks_in_a_row = 4;           ///< the kernel sends 32 frames a call unless it takes a larger budget

/// What our stack sends starts in no frame's first 64 bytes: the copy that the kernel makes of it would be slow (frame_pool.hh).
static_assert(frame_headroom >= 64 + 18 + 40 + 60); // Ethernet with a tag, IPv6, TCP with all its options

} // namespace

std::size_t xdp_port::receive(std::span<packet> out) {
    std::size_t taken = 0;
    if (queues_.size() == 1) {
        taken = receive_from(*queues_.front(), out);
    } else {
        for (std::size_t i = 0; i < queues_.size() && taken < out.size(); ++i) {
            taken += receive_from(*queues_[next_queue_], out.subspan(taken));
            next_queue_ = next_queue_ + 1 == queues_.size() ? 0 : next_queue_ + 1;
        }
    }
    if (kicks_.pending() != 0) {
        const std::uint64_t now = __rdtsc();
        if (taken != 0) kicks_.arrived(now);
        if (kicks_.tired(now)) kick(true);
    }
    return taken;
}

std::size_t xdp_port::receive_from(xdp_queue& q, std::span<packet> out) noexcept {
    std::uint32_t at = 0;
    const auto room = static_cast<std::uint32_t>(std::min<std::size_t>(out.size(), receive_burst));
    const std::uint32_t there = xsk_ring_cons__peek(&q.rx, room, &at);
    if (there == 0) {
        if (q.unsent != 0 && frames_.free_count < scarce_from) [[unlikely]] reap(q); // who waits for frames sends nothing meanwhile
        if (q.to_refill >= refill_from) refill(q); // frames have come home meanwhile
        return 0;
    }
    std::size_t taken = 0;
    for (std::uint32_t i = 0; i < there; ++i) {
        const xdp_desc& d = *xsk_ring_cons__rx_desc(&q.rx, at + i);
        taken += accept(q, d.addr, d.len, (d.options & XDP_PKT_CONTD) != 0, out[taken]);
    }
    xsk_ring_cons__release(&q.rx, there);
    q.to_refill += there;
    if (q.to_refill >= refill_from) refill(q);
    return taken;
}

/// One descriptor. True if it has become a packet.
bool xdp_port::accept(xdp_queue& q, std::uint64_t address, std::uint32_t size, bool goes_on, packet& out) noexcept {
    frame& f = frame_of(address);
    buffer b(f, frames_.region() + address, size);
    if (goes_on || q.within != xdp_queue::pieces::none) [[unlikely]] {
        if (!accept_piece(q, b, goes_on)) return false;
        out.flags = offload::l4_checksum_good | offload::ipv4_checksum_good;
    } else if (size < ethernet_header) [[unlikely]] {
        ++statistics_.receive_malformed;
        return false;
    } else {
        out.flags = vouch(b.bytes());
    }
    ++statistics_.received_packets;
    statistics_.received_bytes += b.size();
    out.head = std::move(b);
    out.body = buffer{};
    return true;
}

/// A piece of a packet in several: made a segment of its own, or dropped with the rest of its packet.
bool xdp_port::accept_piece(xdp_queue& q, buffer& piece, bool goes_on) noexcept {
    using pieces = xdp_queue::pieces;
    const pieces within = q.within;
    if (within == pieces::none) {
        const bool local = vouch(piece.bytes()) != offload::none;
        const bool can = local && q.cutter.begin(piece);
        q.within = can ? pieces::passing_on : pieces::dropping;
        if (!device_->pieces_program()) device_->expect_pieces();
        if (can) ++super_frames_;
        else ++statistics_.receive_malformed;
        return can;
    }
    if (!goes_on) q.within = pieces::none;
    if (within == pieces::dropping) return false;
    if (piece.headroom() < super_frame::max_headers) { // those behind it would be told as ones that come sooner
        if (goes_on) q.within = pieces::dropping;
        ++statistics_.receive_malformed;
        return false;
    }
    q.cutter.go_on(piece, !goes_on);
    return true;
}

offload xdp_port::vouch(byte_span frame) noexcept {
    if (checksums_ == xdp_checksums::verify) return offload::none;
    if (checksums_ == xdp_checksums::trust) return offload::l4_checksum_good;
    if (!has_partial_checksum(frame)) return offload::none;
    ++partial_checksums_;
    return offload::l4_checksum_good;
}

/// Lends the kernel as many empty frames as it is short of, or as many as there are.
void xdp_port::refill(xdp_queue& q) noexcept {
    const std::uint32_t n = std::min(q.to_refill, frames_.free_count);
    if (n == 0) return; // all lent out or held by the application; what the kernel drops it counts
    std::uint32_t at = 0;
    if (xsk_ring_prod__reserve(&q.fill, n, &at) != n) return;
    for (std::uint32_t i = 0; i < n; ++i) *xsk_ring_prod__fill_addr(&q.fill, at + i) = frames_.allocate()->token;
    xsk_ring_prod__submit(&q.fill, n);
    q.to_refill -= n;
    if (xsk_ring_prod__needs_wakeup(&q.fill)) [[unlikely]] {
        ::recvfrom(q.socket.get(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
        ++statistics_.system_calls;
    }
}

std::size_t xdp_port::transmit(std::span<packet> burst) {
    if (burst.empty()) return 0;
    xdp_queue& q = *queues_.front();
    if (q.unsent >= reap_from) reap(q);
    auto room = static_cast<std::uint32_t>(burst.size());
    const std::uint32_t slots = xsk_prod_nb_free(&q.tx, room);
    room = std::min(room, slots);
    std::uint32_t taken = 0;
    std::uint32_t queued = 0;
    std::uint64_t bytes = 0;
    for (; taken < room; ++taken) {
        packet& p = burst[taken];
        const placement where = place(p);
        if (where == placement::no_frame) break;
        if (where == placement::unusable) [[unlikely]] {
            ++statistics_.transmit_dropped;
            p.head = buffer{};
            p.body = buffer{};
            continue;
        }
        std::uint32_t at = 0;
        xsk_ring_prod__reserve(&q.tx, 1, &at);
        xdp_desc& d = *xsk_ring_prod__tx_desc(&q.tx, at);
        d.addr = static_cast<std::uint64_t>(p.head.data() - frames_.region());
        d.len = p.head.size();
        d.options = p.flags == offload::none ? 0 : work_beside(p);
        bytes += d.len;
        ++queued;
        p.head.detach(); // the kernel's until its completion
    }
    if (taken < burst.size()) ++statistics_.transmit_full;
    if (queued != 0) {
        xsk_ring_prod__submit(&q.tx, queued);
        q.unsent += queued;
        statistics_.transmitted_packets += queued;
        statistics_.transmitted_bytes += bytes;
    }
    const bool due = kicks_.queued(queued, __rdtsc());
    if (due || !gather_kicks_ || taken < burst.size()) kick(false);
    if (stuck_ && taken < burst.size()) [[unlikely]] return taken + drop(burst.subspan(taken)); // there will be no room soon
    return taken;
}

std::size_t xdp_port::drop(std::span<packet> burst) noexcept {
    for (packet& p : burst) p = {};
    statistics_.transmit_dropped += burst.size();
    return burst.size();
}

/// Gets the packet's bytes into one frame of ours, with room in front for what is said beside it.
xdp_port::placement xdp_port::place(packet& p) noexcept {
    // The kernel would refuse it, again and again, and send nothing behind it.
    const bool open = has(p.flags, offload::l4_checksum_needed);
    if (open && p.l4_offset + p.l4_checksum_offset + 2u > p.size()) [[unlikely]] return placement::unusable;
    const bool ours = frames_.contains(p.head.data()) && p.head.headroom() >= metadata_size_;
    if (p.body.empty() && ours) [[likely]] return placement::placed;
    if (p.size() > largest_frame()) return placement::unusable;
    if (ours && p.head.exclusive() && p.head.tailroom() >= p.body.size()) {
        const std::uint32_t more = p.body.size();
        std::memcpy(p.head.append(more), p.body.data(), more);
    } else {
        buffer whole = frames_.allocate_buffer();
        if (whole.underlying_frame() == nullptr) return placement::no_frame;
        std::memcpy(whole.append(p.head.size()), p.head.data(), p.head.size());
        if (!p.body.empty()) std::memcpy(whole.append(p.body.size()), p.body.data(), p.body.size());
        p.head = std::move(whole);
    }
    p.body = buffer{};
    return placement::placed;
}

/// Does or passes on what the stack has left to do; returns the options of the frame's descriptor.
std::uint32_t xdp_port::work_beside(packet& p) noexcept {
    if (!capabilities_.transmit_checksum) return 0;
    if (has(p.flags, offload::ipv4_checksum_needed)) fill_ipv4_checksum(p.head.mutable_bytes());
    if (!has(p.flags, offload::l4_checksum_needed)) return 0;
    const xdp_transmit_metadata asked{.flags = XDP_TXMD_FLAGS_CHECKSUM,
                                      .checksum_start = p.l4_offset,
                                      .checksum_offset = p.l4_checksum_offset,
                                      .unused = 0,
                                      .launch_time = 0};
    std::memcpy(p.head.mutable_data() - sizeof asked, &asked, sizeof asked); // who wrote the headers owns what lies in front of them
    return XDP_TX_METADATA;
}

void xdp_port::reap(xdp_queue& q) noexcept {
    std::uint32_t at = 0;
    const std::uint32_t done = xsk_ring_cons__peek(&q.completion, q.unsent, &at);
    if (done == 0) return;
    for (std::uint32_t i = 0; i < done; ++i) release(frame_of(*xsk_ring_cons__comp_addr(&q.completion, at + i)));
    xsk_ring_cons__release(&q.completion, done);
    q.unsent -= done;
}

/// Tells the kernel to send what is in the tx ring. What it cannot take now stays pending for the next receive(), also what lies behind a
/// frame that was lost on the way (EBUSY: the call ends there); what it cannot take at
/// all (ENETDOWN, ENXIO) stays in the ring until there is more to send, so that the shard may sleep meanwhile.
void xdp_port::kick(bool waited) noexcept {
    xdp_queue& q = *queues_.front();
    int error = 0;
    if (xsk_ring_prod__needs_wakeup(&q.tx)) {
        for (int i = 0; i < kicks_in_a_row; ++i) {
            ++statistics_.system_calls;
            error = ::sendto(q.socket.get(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) < 0 ? errno : 0;
            if (error != EAGAIN && error != EBUSY) break;
        }
    }
    stuck_ = error != 0 && error != EBUSY && error != EAGAIN && error != ENOBUFS;
    if (error == 0) kicks_.kicked(waited);
    else if (stuck_) kicks_.refused();
}

bool xdp_port::prepare_sleep() {
    if (kicks_.pending() != 0) kick(false);
    for (auto& q : queues_) {
        reap(*q);
        if (q->to_refill != 0) refill(*q);
        if (xsk_cons_nb_avail(&q->rx, 1) != 0) return false;
    }
    return kicks_.pending() == 0;
}

} // namespace corewire
