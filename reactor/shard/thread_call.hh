// What runtime::submit_from_thread() puts into a shard's inbox: a callable, and the promise of its result.
#pragma once

#include <corewire/reactor/shard/external_inbox.hh>
#include <corewire/reactor/task/spawn.hh>
#include <corewire/reactor/task/task.hh>

#include <cerrno>
#include <exception>
#include <future>
#include <memory>
#include <system_error>
#include <type_traits>
#include <utility>

namespace corewire::detail {

template <typename R>
struct thread_call_traits {
    using value = R;
    static constexpr bool is_task = false;
};
template <typename T>
struct thread_call_traits<task<T>> {
    using value = T;
    static constexpr bool is_task = true;
};

template <typename F>
class thread_call final : public external_call {
    using traits = thread_call_traits<std::invoke_result_t<F&>>;

public:
    using value = typename traits::value;
    explicit thread_call(F called) : called_(std::move(called)) {}
    /// Never run, or abandoned with its task at shutdown.
    ~thread_call() override {
        if (!answered_)
            result_.set_exception(std::make_exception_ptr(
                std::system_error(ECANCELED, std::generic_category(), "submit_from_thread: the runtime has ended")));
    }
    std::future<value> get_future() { return result_.get_future(); }

    void run(std::unique_ptr<external_call> self) noexcept override {
        if constexpr (traits::is_task) {
            try {
                spawn(serve(self));
            } catch (...) { // no memory for its frame
                fail(std::current_exception());
            }
        } else {
            try {
                if constexpr (std::is_void_v<value>) {
                    called_();
                    answered_ = true;
                    result_.set_value();
                } else {
                    value made = called_();
                    answered_ = true;
                    result_.set_value(std::move(made));
                }
            } catch (...) {
                fail(std::current_exception());
            }
        }
    }

private:
    void fail(std::exception_ptr why) noexcept {
        answered_ = true;
        result_.set_exception(std::move(why));
    }
    /// The callable lives in the call, and the call in this frame, so that its captures outlast the task.
    static task<> serve(std::unique_ptr<external_call>& self) {
        const std::unique_ptr<thread_call> call(static_cast<thread_call*>(self.release()));
        std::exception_ptr failure;
        try {
            task<value> work = call->called_();
            if constexpr (std::is_void_v<value>) {
                co_await work;
                call->answered_ = true;
                call->result_.set_value();
            } else {
                value made = co_await work;
                call->answered_ = true;
                call->result_.set_value(std::move(made));
            }
            co_return;
        } catch (...) {
            failure = std::current_exception();
        }
        call->fail(std::move(failure));
    }

    F called_;
    std::promise<value> result_;
    bool answered_ = false;
};

} // namespace corewire::detail
