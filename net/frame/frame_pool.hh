// A fixed number of equal frames carved from one region of memory. Bounded: alloc() fails when all are out, and the
// caller drops or waits. One shard's; a port owns it, because buffers belong to the port that will send them.
#pragma once

#include <corewire/net/frame/buffer.hh>

#include <cstdint>
#include <memory>

namespace corewire {

/// Room kept before received and allocated payload: Ethernet (14) + VLAN (4) + IPv6 (40) + TCP with options (60), and 64 more, so that
/// no frame starts in the first 64 bytes of its page. Kernels copy what AF_XDP sends to byte 64 of a page, with REP MOVSB, which takes
/// twenty times as long on AMD's processors where the source starts a few bytes before that (docs/BENCHMARKS.md).
inline constexpr std::uint32_t frame_headroom = 192;

class frame_pool : public frame_owner {
public:
    static constexpr std::uint32_t default_frame_size = 2048;

    /// Memory of its own (page-aligned, huge pages where the machine has them), `count` frames of `frame_size` bytes.
    explicit frame_pool(std::uint32_t count, std::uint32_t frame_size = default_frame_size);
    /// Frames in memory that somebody else owns and keeps (a UMEM): `region` holds count * frame_size bytes.
    frame_pool(std::byte* region, std::uint32_t count, std::uint32_t frame_size);
    ~frame_pool();
    frame_pool(const frame_pool&) = delete;
    frame_pool& operator=(const frame_pool&) = delete;

    /// One frame with one reference, or null when the pool is empty.
    frame* allocate() noexcept {
        frame* f = free_list;
        if (f == nullptr) [[unlikely]] {
            ++exhausted_;
            return nullptr;
        }
        free_list = f->next_free;
        --free_count;
        f->references = 1;
        return f;
    }
    /// An empty buffer that starts behind `headroom` bytes, in a frame of its own; a null buffer when the pool is empty.
    buffer allocate_buffer(std::uint32_t headroom = frame_headroom) noexcept {
        frame* f = allocate();
        if (f == nullptr) return {};
        return {*f, f->bytes + headroom, 0};
    }

    std::uint32_t frame_size() const noexcept { return frame_size_; }
    std::uint32_t count() const noexcept { return count_; }
    std::byte* region() const noexcept { return region_; }
    std::uint64_t region_size() const noexcept { return std::uint64_t{count_} * frame_size_; }
    /// The frame whose storage contains the byte at `offset` in the region (UMEM descriptors say so).
    frame& frame_at(std::uint64_t offset) noexcept { return frames_[offset / frame_size_]; }
    bool contains(const std::byte* p) const noexcept { return p >= region_ && p < region_ + region_size(); }
    /// How often allocate() found nothing.
    std::uint64_t exhausted() const noexcept { return exhausted_; }

private:
    void carve() noexcept;
    std::byte* region_ = nullptr;
    bool owns_region_ = false;
    std::uint32_t count_ = 0;
    std::uint32_t frame_size_ = 0;
    std::uint64_t exhausted_ = 0;
    std::unique_ptr<frame[]> frames_;
};

} // namespace corewire
