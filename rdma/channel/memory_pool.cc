#include <corewire/rdma/channel/memory_pool.hh>

#include <corewire/reactor/loop/reactor.hh>

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <iterator>
#include <system_error>
#include <utility>

namespace corewire::rdma {

namespace {

constexpr std::size_t round_up(std::size_t n, std::size_t to) noexcept { return (n + to - 1) / to * to; }
std::uintptr_t number(const std::byte* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

free_stretches::node_type new_place() {
    free_stretches alone{{nullptr, 0}};
    return alone.extract(alone.begin());
}

} // namespace

memory_pool::memory_pool(const verbs::protection_domain& in, reactor& owner, memory_pool_options options)
    : domain_(in), owner_(owner), options_(options) {
    // What can be had in full chunks, so that a size within the limit is one that comes free some day.
    options_.limit = std::max(options_.limit - options_.limit % chunk_size, std::size_t{chunk_size});
    ibv_device_attr_ex limits{};
    constexpr unsigned any = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B; // those of type 1 are no use here
    windows_ = options_.windows && in.api().query_device(in.context(), &limits) == 0 && (limits.orig_attr.device_cap_flags & any) != 0;
}

memory_pool::~memory_pool() {
    take_returned();
    CW_ASSERT(counts_.blocks == 0, "registered memory outlives the RDMA context that it belongs to");
}

memory_block* memory_pool::allocate(std::size_t size, memory_use of) {
    take_returned();
    const std::size_t align = size >= 2048 ? mapped_memory::page : 64;
    const std::size_t wanted = round_up(std::max<std::size_t>(size, 1), 64);
    const bool lasting = of == memory_use::buffers;
    if (lasting) of = memory_use::general;
    for (const auto& chunk : chunks_) {
        if (chunk->use != of) continue;
        if (memory_block* const found = cut(*chunk, wanted, align, lasting); found != nullptr) return found;
    }
    return cut(grow(wanted, of), wanted, align, lasting);
}

/// The first free stretch that is long enough; null if there is none.
memory_block* memory_pool::cut(memory_chunk& from, std::size_t size, std::size_t align, bool lasting) {
    for (auto it = from.free.begin(); it != from.free.end(); ++it) {
        std::byte* const begin = it->first;
        const std::size_t before = round_up(number(begin), align) - number(begin);
        if (it->second < before + size) continue;
        const std::size_t after = it->second - before - size;
        std::byte* const at = begin + before;
        auto made = std::make_unique<memory_block>(memory_block{.data = at, .size = size, .chunk = &from, .lasting = lasting});
        if (before != 0) made->place = new_place();
        if (after != 0) from.free.emplace(at + size, after); // the last thing that can throw
        if (before == 0) made->place = from.free.extract(it);
        else it->second = before;
        if (from.used == 0) empty_ -= from.memory.bytes().size();
        from.used += size;
        if (lasting && std::exchange(from.lasting, from.lasting + size) == 0) counts_.lasting += from.memory.bytes().size();
        counts_.used += size;
        ++counts_.blocks;
        return made.release();
    }
    return nullptr;
}

memory_chunk& memory_pool::grow(std::size_t size, memory_use of) {
    const std::size_t whole = round_up(size, chunk_size);
    if (whole < size || whole > limit(of)) {
        ++counts_.refused;
        throw std::system_error(ENOBUFS, std::generic_category(),
                                fmt::format("{} bytes of registered memory, of {} at most: raise context_options::memory", size,
                                            limit(of)));
    }
    make_room(whole, of);
    if (over(whole, of)) {
        ++counts_.refused;
        throw std::system_error(ENOBUFS, std::generic_category(),
                                fmt::format("{} bytes of registered memory beside {} of {}: raise context_options::memory", size,
                                            counts_.used, options_.limit));
    }
    auto allowed = verbs::access::local_write;
    if (windows_) allowed = allowed | static_cast<verbs::access>(IBV_ACCESS_MW_BIND);
    chunks_.push_back(std::make_unique<memory_chunk>(*this, of, domain_, whole, options_.best, allowed));
    ++counts_.registrations;
    empty_ += whole;
    counts_.mapped += whole;
    if (of == memory_use::copies) counts_.for_copies += whole;
    counts_.most_mapped = std::max(counts_.most_mapped, counts_.mapped);
    count_pages(*chunks_.back(), true);
    return *chunks_.back();
}

bool memory_pool::over(std::size_t size, memory_use of) const noexcept {
    return counts_.mapped + size > options_.limit || (of == memory_use::copies && counts_.for_copies + size > limit(of));
}

/// Chunks that nobody uses go, until `size` bytes more are within the limits.
void memory_pool::make_room(std::size_t size, memory_use of) noexcept {
    while (over(size, of)) {
        const bool any = counts_.mapped + size > options_.limit;
        const auto unused = std::ranges::find_if(chunks_, [&](const auto& c) { return c->used == 0 && (any || c->use == of); });
        if (unused == chunks_.end()) return;
        drop(unused->get());
    }
}

void memory_pool::count_pages(const memory_chunk& c, bool more) noexcept {
    std::uint64_t& of_kind = c.memory.pages() == page_kind::huge          ? counts_.huge
                             : c.memory.pages() == page_kind::transparent ? counts_.transparent
                                                                          : counts_.small;
    of_kind += more ? c.memory.bytes().size() : 0 - c.memory.bytes().size();
}

void memory_pool::drop(const memory_chunk* which) noexcept {
    const std::size_t size = which->memory.bytes().size();
    count_pages(*which, false);
    empty_ -= size;
    counts_.mapped -= size;
    if (which->use == memory_use::copies) counts_.for_copies -= size;
    std::erase_if(chunks_, [which](const auto& c) { return c.get() == which; });
}

void memory_pool::put_back(memory_block* block) noexcept {
    memory_chunk& chunk = *block->chunk;
    std::byte* begin = block->data;
    std::size_t size = block->size;
    chunk.used -= size;
    if (block->lasting && (chunk.lasting -= size) == 0) counts_.lasting -= chunk.memory.bytes().size();
    counts_.used -= size;
    --counts_.blocks;
    free_stretches::node_type place = std::move(block->place);
    delete block;
    const auto behind = chunk.free.lower_bound(begin);
    if (behind != chunk.free.begin()) {
        const auto before = std::prev(behind);
        if (before->first + before->second == begin) {
            begin = before->first;
            size += before->second;
            chunk.free.erase(before);
        }
    }
    if (behind != chunk.free.end() && begin + size == behind->first) {
        size += behind->second;
        chunk.free.erase(behind);
    }
    place.key() = begin;
    place.mapped() = size;
    chunk.free.insert(std::move(place));
    if (chunk.used == 0) {
        empty_ += chunk.memory.bytes().size();
        if (empty_ > options_.kept) drop(&chunk);
    }
    while (!waiting_.empty()) waiting_.pop_front().memory_came_free();
}

void memory_block::give_back() noexcept {
    memory_pool& pool = chunk->pool;
    reactor& owner = pool.owner_;
    if (reactor::current_or_null() == &owner) return release();
    next = pool.returned_.load(std::memory_order_relaxed);
    while (!pool.returned_.compare_exchange_weak(next, this, std::memory_order_release, std::memory_order_relaxed)) {}
    owner.wake_if_asleep();
}

bool memory_pool::take_returned_slowly() noexcept {
    memory_block* each = returned_.exchange(nullptr, std::memory_order_acquire);
    while (each != nullptr) {
        memory_block* const next = each->next;
        ++counts_.returned_from_elsewhere;
        each->release();
        each = next;
    }
    return true;
}

} // namespace corewire::rdma
