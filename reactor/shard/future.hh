// promise<T> and future<T>: one result, handed from one coroutine to another of the same shard.
//
//     promise<int> p;                       somebody else, later:
//     int n = co_await p.get_future();      p.set_value(3);
//
// The two point at each other, so there is no shared block on the heap and both may be moved, though not while the
// future is awaited. A result that crosses shards comes from submit_to() (remote_call.hh).
#pragma once

#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/shard/outcome.hh>
#include <corewire/reactor/task/waiter.hh>

#include <stdexcept>
#include <system_error>
#include <utility>

namespace corewire {

/// What a future throws when its promise went without keeping it.
struct broken_promise : std::logic_error {
    broken_promise() : std::logic_error("a promise was destroyed before it was kept") {}
};

template <typename T>
class promise;

template <typename T>
class [[nodiscard]] future {
public:
    class awaiter;

    future() = default;
    future(future&& other) noexcept
        : outcome_(std::move(other.outcome_)), promise_(std::exchange(other.promise_, nullptr)) {
        CW_ASSERT(other.waiting_ == nullptr, "a future is moved while it is awaited");
        if (promise_ != nullptr) promise_->future_ = this;
    }
    future& operator=(future&& other) noexcept {
        if (this == &other) return *this;
        this->~future();
        return *::new (this) future(std::move(other));
    }
    ~future() {
        CW_ASSERT(waiting_ == nullptr, "a future is destroyed while it is awaited");
        if (promise_ != nullptr) promise_->future_ = nullptr;
    }

    /// True once the result, or an exception, is here: awaiting will not suspend.
    bool ready() const noexcept { return outcome_.has_come(); }
    /// Waits and takes the result, once. Throws what the promise was given, broken_promise, ETIMEDOUT or ECANCELED.
    awaiter get(wait_limits limits = {}) noexcept { return {*this, limits}; }
    awaiter operator co_await() noexcept { return get(); }

private:
    friend class promise<T>;
    inline void wake() noexcept;
    outcome<T> outcome_;
    promise<T>* promise_ = nullptr; ///< null: kept, broken, or never had one
    awaiter* waiting_ = nullptr;
};

template <typename T>
class future<T>::awaiter final : public bounded_waiter {
public:
    awaiter(future& awaited, const wait_limits& limits) noexcept : bounded_waiter(limits), awaited_(awaited) {}
    ~awaiter() {
        if (awaited_.waiting_ == this) awaited_.waiting_ = nullptr;
    }
    bool await_ready() const noexcept { return awaited_.ready(); }
    bool await_suspend(std::coroutine_handle<> h) noexcept {
        CW_ASSERT(awaited_.waiting_ == nullptr, "a future is awaited twice");
        CW_ASSERT(awaited_.promise_ != nullptr, "a future without a promise is awaited");
        handle = h;
        if (!arm_limits()) return false;
        awaited_.waiting_ = this;
        return true;
    }
    T await_resume() {
        throw_if_failed("future");
        return awaited_.outcome_.take();
    }

private:
    friend class future;
    void wake() noexcept {
        disarm_limits();
        reactor::make_ready(*this);
    }
    void abandon() noexcept override {
        awaited_.waiting_ = nullptr;
        unlink();
    }
    future& awaited_;
};

template <typename T>
inline void future<T>::wake() noexcept {
    promise_ = nullptr;
    if (awaiter* woken = std::exchange(waiting_, nullptr)) woken->wake();
}

template <typename T>
class promise {
public:
    promise() = default;
    promise(promise&& other) noexcept
        : early_(std::move(other.early_)), future_(std::exchange(other.future_, nullptr)), taken_(other.taken_),
          kept_(std::exchange(other.kept_, true)) {
        if (future_ != nullptr) future_->promise_ = this;
    }
    promise& operator=(promise&& other) noexcept {
        if (this == &other) return *this;
        this->~promise();
        return *::new (this) promise(std::move(other));
    }
    ~promise() {
        if (!kept_ && future_ != nullptr) set_exception(std::make_exception_ptr(broken_promise{}));
        if (future_ != nullptr) future_->promise_ = nullptr;
    }

    /// The other end. Once.
    future<T> get_future() {
        CW_ASSERT(!taken_, "a promise has one future");
        taken_ = true;
        future<T> other_end;
        if (kept_) {
            other_end.outcome_ = std::move(early_);
        } else {
            other_end.promise_ = this;
            future_ = &other_end; // follows when the future is moved
        }
        return other_end;
    }
    /// Keeps the promise and wakes who waits. The result is dropped if the future is gone already.
    template <typename... Value>
    void set_value(Value&&... value) {
        CW_ASSERT(!kept_, "a promise is kept twice");
        keep([&](outcome<T>& out) { out.set(typename outcome<T>::stored(std::forward<Value>(value)...)); });
    }
    void set_exception(std::exception_ptr why) {
        CW_ASSERT(!kept_, "a promise is kept twice");
        keep([&](outcome<T>& out) { out.fail(std::move(why)); });
    }

private:
    friend class future<T>;
    template <typename Fill>
    void keep(Fill&& fill) {
        fill(future_ != nullptr ? future_->outcome_ : early_);
        kept_ = true;
        if (future<T>* other_end = std::exchange(future_, nullptr)) other_end->wake();
    }
    outcome<T> early_; ///< kept before get_future()
    future<T>* future_ = nullptr;
    bool taken_ = false;
    bool kept_ = false;
};

} // namespace corewire
