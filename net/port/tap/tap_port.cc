// The data path of the tap port: one read or write a packet. Setting it up is in tap_setup.cc.
#include <corewire/net/port/tap/tap_port.hh>

#include <corewire/net/port/ipv4_checksum.hh>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/uio.h>

namespace corewire {

/// struct virtio_net_hdr (virtio 1.2, 5.1.6), in this machine's byte order.
struct tap_port::virtio_header {
    std::uint8_t flags = 0;
    std::uint8_t segment_type = 0;
    std::uint16_t header_size = 0;
    std::uint16_t segment_size = 0;
    std::uint16_t checksum_start = 0;
    std::uint16_t checksum_offset = 0;

    static constexpr std::uint8_t needs_checksum = 1;
    static constexpr std::uint8_t data_valid = 2;
    static constexpr std::uint8_t tcp_v4 = 1, tcp_v6 = 4;
};

namespace {

constexpr std::uint32_t ethernet_header = 14;
constexpr std::uint32_t piece_headroom = 256; ///< room for super_frame's headers
static_assert(piece_headroom >= super_frame::max_headers);

} // namespace

std::size_t tap_port::receive(std::span<packet> out) {
    std::size_t taken = 0;
    while (waiting_first_ != waiting_end_ && taken < out.size()) out[taken++] = std::move(waiting_[waiting_first_++]);
    if (waiting_first_ == waiting_end_) {
        waiting_first_ = waiting_end_ = 0;
        while (taken < out.size() && receive_one(out, taken)) {}
    }
    return taken;
}

/// One packet from the kernel. False if there is none, or no frame to put it in (then it stays in the kernel's queue).
bool tap_port::receive_one(std::span<packet> out, std::size_t& taken) {
    if (landing_ == nullptr) {
        landing_ = frames_.allocate();
        if (landing_ == nullptr) {
            ++statistics_.receive_no_buffer;
            return false;
        }
    }
    virtio_header header;
    std::byte* at = landing_->bytes + frame_headroom;
    const std::uint32_t room = landing_->capacity - frame_headroom;
    const iovec parts[] = {{&header, sizeof header}, {at, room}, {rest_.get(), largest_super_frame}};
    ++statistics_.system_calls;
    const ssize_t got = offloads_ ? ::readv(device_.get(), parts, 3) : ::read(device_.get(), at, room);
    if (got < 0) {
        gone_ = errno == EBADFD; // somebody has deleted the interface
        return false;
    }
    const auto size = static_cast<std::uint32_t>(got) - (offloads_ ? static_cast<std::uint32_t>(sizeof header) : 0);
    if (static_cast<std::size_t>(got) < ethernet_header + (offloads_ ? sizeof header : 0) ||
        size >= room + (offloads_ ? largest_super_frame : 1)) {
        ++statistics_.receive_malformed;
        return true;
    }
    buffer b(*std::exchange(landing_, nullptr), at, std::min(size, room));
    const bool vouched = (header.flags & (virtio_header::needs_checksum | virtio_header::data_valid)) != 0;
    if (size > room) cut(std::move(b), size - room, out, taken);
    else hand_on(std::move(b), offloads_ && vouched ? offload::l4_checksum_good : offload::none, out, taken);
    return true;
}

void tap_port::hand_on(buffer&& b, offload flags, std::span<packet> out, std::size_t& taken) noexcept {
    packet* p = nullptr;
    if (taken < out.size()) p = &out[taken++];
    else if (waiting_end_ < most_segments) p = &waiting_[waiting_end_++];
    else {
        ++statistics_.receive_no_buffer;
        return;
    }
    ++statistics_.received_packets;
    statistics_.received_bytes += b.size();
    p->flags = flags;
    p->body = buffer{};
    p->head = std::move(b);
}

/// A super-frame, of which `rest` bytes lie in rest_: made into segments.
void tap_port::cut(buffer&& first, std::uint32_t rest, std::span<packet> out, std::size_t& taken) noexcept {
    constexpr offload good = offload::l4_checksum_good | offload::ipv4_checksum_good;
    if (!cutter_.begin(first)) {
        ++statistics_.receive_malformed;
        return;
    }
    hand_on(std::move(first), good, out, taken);
    for (std::uint32_t at = 0; at < rest;) {
        buffer piece = frames_.allocate_buffer(piece_headroom);
        if (piece.underlying_frame() == nullptr) { // TCP sends the rest again
            ++statistics_.receive_no_buffer;
            return;
        }
        const std::uint32_t size = std::min(rest - at, piece.tailroom());
        std::memcpy(piece.append(size), rest_.get() + at, size);
        at += size;
        cutter_.go_on(piece, at == rest);
        hand_on(std::move(piece), good, out, taken);
    }
}

std::size_t tap_port::transmit(std::span<packet> burst) {
    std::size_t taken = 0;
    while (taken < burst.size()) {
        const std::size_t run = join(burst.subspan(taken));
        if (!(run > 1 ? write_joined() : write_one(burst[taken]))) break;
        for (packet& p : burst.subspan(taken, run)) {
            p.head = buffer{};
            p.body = buffer{};
        }
        taken += run;
    }
    if (taken < burst.size()) ++statistics_.transmit_full;
    return taken;
}

/// How many packets from the front may go as one super-frame, which joined_ then holds.
std::size_t tap_port::join(std::span<packet> burst) noexcept {
    if (!offloads_ || burst.size() == 1 || !joined_.begin(burst.front())) return 1;
    std::size_t n = 1;
    while (n < burst.size() && joined_.add(burst[n])) ++n;
    return n;
}

bool tap_port::write_joined() {
    virtio_header header;
    header.flags = virtio_header::needs_checksum;
    header.segment_type = joined_.over_ipv6() ? virtio_header::tcp_v6 : virtio_header::tcp_v4;
    header.segment_size = joined_.segment_size();
    header.header_size = static_cast<std::uint16_t>(joined_.header_size());
    header.checksum_start = joined_.tcp_offset();
    header.checksum_offset = 16;
    const std::span<iovec> parts = joined_.finish();
    parts[0] = {&header, sizeof header};
    return write(parts, joined_.segments(), joined_.size());
}

/// False if the kernel's queue is full.
bool tap_port::write(std::span<const iovec> parts, std::size_t packets, std::uint32_t bytes) {
    ++statistics_.system_calls;
    const ssize_t sent = ::writev(device_.get(), parts.data(), static_cast<int>(parts.size()));
    if (sent < 0 && errno == EAGAIN) return false;
    if (sent < 0) {
        statistics_.transmit_dropped += packets;
        return true;
    }
    statistics_.transmitted_packets += packets;
    statistics_.transmitted_bytes += bytes;
    return true;
}

/// False if the kernel's queue is full.
bool tap_port::write_one(packet& p) {
    virtio_header header;
    if (p.flags != offload::none && offloads_) {
        if (has(p.flags, offload::ipv4_checksum_needed)) fill_ipv4_checksum(p.head.mutable_bytes());
        if (has(p.flags, offload::l4_checksum_needed)) {
            header.flags = virtio_header::needs_checksum;
            header.checksum_start = p.l4_offset;
            header.checksum_offset = p.l4_checksum_offset;
        }
        if (has(p.flags, offload::segment)) {
            const bool over_ipv6 = load_be16(p.head.data() + ip_offset(p.head.bytes()) - 2) == 0x86dd;
            header.segment_type = over_ipv6 ? virtio_header::tcp_v6 : virtio_header::tcp_v4;
            header.segment_size = p.segment_size;
            header.header_size = static_cast<std::uint16_t>(p.l4_offset + (load_u8(p.head.data() + p.l4_offset + 12) >> 4) * 4);
        }
    }
    const std::uint32_t size = p.size();
    const iovec parts[] = {{&header, sizeof header},
                           {const_cast<std::byte*>(p.head.data()), p.head.size()},
                           {const_cast<std::byte*>(p.body.data()), p.body.size()}};
    return write(std::span(parts).subspan(offloads_ ? 0 : 1), 1, size);
}

} // namespace corewire
