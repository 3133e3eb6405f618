#include <corewire/reactor/loop/stall_detector.hh>

#include <corewire/reactor/base/backtrace.hh>
#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/base/without_signals.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/loop/tsc_clock.hh>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <execinfo.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <span>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

namespace corewire {

namespace {

constexpr int max_frames = 64;
constexpr int handler_frames = 2; ///< on_signal() and the kernel's way back from it
constexpr auto patience = std::chrono::milliseconds{250};

int stall_signal() noexcept { return SIGRTMIN + 4; }

} // namespace

/// Written by the thread's signal handler. `state` says whose turn it is.
struct stall_detector::capture {
    enum class step : int { idle, asked, written };
    std::atomic<step> state{step::idle};
    std::array<void*, max_frames> frames{};
    int depth = 0;
    time_point at{};
    const run_queue* group = nullptr;
};

struct stall_detector::watched {
    reactor* loop = nullptr;
    pid_t thread = 0;
    unique_fd schedstat;
    unique_fd stat;
    time_point turn{};            ///< the one that was looked at last
    duration delay_before{};      ///< all waiting for a CPU, as of the look before that turn was first seen
    duration delay_last{};
    bool reported = false;        ///< this turn
    capture written;

    /// How long this thread has waited for a CPU in its life: proc(5), schedstat, the second number.
    duration run_delay() const noexcept {
        std::array<char, 96> text{};
        if (!schedstat || ::pread(schedstat.get(), text.data(), text.size() - 1, 0) <= 0) return {};
        char* second = nullptr;
        std::strtoull(text.data(), &second, 10);
        return duration{static_cast<std::int64_t>(std::strtoull(second, nullptr, 10))};
    }
    /// It could run, if it were given a CPU.
    bool runnable() const noexcept {
        std::array<char, 256> text{};
        if (!stat || ::pread(stat.get(), text.data(), text.size() - 1, 0) <= 0) return false;
        const std::string_view all(text.data());
        const std::size_t name_ends = all.rfind(") ");
        return name_ends != std::string_view::npos && all.substr(name_ends + 2, 1) == "R";
    }
};

/// On the watched thread, wherever it is. Only what a handler may do: the unwinder takes no lock and no memory once it is loaded.
void stall_detector::on_signal(int) noexcept {
    capture* out = mine_;
    if (out == nullptr || out->state.load(std::memory_order_acquire) != capture::step::asked) return;
    const int error_before = errno;
    out->at = real_clock().now();
    out->group = detail::running_queue;
    out->depth = ::backtrace(out->frames.data(), max_frames);
    out->state.store(capture::step::written, std::memory_order_release);
    errno = error_before;
}

stall_detector::stall_detector(stall_options options) : options_(std::move(options)) {
    if (!options_.report)
        options_.report = [](const stall_report& r) { std::fputs(to_string(r).c_str(), stderr); };
    void* first = nullptr;
    ::backtrace(&first, 1); // loads the unwinder: a handler may not
    static_cast<void>(real_clock());
    struct sigaction action {};
    action.sa_handler = [](int n) { on_signal(n); };
    action.sa_flags = SA_RESTART;
    if (::sigaction(stall_signal(), &action, nullptr) != 0)
        throw std::system_error(errno, std::generic_category(), "the stall detector's signal handler");
    const without_signals here;
    thread_ = std::thread([this] { keep_looking(); });
}

stall_detector::~stall_detector() {
    {
        const std::lock_guard lock(mutex_);
        CW_ASSERT(watched_.empty(), "a stall detector is destroyed while it watches");
        stopping_ = true;
    }
    wake_.notify_one();
    if (resting_.exchange(0) != 0) resting_.notify_one();
    thread_.join();
}

void stall_detector::watch(reactor& loop) {
    auto one = std::make_unique<watched>();
    one->loop = &loop;
    one->thread = static_cast<pid_t>(::syscall(SYS_gettid));
    const std::string folder = fmt::format("/proc/self/task/{}/", one->thread);
    one->schedstat.reset(::open((folder + "schedstat").c_str(), O_RDONLY | O_CLOEXEC));
    one->stat.reset(::open((folder + "stat").c_str(), O_RDONLY | O_CLOEXEC));
    one->delay_last = one->run_delay();
    mine_ = &one->written;
    loop.set_stall_detector(this);
    {
        const std::lock_guard lock(mutex_);
        watched_.push_back(std::move(one));
    }
    woke_up();
}

void stall_detector::unwatch(reactor& loop) noexcept {
    const std::lock_guard lock(mutex_);
    loop.set_stall_detector(nullptr);
    std::erase_if(watched_, [&](const auto& one) { return one->loop == &loop; });
    mine_ = nullptr;
}

/// The reactor has written its turn; then comes the fence, then the look. rest() does it the other way round.
void stall_detector::woke_up() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (resting_.load(std::memory_order_relaxed) != 0 && resting_.exchange(0) != 0) resting_.notify_one();
}

