#include <corewire/reactor/task/task_group.hh>

#include <corewire/reactor/log/shard_log.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <atomic>
#include <bit>
#include <system_error>

namespace corewire {

namespace {

constexpr std::uint64_t reported_one_by_one = 8;

constexpr log_event<log_text<80>, std::size_t, const char*, std::uint64_t> leak{
    "task", "group_leaked", log_level::error,
    "group '{}' was destroyed with {} task{} in it, which should have been joined (leak number {})"};
constexpr log_event<log_text<64>, std::uint64_t, log_text<128>> a_failure{"task", "failed", log_level::error,
                                                                          "a task of group '{}' failed (number {}): {}"};

/// Whoever wrote the group forgot to join() it, or was abandoned at shutdown with it.
void report_leak(const std::string& name, std::size_t left) noexcept {
    static std::atomic<std::uint64_t> leaks{0};
    const std::uint64_t number = leaks.fetch_add(1, std::memory_order_relaxed) + 1;
    if (number > reported_one_by_one && !std::has_single_bit(number)) return;
    log_message(leak, name, left, left == 1 ? "" : "s", number);
}

} // namespace

task_group::task_group(std::string name) : detail::task_listener{&task_group::on_task_done}, name_(std::move(name)) {}

task_group::~task_group() {
    if (size() != 0) [[unlikely]]
        report_leak(name_, size());
    destroy_tasks();
    while (!joiners_.empty()) static_cast<join_awaiter&>(joiners_.pop_front()).outlive_group();
}

void task_group::spawn(task<> t) {
    CW_ASSERT(t, "an empty task was spawned");
    const auto frame = t.release();
    detail::task_promise& promise = frame.promise();
    promise.listener = this;
    promise.self = frame.address();
    tasks_.push_back(promise);
    ++tally_.tasks;
    if (!tally_.linked()) [[unlikely]]
        if (reactor* here = reactor::current_or_null()) here->count_tasks(tally_);
    frame.resume();
}

void task_group::destroy_all() noexcept {
    destroy_tasks();
    wake_joiners();
}

void task_group::destroy_tasks() noexcept {
    // The youngest first: a task is older than those it has spawned, which use what stands in its frame.
    while (!tasks_.empty()) {
        detail::task_promise& promise = tasks_.back();
        promise.unlink();
        --tally_.tasks;
        std::coroutine_handle<>::from_address(promise.self).destroy();
    }
}

void task_group::on_task_done(detail::task_listener& listener, detail::task_promise& finished) noexcept {
    auto& self = static_cast<task_group&>(listener);
    if (finished.failure) self.note_failure(finished.failure);
    finished.unlink();
    if (--self.tally_.tasks == 0) self.wake_joiners();
    std::coroutine_handle<>::from_address(finished.self).destroy(); // last: the group may go with what the task held
}

void task_group::wake_joiners() noexcept {
    if (reactor::current_or_null() == nullptr) return; // after their reactor: they will be destroyed, not resumed
    while (!joiners_.empty()) static_cast<join_awaiter&>(joiners_.pop_front()).wake();
}

void task_group::join_awaiter::wake() noexcept {
    disarm_limits();
    reactor::make_ready(*this);
}

void task_group::join_awaiter::outlive_group() noexcept {
    if (reactor::current_or_null() == nullptr) return;
    fail(std::errc::operation_canceled);
    wake();
}

void task_group::note_failure(const std::exception_ptr& failure) noexcept {
    try {
        std::rethrow_exception(failure);
    } catch (const std::system_error& e) {
        if (stop_requested() && e.code() == std::errc::operation_canceled) return;
        report(e.what());
    } catch (const std::exception& e) {
        report(e.what());
    } catch (...) {
        report("an exception that is no std::exception");
    }
}

void task_group::report(const char* what) noexcept {
    ++failed_;
    if (reactor* here = reactor::current_or_null()) here->count_failed_task();
    if (failed_ > reported_one_by_one && !std::has_single_bit(failed_)) return;
    log_message(a_failure, name_, failed_, what);
}

void task_group::join_awaiter::await_resume() const {
    throw_if_failed("waiting for the tasks of a group"); // which may be gone by now
}

void spawn(task<> t) { reactor::current().root_group().spawn(std::move(t)); }

} // namespace corewire
