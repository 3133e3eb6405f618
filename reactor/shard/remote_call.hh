// submit_to(shard, callable): run something on another shard and await what it returns.
//
//     std::size_t n = co_await submit_to(2, [key] { return cache().count(key); });
//
// The call begins when submit_to() is called, not when it is awaited, so several can be on their way at once. The
// callable is moved to the other shard, runs there (from its mailbox, or as a task of its own if it returns task<T>) and is
// destroyed there; its result, or its exception, is moved back. What it refers to must be safe to use over there.
// It runs there in the scheduling group of its caller's name ("main" if that shard has none such), stands in that group's line, and is
// charged to it. Calls of one group begin in the order in which they were submitted. A shard with one group has no line: functions run
// as they are taken from the mailbox.
// A callable or result of up to 40 bytes that moves without throwing costs one cache line; larger ones get a block.
//
// g++ destroys a lambda twice that is written inside a co_await expression and owns something (a string, a unique_ptr).
// So for these it is a compile-time error, and the call gets a name first:
//     auto call = submit_to(2, [text = std::move(text)] { return store(text); });
//     co_await call;
#pragma once

#include <corewire/reactor/shard/block.hh>
#include <corewire/reactor/shard/mailbox.hh>
#include <corewire/reactor/shard/outcome.hh>
#include <corewire/reactor/shard/this_shard.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/task_group.hh>
#include <corewire/reactor/task/waiter.hh>

#include <concepts>
#include <new>
#include <optional>
#include <system_error>
#include <type_traits>

