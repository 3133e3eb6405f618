// shard_channel<T>: a bounded queue into one shard from all: any shard sends, the shard that made it receives.
//
//     shard A: send() -- credit --> message --+
//     shard B: send() -- credit --> message --+--> [ values ] --> receive()     home
//         credits come back in batches  <------------------------------+
//
//     co_await c.send(std::move(order));                                       // anywhere
//     while (auto order = co_await c.receive()) handle(*order);                // at home
//     co_await c.close();                                                      // at home; before it is destroyed
//
// Each shard may have `each` values on the way or unread; its senders wait for credits in the order they came, so a shard that sends too
// much holds up itself and nobody else. Values of one shard arrive in the order they were sent. A message costs one cache
// line, a credit half a message or less. Inside one shard use channel<T>.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/shard/block.hh>
#include <corewire/reactor/shard/mailbox.hh>
#include <corewire/reactor/shard/outlives_mail.hh>
#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/shard/this_shard.hh>
#include <corewire/reactor/task/as_result.hh>
#include <corewire/reactor/task/channel.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/semaphore.hh>
#include <corewire/reactor/task/task.hh>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

namespace corewire {

namespace detail {

/// What shards share of a shard_channel. Where the channel goes at shutdown, before it was closed, this stays until no mail is left: values
/// may be on their way, and senders of other shards stand in its lines.
template <typename T>
class shard_channel_core final : public outlives_mail {
public:
    explicit shard_channel_core(std::size_t each)
        : home_(this_shard::id()), each_(each), sides_(new side[this_shard::count()]), returns_(new credit_return[this_shard::count()]),
          values_(each * this_shard::count()) {
        for (unsigned shard = 0; shard < shards_; ++shard) sides_[shard].credits.resize(each);
    }
    ~shard_channel_core() override {
        for (unsigned shard = 0; shard < shards_; ++shard) {
            semaphore& credits = sides_[shard].credits;
            credits.adopt(credits.held()).release(); // of values that nobody has read
        }
    }
    task<> send(T value, wait_limits limits) {
        side& mine = sides_[this_shard::id()];
        if (mine.closed) throw std::system_error(std::make_error_code(std::errc::broken_pipe), "sending to a shard_channel");
        const presence here(mine);
        auto credit = co_await as_result(mine.credits.acquire(1, limits));
        if (!credit) {
            // Closing takes all credits away: nobody will ever get one, which the semaphore calls an invalid argument.
            const bool closed = credit.error() == std::errc::invalid_argument;
            throw std::system_error(closed ? std::make_error_code(std::errc::broken_pipe) : credit.error(),
                                    "sending to a shard_channel");
        }
        if (this_shard::id() == home_) {
            arrived(home_, std::move(value));
            credit->detach(); // it comes back when the value has been received
        } else {
            outgoing message(*this, std::move(value), *credit, limits);
            co_await message;
        }
    }
    task<std::optional<T>> receive(wait_limits limits) {
        std::optional<received> next = co_await values_.receive(limits);
        if (!next) co_return std::nullopt;
        give_credit(next->from);
        co_return std::move(next->value);
    }
    std::optional<T> try_receive() noexcept {
        std::optional<received> next = values_.try_receive();
        if (!next) return std::nullopt;
        give_credit(next->from);
        return std::move(next->value);
    }
    task<> close(wait_limits limits) {
        if (quiet_) co_return;
        closing_ = true;
        for (unsigned shard = 0; shard < this_shard::count(); ++shard)
            co_await submit_to(shard, [this] { return close_side(sides_[this_shard::id()]); }, limits);
        values_.close();
        quiet_ = true;
    }

    unsigned home() const noexcept { return home_; }
    std::size_t size() const noexcept { return values_.size(); }
    bool quiet() const noexcept { return quiet_; }
    /// Nobody will receive: what has come and what still comes is destroyed here.
    void abandon() noexcept {
        abandoned_ = closing_ = true;
        while (values_.try_receive()) {}
        values_.close();
    }

private:
    /// A shard's end; touched by that shard only while the channel is open.
    struct alignas(cache_line) side {
        semaphore credits{0};
        std::size_t sending = 0; ///< calls of send() that have not ended
        event none_sends;        ///< waited for when closing
        bool closed = false;
    };
    /// A call of send(), from before it has a credit until its value is in the ring: closing waits for it.
    class presence {
    public:
        explicit presence(side& at) noexcept : side_(at) { ++side_.sending; }
        presence(const presence&) = delete;
        ~presence() {
            if (--side_.sending == 0) side_.none_sends.set();
        }

    private:
        side& side_;
    };
    struct received {
        T value;
        unsigned from;
    };
    struct sent {
        shard_channel_core* channel;
        T value;
    };

    /// A value on its way into the ring to the home, in its sender's frame.
    class outgoing final : public remote_call_base {
    public:
        outgoing(shard_channel_core& c, T&& value, semaphore::units& credit, const wait_limits& limits)
            : remote_call_base(limits), channel_(c), credit_(credit), loaded_(sent{&c, std::move(value)}) {}
        bool await_ready() noexcept {
            mailbox& here = this_shard::mail();
            message* slot = here.claim_request(channel_.home_);
            if (slot == nullptr) return false;
            fill(*slot);
            here.send(channel_.home_);
            return true;
        }
        bool await_suspend(std::coroutine_handle<> h) noexcept {
            this->handle = h;
            if (!this->arm_limits()) return false;
            this_shard::mail().wait_for_room(channel_.home_, *this);
            return true;
        }
        void await_resume() const { this->throw_if_failed("sending to a shard_channel"); }

