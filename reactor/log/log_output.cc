#include <corewire/reactor/log/log_output.hh>

#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <spdlog/details/log_msg.h>
#include <spdlog/pattern_formatter.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace corewire {

namespace {

constexpr std::size_t no_shard = SIZE_MAX;

/// %* in the pattern: the shard, which travels as the message's thread.
class shard_flag final : public spdlog::custom_flag_formatter {
public:
    void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& to) override {
        const std::string text = message.thread_id == no_shard ? "-" : fmt::format("s{}", message.thread_id);
        to.append(text.data(), text.data() + text.size());
    }
    std::unique_ptr<spdlog::custom_flag_formatter> clone() const override { return std::make_unique<shard_flag>(); }
};

spdlog::level::level_enum spdlog_level(log_level level) noexcept {
    switch (level) {
    case log_level::debug: return spdlog::level::debug;
    case log_level::info: return spdlog::level::info;
    case log_level::warn: return spdlog::level::warn;
    case log_level::error: return spdlog::level::err;
    case log_level::off: break;
    }
    return spdlog::level::off;
}

int open_for_appending(const std::string& file) noexcept {
    return ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
}

} // namespace

struct log_output::layout {
    layout() : formatter("", spdlog::pattern_time_type::utc) {
        formatter.add_flag<shard_flag>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%fZ %l %* %n: %v");
    }
    spdlog::pattern_formatter formatter;
    spdlog::memory_buf_t line;
};

log_output::log_output(std::string file) : file_(std::move(file)), fd_(STDERR_FILENO), layout_(std::make_unique<layout>()) {
    if (file_.empty()) return;
    own_.reset(open_for_appending(file_));
    if (!own_) throw std::system_error(errno, std::generic_category(), "the log file " + file_);
    fd_ = own_.get();
}

log_output::log_output(line_writer to) : to_(std::move(to)), layout_(std::make_unique<layout>()) {}

log_output::~log_output() = default;

bool log_output::write(wall_time at, log_level level, std::string_view module, std::optional<unsigned> shard,
                       std::string_view message) {
    spdlog::details::log_msg line(at, {}, {module.data(), module.size()}, spdlog_level(level), {message.data(), message.size()});
    line.thread_id = shard ? *shard : no_shard;
    layout_->line.clear();
    layout_->formatter.format(line, layout_->line);
    const std::string_view text(layout_->line.data(), layout_->line.size());
    return to_ ? to_(text) : write_all(text);
}

/// Waits for room before it writes, since the descriptor may be one that blocks.
bool log_output::write_all(std::string_view line) noexcept {
    while (!line.empty()) {
        if (!wait_until_writable()) return false;
        const ssize_t n = ::write(fd_, line.data(), line.size());
        if (n < 0 && errno != EINTR && errno != EAGAIN) return false;
        if (n > 0) line.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
}

bool log_output::wait_until_writable() noexcept {
    for (;;) {
        pollfd one{fd_, POLLOUT, 0};
        const int ready = ::poll(&one, 1, patience_ == 0 ? 0 : 100);
        if (ready > 0) return (one.revents & (POLLERR | POLLNVAL)) == 0;
        if (ready < 0 && errno != EINTR) return false;
        if (hurry_.load(std::memory_order_relaxed)) {
            if (patience_ == 0) return false;
            --patience_;
        }
    }
}

void log_output::follow_the_name() noexcept {
    if (file_.empty()) return;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_look_) return;
    next_look_ = now + std::chrono::seconds{1};
    struct stat by_name {}, ours {};
    if (::stat(file_.c_str(), &by_name) == 0 && ::fstat(fd_, &ours) == 0 && by_name.st_ino == ours.st_ino &&
        by_name.st_dev == ours.st_dev)
        return;
    unique_fd anew(open_for_appending(file_));
    if (!anew) return; // the old one is better than none
    own_ = std::move(anew);
    fd_ = own_.get();
}

} // namespace corewire
