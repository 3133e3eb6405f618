#include <corewire/net/port/joined_segments.hh>

#include <cstring>
#include <span>

namespace corewire {

namespace {

constexpr std::uint32_t smallest_tcp = 20;
constexpr std::uint8_t psh = 0x08, ack = 0x10;

std::uint16_t folded(std::uint32_t sum) noexcept {
    sum = (sum >> 16) + (sum & 0xffff);
    return static_cast<std::uint16_t>((sum >> 16) + (sum & 0xffff));
}

std::uint16_t header_checksum(const std::byte* ip) noexcept {
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < 20; i += 2) sum += i == 10 ? 0u : load_be16(ip + i);
    return static_cast<std::uint16_t>(~folded(sum));
}

} // namespace

bool joined_segments::begin(const packet& p) noexcept {
    if (work_of(p) != offload::l4_checksum_needed) return false;
    tcp_ = p.l4_offset;
    const std::byte* frame = p.head.data();
    ip_size_ = tcp_ >= 14 + 40 ? 40 : 20;
    if (tcp_ < 14 + ip_size_ || tcp_ > 18 + ip_size_ || p.head.size() < tcp_ + smallest_tcp) return false;
    const std::byte* ip = frame + tcp_ - ip_size_;
    if (over_ipv6()) {
        if (load_be16(ip - 2) != 0x86dd || load_u8(ip) >> 4 != 6 || load_u8(ip + 6) != 6) return false;
    } else if (load_be16(ip - 2) != 0x0800 || load_u8(ip) != 0x45 || load_u8(ip + 9) != 6 || (load_be16(ip + 6) & 0x3fff) != 0) {
        return false;
    }
    header_size_ = tcp_ + (load_u8(frame + tcp_ + 12) >> 4) * 4u;
    if (header_size_ < tcp_ + smallest_tcp || p.head.size() < header_size_ || p.size() == header_size_) return false;
    flags_ = load_u8(frame + tcp_ + 13);
    if ((flags_ & ~psh) != ack) return false;
    std::memcpy(headers_.data(), frame, header_size_);
    segment_size_ = p.size() - header_size_;
    payload_ = 0;
    segments_ = 0;
    parts_count_ = 2;
    take_payload(p);
    return true;
}

bool joined_segments::add(const packet& p) noexcept {
    if (work_of(p) != offload::l4_checksum_needed || p.l4_offset != tcp_ || p.head.size() < header_size_) return false;
    const std::uint32_t more = p.size() - header_size_;
    // All but the last are of one size, which is what the kernel will cut.
    if (last_ != segment_size_ || more == 0 || more > segment_size_ || segments_ == most_segments) return false;
    if (size() - (tcp_ - ip_size_) + more > largest || !same_flow(p.head.data())) return false;
    flags_ = load_u8(p.head.data() + tcp_ + 13);
    take_payload(p);
    return true;
}

/// All but what follows from the place in the stream: lengths, IPv4's identification, checksums, PSH.
bool joined_segments::same_flow(const std::byte* other) const noexcept {
    const std::byte* mine = headers_.data();
    const std::uint32_t ip = tcp_ - ip_size_;
    const auto same = [&](std::uint32_t from, std::uint32_t to) { return std::memcmp(mine + from, other + from, to - from) == 0; };
    return load_be32(other + tcp_ + 4) == load_be32(mine + tcp_ + 4) + payload_ && (load_u8(other + tcp_ + 13) & ~psh) == ack &&
           same(tcp_ + 8, tcp_ + 13) && same(tcp_ + 18, header_size_) && same(tcp_ + 14, tcp_ + 16) &&
           (over_ipv6() ? same(0, ip + 4) && same(ip + 6, tcp_ + 4) : same(0, ip + 2) && same(ip + 6, ip + 10) && same(ip + 12, tcp_ + 4));
}

void joined_segments::take_payload(const packet& p) noexcept {
    const auto part = [&](const std::byte* at, std::uint32_t size) {
        if (size != 0) parts_[parts_count_++] = {const_cast<std::byte*>(at), size};
    };
    part(p.head.data() + header_size_, p.head.size() - header_size_);
    part(p.body.data(), p.body.size());
    last_ = p.size() - header_size_;
    payload_ += last_;
    ++segments_;
}

std::span<iovec> joined_segments::finish() noexcept {
    std::byte* ip = headers_.data() + tcp_ - ip_size_;
    std::byte* tcp = headers_.data() + tcp_;
    if (over_ipv6()) {
        store_be16(ip + 4, static_cast<std::uint16_t>(size() - tcp_));
    } else {
        store_be16(ip + 2, static_cast<std::uint16_t>(size() - (tcp_ - ip_size_)));
        store_be16(ip + 10, header_checksum(ip));
    }
    store_u8(tcp + 13, flags_);
    // The field holds the sum of the pseudo-header, whose length has grown (RFC 1624).
    store_be16(tcp + 16, folded(load_be16(tcp + 16) + (payload_ - segment_size_)));
    parts_[1] = {headers_.data(), header_size_};
    return {parts_.data(), parts_count_};
}

} // namespace corewire
