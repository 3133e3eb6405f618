#include <corewire/reactor/shard/external_inbox.hh>

#include <corewire/reactor/loop/reactor.hh>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

namespace corewire {

/// With the mutex held, so that the reactor is still there.
void external_inbox::push(std::unique_ptr<external_call> call) noexcept {
    queue_.push_back(std::move(call));
    any_.store(true, std::memory_order_release);
    home_->wake_if_asleep();
}

void external_inbox::put(std::unique_ptr<external_call> call, duration patience) {
    constexpr duration no_clock_gets_there = std::chrono::hours{24} * 365;
    std::unique_lock lock(mutex_);
    if (!has_room()) {
        ++statistics_.waited;
        const auto room = [this] { return has_room(); };
        if (patience >= no_clock_gets_there) {
            room_.wait(lock, room);
        } else if (!room_.wait_for(lock, patience, room)) {
            ++statistics_.refused;
            throw std::system_error(ETIMEDOUT, std::generic_category(), "submit_from_thread: the shard has had no room for another call");
        }
    }
    if (!open_) {
        ++statistics_.refused;
        throw std::system_error(ECANCELED, std::generic_category(), "submit_from_thread: the runtime does not run");
    }
    ++statistics_.accepted;
    push(std::move(call));
}

void external_inbox::bring_back(std::unique_ptr<external_call> call) noexcept {
    const std::lock_guard lock(mutex_);
    if (home_ != nullptr) push(std::move(call));
}

external_inbox_statistics external_inbox::statistics() const {
    const std::lock_guard lock(mutex_);
    return statistics_;
}

void external_inbox::open(reactor& home) noexcept {
    const std::lock_guard lock(mutex_);
    home_ = &home;
    open_ = true;
}

void external_inbox::run_all() noexcept {
    external_call_queue taken;
    {
        const std::lock_guard lock(mutex_);
        taken.swap(queue_);
        any_.store(false, std::memory_order_relaxed);
    }
    room_.notify_all();
    while (!taken.empty()) {
        std::unique_ptr<external_call> call = taken.pop_front();
        external_call& one = *call;
        one.run(std::move(call));
    }
}

void external_inbox::close() noexcept {
    {
        const std::lock_guard lock(mutex_);
        open_ = false;
    }
    room_.notify_all();
}

void external_inbox::end() noexcept {
    close();
    external_call_queue left;
    const std::lock_guard lock(mutex_);
    home_ = nullptr;
    left.swap(queue_);
    any_.store(false, std::memory_order_relaxed);
}

} // namespace corewire