namespace corewire {

/// What a call looks like to mailboxes: a waiter in the caller's frame.
class remote_call_base : public bounded_waiter {
public:
    using bounded_waiter::bounded_waiter;
    /// Builds the request in a slot of the ring.
    virtual void emplace_request(message& slot) noexcept = 0;

protected:
    ~remote_call_base() {
        if (call_ != nullptr) call_->caller = nullptr; // the reply will find nobody
    }
    /// The reply is here: wakes the caller if it waits already.
    void answered() noexcept {
        call_ = nullptr;
        if (!handle) return;
        disarm_limits();
        reactor::make_ready(*this);
    }
    void abandon() noexcept override {
        unlink();
        if (call_ != nullptr) std::exchange(call_, nullptr)->caller = nullptr;
    }
    call_record* call_ = nullptr; ///< while the call is in flight
};

/// What a call comes to, whatever was called.
template <typename T>
class remote_result : public remote_call_base {
public:
    using remote_call_base::remote_call_base;
    void answer(typename outcome<T>::stored value) noexcept {
        outcome_.set(std::move(value));
        answered();
    }
    void answer_failure(std::exception_ptr why) noexcept {
        outcome_.fail(std::move(why));
        answered();
    }

protected:
    ~remote_result() = default;
    outcome<T> outcome_;
};

namespace detail {

template <typename R>
struct remote_traits {
    using value = R;
    static constexpr bool is_task = false;
};
template <typename T>
struct remote_traits<task<T>> {
    using value = T;
    static constexpr bool is_task = true;
};

/// What the caller has written of a callable: all of it, or what it has within (`written`).
template <typename F>
struct written_callable {
    using type = F;
};
template <typename F>
    requires requires { typename F::written; }
struct written_callable<F> {
    using type = typename F::written;
};

/// Home again: hands the result to the caller, or drops it if nobody waits any more.
template <typename T, typename Carried, void (remote_result<T>::*Answer)(Carried) noexcept>
void deliver(message& self, mailbox* here, unsigned) noexcept {
    carried<Carried> result(self.payload);
    if (here == nullptr) return;
    call_record& call = *self.call;
    auto* caller = static_cast<remote_result<T>*>(call.caller);
    // First move the result out: a parked reply stands in the record, and the caller's next call may take the record.
    if (caller != nullptr) (caller->*Answer)(std::move(*result));
    result.reset();
    here->calls().release(call);
}

/// Called on the shard that ran the call.
template <typename T>
void reply_value(mailbox& here, unsigned to, call_record& call, typename outcome<T>::stored&& value) {
    using stored = typename outcome<T>::stored;
    carrier<stored> loaded(std::move(value)); // may throw: before the slot is claimed
    message& m = here.claim_reply(to, call);
    m.run = &deliver<T, stored, &remote_result<T>::answer>;
    m.call = &call;
    loaded.emplace(m.payload);
    here.send_reply(to, call, m);
}
template <typename T>
void reply_failure(mailbox& here, unsigned to, call_record& call, std::exception_ptr why) noexcept {
    message& m = here.claim_reply(to, call);
    m.run = &deliver<T, std::exception_ptr, &remote_result<T>::answer_failure>;
    m.call = &call;
    ::new (m.payload) std::exception_ptr(std::move(why));
    here.send_reply(to, call, m);
}

/// Where the result of a call that runs as a task goes: back over the ring, or straight to a caller on this shard.
template <typename T>
class reply_to {
public:
    reply_to(mailbox& here, unsigned to, call_record& call) noexcept : here_(&here), to_(to), call_(&call) {}
    reply_to(reply_to&& other) noexcept : here_(other.here_), to_(other.to_), call_(std::exchange(other.call_, nullptr)) {}
    /// A task that was abandoned at shutdown still answers.
    ~reply_to() {
        if (call_ != nullptr) fail(std::make_exception_ptr(std::system_error(ECANCELED, std::generic_category(), "submit_to")));
    }
    bool is_due() const noexcept { return call_ != nullptr; }
    void give(typename outcome<T>::stored value) {
        if (to_ != here_->self()) {
            reply_value<T>(*here_, to_, *call_, std::move(value));
        } else {
            if (call_->caller != nullptr) static_cast<remote_result<T>*>(call_->caller)->answer(std::move(value));
            here_->calls().release(*call_);
        }
        call_ = nullptr;
    }
    void fail(std::exception_ptr why) noexcept {
        call_record& call = *std::exchange(call_, nullptr);
        if (to_ != here_->self()) return reply_failure<T>(*here_, to_, call, std::move(why));
        if (call.caller != nullptr) static_cast<remote_result<T>*>(call.caller)->answer_failure(std::move(why));
        here_->calls().release(call);
    }

private:
    mailbox* here_;
    unsigned to_;
    call_record* call_;
};

/// Stands in the line of a scheduling group once, also where it belongs to it already.
class in_line final : public waiter {
public:
    explicit in_line(run_queue& line) noexcept { queue = &line; }
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) noexcept {
        handle = h;
        reactor::make_ready_unlinked(*this);
    }
    void await_resume() const noexcept {}
};

/// What a callable says is in use from its arrival to its end, `auto hold()`, given up or not, however long it stands in line: what comes
/// behind it in the ring may come before it in time, when that belongs to another group or is no call.
template <typename F>
auto held_by([[maybe_unused]] F& called) noexcept {
    struct not_a_hold {};
    if constexpr (requires { called.hold(); }) return called.hold();
    else return not_a_hold{};
}

/// Runs a callable that may return a task, and replies. The callable lives in this frame, so its captures outlast the task. `line`: it
/// and what it starts belong to that group, and are charged to it; null: to the present one, beginning at once.
template <typename F, typename Held, typename T>
task<> serve(run_queue* line, F called, [[maybe_unused]] Held held, reply_to<T> reply) {
    std::exception_ptr failure;
    if (line != nullptr) {
        in_line place(*line);
        co_await place;
    }
    try {
        if constexpr (!remote_traits<std::invoke_result_t<F&>>::is_task) {
            if constexpr (std::is_void_v<T>) {
                called();
                reply.give({});
            } else {
                reply.give(called());
            }
            co_return;
        } else {
            task<T> work = called();
            if constexpr (std::is_void_v<T>) {
                co_await std::move(work);
                reply.give({});
            } else {
                T value = co_await std::move(work);
                reply.give(std::move(value));
            }
            co_return;
        }
    } catch (...) {
        failure = std::current_exception();
    }
    reply.fail(std::move(failure));
}

} // namespace detail

