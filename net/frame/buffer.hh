// A counted view of bytes in a frame: what read() returns, what write() takes, what packets are made of.
// Move-only; share() makes a second view explicitly. The bytes live as long as any view of their frame.
// Belongs to the shard that made it.
#pragma once

#include <corewire/net/frame/frame.hh>
#include <corewire/reactor/base/bytes.hh>

#include <string_view>
#include <utility>

namespace corewire {

class buffer {
public:
    buffer() noexcept = default;
    /// Takes over one reference to `f`.
    buffer(frame& f, std::byte* data, std::uint32_t size) noexcept : frame_(&f), data_(data), size_(size) {}
    buffer(buffer&& other) noexcept
        : frame_(std::exchange(other.frame_, nullptr)), data_(other.data_), size_(std::exchange(other.size_, 0)) {}
    /// Always inline: link-time optimisation would share one copy, and moves are what the data path is made of.
    [[gnu::always_inline]] buffer& operator=(buffer&& other) noexcept {
        if (this == &other) return *this;
        if (frame_ != nullptr) release(*frame_);
        frame_ = std::exchange(other.frame_, nullptr);
        data_ = other.data_;
        size_ = std::exchange(other.size_, 0);
        return *this;
    }
    /// Always inline too: nearly every buffer has been moved from, and here the compiler knows.
    [[gnu::always_inline]] ~buffer() {
        if (frame_ != nullptr) release(*frame_);
    }

    const std::byte* data() const noexcept { return data_; }
    std::byte* mutable_data() noexcept { return data_; }
    std::uint32_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    /// False at end of stream: there are no bytes.
    explicit operator bool() const noexcept { return size_ != 0; }
    byte_span bytes() const noexcept { return {data_, size_}; }
    mutable_byte_span mutable_bytes() noexcept { return {data_, size_}; }
    std::string_view text() const noexcept { return {reinterpret_cast<const char*>(data_), size_}; }

    /// A second view of the same bytes, or of a part of them; offset + length <= size().
    buffer share() const noexcept { return share(0, size_); }
    buffer share(std::uint32_t offset, std::uint32_t length) const noexcept {
        CW_DEBUG_ASSERT(offset <= size_ && length <= size_ - offset, "a view must lie inside its buffer");
        if (frame_ == nullptr) return {};
        retain(*frame_);
        return {*frame_, data_ + offset, length};
    }
    /// Forget the first (last) `n` bytes; n <= size().
    void remove_prefix(std::uint32_t n) noexcept {
        CW_DEBUG_ASSERT(n <= size_, "cannot remove more than there is");
        data_ += n;
        size_ -= n;
    }
    void remove_suffix(std::uint32_t n) noexcept {
        CW_DEBUG_ASSERT(n <= size_, "cannot remove more than there is");
        size_ -= n;
    }
    void truncate(std::uint32_t n) noexcept {
        if (n < size_) size_ = n;
    }
    /// Grow towards the front (back) into the frame's spare room; the caller has checked headroom() (tailroom()).
    std::byte* prepend(std::uint32_t n) noexcept {
        CW_DEBUG_ASSERT(n <= headroom(), "no headroom");
        data_ -= n;
        size_ += n;
        return data_;
    }
    std::byte* append(std::uint32_t n) noexcept {
        CW_DEBUG_ASSERT(n <= tailroom(), "no tailroom");
        std::byte* at = data_ + size_;
        size_ += n;
        return at;
    }
    std::uint32_t headroom() const noexcept {
        return frame_ == nullptr ? 0 : static_cast<std::uint32_t>(data_ - frame_->bytes);
    }
    std::uint32_t tailroom() const noexcept {
        return frame_ == nullptr ? 0 : static_cast<std::uint32_t>(frame_->end() - data_ - size_);
    }
    /// Nobody else sees this frame and its bytes may be written: headers may go before, bytes behind.
    bool exclusive() const noexcept {
        return frame_ != nullptr && frame_->references == 1 && frame_->owner->writable;
    }
    frame* underlying_frame() const noexcept { return frame_; }
    /// Lets go of the bytes, if there are any.
    [[gnu::always_inline]] void clear() noexcept {
        if (frame_ == nullptr) return;
        release(*frame_);
        frame_ = nullptr;
        size_ = 0;
    }
    /// The same as assigning buffer{f, data, size}, in fewer steps.
    [[gnu::always_inline]] void fill(frame& f, std::byte* data, std::uint32_t size) noexcept {
        if (frame_ != nullptr) [[unlikely]] release(*frame_);
        frame_ = &f;
        data_ = data;
        size_ = size;
    }
    /// The same as assigning std::move(other), less its first `skip` bytes, to this one, which is empty; in fewer steps.
    void take(buffer& other, std::uint32_t skip = 0) noexcept {
        CW_DEBUG_ASSERT(frame_ == nullptr, "take() is for an empty buffer");
        CW_DEBUG_ASSERT(skip <= other.size_, "cannot skip more than there is");
        frame_ = std::exchange(other.frame_, nullptr);
        data_ = other.data_ + skip;
        size_ = std::exchange(other.size_, 0) - skip;
    }
    /// Gives the reference away: the caller must release() the frame.
    frame* detach() noexcept {
        size_ = 0;
        return std::exchange(frame_, nullptr);
    }

private:
    frame* frame_ = nullptr;
    std::byte* data_ = nullptr;
    std::uint32_t size_ = 0;
};

} // namespace corewire
