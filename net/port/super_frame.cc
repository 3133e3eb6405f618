#include <corewire/net/port/super_frame.hh>

#include <cstring>

namespace corewire {

namespace {

constexpr std::uint8_t fin = 0x01, psh = 0x08;

std::uint16_t header_checksum(const std::byte* ip, std::uint32_t size) noexcept {
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < size; i += 2) sum += load_be16(ip + i);
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    return static_cast<std::uint16_t>(~sum);
}

} // namespace

bool super_frame::begin(buffer& first) noexcept {
    const std::byte* frame = first.data();
    const std::uint32_t size = first.size();
    if (size < 18 + 20 + 20) return false;
    ip_ = load_be16(frame + 12) == 0x8100 ? 18 : 14;
    const std::byte* ip = frame + ip_;
    const std::uint16_t type = load_be16(ip - 2);
    ipv6_ = type == 0x86dd;
    if (!ipv6_ && type != 0x0800) return false;
    const std::uint32_t ip_header = ipv6_ ? 40 : (load_u8(ip) & 0xfu) * 4;
    if (load_u8(ip) >> 4 != (ipv6_ ? 6 : 4) || ip_header < 20 || size < ip_ + ip_header + 20) return false;
    if (load_u8(ip + (ipv6_ ? 6 : 9)) != 6 || (!ipv6_ && (load_be16(ip + 6) & 0x3fff) != 0)) return false;
    tcp_ = ip_ + ip_header;
    const std::uint32_t tcp_header = (load_u8(frame + tcp_ + 12) >> 4) * 4u;
    if (tcp_header < 20 || size < tcp_ + tcp_header) return false;
    size_ = tcp_ + tcp_header;
    std::memcpy(headers_.data(), frame, size_);
    sequence_ = load_be32(frame + tcp_ + 4);
    id_ = load_be16(ip + 4);
    flags_ = load_u8(frame + tcp_ + 13);
    write_headers(first.mutable_data(), size - size_, flags_ & static_cast<std::uint8_t>(~(fin | psh)));
    return true;
}

void super_frame::go_on(buffer& piece, bool last) noexcept {
    const std::uint32_t payload = piece.size();
    const std::uint8_t dropped = last ? 0 : fin | psh;
    write_headers(piece.prepend(size_), payload, flags_ & static_cast<std::uint8_t>(~dropped));
}

void super_frame::write_headers(std::byte* at, std::uint32_t payload, std::uint8_t flags) noexcept {
    std::byte* ip = headers_.data() + ip_;
    std::byte* tcp = headers_.data() + tcp_;
    if (ipv6_) {
        store_be16(ip + 4, static_cast<std::uint16_t>(size_ - tcp_ + payload));
    } else {
        store_be16(ip + 2, static_cast<std::uint16_t>(size_ - ip_ + payload));
        store_be16(ip + 4, id_++);
        store_be16(ip + 10, 0);
        store_be16(ip + 10, header_checksum(ip, tcp_ - ip_));
    }
    store_be32(tcp + 4, sequence_);
    store_u8(tcp + 13, flags);
    sequence_ += payload;
    std::memcpy(at, headers_.data(), size_);
}

} // namespace corewire
