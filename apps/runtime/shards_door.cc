#include <corewire/apps/runtime/shards_door.hh>

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <system_error>

namespace corewire {

void shards_door::open(runtime& shards) noexcept {
    const std::lock_guard lock(mutex_);
    shards_ = &shards;
    state_ = state::open;
    changed_.notify_all();
}

void shards_door::close() noexcept {
    std::unique_lock lock(mutex_);
    state_ = state::closed;
    changed_.notify_all();
    changed_.wait(lock, [this] { return inside_ == 0; });
    shards_ = nullptr;
}

void shards_door::wait_for_opening() noexcept {
    const std::lock_guard lock(mutex_);
    state_ = state::not_yet;
}

runtime& shards_door::enter() {
    CW_ASSERT(reactor::current_or_null() == nullptr, "submit_from_thread() on a shard: use submit_to()");
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return state_ != state::not_yet; });
    if (state_ == state::closed)
        throw std::system_error(std::make_error_code(std::errc::operation_canceled), "submit_from_thread() after the end of run()");
    ++inside_;
    return *shards_;
}

void shards_door::leave() noexcept {
    const std::lock_guard lock(mutex_);
    if (--inside_ == 0) changed_.notify_all();
}

} // namespace corewire
