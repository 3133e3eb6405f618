#include <corewire/apps/pingpong/terminal.hh>

#include <corewire/apps/pingpong/report.hh>
#include <corewire/reactor/base/without_signals.hh>

#include <chrono>
#include <cstdio>
#include <unistd.h>

namespace corewire::pingpong {

progress_display::progress_display(const std::vector<progress_board>& boards, bool wanted) : boards_(boards) {
    if (!wanted || isatty(STDERR_FILENO) != 1) return;
    const without_signals here;
    thread_ = std::thread([this] { show_until_stopped(); });
}

void progress_display::stop() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
    std::fputs("\r\033[K", stderr);
}

void progress_display::show_until_stopped() {
    using namespace std::chrono_literals;
    const auto start = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, 1s, [this] { return stopping_; })) {
        std::uint64_t round_trips = 0;
        std::uint64_t errors = 0;
        for (const progress_board& b : boards_) {
            round_trips += b.round_trips.load(std::memory_order_relaxed);
            errors += b.errors.load(std::memory_order_relaxed);
        }
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
        std::fprintf(stderr, "\r\033[K%s", progress_line(elapsed.count(), round_trips, errors).c_str());
        std::fflush(stderr);
    }
}

} // namespace corewire::pingpong