/// The awaitable that submit_to() returns: the caller's end of one call. Neither copied nor moved. Destroying it before its
/// result is here drops the result; if the request still waited for room in the ring, it is not sent.
template <typename F>
class [[nodiscard]] remote_call final
    : public remote_result<typename detail::remote_traits<std::invoke_result_t<F&>>::value> {
    using traits = detail::remote_traits<std::invoke_result_t<F&>>;
    using value = typename traits::value;
    using stored = typename outcome<value>::stored;
    static_assert(std::is_nothrow_move_constructible_v<stored>, "a result that crosses shards moves without throwing");

public:
    template <typename G>
    remote_call(mailbox& here, unsigned to, G&& called, const wait_limits& limits)
        : remote_result<value>(limits) {
        CW_ASSERT(to < here.shards(), "submit_to() to a shard that does not exist");
        if (to == here.self())
            run_here(here, std::forward<G>(called));
        else
            send(here, to, std::forward<G>(called));
    }
    ~remote_call() { forget_unsent(); }
    remote_call(const remote_call&) = delete;
    remote_call& operator=(const remote_call&) = delete;

    /// True once the result is here: awaiting will not suspend.
    bool ready() const noexcept { return this->outcome_.has_come(); }

    struct awaiter {
        remote_call& call;
        bool await_ready() const noexcept { return call.ready(); }
        bool await_suspend(std::coroutine_handle<> h) noexcept { return call.suspend(h); }
        value await_resume() { return call.result(); }
        std::error_code failure_code() const noexcept { return call.ready() ? std::error_code{} : call.failure_code(); }
    };
    awaiter operator co_await() & noexcept { return {*this}; }
    awaiter operator co_await() && noexcept {
#if defined(__GNUC__) && !defined(__clang__)
        static_assert(std::is_trivially_destructible_v<typename detail::written_callable<F>::type>,
                      "g++ would destroy this callable twice: write auto call = submit_to(...); co_await call;");
#endif
        return {*this};
    }

private:
    bool suspend(std::coroutine_handle<> h) noexcept {
        this->handle = h;
        if (this->arm_limits()) return true;
        abandon();
        return false;
    }
    value result() {
        if (!ready()) this->throw_if_failed("submit_to");
        return this->outcome_.take();
    }

    /// Takes a record for the reply to find. False: too many are out, and the call has failed.
    bool begin(mailbox& here) {
        this->call_ = here.calls().allocate();
        if (this->call_ == nullptr) [[unlikely]] {
            this->outcome_.fail(std::make_exception_ptr(std::system_error(
                EAGAIN, std::generic_category(), "submit_to: too many calls of this shard are in flight")));
            return false;
        }
        this->call_->caller = this;
        return true;
    }
    template <typename G>
    void send(mailbox& here, unsigned to, G&& called) {
        detail::carrier<F> loaded(std::forward<G>(called)); // may throw: before a record is taken
        if (!begin(here)) [[unlikely]]
            return;
        if (message* slot = here.claim_request(to)) [[likely]] {
            fill(*slot, loaded);
            here.send(to);
        } else {
            unsent_.emplace(std::move(loaded));
            here.wait_for_room(to, *this);
            here_ = &here;
        }
    }
    static void run_request(message& self, mailbox* here, unsigned from) noexcept {
        detail::carried<F> called(self.payload);
        if (here == nullptr) return;
        call_record& call = *self.call;
        run_queue* const line = here->line_of(self.call.group());
        if (traits::is_task || line != nullptr) {
            detail::reply_to<value> reply(*here, from, call);
            try {
                auto held = detail::held_by(*called);
                spawn(detail::serve<F>(line, std::move(*called), std::move(held), std::move(reply)));
            } catch (...) { // no memory for its frame, or it does not let itself be moved
                if (reply.is_due()) reply.fail(std::current_exception());
            }
        } else if constexpr (!traits::is_task) {
            try {
                if constexpr (std::is_void_v<value>) {
                    (*called)();
                    detail::reply_value<value>(*here, from, call, {});
                } else {
                    detail::reply_value<value>(*here, from, call, (*called)());
                }
            } catch (...) {
                detail::reply_failure<value>(*here, from, call, std::current_exception());
            }
        }
    }
    void fill(message& slot, detail::carrier<F>& loaded) noexcept {
        slot.run = &run_request;
        slot.call = {this->call_, this->queue->known_as};
        loaded.emplace(slot.payload);
    }
    void emplace_request(message& slot) noexcept override {
        fill(slot, *unsent_);
        unsent_.reset();
    }
    void abandon() noexcept override {
        forget_unsent();
        remote_call_base::abandon();
    }
    /// The request was never sent, so no reply will free its record.
    void forget_unsent() noexcept {
        if (!unsent_) return;
        this->unlink();
        here_->calls().release(*std::exchange(this->call_, nullptr));
        unsent_.reset();
    }
    template <typename G>
    void run_here(mailbox& here, G&& called) {
        if constexpr (traits::is_task) {
            if (!begin(here)) return;
            detail::reply_to<value> reply(here, here.self(), *this->call_);
            F mine(std::forward<G>(called));
            auto held = detail::held_by(mine);
            spawn(detail::serve<F>(nullptr, std::move(mine), std::move(held), std::move(reply)));
        } else {
            try {
                if constexpr (std::is_void_v<value>) {
                    std::forward<G>(called)();
                    this->outcome_.set({});
                } else {
                    this->outcome_.set(std::forward<G>(called)());
                }
            } catch (...) {
                this->outcome_.fail(std::current_exception());
            }
        }
    }

    std::optional<detail::carrier<F>> unsent_; ///< while the ring is full
    mailbox* here_ = nullptr;
};

/// Runs `called()` on shard `to` (on this one: at once) and gives an awaitable of what it returns. `called` may return a value,
/// nothing, or a task<T>. Awaiting throws what `called` threw; ETIMEDOUT or ECANCELED by `limits` (the call itself goes on
/// over there, and its result is dropped); EAGAIN if too many calls of this shard are in flight.
template <std::invocable F>
auto submit_to(unsigned to, F&& called, wait_limits limits = {}) {
    return remote_call<std::decay_t<F>>(this_shard::mail(), to, std::forward<F>(called), limits);
}

} // namespace corewire
