// Memory that the kernel receives into: a provided-buffer ring (io_uring_register_buf_ring(3)) of equal frames, lent to
// the kernel and to the application in turn.
//
//     free --add--> ring --kernel receives, completion names it--> take(): a frame --last buffer of it released--> ring
//
// One shard's, owned by its kernel_provider, which must outlive every buffer. Starts small and grows when the kernel
// finds the ring empty, up to `limit` frames; beyond that receivers wait (starve()) until a frame comes back. Memory is
// reserved for all of them and becomes real as it is used.
#pragma once

#include <corewire/net/frame/buffer.hh>
#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/file/uring.hh>

#include <cstdint>
#include <memory>

namespace corewire {

/// A receiver that found no buffer; told when there is one again.
class starved_receiver : public list_hook {
public:
    /// True: it receives again. False: it has no use for a buffer, and the next in line is told.
    using function = bool (*)(starved_receiver&) noexcept;
    explicit starved_receiver(function on_buffers) noexcept : on_buffers_(on_buffers) {}

private:
    friend class receive_buffers;
    function on_buffers_;
};

class receive_buffers final : public frame_owner {
public:
    /// `limit` is a power of two, at most 32,768. Throws std::system_error.
    receive_buffers(uring& ring, std::uint16_t group, std::uint32_t frame_size, std::uint32_t initial, std::uint32_t limit);
    ~receive_buffers();
    receive_buffers(const receive_buffers&) = delete;
    receive_buffers& operator=(const receive_buffers&) = delete;

    std::uint16_t group() const noexcept { return group_; }
    std::uint32_t frame_size() const noexcept { return frame_size_; }
    /// The frame that a completion with IORING_CQE_F_BUFFER names, with one reference.
    frame& take(unsigned flags) noexcept;
    /// After -ENOBUFS: true if the kernel has buffers again (perhaps new ones), so try again at once. False: starve().
    bool replenish() noexcept;
    /// It receives nothing meanwhile: one that tries again leaves the line (unlink()).
    void starve(starved_receiver& receiver) noexcept {
        ++starvations_;
        if (!receiver.linked()) starving_.push_back(receiver);
    }

    std::uint32_t made() const noexcept { return made_; }     ///< frames so far
    std::uint32_t lent() const noexcept { return made_ - in_ring_; } ///< frames that the application holds
    std::uint64_t starvations() const noexcept { return starvations_; }

private:
    static void recycle_frame(frame_owner& owner, frame& f) noexcept;
    void add_to_ring(frame& f) noexcept;
    void make_frames(std::uint32_t count) noexcept;

    uring& ring_;
    std::uint16_t group_;
    std::uint32_t frame_size_;
    std::uint32_t initial_;
    std::uint32_t limit_;
    std::uint32_t made_ = 0;
    std::uint32_t in_ring_ = 0;
    std::uint64_t starvations_ = 0;
    std::uint64_t region_size_;
    std::byte* region_ = nullptr;
    io_uring_buf_ring* slots_ = nullptr;
    std::unique_ptr<frame[]> frames_;
    intrusive_list<starved_receiver> starving_;
};

/// A queue of received frames, linked through the frames themselves. Bounded by the buffers there are.
class received_queue {
public:
    received_queue() = default;
    ~received_queue() { clear(); }
    received_queue(const received_queue&) = delete;
    received_queue& operator=(const received_queue&) = delete;

    bool empty() const noexcept { return first_ == nullptr; }
    std::uint32_t count() const noexcept { return count_; }
    /// Takes over the frame's one reference; `size` bytes of it are filled.
    void push(frame& f, std::uint32_t size) noexcept {
        f.token = size;
        f.next_free = nullptr;
        (first_ == nullptr ? first_ : last_->next_free) = &f;
        last_ = &f;
        ++count_;
    }
    /// The oldest frame's filled bytes; the queue must not be empty.
    buffer pop() noexcept {
        frame& f = *first_;
        first_ = f.next_free;
        --count_;
        return {f, f.bytes, static_cast<std::uint32_t>(f.token)};
    }
    /// Looks at each piece.
    std::uint32_t bytes() const noexcept {
        std::uint32_t all = 0;
        for (const frame* f = first_; f != nullptr; f = f->next_free) all += static_cast<std::uint32_t>(f->token);
        return all;
    }
    void clear() noexcept {
        while (!empty()) pop();
    }

private:
    frame* first_ = nullptr;
    frame* last_ = nullptr;
    std::uint32_t count_ = 0;
};

} // namespace corewire
