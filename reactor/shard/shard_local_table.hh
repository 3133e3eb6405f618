// Where one shard keeps what its shard_local<T>s have made. Owned by the shard's context; cleared when the shard's last task is
// gone, on its thread, in the reverse order of making. Internal to reactor/shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace corewire {

class shard_local_table {
public:
    /// shard_local objects that may exist in a process at a time.
    static constexpr std::size_t limit = 1024;

    /// A place, and which of its successive owners: a place that has changed hands is found out by its generation.
    struct key {
        std::uint32_t place;
        std::uint32_t generation;
    };
    /// From any thread. Throws std::length_error when there are `limit` already.
    static key take_key();
    static void give_back(key) noexcept;
    /// The current shard's. Asserts that there is one.
    static shard_local_table& current() noexcept;

    shard_local_table() = default;
    ~shard_local_table() { clear(); }
    shard_local_table(const shard_local_table&) = delete;
    shard_local_table& operator=(const shard_local_table&) = delete;

    /// Null: not made on this shard.
    void* find(key k) const noexcept {
        if (k.place >= places_.size() || places_[k.place].generation != k.generation) return nullptr;
        return places_[k.place].value;
    }
    /// Keeps `value`, which `destroy(value)` destroys. A predecessor in its place is destroyed now.
    void put(key k, void* value, void (*destroy)(void*) noexcept);
    /// Destroys them all, the last made first.
    void clear() noexcept;
    /// Values that live on this shard.
    std::size_t size() const noexcept { return order_.size(); }

private:
    struct place {
        void* value = nullptr;
        void (*destroy)(void*) noexcept = nullptr;
        std::uint32_t generation = 0;
    };
    void destroy_at(std::uint32_t index) noexcept;
    std::vector<place> places_;
    std::vector<std::uint32_t> order_; ///< places, in the order of making
};

} // namespace corewire
