#include <corewire/reactor/memory/frame_allocator.hh>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

namespace corewire {

constinit frame_allocator frame_allocator::nobodys_;

namespace {

/// Allocators whose reactors have ended while frames of theirs were still in use elsewhere: at the end of a program, or in
/// tests. Never in anybody's stride.
struct retired_allocators {
    std::mutex mutex;
    std::vector<frame_allocator*> waiting;
    static retired_allocators& instance() {
        static auto* const one = new retired_allocators; // outlives every thread
        return *one;
    }
};

} // namespace

void frame_allocator::retire::operator()(frame_allocator* ended) const noexcept {
    retired_allocators& retired = retired_allocators::instance();
    const std::lock_guard lock(retired.mutex);
    retired.waiting.push_back(ended);
    std::erase_if(retired.waiting, [](frame_allocator* each) {
        if (!each->give_back_everything()) return false;
        delete each;
        return true;
    });
}

/// To malloc, all that is not in use. True if nothing is.
bool frame_allocator::give_back_everything() noexcept {
    take_returns();
    for (void*& first : lists_) {
        while (first != nullptr) {
            void* p = first;
            first = header_of(p)->next;
            discard(p);
        }
    }
    return held_ == 0;
}

// Neither is inlined, as link-time optimisation would: what they add to a coroutine's body keeps the beginning of that body from being
// inlined into the call that makes the coroutine (task-ready then takes 119 instructions instead of 94).
[[gnu::noinline]] void* frame_allocator::allocate_slowly(frame_allocator* here, std::size_t size, std::size_t index) {
    const bool nobodys = here == &nobodys_;
    if (!nobodys && index < classes && here->returned_.load(std::memory_order_relaxed) != nullptr) {
        here->take_returns();
        if (here->lists_[index] != nullptr) return allocate(size);
    }
    const bool kept = !nobodys && index < classes;
    void* raw = std::malloc(kept ? bytes_of(index) : size + sizeof(header));
    if (raw == nullptr) throw std::bad_alloc();
    auto* h = static_cast<header*>(raw);
    h->home = kept ? here : nullptr;
    h->index = static_cast<std::uint32_t>(index);
    if (!nobodys) ++here->heap_allocations_;
    if (kept) {
        ++here->held_;
        here->held_bytes_ += bytes_of(index);
    }
    return h + 1;
}

/// Malloc's, another allocator's, or one too many.
[[gnu::noinline]] void frame_allocator::deallocate_slowly(void* p) noexcept {
    frame_allocator* home = header_of(p)->home;
    if (home == nullptr) {
        std::free(header_of(p));
        return;
    }
    if (home == current_) {
        home->discard(p);
        return;
    }
    // A push-only stack that its owner empties in one exchange: no ABA.
    void* first = home->returned_.load(std::memory_order_relaxed);
    do {
        header_of(p)->next = first;
    } while (!home->returned_.compare_exchange_weak(first, p, std::memory_order_release, std::memory_order_relaxed));
}

void frame_allocator::discard(void* p) noexcept {
    --held_;
    held_bytes_ -= bytes_of(header_of(p)->index);
    std::free(header_of(p));
}

void frame_allocator::take_returns() noexcept {
    void* p = returned_.exchange(nullptr, std::memory_order_acquire);
    while (p != nullptr) {
        void* next = header_of(p)->next;
        if (!keep(p, header_of(p)->index)) discard(p);
        ++came_home_;
        p = next;
    }
}

} // namespace corewire
