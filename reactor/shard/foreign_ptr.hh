// foreign_ptr<T>: owns an object that belongs to another shard. It may travel; the object stays, and is destroyed at home.
//
//     cw::foreign_ptr<session> s = co_await cw::submit_to(2, [] { return cw::make_foreign<session>(...); });
//     co_await s.invoke([](session& x) { return x.load(); });     // runs on shard 2
//
//     any shard: ~foreign_ptr() --one message, no answer--> home: ~T(), memory freed
//
// Calls on their way hold the object, too; the last of those who hold it sends the message. That needs no memory of its own and is
// never refused: when the ring is full the object itself stands in the mailbox's line. Destroyed on a shard of the same runtime, or
// after its home's loop has ended (then the home's mailbox frees it, as the runtime ends, in as many rounds as that takes).
// Bounded by the number of objects.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/shard/mailbox.hh>
#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/shard/this_shard.hh>

#include <atomic>
#include <cstddef>
#include <new>
#include <utility>

namespace corewire {

namespace detail {

/// The object with what it takes to send it home: a request that wants no answer.
template <typename T>
struct foreign_object final : remote_call_base {
    template <typename... Args>
    explicit foreign_object(unsigned at, Args&&... args)
        : remote_call_base(wait_limits{}), home(at), value(std::forward<Args>(args)...) {}
    /// The last to let go, on any shard.
    void go_home() noexcept {
        if (home == this_shard::id()) {
            delete this;
            return;
        }
        mailbox& here = this_shard::mail();
        if (message* slot = here.claim_request(home)) [[likely]] {
            emplace_request(*slot);
            here.send(home);
        } else {
            here.wait_for_room(home, *this);
        }
    }
    void emplace_request(message& slot) noexcept override {
        slot.run = [](message& arrived, mailbox*, unsigned) noexcept {
            delete *std::launder(reinterpret_cast<foreign_object**>(arrived.payload)); // also when the loop has ended
        };
        slot.call = nullptr;
        ::new (slot.payload) foreign_object*(this);
    }

    const unsigned home;
    std::atomic<unsigned> holders{1}; ///< the foreign_ptr, and each call from invoke() to its end at home or its being forgotten unsent
    T value;
};

/// One of those who hold the object.
template <typename T>
class foreign_hold {
public:
    foreign_hold() noexcept = default;
    /// The first.
    explicit foreign_hold(foreign_object<T>* made) noexcept : of_(made) {}
    foreign_hold(foreign_hold&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    foreign_hold& operator=(foreign_hold&& other) noexcept {
        if (this == &other) return *this;
        reset();
        of_ = std::exchange(other.of_, nullptr);
        return *this;
    }
    ~foreign_hold() { reset(); }
    foreign_hold another() const noexcept {
        of_->holders.fetch_add(1, std::memory_order_relaxed);
        return foreign_hold(of_);
    }
    void reset() noexcept {
        foreign_object<T>* const of = std::exchange(of_, nullptr);
        // What others have done with it is done before it goes.
        if (of != nullptr && of->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) of->go_home();
    }
    foreign_object<T>* get() const noexcept { return of_; }

private:
    foreign_object<T>* of_ = nullptr;
};

/// What invoke() sends home.
template <typename T, typename F>
struct foreign_call {
    using written = F;
    foreign_hold<T> object;
    F called;
    decltype(auto) operator()() { return called(object.get()->value); }
};

} // namespace detail

template <typename T>
class [[nodiscard]] foreign_ptr {
public:
    foreign_ptr() noexcept = default;

    explicit operator bool() const noexcept { return object_.get() != nullptr; }
    /// The shard that the object lives on.
    unsigned home() const noexcept {
        CW_ASSERT(object_.get() != nullptr, "an empty foreign_ptr has no home");
        return object_.get()->home;
    }
    /// The object. On its own shard only.
    T& operator*() const noexcept {
        CW_ASSERT(home() == this_shard::id(), "a foreign object is used away from its home; see invoke()");
        return object_.get()->value;
    }
    T* operator->() const noexcept { return &**this; }
    /// Runs `f(T&)` at home: an awaitable of what it returns (submit_to). The object outlives the call, also if that is given up and the
    /// pointer goes, on whichever shard.
    template <typename F>
    auto invoke(F f, wait_limits limits = {}) const {
        CW_ASSERT(object_.get() != nullptr, "invoke() of an empty foreign_ptr");
        return submit_to(home(), detail::foreign_call<T, F>{object_.another(), std::move(f)}, limits);
    }
    /// Sends the object home to be destroyed. Does not wait for it.
    void reset() noexcept { object_.reset(); }

private:
    template <typename U, typename... Args>
    friend foreign_ptr<U> make_foreign(Args&&... args);
    explicit foreign_ptr(detail::foreign_object<T>* object) noexcept : object_(object) {}
    detail::foreign_hold<T> object_;
};

/// Makes a T(args...) whose home is this shard.
template <typename T, typename... Args>
foreign_ptr<T> make_foreign(Args&&... args) {
    return foreign_ptr<T>{new detail::foreign_object<T>(this_shard::id(), std::forward<Args>(args)...)};
}

} // namespace corewire
