// Blocks of the heap for little data that waits long: where it stayed in the frame that it came in, a byte would hold 2,048 of a pool
// that has few of them. They look like frames to whoever has a buffer.
//
// One shard's. Bounded: `limit` bytes, with the book-keeping of each block; where that is reached copy() gives nothing. Buffers may live
// longer than this object.
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

    /// Moves the bytes of `p`, which are 1 to `most`, into a block; its frames go home. False: there is no room, and `p` is as it was.
    bool take_over(packet& p) noexcept;
    /// Bytes that are out.
    std::uint64_t held() const noexcept;

private:
    struct store;
    store* const store_;
};

} // namespace corewire
