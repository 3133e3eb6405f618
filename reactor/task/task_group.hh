// task_group: the home of tasks that nobody awaits. Detached work lives in a group, and a group is joined before it dies,
// so nothing outlives what it uses.
//
//     cw::task_group sessions{"sessions"};
//     sessions.spawn(serve(std::move(peer)));
//     ...
//     sessions.request_stop();                     // tasks that watch sessions.stop_token() end
//     co_await sessions.join({.deadline = soon});
//
// One shard's. An exception that leaves a spawned task is counted, and reported on stderr with the group's name: the first
// few each, then at every power of two, so that hostile peers cannot flood the log. After request_stop() a task that ends
// with ECANCELED has ended well.
#pragma once

#include <corewire/reactor/task/spawn.hh>
#include <corewire/reactor/task/stop.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/waiter.hh>

#include <cstddef>
#include <string>

namespace corewire {

/// What a group has, for the reactor that counts its tasks of all groups (reactor::tasks()).
struct task_tally : list_hook {
    std::size_t tasks = 0;
};

class task_group : private detail::task_listener {
public:
    explicit task_group(std::string name = "tasks");
    /// Destroys the tasks that are still there, and reports them as leaked: join() first, or destroy_all() on purpose.
    ~task_group();
    task_group(const task_group&) = delete;
    task_group& operator=(const task_group&) = delete;

    /// Starts `t` now, up to its first wait.
    void spawn(task<> t);
    std::size_t size() const noexcept { return tally_.tasks; }
    std::uint64_t failed() const noexcept { return failed_; } ///< tasks that an exception has left
    const std::string& name() const noexcept { return name_; }

    stop_token token() noexcept { return stop_.token(); }
    void request_stop() noexcept { stop_.request_stop(); }
    bool stop_requested() const noexcept { return stop_.stop_requested(); }
    /// Destroys every task where it stands. Who waits in join() goes on.
    void destroy_all() noexcept;

    /// Waits until no task is left: a task that is spawned after the last one has gone is not waited for. Throws std::system_error
    /// ETIMEDOUT or ECANCELED when the limits come first; ECANCELED when the group is destroyed.
    class join_awaiter final : public bounded_waiter {
    public:
        join_awaiter(task_group& group, const wait_limits& limits) noexcept : bounded_waiter(limits), group_(group) {}
        bool await_ready() const noexcept { return group_.size() == 0; }
        bool await_suspend(std::coroutine_handle<> h) noexcept {
            handle = h;
            if (!arm_limits()) return false;
            group_.joiners_.push_back(*this);
            return true;
        }
        void await_resume() const;

    private:
        friend class task_group;
        void wake() noexcept;         ///< the last task is gone
        void outlive_group() noexcept;
        task_group& group_;
    };
    join_awaiter join(wait_limits limits = {}) noexcept { return {*this, limits}; }

private:
    static void on_task_done(detail::task_listener& listener, detail::task_promise& finished) noexcept;
    void destroy_tasks() noexcept;
    void wake_joiners() noexcept;
    void note_failure(const std::exception_ptr& failure) noexcept;
    void report(const char* what) noexcept;

    std::string name_;
    intrusive_list<detail::task_promise> tasks_;
    intrusive_list<waiter> joiners_;
    stop_source stop_;
    task_tally tally_; ///< its reactor's, from the first task on
    std::uint64_t failed_ = 0;
};

} // namespace corewire
