// A frame: the book-keeping for one run of bytes that a port can send from or has received into.
//
//     frame (this header, one cache line, always local to its core)
//       | bytes --> [ headroom | Ethernet IP TCP ... payload | tailroom ]      in memory registered with the port
//
// Frames are counted with plain integers: a frame never leaves its core. What crosses cores is the address of its
// bytes, by an explicit hand-over of the `wire` port or the steering, and a token that comes home to be freed.
#pragma once

#include <corewire/reactor/base/assert.hh>

#include <cstddef>
#include <cstdint>

namespace corewire {

struct frame;

/// Takes frames back when their last reference goes. A pool of our own keeps a free list; an owner of somebody else's
/// bytes sets `recycle`, which then sends the token home.
struct frame_owner {
    using recycle_function = void (*)(frame_owner&, frame&) noexcept;
    frame* free_list = nullptr;
    std::uint32_t free_count = 0;
    /// Of these so many are for what comes and goes: queues that may have no reader leave them (udp_demux.hh).
    std::uint32_t reserve = 0;
    /// Frames whose bytes may be written in place (headers put before received payload): not those lent by another core.
    bool writable = true;
    recycle_function recycle = nullptr;
    bool scarce() const noexcept { return free_count < reserve; }
};

struct alignas(64) frame {
    std::byte* bytes = nullptr;    ///< first byte of storage
    std::uint32_t capacity = 0;    ///< bytes of storage
    std::uint32_t references = 0;  ///< plain: one core only
    frame_owner* owner = nullptr;
    frame* next_free = nullptr;
    std::uint64_t token = 0;       ///< the owner's own word: UMEM address, lkey, the lender's frame

    std::byte* end() const noexcept { return bytes + capacity; }
};

inline void retain(frame& f) noexcept { ++f.references; }

/// Always inline: the compiler would share one copy, and once a packet that is a call.
[[gnu::always_inline]] inline void release(frame& f) noexcept {
    CW_DEBUG_ASSERT(f.references > 0, "a frame was released more often than retained");
    if (--f.references != 0) return;
    frame_owner& owner = *f.owner;
    if (owner.recycle != nullptr) [[unlikely]] {
        owner.recycle(owner, f);
        return;
    }
    f.next_free = owner.free_list;
    owner.free_list = &f;
    ++owner.free_count;
}

} // namespace corewire
