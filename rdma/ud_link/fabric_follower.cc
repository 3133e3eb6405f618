#include <corewire/rdma/ud_link/fabric_follower.hh>

#include <corewire/reactor/loop/reactor.hh>

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <system_error>

namespace corewire {

fabric_follower::fabric_follower(std::shared_ptr<ud_device> device, reactor& on, std::function<void(const std::string&)> tell)
    : device_(std::move(device)), reactor_(on), tell_(std::move(tell)) {}

void fabric_follower::handle(const verbs::device_event& event) noexcept {
    if (event.device_gone()) next_.cancel();
    const bool asks_again = event.what == IBV_EVENT_CLIENT_REREGISTER || event.what == IBV_EVENT_SM_CHANGE;
    if (!asks_again || event.port != device_->options().port || !device_->asks_fabric()) return;
    pause_ = first_pause;
    ask();
}

void fabric_follower::ask() noexcept {
    next_.cancel();
    if (const int error = device_->renew_membership(); error != 0) return refused(error);
    asked_ = true;
    give_up_ = reactor_.now() + patience;
    wait_ = first_look;
    look();
}

/// What cannot be said for want of memory is counted nevertheless.
template <typename Sentence>
void fabric_follower::tell(Sentence sentence) noexcept {
    try {
        tell_(sentence());
    } catch (const std::exception&) {
    }
}

void fabric_follower::look() noexcept {
    const std::optional<int> heard = device_->membership_news();
    const time_point now = reactor_.now();
    if (heard == 0) {
        asked_ = false;
        pause_ = first_pause;
        if (std::exchange(out_, false))
            tell([this] { return fmt::format("a member of the InfiniBand group {} again", verbs::to_string(device_->group())); });
        return;
    }
    if (heard || now >= give_up_) return refused(heard.value_or(ETIMEDOUT));
    reactor_.timers().arm(next_, std::min(give_up_, now + wait_));
    wait_ = std::min(2 * wait_, duration{std::chrono::milliseconds{500}});
}

void fabric_follower::refused(int error) noexcept {
    asked_ = false;
    device_->count_refused_join();
    if (!std::exchange(out_, true))
        tell([this, error] {
            return fmt::format("not a member of the InfiniBand group {} any more: {} (does a subnet manager run?); it is asked again, "
                               "every {} s in the end",
                               verbs::to_string(device_->group()), std::generic_category().message(error),
                               std::chrono::duration_cast<std::chrono::seconds>(longest_pause).count());
        });
    reactor_.timers().arm(next_, reactor_.now() + pause_);
    pause_ = std::min(2 * pause_, longest_pause);
}

} // namespace corewire
