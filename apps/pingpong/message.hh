// What a round trip carries: a number, and bytes that must come back as they went.
//
//     0        8                    size
//     | number | pattern .......... |      a message shorter than 8 bytes carries the low bytes of its number
//
// The pattern depends on the connection, so that a reply on the wrong connection is noticed as well.
#pragma once

#include <corewire/reactor/base/bytes.hh>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace corewire::pingpong {

/// Storage for `slots` messages of one connection, one behind the other, their patterns filled in once.
class message_block {
public:
    message_block(std::uint32_t size, std::uint32_t slots, std::uint32_t connection)
        : size_(size), number_size_(size < sizeof(std::uint64_t) ? size : std::uint32_t{sizeof(std::uint64_t)}),
          bytes_(std::size_t{size} * slots) {
        for (std::uint32_t slot = 0; slot < slots; ++slot)
            for (std::uint32_t i = 0; i < size; ++i) bytes_[std::size_t{slot} * size + i] = pattern(connection, i);
    }

    std::uint32_t size() const noexcept { return size_; }
    void set_number(std::uint32_t slot, std::uint64_t number) noexcept {
        if (number_size_ == sizeof number) [[likely]] { // a copy of a fixed size is one store
            std::memcpy(at(slot), &number, sizeof number);
        } else {
            std::memcpy(at(slot), &number, number_size_);
        }
    }
    std::byte* at(std::uint32_t slot) noexcept { return bytes_.data() + std::size_t{slot} * size_; }
    /// The first `count` messages, as one run of bytes.
    byte_span first(std::uint32_t count) noexcept { return {bytes_.data(), std::size_t{count} * size_}; }

private:
    static std::byte pattern(std::uint32_t connection, std::uint32_t i) noexcept {
        return static_cast<std::byte>((i * 0x9e3779b1u + connection * 0x85ebca6bu) >> 24);
    }
    std::uint32_t size_;
    std::uint32_t number_size_;
    std::vector<std::byte> bytes_;
};

/// Checks replies, in order, however the stream was cut.
class reply_checker {
public:
    reply_checker(std::uint32_t size, std::uint32_t connection) : expected_(size, 1, connection) {
        expected_.set_number(0, 0);
    }

    /// Takes bytes from the front of `bytes` up to the end of the current message. True when the message is complete.
    bool take(byte_span& bytes) noexcept {
        if (offset_ != 0 || bytes.size() < expected_.size()) [[unlikely]] {
            bytes = bytes.subspan(take_part(bytes));
            return offset_ == 0;
        }
        intact_ = std::memcmp(expected_.at(0), bytes.data(), expected_.size()) == 0;
        bytes = bytes.subspan(expected_.size());
        return true;
    }
    /// The complete message was what was sent; then expects the next.
    bool finish() noexcept {
        expected_.set_number(0, ++number_);
        return intact_;
    }
    /// The number of the message expected now.
    std::uint64_t number() const noexcept { return number_; }

private:
    /// How many bytes belong to the message.
    [[gnu::noinline]] std::uint32_t take_part(byte_span bytes) noexcept {
        const std::uint32_t wanted = expected_.size() - offset_;
        const auto n = static_cast<std::uint32_t>(bytes.size() < wanted ? bytes.size() : wanted);
        intact_ = (offset_ == 0 || intact_) && std::memcmp(expected_.at(0) + offset_, bytes.data(), n) == 0;
        offset_ = n == wanted ? 0 : offset_ + n;
        return n;
    }

    message_block expected_;
    std::uint64_t number_ = 0;
    std::uint32_t offset_ = 0; ///< of a message that came in parts
    bool intact_ = true;       ///< what has come of the current message
};

} // namespace corewire::pingpong
