#include <corewire/reactor/memory/frame_allocator.hh>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

namespace corewire {

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
    for (list& l : lists_) {
        while (l.first != nullptr) {
            header* h = l.first;
            l.first = h->next;
            discard(h);
        }
        l.count = 0;
    }
    return held_ == 0;
}

void* frame_allocator::allocate_slowly(frame_allocator* here, std::size_t size, std::size_t index) {
    if (here != nullptr && index < classes && here->returned_.load(std::memory_order_relaxed) != nullptr) {
        here->take_returns();
        if (here->lists_[index].first != nullptr) return allocate(size);
    }
    const bool kept = here != nullptr && index < classes;
    void* raw = std::malloc(kept ? (index + 1) * granule : size + sizeof(header));
    if (raw == nullptr) throw std::bad_alloc();
    auto* h = static_cast<header*>(raw);
    h->home = kept ? here : nullptr;
    h->index = static_cast<std::uint32_t>(index);
    if (here != nullptr) ++here->heap_allocations_;
    if (kept) ++here->held_;
    return h + 1;
}

void frame_allocator::deallocate_slowly(header* h) noexcept {
    frame_allocator* home = h->home;
    if (home == nullptr) {
        std::free(h);
        return;
    }
    // A push-only stack that its owner empties in one exchange: no ABA.
    header* first = home->returned_.load(std::memory_order_relaxed);
    do {
        h->next = first;
    } while (!home->returned_.compare_exchange_weak(first, h, std::memory_order_release, std::memory_order_relaxed));
}

void frame_allocator::discard(header* h) noexcept {
    --held_;
    std::free(h);
}

void frame_allocator::take_returns() noexcept {
    header* h = returned_.exchange(nullptr, std::memory_order_acquire);
    while (h != nullptr) {
        header* next = h->next;
        keep(h);
        ++came_home_;
        h = next;
    }
}

} // namespace corewire
