// Blocks of the heap for little data that waits long: where it stayed in the frame that it came in, a byte would hold 2,048 of a pool
// that has few of them. They look like frames to whoever has a buffer. Blocks that are home are kept for who comes next, so that a shard in
// steady state does not allocate.
//
// One shard's. Bounded: `limit` bytes, with the book-keeping of each block, whether out or kept; where that is reached nothing is taken
// over. Buffers may live longer than this object.
#pragma once

#include <corewire/net/frame/packet.hh>

#include <cstdint>

namespace corewire {

class small_blocks {
public:
    static constexpr std::uint32_t most = 512; ///< bytes of data in a block

    explicit small_blocks(std::uint64_t limit);
    ~small_blocks();
    small_blocks(const small_blocks&) = delete;

    /// A copy of the bytes, which are 1 to `most`, in a block; empty: there is no room.
    buffer copy(byte_span bytes) noexcept;
    /// Moves the bytes of `p`, which are 1 to `most`, into a block; its frames go home. False: there is no room, and `p` is as it was.
    bool take_over(packet& p) noexcept;
    /// The same of a buffer of any size. False: it is as it was, because it is large, or in a block, or others see its frame, too.
    bool take_over(buffer& data) noexcept;
    /// Bytes that are out.
    std::uint64_t held() const noexcept;
    /// Times that the heap was asked for a block.
    std::uint64_t allocations() const noexcept;

private:
    struct store;
    store* const store_;
};

} // namespace corewire
