// foreign_ptr<T>: owns an object that belongs to another shard. It may travel; the object stays, and is destroyed at home.
//
//     cw::foreign_ptr<session> s = co_await cw::submit_to(2, [] { return cw::make_foreign<session>(...); });
//     co_await s.invoke([](session& x) { return x.load(); });     // runs on shard 2
//
//     any shard: ~foreign_ptr() --one message, no answer--> home: ~T(), memory freed
//
// The message needs no memory of its own and is never refused: when the ring is full the object itself stands in the mailbox's
// line. Destroyed on a shard of the same runtime, or after its home's loop has ended (then the home's mailbox frees it, as the
// runtime ends, in as many rounds as that takes).
// Bounded by the number of objects.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/shard/mailbox.hh>
#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/shard/this_shard.hh>

#include <cstddef>
#include <memory>
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
    /// On any shard. Takes ownership.
    static void send_home(foreign_object* self) noexcept {
        if (self->home == this_shard::id()) {
            self->given_up = true;
            self->go_if_nobodys();
            return;
        }
        mailbox& here = this_shard::mail();
        if (message* slot = here.claim_request(self->home)) [[likely]] {
            self->emplace_request(*slot);
            here.send(self->home);
        } else {
            here.wait_for_room(self->home, *self);
        }
    }
    void emplace_request(message& slot) noexcept override {
        slot.run = [](message& arrived, mailbox*, unsigned) noexcept {
            foreign_object* const self = *std::launder(reinterpret_cast<foreign_object**>(arrived.payload));
            self->given_up = true;
            self->go_if_nobodys(); // also when the loop has ended
        };
        slot.call = nullptr;
        ::new (slot.payload) foreign_object*(this);
    }
    void go_if_nobodys() noexcept {
        if (given_up && calls == 0) delete this;
    }

    unsigned home;
    unsigned calls = 0;    ///< that have arrived and not ended; at home alone
    bool given_up = false; ///< the foreign_ptr has gone, and the last call ends the object; at home alone
    T value;
};

/// A call under way at home.
template <typename T>
class foreign_use {
public:
    explicit foreign_use(foreign_object<T>& of) noexcept : of_(&of) { ++of.calls; }
    foreign_use(foreign_use&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    ~foreign_use() {
        if (of_ == nullptr) return;
        --of_->calls;
        of_->go_if_nobodys();
    }

private:
    foreign_object<T>* of_;
};

/// What invoke() sends home.
template <typename T, typename F>
struct foreign_call {
    foreign_object<T>* object;
    F called;
    foreign_use<T> hold() const noexcept { return foreign_use<T>(*object); }
    decltype(auto) operator()() { return called(object->value); }
};

} // namespace detail

template <typename T>
class [[nodiscard]] foreign_ptr {
public:
    foreign_ptr() noexcept = default;
    foreign_ptr(foreign_ptr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    foreign_ptr& operator=(foreign_ptr&& other) noexcept {
        if (this == &other) return *this;
        reset();
        object_ = std::exchange(other.object_, nullptr);
        return *this;
    }
    ~foreign_ptr() { reset(); }

    explicit operator bool() const noexcept { return object_ != nullptr; }
    /// The shard that the object lives on.
    unsigned home() const noexcept {
        CW_ASSERT(object_ != nullptr, "an empty foreign_ptr has no home");
        return object_->home;
    }
    /// The object. On its own shard only.
    T& operator*() const noexcept {
        CW_ASSERT(home() == this_shard::id(), "a foreign object is used away from its home; see invoke()");
        return object_->value;
    }
    T* operator->() const noexcept { return &**this; }
    /// Runs `f(T&)` at home: an awaitable of what it returns (submit_to). The object outlives the call, also if that is given up and the
    /// pointer goes.
    template <typename F>
    auto invoke(F f, wait_limits limits = {}) const {
        CW_ASSERT(object_ != nullptr, "invoke() of an empty foreign_ptr");
        return submit_to(object_->home, detail::foreign_call<T, F>{object_, std::move(f)}, limits);
    }
    /// Sends the object home to be destroyed. Does not wait for it.
    void reset() noexcept {
        if (object_ != nullptr) detail::foreign_object<T>::send_home(std::exchange(object_, nullptr));
    }

private:
    template <typename U, typename... Args>
    friend foreign_ptr<U> make_foreign(Args&&... args);
    explicit foreign_ptr(detail::foreign_object<T>* object) noexcept : object_(object) {}
    detail::foreign_object<T>* object_ = nullptr;
};

/// Makes a T(args...) whose home is this shard.
template <typename T, typename... Args>
foreign_ptr<T> make_foreign(Args&&... args) {
    return foreign_ptr<T>{new detail::foreign_object<T>(this_shard::id(), std::forward<Args>(args)...)};
}

} // namespace corewire
