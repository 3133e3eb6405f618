#include <corewire/apps/runtime/process_log.hh>

#include <corewire/apps/runtime/command_line.hh>
#include <corewire/apps/runtime/setup_error.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/loop/stall_detector.hh>
#include <corewire/reactor/metrics/metrics_page.hh>
#include <corewire/reactor/shard/blocking_pool.hh>

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sstream>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <system_error>
#include <unistd.h>

namespace corewire {

namespace {

constexpr log_event<log_text<200>> levels_read{"log", "levels_read", log_level::info, "levels are now {}"};
constexpr log_event<log_text<200>> request_refused{"log", "request_refused", log_level::warn,
                                                   "asked for other levels: {}; they stay as they are"};
constexpr log_event<log_text<200>> levels_kept{"log", "levels_kept", log_level::warn, "SIGUSR1: {}; the levels stay as they are"};
constexpr log_event<log_text<200>> calls_still_run{"task", "calls_still_run", log_level::warn, "{}"};
constexpr log_event<> stalled{"stall", "stalled", log_level::warn, "a task has held its core too long"};

} // namespace

void add_log_options(command_line& to, log_settings& settings) {
    command_line group = to.add_option_group("Log");
    group
        .add_option_function<std::string>(
            "--log-level",
            [&settings](const std::string& text) {
                if (const std::string wrong = log_levels{}.set(log_levels_given(text)); !wrong.empty())
                    throw option_refused(wrong);
                settings.levels = text;
            },
            "From which level on messages are written: debug, info, warn, error or off; of a module: tcp=debug,warn; "
            "@FILE: read from there, and again at SIGUSR1 (default info)")
        .type_name("LEVEL")
        .take_last();
    group.add_option("--log-file", settings.file, "Append the log to this file instead of writing it to stderr").type_name("FILE");
}

std::string log_levels_given(const std::string& given) {
    if (!given.starts_with('@')) return given;
    const unique_fd file(::open(given.c_str() + 1, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    std::array<char, 4096> bytes;
    const ssize_t size = file ? ::read(file.get(), bytes.data(), bytes.size()) : -1;
    if (size < 0) throw setup_error("--log-level " + given + ": " + std::generic_category().message(errno));
    const std::string_view text(bytes.data(), static_cast<std::size_t>(size));
    return std::string(text.substr(0, text.find('\n')));
}

level_signal::level_signal(std::function<void()> on_signal)
    : on_signal_(std::move(on_signal)), end_(::eventfd(0, EFD_CLOEXEC)) {
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGUSR1);
    signals_.reset(::signalfd(-1, &ours, SFD_NONBLOCK | SFD_CLOEXEC));
    if (!signals_ || !end_) throw std::system_error(errno, std::generic_category(), "a descriptor for SIGUSR1");
    thread_ = std::thread([this] { listen(); });
}

level_signal::~level_signal() {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(end_.get(), &one, sizeof one));
    thread_.join();
    signalfd_siginfo info; // what nobody has heard must not end the process when the signal is let in again
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {}
}

void level_signal::listen() noexcept {
    ::pthread_setname_np(::pthread_self(), "log-level");
    for (;;) {
        std::array<pollfd, 2> both{{{signals_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}}};
        if (::poll(both.data(), both.size(), -1) < 0) continue;
        if (both[1].revents != 0) return;
        signalfd_siginfo info;
        if (::read(signals_.get(), &info, sizeof info) == sizeof info) on_signal_();
    }
}

process_log::process_log(const log_settings& settings, unsigned shards) try
    : levels_given_(settings.levels), writer_({.shards = shards, .levels = log_levels_given(settings.levels), .file = settings.file}),
      shards_(shards) {
} catch (const std::system_error& error) {
    throw setup_error(std::string("--log-file: ") + error.what());
}

std::string process_log::set_levels(std::string_view text) {
    std::string wrong = writer_.levels().set(text);
    if (wrong.empty()) writer_.from_thread(levels_read, writer_.levels().text());
    return wrong;
}

void process_log::take_requests(metrics_page* page) noexcept {
    const std::lock_guard lock(page_mutex_);
    if (page_ != nullptr) page_->take_requests(false);
    page_ = page;
    if (page_ != nullptr) page_->take_requests(true);
}

void process_log::on_signal() {
    {
        const std::lock_guard lock(page_mutex_);
        const auto wanted = page_ != nullptr ? page_->next_request() : std::nullopt;
        if (wanted) {
            const std::string wrong = set_levels(*wanted);
            if (!wrong.empty()) writer_.from_thread(request_refused, wrong);
            page_->answer_request(wrong.empty(), wrong.empty() ? "levels are now " + writer_.levels().text() : wrong);
            return;
        }
    }
    read_levels_again();
}

void process_log::read_levels_again() {
    std::string wrong;
    try {
        wrong = set_levels(log_levels_given(levels_given_));
    } catch (const std::exception& error) {
        wrong = error.what();
    }
    if (!wrong.empty()) writer_.from_thread(levels_kept, wrong);
}

void process_log::set_up(unsigned shard) {
    shards_[shard] = std::make_unique<shard_log>(writer_, writer_.ring(shard), reactor::current());
}

void process_log::tear_down(unsigned shard) noexcept { shards_[shard].reset(); }

void process_log::report(const blocking_remainder& left) { writer_.from_thread(calls_still_run, to_string(left)); }

void process_log::report(const stall_report& stall) {
    std::istringstream text(to_string(stall));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    writer_.put(stalled, lines);
}

} // namespace corewire
