// Which connection a segment belongs to: an open-addressing table from 4-tuple to T*, one per shard.
//
// Keyed, so that nobody outside can aim for one bucket; linear probing, so that a hit costs one or two cache lines;
// deletion shifts back, so that there are no tombstones. Bounded: insert() says no when the limit is reached.
#pragma once

#include <corewire/net/wire/address.hh>
#include <corewire/reactor/base/random.hh>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace corewire {

/// A connection's 4-tuple as this host sees it.
struct flow_key {
    std::uint32_t local_address = 0; ///< host order
    std::uint32_t remote_address = 0;
    std::uint16_t local_port = 0;
    std::uint16_t remote_port = 0;
    bool operator==(const flow_key& other) const noexcept {
        return addresses() == other.addresses() && ports() == other.ports();
    }
    /// In the order of a received header: two loads of the packet give a key.
    std::uint64_t addresses() const noexcept { return std::uint64_t{remote_address} << 32 | local_address; }
    std::uint32_t ports() const noexcept { return std::uint32_t{remote_port} << 16 | local_port; }
};

/// The same as a received header has it, in the network's order: remote and local address, remote and local port.
struct wire_flow {
    std::uint64_t addresses = 0;
    std::uint64_t ports = std::uint64_t{1} << 32; ///< 32 bits of a frame; more than that: no frame's
    bool operator==(const wire_flow& other) const noexcept { return addresses == other.addresses && ports == other.ports; }
};

/// The same of an IPv6 header: remote and local address, remote and local port, which stand side by side there.
struct ipv6_wire_flow {
    std::array<std::uint64_t, 4> addresses{};
    std::uint64_t ports = std::uint64_t{1} << 32;
    bool operator==(const ipv6_wire_flow& other) const noexcept {
        std::uint64_t differ = ports ^ other.ports;
        for (std::size_t i = 0; i < addresses.size(); ++i) differ |= addresses[i] ^ other.addresses[i];
        return differ == 0;
    }
};

/// A keyed 64x64->128 multiply, folded: a handful of instructions.
inline std::uint32_t hash_of_flow(const flow_key& key, const siphash_key& secret) noexcept {
    __extension__ using wide = unsigned __int128;
    const wide m = static_cast<wide>(key.addresses() ^ secret.k0) * (key.ports() ^ secret.k1);
    const std::uint64_t folded = static_cast<std::uint64_t>(m >> 64) ^ static_cast<std::uint64_t>(m);
    return static_cast<std::uint32_t>(folded ^ folded >> 32);
}

/// `Key`: flow_key, or IPv6's flow_name; what it hashes to is hash_of_flow()'s to say.
template <typename T, typename Key = flow_key>
class flow_table {
public:
    flow_table(std::size_t limit, siphash_key secret) : limit_(limit), secret_(secret), slots_(64) {}

    T* find(const Key& key) const noexcept {
        const std::uint32_t hash = hash_of(key);
        for (std::size_t i = hash & mask();; i = (i + 1) & mask()) {
            const slot& s = slots_[i];
            if (s.value == nullptr) return nullptr;
            if (s.key == key) return s.value;
        }
    }
    /// False when the table is at its limit. The key must not be there yet.
    bool insert(const Key& key, T& value) {
        if (size_ >= limit_) return false;
        if ((size_ + 1) * 2 > slots_.size()) grow();
        place({key, hash_of(key), &value});
        ++size_;
        return true;
    }
    bool erase(const Key& key) noexcept {
        const std::uint32_t hash = hash_of(key);
        for (std::size_t i = hash & mask();; i = (i + 1) & mask()) {
            if (slots_[i].value == nullptr) return false;
            if (slots_[i].hash == hash && slots_[i].key == key) {
                close_gap(i);
                --size_;
                return true;
            }
        }
    }
    std::size_t size() const noexcept { return size_; }
    std::size_t limit() const noexcept { return limit_; }
    template <typename Visit>
    void for_each(Visit&& visit) const {
        for (const slot& s : slots_) {
            if (s.value != nullptr) visit(*s.value);
        }
    }
    /// Visits what stands in `count` slots from `first` on. Returns where to go on; 0: that was all. Between two calls the
    /// table may change: then one that moved may be missed, or visited twice.
    template <typename Visit>
    std::size_t visit(std::size_t first, std::size_t count, Visit&& use) const {
        const std::size_t end = std::min(slots_.size(), first + count);
        for (std::size_t i = first; i < end; ++i) {
            if (slots_[i].value != nullptr) use(*slots_[i].value);
        }
        return end >= slots_.size() ? 0 : end;
    }

private:
    struct slot {
        Key key;
        std::uint32_t hash = 0;
        T* value = nullptr;
    };

    std::size_t mask() const noexcept { return mask_; }
    std::uint32_t hash_of(const Key& key) const noexcept { return hash_of_flow(key, secret_); }
    void place(const slot& s) noexcept {
        std::size_t i = s.hash & mask();
        while (slots_[i].value != nullptr) i = (i + 1) & mask();
        slots_[i] = s;
    }
    void grow() {
        std::vector<slot> old(slots_.size() * 2);
        old.swap(slots_);
        mask_ = slots_.size() - 1;
        for (const slot& s : old) {
            if (s.value != nullptr) place(s);
        }
    }
    void close_gap(std::size_t gap) noexcept {
        for (std::size_t i = (gap + 1) & mask(); slots_[i].value != nullptr; i = (i + 1) & mask()) {
            const std::size_t home = slots_[i].hash & mask();
            // Movable into the gap unless its home lies behind the gap on the way to i.
            if (((i - home) & mask()) >= ((i - gap) & mask())) {
                slots_[gap] = slots_[i];
                gap = i;
            }
        }
        slots_[gap].value = nullptr;
    }

    std::size_t limit_;
    siphash_key secret_;
    std::size_t size_ = 0;
    std::vector<slot> slots_;
    std::size_t mask_ = slots_.size() - 1;
};

} // namespace corewire
