// What a client has said and nobody has taken yet: first in, first out, at most two messages.
#pragma once

#include <corewire/reactor/base/assert.hh>

#include <array>
#include <cstddef>

namespace corewire {

/// `Message` is large and is written in place: a client's, on its shard.
template <typename Message>
class dhcp_outbox {
public:
    bool full() const noexcept { return waiting_ == messages_.size(); }
    /// Where the next one is to be written; not when it is full().
    Message& add() noexcept {
        CW_ASSERT(!full(), "more messages wait than there is room for");
        return messages_[waiting_++];
    }
    /// The oldest one; false: none waits.
    bool take(Message& out) noexcept {
        if (waiting_ == 0) return false;
        out = messages_[0];
        for (std::size_t i = 1; i < waiting_; ++i) messages_[i - 1] = messages_[i];
        --waiting_;
        return true;
    }

private:
    std::array<Message, 2> messages_;
    std::size_t waiting_ = 0;
};

} // namespace corewire
