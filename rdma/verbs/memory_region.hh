// Memory that a device may read and write, by its local key (and peers by its remote key, if they are let).
//
// Pinned until the region is destroyed: the memory outlives the region, and is not unmapped before it. Registering costs
// about 16 us and more for many pages: pools are registered once (or see registration_cache.hh).
#pragma once

#include <corewire/reactor/base/bytes.hh>
#include <corewire/rdma/verbs/protection_domain.hh>

namespace corewire::verbs {

/// Who may do what with a region. Reading by our own device needs no flag.
enum class access : unsigned {
    local_read = 0,
    local_write = IBV_ACCESS_LOCAL_WRITE,     ///< receive into it; READs and atomics put their results there
    remote_read = IBV_ACCESS_REMOTE_READ,
    remote_write = IBV_ACCESS_REMOTE_WRITE,   ///< needs local_write
    remote_atomic = IBV_ACCESS_REMOTE_ATOMIC, ///< needs local_write
    on_demand = IBV_ACCESS_ON_DEMAND,         ///< not pinned: the device takes page faults
    relaxed_ordering = IBV_ACCESS_RELAXED_ORDERING, ///< faster on some machines; nobody may poll for a WRITE's last byte
};
constexpr access operator|(access a, access b) noexcept {
    return static_cast<access>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool has(access set, access one) noexcept { return (static_cast<unsigned>(set) & static_cast<unsigned>(one)) != 0; }

class memory_region {
public:
    memory_region() noexcept = default;
    /// Throws std::system_error with a sentence.
    memory_region(const protection_domain& in, mutable_byte_span memory, access allowed);

    std::uint32_t local_key() const noexcept { return region_->lkey; }
    std::uint32_t remote_key() const noexcept { return region_->rkey; }
    mutable_byte_span memory() const noexcept { return {static_cast<std::byte*>(region_->addr), region_->length}; }
    bool contains(byte_span bytes) const noexcept {
        const auto* const begin = static_cast<const std::byte*>(region_->addr);
        return bytes.data() >= begin && bytes.size() <= region_->length &&
               bytes.data() <= begin + (region_->length - bytes.size());
    }
    ibv_mr* get() const noexcept { return region_.get(); }
    explicit operator bool() const noexcept { return static_cast<bool>(region_); }

private:
    handle<ibv_mr, &verbs_api::dereg_mr> region_;
};

} // namespace corewire::verbs
