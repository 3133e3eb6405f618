// generator<T>: a coroutine that gives many values, one when asked, and may wait in between.
//
//     cw::generator<std::string> lines(cw::tcp_stream& peer) { ... co_yield std::move(line); ... }
//
//     auto all = lines(peer);
//     while (auto* line = co_await all.next()) use(*line);        // null at the end; next(limits) ends by them, too
//
// Lazy: it runs only inside next(), up to its next co_yield, so it is never ahead of who asks and holds one value at most. The
// pointer is good until the next next(); what it points at may be moved away. An exception that leaves the body is thrown by next().
// Who gives up asking loses nothing: the body goes on waiting for what it waits for, and what it yields is kept for the next who asks.
// What the body waits for takes limits of its own; destroying the generator destroys the body where it stands. One shard's;
// one coroutine asks at a time.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/memory/frame_allocator.hh>
#include <corewire/reactor/task/waiter.hh>

#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

namespace corewire {

namespace detail {

/// Waits for a generator's next value within limits: woken by the loop, as by any other primitive.
class bounded_asking : public bounded_waiter {
public:
    using bounded_waiter::bounded_waiter;
    void answered() noexcept {
        disarm_limits();
        reactor::make_ready(*this);
    }

protected:
    ~bounded_asking() = default;
};

} // namespace detail

template <typename T>
class [[nodiscard]] generator {
    static_assert(std::is_object_v<T> && !std::is_const_v<T>);

public:
    class promise_type {
    public:
        /// Where the body is suspended: at the answer to the last who asked, at one that nobody has had yet, or in a wait of its own.
        enum class place : unsigned char { at_an_answer, at_a_fresh_answer, in_a_wait };

        static void* operator new(std::size_t size) { return frame_allocator::allocate(size); }
        static void operator delete(void* p, std::size_t size) noexcept { frame_allocator::deallocate(p, size); }

        generator get_return_object() noexcept {
            return generator{std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_always initial_suspend() noexcept { return {}; }

        /// Gives way to the one who asked, if it is suspended; else it looks itself when resume() returns.
        struct hand_over {
            bool await_ready() noexcept { return false; }
            std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
                promise_type& p = self.promise();
                if (auto asked = std::exchange(p.asking, nullptr)) {
                    p.stands = place::at_an_answer;
                    return asked;
                }
                p.stands = place::at_a_fresh_answer;
                if (p.asking_within_limits != nullptr) p.asking_within_limits->answered();
                return std::noop_coroutine();
            }
            void await_resume() noexcept {}
        };
        /// The same, with a copy of the value in the generator's frame.
        struct hand_over_copy : hand_over {
            explicit hand_over_copy(const T& original, T*& current) : value(original) { current = std::addressof(value); }
            T value;
        };
        hand_over yield_value(T&& made) noexcept {
            value = std::addressof(made); // lives in the generator's frame until it is resumed
            return {};
        }
        hand_over_copy yield_value(const T& kept) { return hand_over_copy{kept, value}; }
        hand_over final_suspend() noexcept {
            value = nullptr;
            return {};
        }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { failure = std::current_exception(); }

        T* value = nullptr; ///< set while suspended at a co_yield
        place stands = place::at_an_answer;
        std::coroutine_handle<> asking;
        detail::bounded_asking* asking_within_limits = nullptr; ///< or this one, until it has its answer
        std::exception_ptr failure;

        /// Runs the body to its next answer if it stands at one that has been had. True if there is an answer now.
        bool run(std::coroutine_handle<promise_type> self) {
            if (stands == place::at_an_answer) {
                value = nullptr;
                stands = place::in_a_wait;
                self.resume();
            }
            return stands != place::in_a_wait;
        }
        T* take() {
            stands = place::at_an_answer;
            if (failure) [[unlikely]] std::rethrow_exception(std::exchange(failure, nullptr));
            return value;
        }
    };

    generator() noexcept = default;
    generator(generator&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
    generator& operator=(generator&& other) noexcept {
        if (this == &other) return *this;
        reset();
        frame_ = std::exchange(other.frame_, nullptr);
        return *this;
    }
    ~generator() { reset(); }

    class next_awaiter {
    public:
        explicit next_awaiter(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}
        ~next_awaiter() {
            if (waits_) frame_.promise().asking = nullptr; // the one who asked goes, the generator stays
        }
        next_awaiter(const next_awaiter&) = delete;
        next_awaiter& operator=(const next_awaiter&) = delete;
        bool await_ready() const noexcept { return frame_.done() || frame_.promise().stands == promise_type::place::at_a_fresh_answer; }
        /// Runs the body inside the call; when it yields at once nobody is suspended, and loops use no stack.
        bool await_suspend(std::coroutine_handle<> asked) {
            promise_type& p = frame_.promise();
            if (p.run(frame_)) return false;
            p.asking = asked;
            return waits_ = true;
        }
        T* await_resume() {
            waits_ = false;
            return frame_.promise().take();
        }

    private:
        std::coroutine_handle<promise_type> frame_;
        bool waits_ = false;
    };
    class bounded_next_awaiter final : public detail::bounded_asking {
    public:
        bounded_next_awaiter(std::coroutine_handle<promise_type> frame, const wait_limits& limits) noexcept
            : bounded_asking(limits), frame_(frame) {}
        ~bounded_next_awaiter() { stop_asking(); }
        bool await_ready() const noexcept { return next_awaiter(frame_).await_ready(); }
        bool await_suspend(std::coroutine_handle<> asked) {
            promise_type& p = frame_.promise();
            if (p.run(frame_)) return false;
            handle = asked;
            if (!arm_limits()) return false;
            p.asking_within_limits = this;
            return waits_ = true;
        }
        T* await_resume() {
            stop_asking();
            throw_if_failed("waiting for a generator's next value");
            return frame_.promise().take();
        }

    private:
        void abandon() noexcept override { stop_asking(); }
        void stop_asking() noexcept {
            if (std::exchange(waits_, false)) frame_.promise().asking_within_limits = nullptr;
        }
        std::coroutine_handle<promise_type> frame_;
        bool waits_ = false;
    };
    /// The next value; null at the end, and ever after. Throws what the body threw, once.
    next_awaiter next() noexcept {
        check_askable();
        return next_awaiter{frame_};
    }
    /// Throws ETIMEDOUT or ECANCELED, too, when the limits come while the body waits for something. It goes on waiting.
    bounded_next_awaiter next(wait_limits limits) noexcept {
        check_askable();
        return bounded_next_awaiter{frame_, limits};
    }

private:
    void check_askable() const noexcept {
        CW_ASSERT(frame_, "an empty generator is asked for its next value");
        CW_ASSERT(!is_asked(), "a generator is asked for its next value while another still waits for one");
    }
    bool is_asked() const noexcept { return frame_.promise().asking || frame_.promise().asking_within_limits != nullptr; }
    explicit generator(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}
    void reset() noexcept {
        if (!frame_) return;
        CW_ASSERT(!is_asked(), "a generator is destroyed while somebody waits for its next value");
        frame_.destroy();
    }
    std::coroutine_handle<promise_type> frame_;
};

} // namespace corewire
