// The log of a program: its options, its writer, and each shard's part of it (reactor/log).
//
// Made by app::run() before everything else and destroyed after it: what was said until then is written. set_up() and tear_down() are
// called on each shard's thread, first and last. Bounds: those of reactor/log.
#pragma once

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/log/log_writer.hh>
#include <corewire/reactor/log/shard_log.hh>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace corewire {

class command_line;

class metrics_page;
struct blocking_remainder;
struct stall_report;

struct log_settings {
    std::string levels = "info"; ///< or @FILE: what stands in the first line of that file, now and at each SIGUSR1
    std::string file{}; ///< empty: stderr
};

/// The levels that `given` means: itself, or what stands in the file behind an @ (its first line, at most 4 KiB). Throws setup_error.
std::string log_levels_given(const std::string& given);

/// Adds --log-level and --log-file. `settings` must outlive `to`.
void add_log_options(command_line& to, log_settings& settings);

/// Hears SIGUSR1, which every thread of the process has blocked (app's constructor), on a thread of its own.
class level_signal {
public:
    /// `on_signal` is called on that thread. Throws std::system_error.
    explicit level_signal(std::function<void()> on_signal);
    ~level_signal();
    level_signal(const level_signal&) = delete;
    level_signal& operator=(const level_signal&) = delete;

private:
    void listen() noexcept;
    std::function<void()> on_signal_;
    unique_fd signals_, end_;
    std::thread thread_;
};

class process_log {
public:
    /// Throws setup_error if the file cannot be opened.
    process_log(const log_settings& settings, unsigned shards);

    void set_up(unsigned shard);
    void tear_down(unsigned shard) noexcept;
    /// On the stall detector's thread.
    void report(const stall_report& stall);
    /// When no shard runs any more.
    void report(const blocking_remainder& left);
    log_writer& writer() noexcept { return writer_; }
    /// Instead of the present levels. From any thread. Returns what is wrong with the text; empty: taken, and said in the log.
    std::string set_levels(std::string_view text);
    /// At SIGUSR1 a request in this page goes before the levels given. Null: there is none any more.
    void take_requests(metrics_page* page) noexcept;

private:
    void on_signal();
    void read_levels_again();
    std::mutex page_mutex_;
    metrics_page* page_ = nullptr;
    std::string levels_given_;
    log_writer writer_;
    std::vector<std::unique_ptr<shard_log>> shards_;
    level_signal signal_{[this] { on_signal(); }}; ///< last: its thread uses the others
};

} // namespace corewire
