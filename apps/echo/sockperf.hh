// sockperf's wire format, as far as a server needs it: which messages ask for a reply, and the one bit to clear.
//
//     0        8      10       14                    length
//     | number | flags | length | payload ............ |        network byte order; flags: 1 = from a client,
//                                                               2 = a reply is asked for
// One framer a TCP connection, owned by its coroutine; it keeps at most one partial header (14 bytes).
// Read from captures of sockperf 3.7 (`sockperf ping-pong`, `sockperf throughput`).
#pragma once

#include <corewire/reactor/base/bytes.hh>

#include <array>
#include <cstddef>
#include <cstdint>

namespace corewire::sockperf {

inline constexpr std::size_t header_size = 14;
inline constexpr std::size_t flags_offset = 8;
inline constexpr std::size_t length_offset = 10;
inline constexpr std::uint16_t from_client = 1;
inline constexpr std::uint16_t wants_reply = 2;

/// True if this header, of header_size bytes, belongs to a message that a server answers.
inline bool asks_for_reply(const std::byte* header) noexcept {
    const std::uint16_t flags = load_be16(header + flags_offset);
    return (flags & from_client) != 0 && (flags & wants_reply) != 0;
}
/// Makes a request into its reply.
inline void make_reply(std::byte* header) noexcept {
    store_be16(header + flags_offset, static_cast<std::uint16_t>(load_be16(header + flags_offset) & ~from_client));
}
/// A datagram holds one message. True if it is to be sent back.
inline bool is_request(byte_span datagram) noexcept {
    return datagram.size() >= header_size && asks_for_reply(datagram.data());
}

/// Finds the messages in a TCP stream, however it was cut into pieces.
class framer {
public:
    enum class verdict : std::uint8_t {
        reply,       ///< send these bytes back as they lie in the buffer
        skip,        ///< nobody asked for these
        held_header, ///< send held_header(): its bytes came in several pieces, the last of them is this run
        malformed,   ///< a length shorter than the header: the stream cannot be followed any more
    };
    struct run {
        std::size_t size;
        verdict what;
    };

    /// Judges the next run at the front of `bytes` (not empty), and turns requests in it into replies. The caller
    /// removes run.size bytes and asks again until none are left.
    run next(mutable_byte_span bytes) noexcept;
    byte_span held_header() const noexcept { return held_; }

private:
    run begin(std::byte* header, std::size_t in_buffer) noexcept;

    std::array<std::byte, header_size> held_{};
    std::size_t held_size_ = 0;     ///< bytes of a header seen so far
    std::uint64_t body_left_ = 0;   ///< bytes until the next header
    bool replying_ = false;
};

} // namespace corewire::sockperf
