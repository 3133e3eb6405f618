#include <corewire/reactor/loop/sleeper.hh>

#include <algorithm>
#include <ctime>
#include <sys/prctl.h>

namespace corewire {

exact_sleep::exact_sleep() noexcept : slack_before_(::prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)) {
    ::prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
}

exact_sleep::~exact_sleep() { ::prctl(PR_SET_TIMERSLACK, slack_before_ > 0 ? slack_before_ : 0, 0, 0, 0); }

void sleeper::watch(int fd) noexcept {
    if (fd < 0) return;
    if (count_ == max_sources) {
        too_many_ = true;
        return;
    }
    sources_[count_++] = {fd, POLLIN, 0};
}

void sleeper::until(time_point deadline, time_point now) noexcept {
    duration left = deadline == never ? duration::max() : std::max(deadline - now, duration{0});
    if (too_many_) left = std::min<duration>(left, std::chrono::milliseconds{1});
    const timespec timeout{.tv_sec = left.count() / 1'000'000'000, .tv_nsec = left.count() % 1'000'000'000};
    ::ppoll(sources_.data(), count_, left == duration::max() ? nullptr : &timeout, nullptr);
}

} // namespace corewire
