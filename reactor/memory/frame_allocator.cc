#include <corewire/reactor/memory/frame_allocator.hh>

#include <cstdlib>
#include <new>

namespace corewire {

frame_allocator::~frame_allocator() {
    take_returns();
    for (list& l : lists_) {
        while (l.first != nullptr) {
            header* h = l.first;
            l.first = h->next;
            discard(h);
        }
    }
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
    return h + 1;
}

void frame_allocator::deallocate_slowly(header* h) noexcept {
    frame_allocator* home = h->home;
    if (home == nullptr) {
        discard(h);
        return;
    }
    // A push-only stack that its owner empties in one exchange: no ABA.
    header* first = home->returned_.load(std::memory_order_relaxed);
    do {
        h->next = first;
    } while (!home->returned_.compare_exchange_weak(first, h, std::memory_order_release, std::memory_order_relaxed));
}

void frame_allocator::discard(header* h) noexcept { std::free(h); }

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
