// Awaiting an operation of a backend: "start it; if it did not finish at once, wait for it; throw what it failed of".
//
//     backend_awaiter           waits as long as it takes: costs its list links, a handle and an error
//     bounded_backend_awaiter   the same under wait_limits (a deadline, a stop token)
//
// Each is an operation in the awaiting coroutine's frame, so waiting never allocates; it leaves the backend when it is
// destroyed before its time.
#pragma once

#include <corewire/net/socket/provider.hh>

#include <coroutine>
#include <system_error>

namespace corewire {

template <typename Backend, typename Operation>
class backend_awaiter : public Operation {
public:
    explicit backend_awaiter(Backend* backend) noexcept : backend_(backend) {}
    /// What await_resume() would throw (as_result asks).
    std::error_code failure_code() const noexcept { return std::make_error_code(this->error); }

protected:
    [[gnu::always_inline]] ~backend_awaiter() { leave(); }
    /// After start_*() returned false.
    void wait(std::coroutine_handle<> h) noexcept {
        this->handle = h;
        this->pending_ = true;
    }
    [[gnu::always_inline]] void leave() noexcept {
        if (!this->pending_) [[likely]] return;
        this->pending_ = false;
        backend_->cancel(*this);
    }
    /// Throws what the operation failed of.
    void check(const char* what) const {
        if (this->error != std::errc{}) [[unlikely]] fail(this->error, what);
    }
    [[noreturn, gnu::cold]] static void fail(std::errc code, const char* what) {
        throw std::system_error(std::make_error_code(code), what);
    }
    Backend* backend_;
};

template <typename Backend, typename Operation>
class bounded_backend_awaiter : public backend_awaiter<Backend, Operation> {
public:
    bounded_backend_awaiter(Backend* backend, const wait_limits& limits) noexcept
        : backend_awaiter<Backend, Operation>(backend), bound_(*this, limits) {}
    std::error_code failure_code() const noexcept {
        return std::make_error_code(this->error != std::errc{} ? this->error : bound_.failure());
    }

protected:
    /// After start_*() returned false: true if the coroutine should stay suspended.
    bool wait(std::coroutine_handle<> h) noexcept {
        backend_awaiter<Backend, Operation>::wait(h);
        if (bound_.arm(h)) {
            this->limits_ = &bound_;
            return true;
        }
        this->leave();
        return false;
    }
    /// Throws what the operation failed of, or why the wait ended early.
    void check(const char* what) const {
        backend_awaiter<Backend, Operation>::check(what);
        if (bound_.failure() != std::errc{}) [[unlikely]] this->fail(bound_.failure(), what);
    }

private:
    struct limit final : operation_limits {
        limit(bounded_backend_awaiter& o, const wait_limits& l) noexcept : operation_limits(l), owner(o) {}
        void abandon() noexcept override { owner.leave(); }
        bounded_backend_awaiter& owner;
    } bound_;
};

} // namespace corewire
