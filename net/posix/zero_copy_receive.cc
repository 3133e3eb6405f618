// TCP_ZEROCOPY_RECEIVE (tcp_zerocopy_receive()): no pages of ours can be mapped, so a caller is told to read, or given a copy where it has
// room for all that waits.
#include <corewire/net/posix/option_values.hh>
#include <corewire/net/posix/stream_socket.hh>

#include <algorithm>
#include <array>

namespace corewire::posix {

namespace {

/// struct tcp_zerocopy_receive as Linux 6.18 has it.
struct zero_copy_fields {
    std::uint64_t address;
    std::uint32_t length, recv_skip_hint;
    std::uint32_t inq;
    std::int32_t err;
    std::uint64_t copybuf_address;
    std::int32_t copybuf_len;
    std::uint32_t flags;
    std::uint64_t msg_control, msg_controllen;
    std::uint32_t msg_flags, reserved;
};
static_assert(sizeof(zero_copy_fields) == 64);

constexpr std::uint32_t page = 4096;
constexpr std::uint32_t stamps_asked = 2; ///< TCP_CMSG_TS

/// Whether a struct of `size` bytes ends with a field, from the one on that ends at `from`: others are not told what waits, nor of errors.
bool ends_with_a_field(socklen_t size, socklen_t from) noexcept {
    constexpr std::array<socklen_t, 7> ends{20, 24, 32, 36, 40, 48, 56};
    return size >= 60 || (size >= from && std::find(ends.begin(), ends.end(), size) != ends.end());
}

bool is_zero(const std::byte* at, std::size_t n) noexcept {
    return std::all_of(at, at + n, [](std::byte b) { return b == std::byte{0}; });
}

} // namespace

outcome stream_socket::receive_without_copy(void* value, socklen_t* size) {
    zero_copy_fields z{};
    if (static_cast<std::int32_t>(*size) < 12) return -EINVAL; // up to `length`
    if (value == nullptr) return -EFAULT;
    const auto* const behind = static_cast<const std::byte*>(value) + sizeof z; // what a newer struct has
    if (*size > sizeof z && !is_zero(behind, *size - sizeof z)) return -EINVAL;
    const socklen_t given = *size = std::min<socklen_t>(*size, sizeof z);
    std::memcpy(&z, value, given);
    if (z.reserved != 0 || (z.msg_flags & ~stamps_asked) != 0 || z.address % page != 0) return -EINVAL;
    if (listener_ != nullptr) return -ENOTCONN;
    const tcp_connection* const c = connection();
    const std::uint32_t waiting = c == nullptr || in_handshake() ? 0 : before_mark(*c);
    if (waiting == 0 && c != nullptr && c->tcb.at_end()) return -EIO;
    const bool room = z.copybuf_len > 0 && waiting != 0 && waiting <= static_cast<std::uint32_t>(z.copybuf_len);
    if (!room && waiting >= page) return -EINVAL; // nothing is mapped there
    z.length = z.msg_flags = 0; // of when it came nothing is told
    z.recv_skip_hint = room ? 0 : waiting;
    z.copybuf_len = 0;
    if (room) {
        const iovec into{reinterpret_cast<void*>(z.copybuf_address), waiting};
        const outcome n = receive({&into, 1}, MSG_DONTWAIT);
        if (n < 0) return n;
        z.copybuf_len = static_cast<std::int32_t>(n);
    }
    if (ends_with_a_field(given, 20)) z.inq = static_cast<std::uint32_t>(inquire());
    if (ends_with_a_field(given, 24)) z.err = -static_cast<std::int32_t>(take_error());
    return give(&z, given, value, size);
}

} // namespace corewire::posix