    private:
        void fill(message& slot) noexcept {
            slot.run = [](message& self, mailbox* here, unsigned from) noexcept {
                detail::carried<sent> arriving(self.payload);
                if (here != nullptr) (*arriving).channel->arrived(from, std::move((*arriving).value));
            };
            slot.call = nullptr;
            loaded_.emplace(slot.payload);
            credit_.detach(); // here: its sender may be destroyed before it runs again
        }
        void emplace_request(message& slot) noexcept override {
            fill(slot);
            this->disarm_limits();
            reactor::make_ready(*this);
        }
        shard_channel_core& channel_;
        semaphore::units& credit_;
        detail::carrier<sent> loaded_;
    };

    /// Credits on their way back to one shard. Stands in the ring's line when that is full, and grows meanwhile.
    class credit_return final : public remote_call_base {
    public:
        credit_return() noexcept : remote_call_base(wait_limits{}) {}
        void add(shard_channel_core& c, unsigned to) noexcept {
            side_ = &c.sides_[to];
            if (++owed_ < std::max<std::size_t>(1, c.each_ / 2) || this->linked()) return;
            mailbox& here = this_shard::mail();
            if (message* slot = here.claim_request(to)) [[likely]] {
                emplace_request(*slot);
                here.send(to);
            } else {
                here.wait_for_room(to, *this);
            }
        }

    private:
        struct payload {
            side* to;
            std::size_t credits;
        };
        void emplace_request(message& slot) noexcept override {
            slot.run = [](message& self, mailbox* here, unsigned) noexcept {
                const auto& back = *std::launder(reinterpret_cast<payload*>(self.payload));
                if (here != nullptr) back.to->credits.adopt(back.credits).release();
            };
            slot.call = nullptr;
            ::new (slot.payload) payload{side_, std::exchange(owed_, 0)};
        }
        side* side_ = nullptr;
        std::size_t owed_ = 0;
    };

    static task<> close_side(side& mine) {
        mine.closed = true;
        mine.credits.resize(0);
        while (mine.sending != 0) {
            mine.none_sends.reset();
            co_await mine.none_sends.wait();
        }
    }
    void arrived(unsigned from, T&& value) noexcept {
        if (abandoned_) [[unlikely]]
            return static_cast<void>(T(std::move(value)));
        const bool had_room = values_.try_send(received{std::move(value), from});
        CW_ASSERT(had_room, "a shard has sent more to a shard_channel than it had credits for");
    }
    void give_credit(unsigned to) noexcept {
        if (to == home_)
            sides_[home_].credits.adopt(1).release();
        else if (!closing_)
            returns_[to].add(*this, to);
    }

    unsigned home_;
    std::size_t each_;
    std::unique_ptr<side[]> sides_; ///< by shard
    std::unique_ptr<credit_return[]> returns_; ///< by shard
    channel<received> values_;
    bool closing_ = false;
    bool quiet_ = false; ///< closed, and nothing is on the way in either direction
    bool abandoned_ = false;
    unsigned shards_ = this_shard::count();
};

} // namespace detail

template <typename T>
class shard_channel {
public:
    /// `each`: values that one shard may have on the way or unread, at least one. Room for all shards' is taken here, which
    /// becomes its home.
    explicit shard_channel(std::size_t each) : core_(new detail::shard_channel_core<T>(each)) {}
    shard_channel(const shard_channel&) = delete;
    shard_channel& operator=(const shard_channel&) = delete;
    /// At home, after close(). At shutdown it may also go as it is: what other shards have on the way is destroyed here when it comes. (A
    /// call of send() that begins later is a use of what is gone, as with any object.)
    ~shard_channel() {
        if (core_->quiet()) return;
        CW_ASSERT(this_shard::stopping().stop_requested(), "a shard_channel is destroyed before its close() has ended");
        core_->abandon();
        detail::keep_until_no_mail(std::move(core_));
    }

    /// From any shard: waits for a credit, and for room in the ring. Throws EPIPE when the channel is closed, before or meanwhile;
    /// ETIMEDOUT or ECANCELED by its limits. A value that was not sent is destroyed.
    task<> send(T value, wait_limits limits = {}) { return core_->send(std::move(value), limits); }
    /// At home: the oldest value; nothing once the channel is closed and empty. Throws ETIMEDOUT or ECANCELED by its limits.
    task<std::optional<T>> receive(wait_limits limits = {}) { return core_->receive(limits); }
    /// At home: a value if one is there for the taking.
    std::optional<T> try_receive() noexcept { return core_->try_receive(); }
    /// At home: ends all sending (EPIPE) and waits until nothing is on the way. What has come can still be received. Throws ETIMEDOUT or
    /// ECANCELED by its limits: what has ended has ended, and close() is to be called again.
    task<> close(wait_limits limits = {}) { return core_->close(limits); }

    unsigned home() const noexcept { return core_->home(); }
    /// At home: values that have come and were not received.
    std::size_t size() const noexcept { return core_->size(); }

private:
    std::unique_ptr<detail::shard_channel_core<T>> core_;
};

} // namespace corewire
