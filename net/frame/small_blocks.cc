#include <corewire/net/frame/small_blocks.hh>

#include <cstring>
#include <new>
#include <utility>

namespace corewire {

/// Lives until the last block is home and its small_blocks is gone.
struct small_blocks::store final : frame_owner {
    static constexpr std::uint32_t little = 192; ///< the lesser of two sizes: room for what follows a few bytes

    explicit store(std::uint64_t most_bytes) noexcept : limit(most_bytes) { recycle = take_back; }
    static std::uint64_t cost(std::uint32_t capacity) noexcept { return sizeof(frame) + capacity; }
    frame*& spare(std::uint32_t capacity) noexcept { return spares[capacity == little ? 0 : 1]; }

    /// A block with one reference; null: there is no room.
    frame* take(std::uint32_t size) noexcept {
        const std::uint32_t capacity = size <= little ? little : most;
        frame* f = spare(capacity);
        if (f != nullptr) spare(capacity) = f->next_free;
        else f = make(capacity);
        if (f == nullptr) return nullptr;
        f->references = 1;
        held += cost(capacity);
        return f;
    }
    frame* make(std::uint32_t capacity) noexcept {
        frame*& others = spare(capacity == little ? most : little);
        while (made + cost(capacity) > limit && others != nullptr) destroy(*std::exchange(others, others->next_free));
        if (made + cost(capacity) > limit) return nullptr;
        void* const at = ::operator new(cost(capacity), std::align_val_t{alignof(frame)}, std::nothrow);
        if (at == nullptr) return nullptr;
        frame& f = *new (at) frame;
        f.bytes = static_cast<std::byte*>(at) + sizeof(frame);
        f.capacity = capacity;
        f.owner = this;
        made += cost(capacity);
        ++allocations;
        return &f;
    }
    void destroy(frame& f) noexcept {
        made -= cost(f.capacity);
        f.~frame();
        ::operator delete(&f, std::align_val_t{alignof(frame)});
    }
    static void take_back(frame_owner& owner, frame& f) noexcept {
        store& self = static_cast<store&>(owner);
        self.held -= cost(f.capacity);
        if (!self.abandoned) {
            f.next_free = std::exchange(self.spare(f.capacity), &f);
            return;
        }
        self.destroy(f);
        if (self.held == 0) delete &self;
    }
    void abandon() noexcept {
        abandoned = true;
        for (frame*& all : spares)
            while (all != nullptr) destroy(*std::exchange(all, all->next_free));
        if (held == 0) delete this;
    }

    const std::uint64_t limit;
    std::uint64_t made = 0; ///< bytes of all blocks
    std::uint64_t held = 0; ///< of those that are out
    std::uint64_t allocations = 0;
    frame* spares[2] = {};
    bool abandoned = false;
};

small_blocks::small_blocks(std::uint64_t limit) : store_(new store(limit)) {}

small_blocks::~small_blocks() { store_->abandon(); }

std::uint64_t small_blocks::held() const noexcept { return store_->held; }
std::uint64_t small_blocks::allocations() const noexcept { return store_->allocations; }

buffer small_blocks::copy(byte_span bytes) noexcept {
    CW_DEBUG_ASSERT(!bytes.empty() && bytes.size() <= most, "a block is for little data");
    frame* const f = store_->take(static_cast<std::uint32_t>(bytes.size()));
    if (f == nullptr) return {};
    std::memcpy(f->bytes, bytes.data(), bytes.size());
    return {*f, f->bytes, static_cast<std::uint32_t>(bytes.size())};
}

bool small_blocks::take_over(packet& p) noexcept {
    CW_DEBUG_ASSERT(p.size() != 0 && p.size() <= most, "a block is for little data");
    frame* const f = store_->take(p.size());
    if (f == nullptr) return false;
    if (!p.head.empty()) std::memcpy(f->bytes, p.head.data(), p.head.size());
    if (!p.body.empty()) std::memcpy(f->bytes + p.head.size(), p.body.data(), p.body.size());
    p.head = buffer(*f, f->bytes, p.size());
    p.body.clear();
    return true;
}

bool small_blocks::take_over(buffer& data) noexcept {
    const frame* const f = data.underlying_frame();
    if (data.empty() || data.size() > most || f->references != 1 || f->owner == store_) return false;
    buffer own = copy(data.bytes());
    if (own.empty()) return false;
    data = std::move(own);
    return true;
}

} // namespace corewire
