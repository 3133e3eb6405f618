// What a channel has received: a view of the registered buffer into which the device put it. Destroying it gives the buffer
// back, and the peer its credit: who keeps all of them stops the peer. Belongs to its channel's shard; may outlive the channel,
// and not the context.
#pragma once

#include <corewire/rdma/channel/rc_connection.hh>

namespace corewire::rdma {

class message {
public:
    message() noexcept = default;
    /// Takes over a reference to the connection.
    message(rc_connection& from, const rc_connection::arrival& what) noexcept : connection_(&from), what_(what) {}
    message(message&& other) noexcept : connection_(std::exchange(other.connection_, nullptr)), what_(other.what_) {}
    message& operator=(message&& other) noexcept {
        std::swap(connection_, other.connection_);
        std::swap(what_, other.what_);
        return *this;
    }
    ~message() {
        if (connection_ == nullptr) return;
        connection_->give_back(what_);
        connection_->release();
    }

    /// Empty for a write.
    byte_span bytes() const noexcept { return connection_->bytes_of(what_); }
    mutable_byte_span mutable_bytes() noexcept { return connection_->bytes_of(what_); }
    /// Bytes of the message, or of what the peer wrote to our memory.
    std::uint32_t size() const noexcept { return what_.size; }
    /// The peer's write_with_immediate(): the data is where the peer wrote it, and this came with it.
    bool is_write() const noexcept { return what_.buffer == rc_connection::arrival::no_buffer; }
    std::uint32_t immediate() const noexcept { return what_.immediate; }

private:
    rc_connection* connection_ = nullptr;
    rc_connection::arrival what_{};
};

/// Waits for the next message: see rc_channel::receive().
class receive_awaiter final : public bounded_waiter {
public:
    receive_awaiter(rc_connection* on, const wait_limits& limits) noexcept : bounded_waiter(limits), connection_(on) {}
    ~receive_awaiter();
    bool await_ready() noexcept;
    bool await_suspend(std::coroutine_handle<> h) noexcept;
    std::optional<message> await_resume();
    std::error_code failure_code() const noexcept {
        return std::make_error_code(failure() != std::errc{} ? failure() : got_ ? std::errc{} : why_);
    }

    // ---- for the connection ----
    void give(const rc_connection::arrival& what) noexcept;
    void end(std::errc why) noexcept;

private:
    void take(const rc_connection::arrival& what) noexcept;

    rc_connection* connection_;
    std::optional<rc_connection::arrival> got_; ///< with a reference to the connection
    std::errc why_{};
};

} // namespace corewire::rdma
