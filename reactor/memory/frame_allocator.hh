// Where coroutine frames come from: a size-classed free list per shard, so that a service in its stride never calls malloc.
//
//     allocate() --> free list of the class, else malloc     deallocate() --> the list of the shard that allocated it
//
// A frame freed on another shard goes home: it is pushed on its home's return stack (the one place with atomics), which
// the home empties when a list runs dry. Bounded: a class keeps at most `cached_limit` frames, the rest go back to malloc.
// An allocator whose shard has ended stays until the last of its frames is home.
#pragma once

#include <corewire/reactor/memory/poison.hh>

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
    static constexpr std::uint32_t cached_limit = 4096;

    /// What a reactor holds: its allocator, which may outlive it.
    struct retire {
        void operator()(frame_allocator*) const noexcept;
    };
    using owner = std::unique_ptr<frame_allocator, retire>;
    static owner make() { return owner{new frame_allocator}; }

    frame_allocator(const frame_allocator&) = delete;
    frame_allocator& operator=(const frame_allocator&) = delete;

    /// From the running shard's allocator, or from malloc where there is none. Throws std::bad_alloc.
    static void* allocate(std::size_t size) {
        frame_allocator* here = current_;
        const std::size_t index = (size + sizeof(header) + granule - 1) / granule - 1;
        if (here != nullptr && index < classes) [[likely]] {
            header* h = here->lists_[index].first;
            if (h != nullptr) [[likely]] {
                here->lists_[index].first = h->next;
                --here->lists_[index].count;
                h->home = here;
                unpoison(h + 1, (index + 1) * granule - sizeof(header));
                return h + 1;
            }
        }
        return allocate_slowly(here, size, index);
    }
    static void deallocate(void* p) noexcept {
        header* h = static_cast<header*>(p) - 1;
        frame_allocator* home = h->home;
        if (home != nullptr && home == current_) [[likely]] {
            home->keep(h);
        } else {
            deallocate_slowly(h);
        }
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

private:
    frame_allocator() = default;
    ~frame_allocator() = default;
    /// Before every frame. `home` while in use, `next` while on a list.
    struct alignas(16) header {
        union {
            frame_allocator* home;
            header* next;
        };
        std::uint32_t index;
    };
    struct list {
        header* first = nullptr;
        std::uint32_t count = 0;
    };

    static void* allocate_slowly(frame_allocator* here, std::size_t size, std::size_t index);
    static void deallocate_slowly(header* h) noexcept;
    void keep(header* h) noexcept {
        list& l = lists_[h->index];
        if (l.count >= cached_limit) [[unlikely]] {
            discard(h);
            return;
        }
        poison(h + 1, (h->index + std::size_t{1}) * granule - sizeof(header));
        h->next = l.first;
        l.first = h;
        ++l.count;
    }
    void discard(header* h) noexcept;
    void take_returns() noexcept;
    bool give_back_everything() noexcept;

    inline static thread_local constinit frame_allocator* current_ = nullptr;
    std::array<list, classes> lists_{};
    std::uint64_t heap_allocations_ = 0;
    std::uint64_t came_home_ = 0;
    std::uint64_t held_ = 0;
    alignas(64) std::atomic<header*> returned_{nullptr};
};

} // namespace corewire
