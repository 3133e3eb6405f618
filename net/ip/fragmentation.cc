#include <corewire/net/ip/fragmentation.hh>

#include <algorithm>
#include <cstring>
#include <utility>

namespace corewire {

fragmenter::fragmenter(packet&& datagram, std::uint32_t mtu) noexcept : datagram_(std::move(datagram)), mtu_(mtu) {
    const std::uint32_t size = datagram_.size();
    wire::ipv4_view ip;
    if (wire::ipv4_view::parse_quoted(datagram_.head.bytes(), ip) != wire::parse_error::none || ip.total_length() != size) {
        error_ = fragment_error::malformed;
        return;
    }
    if (mtu < 68) {
        error_ = fragment_error::mtu_too_low;
        return;
    }
    if (ip.dont_fragment() && size > mtu) {
        error_ = fragment_error::not_allowed;
        return;
    }
    header_ = wire::ipv4_header::from(ip);
    options_size_ = ip.options().size();
    std::memcpy(options_.data(), ip.options().data(), options_size_);
    later_options_size_ = build_later_options(ip);
    datagram_.head.remove_prefix(static_cast<std::uint32_t>(ip.header_size()));
    left_ = datagram_.size();
}

/// RFC 791 3.1: options whose copied flag is set go into every fragment, padded to 32 bits with end-of-list.
std::size_t fragmenter::build_later_options(const wire::ipv4_view& ip) noexcept {
    std::size_t size = 0;
    wire::ipv4_option_cursor cursor(ip.options());
    for (wire::ipv4_option option; cursor.next(option);) {
        if (!option.copied()) continue;
        store_u8(&later_options_[size], static_cast<std::uint8_t>(option.type));
        store_u8(&later_options_[size + 1], static_cast<std::uint8_t>(option.data.size() + 2));
        std::memcpy(&later_options_[size + 2], option.data.data(), option.data.size());
        size += option.data.size() + 2;
    }
    return (size + 3) / 4 * 4; // the array is zero, and zero is end-of-list
}

bool fragmenter::next(frame_pool& pool, packet& out) noexcept {
    if (error_ != fragment_error::none || (left_ == 0 && emitted_ != 0)) return false;
    const bool first = emitted_ == 0;
    const byte_span options = first ? byte_span(options_).first(options_size_) : byte_span(later_options_).first(later_options_size_);
    const auto header_size = static_cast<std::uint32_t>(wire::ipv4_header::min_size + options.size());
    const std::uint32_t room = mtu_ - header_size;
    const std::uint32_t length = left_ <= room ? left_ : room / 8 * 8; // 68 - 60 leaves 8 at the least
    buffer head = pool.allocate_buffer();
    if (head.underlying_frame() == nullptr || head.tailroom() < header_size) {
        error_ = fragment_error::no_frame;
        return false;
    }
    wire::ipv4_header header = header_;
    header.total_length = static_cast<std::uint16_t>(header_size + length);
    // A fragment may be cut again (by us, when it is being forwarded): its own offset and flag count.
    header.fragment_offset = static_cast<std::uint16_t>(header_.fragment_offset + offset_);
    header.more_fragments = header_.more_fragments || length < left_;
    std::byte* at = head.append(header_size);
    header.emit({at, header_size}, options);
    out = packet{};
    out.head = std::move(head);
    if (!copy_or_share(out, length)) {
        error_ = fragment_error::no_frame;
        return false;
    }
    offset_ += length;
    left_ -= length;
    ++emitted_;
    return true;
}

/// The next `length` bytes of payload: by reference when they lie in one piece, else copied behind the header.
bool fragmenter::copy_or_share(packet& out, std::uint32_t length) noexcept {
    buffer& piece = datagram_.head.empty() ? datagram_.body : datagram_.head;
    if (piece.size() >= length) {
        out.body = piece.share(0, length);
        piece.remove_prefix(length);
        return true;
    }
    const std::uint32_t before = piece.size();
    if (out.head.tailroom() < length) return false; // a jumbo fragment across two pieces, from a pool of small frames
    std::byte* to = out.head.append(length);
    std::memcpy(to, piece.data(), before);
    piece.remove_prefix(before);
    std::memcpy(to + before, datagram_.body.data(), length - before);
    datagram_.body.remove_prefix(length - before);
    return true;
}

} // namespace corewire
