#include <corewire/apps/echo/sockperf.hh>

#include <algorithm>
#include <cstring>

namespace corewire::sockperf {

framer::run framer::next(mutable_byte_span bytes) noexcept {
    if (body_left_ > 0) {
        const std::size_t n = static_cast<std::size_t>(std::min<std::uint64_t>(body_left_, bytes.size()));
        body_left_ -= n;
        return {n, replying_ ? verdict::reply : verdict::skip};
    }
    if (held_size_ == 0 && bytes.size() >= header_size) return begin(bytes.data(), bytes.size());

    const std::size_t n = std::min(header_size - held_size_, bytes.size());
    std::memcpy(held_.data() + held_size_, bytes.data(), n);
    held_size_ += n;
    if (held_size_ < header_size) return {n, verdict::skip};
    held_size_ = 0;
    const run message = begin(held_.data(), header_size);
    return {n, message.what == verdict::reply ? verdict::held_header : message.what};
}

/// A whole header, `in_buffer` bytes of whose message are at hand.
framer::run framer::begin(std::byte* header, std::size_t in_buffer) noexcept {
    const std::uint32_t length = load_be32(header + length_offset);
    if (length < header_size) return {in_buffer, verdict::malformed};
    replying_ = asks_for_reply(header);
    if (replying_) make_reply(header);
    const std::size_t n = std::min<std::size_t>(length, in_buffer);
    body_left_ = length - n;
    return {n, replying_ ? verdict::reply : verdict::skip};
}

} // namespace corewire::sockperf
