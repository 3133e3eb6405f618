// What a coroutine awaits when it asks the kernel for something: an io_request with a deadline and a stop token.
//
//     co_await --> submit --> ... --> completion --> run queue --> the result, or std::system_error
//                    |
//     deadline, stop +--> cancel --> the kernel lets go of the buffer --> ETIMEDOUT, ECANCELED
//
// A wait that is cut short goes on until the kernel has let go of the buffer. What the kernel had done by then is not
// thrown away: the await then returns the result as if nothing had come between. Destroying a suspended wait takes the request
// back and blocks until the kernel has let go (io_engine::abandon); a descriptor that was opened, or was to be closed, is closed then,
// also where the completion had come and the coroutine had not run yet. Lives in the coroutine's frame; allocates nothing.
#pragma once

#include <corewire/reactor/file/io_engine.hh>
#include <corewire/reactor/task/waiter.hh>

#include <optional>
#include <string>
#include <system_error>
#include <type_traits>

namespace corewire {

class io_wait : public waiter {
public:
    /// `on`: the name of what is worked on, for messages; null, or it outlives the wait.
    io_wait(const io_arguments& what, const wait_limits& limits, const std::string* on = nullptr) noexcept
        : request_(what, this), limits_(limits), on_(on) {}
    ~io_wait() {
        if (request_.active() || linked()) [[unlikely]] // linked: completed, and on the way to a coroutine that will not run
            abandon();
    }

    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> h) {
        handle = h;
        io_engine& engine = reactor::current().files();
        if (limits_.bounded() && !arm_limits()) return false;
        engine.submit(request_);
        return true;
    }

    /// As the kernel gave it: not negative, or -errno. ETIMEDOUT and ECANCELED are the limits'.
    int result() const noexcept { return result_; }
    /// By a limit, before anything was done. A result alone does not say: a file system may answer ETIMEDOUT itself.
    bool cut_short() const noexcept { return why_ != 0; }
    /// What await_resume() would throw (as_result asks).
    std::error_code failure_code() const noexcept { return {result_ < 0 ? -result_ : 0, std::generic_category()}; }

protected:
    int checked() const {
        if (result_ < 0) [[unlikely]] fail();
        return result_;
    }

private:
    struct guard {
        struct deadline_timer : timer {
            io_wait* owner;
            explicit deadline_timer(io_wait* o) noexcept;
        } expiry;
        struct stopper : stop_callback {
            io_wait* owner;
            explicit stopper(io_wait* o) noexcept;
        } stop;
        explicit guard(io_wait* o) noexcept : expiry(o), stop(o) {}
    };
    static void on_complete(io_request& r, int result) noexcept;
    bool arm_limits() noexcept;
    void give_up(int why) noexcept;
    void abandon() noexcept;
    [[noreturn]] void fail() const;

    struct owned_request final : io_request {
        owned_request(const io_arguments& what, io_wait* o) noexcept : io_request(what, &io_wait::on_complete), owner(o) {}
        io_wait* owner;
    };
    owned_request request_;
    int result_ = 0;
    int why_ = 0; ///< -ETIMEDOUT or -ECANCELED, once a limit has been reached; 0 again if the request was done all the same
    wait_limits limits_;
    const std::string* on_;
    std::optional<guard> guard_;
};

/// T: void, or what the kernel's answer becomes.
template <typename T>
class [[nodiscard]] io_awaiter final : public io_wait {
public:
    using io_wait::io_wait;
    T await_resume() const {
        if constexpr (std::is_void_v<T>) {
            static_cast<void>(checked());
        } else {
            return static_cast<T>(checked());
        }
    }
};

/// Does not throw: result() says. For loops in which an error is part of the plan.
class [[nodiscard]] io_attempt final : public io_wait {
public:
    using io_wait::io_wait;
    std::error_code failure_code() const noexcept { return {}; }
    int await_resume() const noexcept { return result(); }
};

} // namespace corewire
