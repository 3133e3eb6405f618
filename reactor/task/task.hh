// task<T>: a lazy coroutine that yields one T. The unit in which Corewire's users write.
//
//     task<int> child();                         // nothing runs yet
//     task<> parent() { int n = co_await child(); }   // the child runs inside the await
//
// Move-only; awaited once; destroying a task that has not finished destroys its frame, and with it everything it waits
// for. A child is started inside await_suspend and, if it finishes at once, the parent is not suspended at all: loops
// over ready children use no stack, also where symmetric transfer is not a tail call (-O0, sanitizers). A child without
// result that was never suspended is gone with its last statement; other frames go with the task object.
// Belongs to the shard that started it; frames come from that shard's frame_allocator.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/memory/frame_allocator.hh>

#include <coroutine>
#include <exception>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

namespace corewire {

template <typename T = void>
class task;

namespace detail {

class task_promise;

/// Told when a task that no coroutine awaits has finished: a task_group, when_all.
struct task_listener {
    void (*on_done)(task_listener&, task_promise&) noexcept;
};

class task_promise : public list_links {
public:
    static void* operator new(std::size_t size) { return frame_allocator::allocate(size); }
    static void operator delete(void* p, std::size_t size) noexcept { frame_allocator::deallocate(p, size); }

    std::suspend_always initial_suspend() noexcept { return {}; }
    struct final_awaiter {
        bool frame_ends_here;
        bool await_ready() const noexcept { return frame_ends_here; }
        template <typename Promise>
        std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> finished) noexcept {
            task_promise& p = finished.promise();
            if (p.continuation) return p.continuation;
            if (p.listener != nullptr) p.listener->on_done(*p.listener, p); // may destroy this frame
            return std::noop_coroutine();
        }
        void await_resume() noexcept {}
    };
    final_awaiter final_suspend() noexcept { return {false}; }
    void unhandled_exception() noexcept { failure = std::current_exception(); }

    std::coroutine_handle<> continuation; ///< who awaits, once it is suspended
    task_listener* listener = nullptr;    ///< or who else wants to know
    std::exception_ptr failure;
    void* self; ///< the frame's address: set, and used, by listeners that destroy it
};

template <typename T>
class task_promise_of : public task_promise {
public:
    task<T> get_return_object() noexcept;
    template <typename U>
        requires std::is_convertible_v<U&&, T>
    void return_value(U&& v) {
        value.emplace(std::forward<U>(v));
    }
    T take() {
        if (failure) [[unlikely]] std::rethrow_exception(failure);
        return std::move(*value);
    }
    std::optional<T> value;
};

template <>
class task_promise_of<void> : public task_promise {
public:
    task<void> get_return_object() noexcept;
    void return_void() noexcept {}
    void take() {
        if (failure) [[unlikely]] std::rethrow_exception(failure);
    }
    /// What finishes without ever having been suspended, and has nothing to hand over, takes its frame with it.
    final_awaiter final_suspend() noexcept {
        if (owner == nullptr) return {false};
        *owner = nullptr;
        return {true};
    }
    void unhandled_exception() noexcept {
        task_promise::unhandled_exception();
        owner = nullptr;
    }
    void** owner = nullptr; ///< who holds the frame and is running it for the first time, if anybody is
};

/// Owns a task's frame, and is what awaits it: an awaiter of its own would be one more object in the frame of who awaits.
template <typename T, typename Promise>
class task_frame {
public:
    task_frame() noexcept = default;
    task_frame(task_frame&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
    task_frame& operator=(task_frame&& other) noexcept {
        if (this == &other) return *this;
        if (frame_ != nullptr) handle().destroy();
        frame_ = std::exchange(other.frame_, nullptr);
        return *this;
    }
    ~task_frame() {
        if (frame_ != nullptr) handle().destroy();
    }

    // For co_await. The task must outlive the await: a temporary does, until the end of the full expression.
    bool await_ready() const noexcept {
        CW_ASSERT(frame_ != nullptr, "an empty task was awaited");
        return handle().done();
    }
    bool await_suspend(std::coroutine_handle<> parent) {
        const auto child = handle();
        if constexpr (std::is_void_v<T>) child.promise().owner = &frame_;
        child.resume();
        if constexpr (std::is_void_v<T>) {
            if (frame_ == nullptr) return false; // the task has taken it with it
            child.promise().owner = nullptr;
        }
        if (child.done()) return false;
        child.promise().continuation = parent;
        return true;
    }
    T await_resume() {
        if constexpr (std::is_void_v<T>)
            if (frame_ == nullptr) return;
        return handle().promise().take();
    }

protected:
    explicit task_frame(std::coroutine_handle<Promise> frame) noexcept : frame_(frame.address()) {}
    std::coroutine_handle<Promise> handle() const noexcept { return std::coroutine_handle<Promise>::from_address(frame_); }
    void* frame_ = nullptr;
};

} // namespace detail

template <typename T>
class [[nodiscard]] task : public detail::task_frame<T, detail::task_promise_of<T>> {
    using base = detail::task_frame<T, detail::task_promise_of<T>>;

public:
    using promise_type = detail::task_promise_of<T>;
    using value_type = T;

    task() noexcept = default;

    /// False of a task<> that has been awaited to its end.
    explicit operator bool() const noexcept { return this->frame_ != nullptr; }
    bool done() const noexcept { return this->frame_ != nullptr && handle().done(); }

    /// For those who start tasks without awaiting them: gives the frame away.
    std::coroutine_handle<promise_type> release() noexcept {
        const auto released = handle();
        this->frame_ = nullptr;
        return released;
    }
    using base::handle;

private:
    friend promise_type;
    using base::base;
};

namespace detail {

template <typename T>
task<T> task_promise_of<T>::get_return_object() noexcept {
    return task<T>{std::coroutine_handle<task_promise_of<T>>::from_promise(*this)};
}
inline task<void> task_promise_of<void>::get_return_object() noexcept {
    return task<void>{std::coroutine_handle<task_promise_of<void>>::from_promise(*this)};
}

} // namespace detail

} // namespace corewire
