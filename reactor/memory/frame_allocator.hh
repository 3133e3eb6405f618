// Where coroutine frames come from: a size-classed free list per shard, so that a service in its stride never calls malloc.
//
//     allocate() --> free list of the class, else malloc     deallocate() --> the list of the shard that allocated it
//
// A frame freed on another shard goes home: it is pushed on its home's return stack (the one place with atomics), which
// the home empties when a list runs dry. Bounded: a class keeps at most `cached_bytes` and `cached_limit` frames, the rest go back to
// malloc. An allocator whose shard has ended stays until the last of its frames is home.
#pragma once

#include <corewire/reactor/memory/poison.hh>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace corewire {

class frame_allocator {
public:
    static constexpr std::size_t granule = 64;
    static constexpr std::size_t classes = 64; ///< frames up to granule * classes bytes are kept; larger ones are malloc's
    static constexpr std::uint32_t cached_limit = 4096;   ///< frames of a class that are kept while nobody uses them
    static constexpr std::size_t cached_bytes = 1 << 20;  ///< and their bytes: 62 MiB of all classes together
    /// Frames of that size that are kept, by both bounds: at most granule * classes bytes, less a header.
    static constexpr std::uint32_t cached_limit_of(std::size_t size) noexcept { return limits[class_of(size)]; }

    /// What a reactor holds: its allocator, which may outlive it.
    struct retire {
        void operator()(frame_allocator*) const noexcept;
    };
    using owner = std::unique_ptr<frame_allocator, retire>;
    static owner make() { return owner{new frame_allocator}; }

    frame_allocator(const frame_allocator&) = delete;
    frame_allocator& operator=(const frame_allocator&) = delete;

    /// From the running shard's allocator, or from malloc where there is none. Throws std::bad_alloc.
    [[gnu::always_inline]] static void* allocate(std::size_t size) {
        frame_allocator* here = current_;
        const std::size_t index = class_of(size);
        if (index < classes) [[likely]] {
            void* p = here->lists_[index];
            if (p != nullptr) [[likely]] {
                here->lists_[index] = header_of(p)->next;
                header_of(p)->home = here;
                unpoison(p, (index + 1) * granule - sizeof(header));
                return p;
            }
        }
        return allocate_slowly(here, size, index);
    }
    /// The size that was asked for. A coroutine knows it when compiled, so that the list's place is known before the frame is
    /// looked at.
    [[gnu::always_inline]] static void deallocate(void* p, std::size_t size) noexcept {
        frame_allocator* here = current_;
        const std::size_t index = class_of(size);
        if (header_of(p)->home != here || index >= classes || !here->keep(p, index)) [[unlikely]]
            deallocate_slowly(p);
    }

    /// Makes an allocator this thread's for a scope (the reactor's scope does it).
    static frame_allocator* exchange_current(frame_allocator* a) noexcept {
        frame_allocator* before = current_;
        current_ = a;
        return before;
    }

    /// Times malloc was asked: constant once a service is in its stride.
    std::uint64_t heap_allocations() const noexcept { return heap_allocations_; }
    std::uint64_t came_home() const noexcept { return came_home_; } ///< frames that another shard had freed
    /// Frames in use or cached, oversized ones excepted.
    std::uint64_t frames_held() const noexcept { return held_; }
    /// Their bytes.
    std::uint64_t bytes_held() const noexcept { return held_bytes_; }

private:
    constexpr frame_allocator() = default;
    ~frame_allocator() = default;
    /// Before every frame. `home` while in use (null: malloc's), `next` and `depth` while on a list. A list has no counter: the
    /// frame on top knows how many there are, itself included.
    struct alignas(16) header {
        union {
            frame_allocator* home;
            void* next;
        };
        std::uint32_t index;
        std::uint32_t depth;
    };
    static header* header_of(void* p) noexcept { return static_cast<header*>(p) - 1; }
    static constexpr std::size_t class_of(std::size_t size) noexcept {
        return (size + sizeof(header) + granule - 1) / granule - 1;
    }

    static constexpr std::size_t bytes_of(std::size_t index) noexcept { return (index + 1) * granule; }
    static constexpr std::array<std::uint32_t, classes> limits = [] {
        std::array<std::uint32_t, classes> all{};
        for (std::size_t i = 0; i < classes; ++i)
            all[i] = static_cast<std::uint32_t>(std::min<std::size_t>(cached_limit, cached_bytes / (i + 1) / granule));
        return all;
    }();

    static void* allocate_slowly(frame_allocator* here, std::size_t size, std::size_t index);
    static void deallocate_slowly(void* p) noexcept;
    /// False when the list is full.
    bool keep(void* p, std::size_t index) noexcept {
        void* first = lists_[index];
        const std::uint32_t depth = first != nullptr ? header_of(first)->depth + 1 : 1;
        if (depth > limits[index]) [[unlikely]] // a constant where the size is known when compiled
            return false;
        poison(p, (index + 1) * granule - sizeof(header));
        header_of(p)->next = first;
        header_of(p)->depth = depth;
        lists_[index] = p;
        return true;
    }
    void discard(void* p) noexcept;
    void take_returns() noexcept;
    bool give_back_everything() noexcept;

    static frame_allocator nobodys_; ///< current where there is no reactor: its lists are always empty
    inline static thread_local constinit frame_allocator* current_ = &nobodys_;
    std::array<void*, classes> lists_{}; ///< the frame on top
    std::uint64_t heap_allocations_ = 0;
    std::uint64_t came_home_ = 0;
    std::uint64_t held_ = 0;
    std::uint64_t held_bytes_ = 0;
    alignas(64) std::atomic<void*> returned_{nullptr};
};

} // namespace corewire
