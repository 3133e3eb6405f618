// channel<T>: a bounded queue between coroutines of one shard; many may send, many may receive.
//
//     co_await c.send(std::move(order));                while (auto order = co_await c.receive()) handle(*order);
//     c.close();                                        // what is in it is still received; then receive() gives nothing
//
// (With g++ 12 an aggregate that owns something gets a name before it is sent: docs/STYLE.md, "Coroutines".)
//
// Senders wait while it is full, receivers while it is empty, each in the order they came; values arrive in the order in which
// they were sent. A value stays in the channel until the receiver that was woken for it runs, so none is lost when that one
// is destroyed or goes away. Between shards: reactor/shard/shard_channel.hh. One shard's. Bounded by its capacity.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/base/bounded_queue.hh>
#include <corewire/reactor/task/wait_queue.hh>

#include <cstddef>
#include <optional>
#include <system_error>
#include <utility>

namespace corewire {

template <typename T>
class channel {
public:
    /// Room for `capacity` values, at least one; the memory is taken here.
    explicit channel(std::size_t capacity) : values_(capacity) {}
    /// Ends the waits of those in line with ECANCELED. Nobody may be on the way to a value that is in it.
    ~channel() { CW_ASSERT(promised_ == 0, "a channel is destroyed while a receiver that it has woken is to take its value"); }

    std::size_t capacity() const noexcept { return values_.capacity(); }
    std::size_t size() const noexcept { return values_.size(); }
    bool closed() const noexcept { return closed_; }
    std::size_t senders_waiting() const noexcept { return senders_.size(); }
    std::size_t receivers_waiting() const noexcept { return receivers_.size(); }

    class send_awaiter final : public queued_waiter {
    public:
        send_awaiter(channel& c, T value, const wait_limits& limits) noexcept
            : queued_waiter(limits), channel_(c), value_(std::move(value)) {}
        ~send_awaiter() { this->leave(); }
        bool await_ready() noexcept {
            if (channel_.closed_) {
                this->fail(std::errc::broken_pipe);
                return true;
            }
            if (!channel_.may_send()) return false;
            channel_.put(std::move(value_));
            return true;
        }
        bool await_suspend(std::coroutine_handle<> h) noexcept { return this->stand_in(channel_.senders_, h); }
        void await_resume() const { this->throw_if_failed("sending to a channel"); }

    private:
        friend class channel;
        channel& channel_;
        T value_;
    };
    /// Waits for room. Throws EPIPE when the channel is closed, before or meanwhile; ETIMEDOUT or ECANCELED by its limits. A
    /// value that was not sent is destroyed.
    send_awaiter send(T value, wait_limits limits = {}) noexcept { return {*this, std::move(value), limits}; }
    /// False, and `value` is untouched: full, closed, or others wait.
    bool try_send(T&& value) noexcept {
        if (closed_ || !may_send()) return false;
        put(std::move(value));
        return true;
    }

    class receive_awaiter final : public queued_waiter {
    public:
        receive_awaiter(channel& c, const wait_limits& limits) noexcept : queued_waiter(limits), channel_(c) {}
        ~receive_awaiter() {
            this->leave();
            if (!promised_) return; // else: was to take a value, and was destroyed instead of resumed
            --channel_.promised_;
            channel_.wake_receivers();
        }
        bool await_ready() const noexcept { return channel_.unpromised() || channel_.drained(); }
        bool await_suspend(std::coroutine_handle<> h) noexcept { return this->stand_in(channel_.receivers_, h); }
        std::optional<T> await_resume() {
            this->throw_if_failed("receiving from a channel");
            if (promised_)
                --channel_.promised_;
            else if (!channel_.unpromised())
                return std::nullopt;
            promised_ = false;
            return channel_.take();
        }

    private:
        friend class channel;
        channel& channel_;
        bool promised_ = false;
    };
    /// The oldest value; nothing once the channel is closed and empty. Throws ETIMEDOUT or ECANCELED by its limits.
    receive_awaiter receive(wait_limits limits = {}) noexcept { return {*this, limits}; }
    /// A value if one is there for the taking; nothing otherwise, also when closed.
    std::optional<T> try_receive() noexcept {
        if (!unpromised()) return std::nullopt;
        return take();
    }

    /// No more is sent: those who wait to send get EPIPE, those who wait to receive get nothing.
    void close() noexcept {
        closed_ = true;
        senders_.wake_all(std::errc::broken_pipe);
        receivers_.wake_all(); // they stand in line, so nothing is left for them
    }

private:
    bool may_send() const noexcept { return !values_.full() && senders_.empty(); }
    /// A value that no woken receiver is on its way to.
    bool unpromised() const noexcept { return values_.size() > promised_; }
    bool drained() const noexcept { return closed_ && !unpromised(); }
    void put(T&& value) noexcept {
        values_.push(std::move(value));
        wake_receivers();
    }
    void wake_receivers() noexcept {
        while (!receivers_.empty() && unpromised()) {
            static_cast<receive_awaiter&>(receivers_.front()).promised_ = true;
            ++promised_;
            receivers_.wake_front();
        }
    }
    T take() noexcept {
        T value = values_.pop();
        if (!senders_.empty()) {
            auto& next = static_cast<send_awaiter&>(senders_.front());
            put(std::move(next.value_));
            senders_.wake_front();
        }
        return value;
    }

    bounded_queue<T> values_;
    std::size_t promised_ = 0; ///< receivers that were woken for a value and have not taken it yet
    wait_queue senders_;
    wait_queue receivers_;
    bool closed_ = false;
};

} // namespace corewire
