#include <corewire/reactor/shard/shard_local_table.hh>

#include <corewire/reactor/shard/shard_context.hh>

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace corewire {

namespace {

/// Who owns which place. Asked when a shard_local is made or destroyed, never when it is used.
struct key_registry {
    std::mutex mutex;
    std::vector<std::uint32_t> generations; ///< by place; odd: taken
    static key_registry& instance() {
        static auto* const one = new key_registry; // outlives every static shard_local
        return *one;
    }
};

} // namespace

shard_local_table::key shard_local_table::take_key() {
    key_registry& keys = key_registry::instance();
    const std::lock_guard lock(keys.mutex);
    const auto free = std::find_if(keys.generations.begin(), keys.generations.end(), [](std::uint32_t g) { return g % 2 == 0; });
    const auto place = static_cast<std::uint32_t>(free - keys.generations.begin());
    if (free == keys.generations.end()) {
        if (place == limit) throw std::length_error("too many shard_local objects: 1024 may exist at a time");
        keys.generations.push_back(0);
    }
    return {place, ++keys.generations[place]};
}

void shard_local_table::give_back(key k) noexcept {
    key_registry& keys = key_registry::instance();
    const std::lock_guard lock(keys.mutex);
    ++keys.generations[k.place];
}

shard_local_table& shard_local_table::current() noexcept { return shard_context::current().locals; }

void shard_local_table::put(key k, void* value, void (*destroy)(void*) noexcept) {
    order_.reserve(order_.size() + 1); // what may throw comes first
    if (k.place >= places_.size()) places_.resize(k.place + 1);
    if (places_[k.place].value != nullptr) {
        destroy_at(k.place);
        std::erase(order_, k.place);
    }
    places_[k.place] = {value, destroy, k.generation};
    order_.push_back(k.place);
}

void shard_local_table::destroy_at(std::uint32_t index) noexcept {
    place& p = places_[index];
    void* const value = std::exchange(p.value, nullptr);
    p.destroy(value);
}

void shard_local_table::clear() noexcept {
    while (!order_.empty()) {
        const std::uint32_t last = order_.back();
        order_.pop_back();
        destroy_at(last);
    }
}

} // namespace corewire
