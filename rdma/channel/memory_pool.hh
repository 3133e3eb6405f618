// Registered memory: blocks of a few large regions, each mapped on the largest pages there are and registered once.
//
//     registered_buffer, messages --allocate()--> memory_block --of--> chunk: 2 MiB or more, one registration
//     work requests --hold()------------------------^  |
//     last release(), on the owner's shard ------------'--> free again, joined with its neighbours; who waits for memory is told
//
// A block is free again when its buffer has gone and no work request of ours can touch it any more: the device never writes to
// memory that has got another owner. A buffer that is destroyed on another shard comes back by a list that its owner empties.
//
// Copies of messages that are being sent have chunks of their own, of half the limit at most: they go when a peer has fetched them, which
// may wait for the very memory into which that peer's messages are fetched. So what is fetched into the other half waits for no copy. It
// may wait for what else is there: connections' buffers, messages that nobody has let go of, memory that users allocated.
//
// Belongs to one shard and one device; outlives its blocks. Bounds: `limit` bytes mapped (beyond: ENOBUFS), of which `kept` stay mapped
// while they are empty. Counted: statistics().
#pragma once

#include <corewire/rdma/channel/mapped_memory.hh>
#include <corewire/rdma/verbs/memory_region.hh>
#include <corewire/reactor/base/intrusive_list.hh>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace corewire {
class reactor;
}

namespace corewire::rdma {

class memory_pool;
struct memory_chunk;

/// By address: bytes.
using free_stretches = std::map<std::byte*, std::size_t>;

/// A stretch of a chunk in use. Held once by its owner, and once by each work request that names it.
struct memory_block {
    std::byte* data = nullptr;
    std::size_t size = 0; ///< as it was cut: at least what was asked for
    memory_chunk* chunk = nullptr;
    bool lasting = false; ///< memory_use::buffers
    unsigned holds = 1;
    memory_block* next = nullptr; ///< of those that came back from another shard
    free_stretches::node_type place{}; ///< among the free ones, from its beginning on: coming free allocates nothing

    void hold() noexcept { ++holds; }
    /// On the owner's shard.
    void release() noexcept;
    /// The owner's own hold, from any thread.
    void give_back() noexcept;
    std::uint32_t local_key() const noexcept;
    const verbs::memory_region& region() const noexcept;
};

/// What memory is asked for.
enum class memory_use : std::uint8_t {
    general,
    copies, ///< of messages that are being sent
    buffers, ///< of connections: there as long as they are; in the same regions as the general
};

struct memory_pool_options {
    std::size_t limit = std::size_t{1} << 30; ///< bytes mapped and registered, in whole chunks; less than two leave no room for copies
    std::size_t kept = std::size_t{32} << 20; ///< of them, how many stay so while nobody uses them
    page_kind best = page_kind::huge;
    bool windows = true; ///< false: without memory windows, also where the device has them
};

struct memory_pool_statistics {
    std::uint64_t mapped = 0, most_mapped = 0; ///< bytes, now and at most
    std::uint64_t for_copies = 0;              ///< of those that are mapped now
    std::uint64_t lasting = 0;                 ///< likewise: in regions with connections' buffers
    std::uint64_t used = 0;                    ///< bytes in blocks
    std::uint64_t huge = 0, transparent = 0, small = 0; ///< bytes mapped, by the pages they are on (page_kind)
    std::uint64_t blocks = 0;
    std::uint64_t registrations = 0;
    std::uint64_t refused = 0;                 ///< for want of room under the limit
    std::uint64_t returned_from_elsewhere = 0; ///< by other shards
};

/// Told once when memory has come free.
class memory_waiter : public list_hook {
public:
    virtual void memory_came_free() noexcept = 0;

protected:
    ~memory_waiter() = default;
};

class memory_pool {
public:
    static constexpr std::size_t chunk_size = mapped_memory::huge_page;

    /// `owner`: whose shard it is.
    memory_pool(const verbs::protection_domain& in, reactor& owner, memory_pool_options options = {});
    ~memory_pool();
    memory_pool(const memory_pool&) = delete;
    memory_pool& operator=(const memory_pool&) = delete;

    /// Not zeroed. At a multiple of 64, from 2 KiB on of 4096. Throws std::system_error: ENOBUFS at the limit, ENOMEM, and what
    /// registering throws.
    memory_block* allocate(std::size_t size, memory_use of = memory_use::general);
    /// To be told when any block comes free; once.
    void wait(memory_waiter& w) noexcept {
        if (!w.linked()) waiting_.push_back(w);
    }
    /// Takes in what other shards have given back. True if there was something.
    bool take_returned() noexcept {
        if (returned_.load(std::memory_order_relaxed) == nullptr) [[likely]]
            return false;
        return take_returned_slowly();
    }
    bool any_returned() const noexcept { return returned_.load(std::memory_order_acquire) != nullptr; }
    /// Whether windows can be bound to its blocks.
    bool has_windows() const noexcept { return windows_; }
    std::size_t limit(memory_use of = memory_use::general) const noexcept {
        return of != memory_use::copies ? options_.limit : options_.limit / 2 / chunk_size * chunk_size;
    }
    /// Whether a copy of this size finds room some day, if all goes that does not stay as long as the connections that there are.
    bool could_copy(std::size_t size) const noexcept {
        const std::size_t whole = (size + chunk_size - 1) / chunk_size * chunk_size;
        return size <= limit(memory_use::copies) && counts_.lasting + whole <= options_.limit;
    }
    const memory_pool_statistics& statistics() const noexcept { return counts_; }

private:
    friend struct memory_block;
    memory_block* cut(memory_chunk& from, std::size_t size, std::size_t align, bool lasting);
    memory_chunk& grow(std::size_t size, memory_use of);
    bool over(std::size_t size, memory_use of) const noexcept;
    void put_back(memory_block* block) noexcept;
    void drop(const memory_chunk* which) noexcept;
    void make_room(std::size_t size, memory_use of) noexcept;
    void count_pages(const memory_chunk& c, bool more) noexcept;
    bool take_returned_slowly() noexcept;

    const verbs::protection_domain& domain_;
    reactor& owner_;
    memory_pool_options options_;
    bool windows_ = false;
    std::vector<std::unique_ptr<memory_chunk>> chunks_;
    std::size_t empty_ = 0; ///< bytes of chunks without a block
    intrusive_list<memory_waiter> waiting_;
    memory_pool_statistics counts_;
    std::atomic<memory_block*> returned_{nullptr};
};

/// One registration.
struct memory_chunk {
    memory_chunk(memory_pool& in, memory_use of, const verbs::protection_domain& domain, std::size_t size, page_kind best,
                 verbs::access allowed)
        : pool(in), use(of), memory(size, best), region(domain, memory.bytes(), allowed),
          free{{memory.bytes().data(), memory.bytes().size()}} {}
    memory_pool& pool;
    const memory_use use;
    mapped_memory memory; // outlives the region
    verbs::memory_region region;
    free_stretches free; ///< no two touch
    std::size_t used = 0;
    std::size_t lasting = 0; ///< of it
};

inline std::uint32_t memory_block::local_key() const noexcept { return chunk->region.local_key(); }
inline const verbs::memory_region& memory_block::region() const noexcept { return chunk->region; }
inline void memory_block::release() noexcept {
    if (--holds == 0) chunk->pool.put_back(this);
}

} // namespace corewire::rdma
