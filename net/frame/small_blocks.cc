#include <corewire/net/frame/small_blocks.hh>

#include <algorithm>
#include <cstring>
#include <new>

namespace corewire {

/// Lives until the last block is home and its small_blocks is gone.
struct small_blocks::store final : frame_owner {
    explicit store(std::uint64_t most_bytes) noexcept : limit(most_bytes) { recycle = take_back; }
    static void take_back(frame_owner& owner, frame& f) noexcept {
        store& self = static_cast<store&>(owner);
        self.held -= sizeof(frame) + f.capacity;
        f.~frame();
        ::operator delete(&f, std::align_val_t{alignof(frame)});
        if (self.abandoned && self.held == 0) delete &self;
    }
    std::uint64_t limit;
    std::uint64_t held = 0;
    bool abandoned = false;
};

small_blocks::small_blocks(std::uint64_t limit) : store_(new store(limit)) {}

small_blocks::~small_blocks() {
    store_->abandoned = true;
    if (store_->held == 0) delete store_;
}

std::uint64_t small_blocks::held() const noexcept { return store_->held; }

bool small_blocks::take_over(packet& p) noexcept {
    constexpr std::uint32_t least = 192; // room for what follows it
    CW_DEBUG_ASSERT(p.size() != 0 && p.size() <= most, "a block is for little data");
    const std::uint32_t capacity = std::max(p.size(), least);
    if (store_->held + sizeof(frame) + capacity > store_->limit) return false;
    void* const at = ::operator new(sizeof(frame) + capacity, std::align_val_t{alignof(frame)}, std::nothrow);
    if (at == nullptr) return false;
    frame& f = *new (at) frame;
    f.bytes = static_cast<std::byte*>(at) + sizeof(frame);
    f.capacity = capacity;
    f.references = 1;
    f.owner = store_;
    store_->held += sizeof(frame) + capacity;
    if (!p.head.empty()) std::memcpy(f.bytes, p.head.data(), p.head.size());
    if (!p.body.empty()) std::memcpy(f.bytes + p.head.size(), p.body.data(), p.body.size());
    p.head = buffer(f, f.bytes, p.size());
    p.body.clear();
    return true;
}

} // namespace corewire
