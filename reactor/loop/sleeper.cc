#include <corewire/reactor/loop/sleeper.hh>

#include <algorithm>
#include <ctime>

namespace corewire {

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
