// Regions of memory that the application did not register itself, kept after use because registering is dear.
//
//     get(bytes) -> a lease: the region and its keys      -> unused regions stay, oldest out first
//     munmap(), mremap(), madvise(MADV_DONTNEED) anywhere in the process -> the regions there are never handed out again
//
// The kernel tells of unmapped memory through userfaultfd(2): the thread that unmaps waits until the cache's watcher thread has
// taken the news, so a get() afterwards can't miss it. No allocator is hooked. Where userfaultfd may not be used (neither
// root nor vm.unprivileged_userfaultfd), nothing is kept: every lease registers, and its end deregisters; and so it is for
// memory of which it does not tell all: files, shared memory, huge pages. In a forked child the cache is empty and keeps nothing.
//
// One shard's, but for the watcher thread. Bounds: `max_regions` leased and kept together, `max_bytes` kept.
#pragma once

#include <corewire/rdma/verbs/memory_region.hh>

#include <cstdint>
#include <memory>

namespace corewire::verbs {

struct registration_cache_options {
    unsigned max_regions = 1024;
    std::uint64_t max_bytes = 1u << 30;
    access allowed = access::local_write;
};

struct registration_cache_statistics {
    std::uint64_t hits = 0, registered = 0; ///< leases served by a region that was there; registrations made
    std::uint64_t evicted = 0;              ///< for want of room
    std::uint64_t invalidated = 0;          ///< because their memory was unmapped
};

class registration_cache {
    struct entry;

public:
    explicit registration_cache(const protection_domain& in, const registration_cache_options& options = {});
    /// No lease may be left.
    ~registration_cache();
    registration_cache(const registration_cache&) = delete;
    registration_cache& operator=(const registration_cache&) = delete;

    /// The right to use a region; the memory must stay mapped as long as it lasts.
    class lease {
    public:
        lease() noexcept = default;
        lease(lease&& other) noexcept : cache_(other.cache_), entry_(std::exchange(other.entry_, nullptr)) {}
        lease& operator=(lease&& other) noexcept;
        ~lease();
        const memory_region& region() const noexcept;
        explicit operator bool() const noexcept { return entry_ != nullptr; }

    private:
        friend class registration_cache;
        lease(registration_cache& cache, entry& e) noexcept : cache_(&cache), entry_(&e) {}
        registration_cache* cache_ = nullptr;
        entry* entry_ = nullptr;
    };

    /// A region that contains `bytes`, whole pages. Throws std::system_error if it cannot be registered, or if `max_regions`
    /// are leased.
    lease get(mutable_byte_span bytes);
    /// Whether regions are kept at all: userfaultfd is there, and this is the process that made the cache.
    bool keeps() const noexcept;
    registration_cache_statistics statistics() const;

private:
    struct state;
    std::unique_ptr<state> state_;
};

} // namespace corewire::verbs