bool stall_detector::everybody_sleeps() {
    return std::all_of(watched_.begin(), watched_.end(), [](const auto& one) { return one->loop->turn_began() == never; });
}

/// While nobody turns. `mutex_` is not held: watch() may come.
void stall_detector::rest() noexcept {
    resting_.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    {
        const std::lock_guard lock(mutex_);
        if (stopping_ || !everybody_sleeps()) return resting_.store(0, std::memory_order_relaxed);
    }
    resting_.wait(1);
}

void stall_detector::keep_looking() {
    ::pthread_setname_np(::pthread_self(), "stall-detector");
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        const time_point now = real_clock().now();
        time_point next = never;
        for (const auto& one : watched_) next = std::min(next, look_at(*one, now));
        if (next == never) {
            lock.unlock();
            rest();
            lock.lock();
        } else {
            wake_.wait_for(lock, std::max<duration>(next - real_clock().now(), std::chrono::microseconds{100}));
        }
    }
}

/// When to look again: `never` at one that sleeps.
time_point stall_detector::look_at(watched& one, time_point now) {
    const time_point turn = one.loop->turn_began();
    if (turn == never) return never;
    const duration delay = one.run_delay();
    if (turn != one.turn) {
        one.turn = turn;
        one.reported = false;
        one.delay_before = one.delay_last; // what it waited since the last look may have been in this turn
    }
    one.delay_last = delay;
    if (one.reported) return now + options_.limit;
    const duration held = now - turn - (delay - one.delay_before);
    if (held < options_.limit) return std::max(now, turn + options_.limit + (delay - one.delay_before));

    const bool answered = ask(one);
    if (one.loop->turn_began() != turn && !answered) return now + options_.limit;
    // While it answered it had a CPU, so that what it had waited for that is known now.
    one.delay_last = one.run_delay();
    const time_point until = answered ? one.written.at : real_clock().now();
    const duration really = until - turn - (one.delay_last - one.delay_before);
    if (really < options_.limit || (!answered && one.runnable())) return now + options_.limit / 2;
    one.reported = true;
    note(one, really, answered);
    return now + options_.limit;
}

/// Has the thread write down where it is. False: it did not, in time.
bool stall_detector::ask(watched& one) {
    one.written.state.store(capture::step::asked, std::memory_order_release);
    if (::syscall(SYS_tgkill, ::getpid(), one.thread, stall_signal()) != 0) return false;
    const time_point give_up = real_clock().now() + patience;
    while (one.written.state.load(std::memory_order_acquire) != capture::step::written) {
        if (real_clock().now() >= give_up) {
            auto asked = capture::step::asked; // an answer that comes later is none
            return !one.written.state.compare_exchange_strong(asked, capture::step::idle);
        }
        ::usleep(50);
    }
    return true;
}

void stall_detector::note(watched& one, duration held, bool answered) {
    stalls_.fetch_add(1, std::memory_order_relaxed);
    const time_point now = real_clock().now();
    if (now < next_report_) {
        ++unreported_;
        return;
    }
    next_report_ = now + options_.between_reports;
    stall_report report{.shard = one.loop->shard(), .group = "?", .held = held, .frames = {}, .unreported = unreported_};
    unreported_ = 0;
    if (answered) {
        if (one.written.group != nullptr) report.group = one.written.group->name;
        const auto depth = static_cast<std::size_t>(std::max(one.written.depth, handler_frames));
        report.frames = describe_frames(std::span<void* const>(one.written.frames).first(depth).subspan(handler_frames));
    }
    options_.report(report);
}

std::string to_string(const stall_report& r) {
    std::string text = fmt::format("shard {}: a task of group '{}' has held the core for {:.1f} ms", r.shard, r.group,
                                   static_cast<double>(r.held.count()) / 1e6);
    if (r.unreported != 0) text += fmt::format(" ({} more since the last report)", r.unreported);
    text += r.frames.empty() ? "; its thread does not answer\n" : "\n";
    for (std::size_t i = 0; i < r.frames.size(); ++i) text += fmt::format("    #{} {}\n", i, r.frames[i]);
    return text;
}

} // namespace corewire
