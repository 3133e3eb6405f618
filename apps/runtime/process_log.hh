// The log of a program: its options, its writer, and each shard's part of it (reactor/log).
//
// Made by app::run() before everything else and destroyed after it: what was said until then is written. set_up() and tear_down() are
// called on each shard's thread, first and last. Bounds: those of reactor/log.
#pragma once

#include <corewire/reactor/log/log_writer.hh>
#include <corewire/reactor/log/shard_log.hh>
#include <corewire/reactor/metrics/registry.hh>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace corewire {

struct stall_report;

struct log_settings {
    std::string levels = "info";
    std::string file{}; ///< empty: stderr
};

/// Adds --log-level and --log-file. `settings` must outlive `to`.
void add_log_options(CLI::App& to, log_settings& settings);

class process_log {
public:
    /// Throws setup_error if the file cannot be opened.
    process_log(const log_settings& settings, unsigned shards);

    void set_up(unsigned shard);
    void tear_down(unsigned shard) noexcept;
    /// On the stall detector's thread.
    void report(const stall_report& stall);
    /// On shard 0: the count of stalls, from here to there a metric.
    void register_stalls(metric_registry* registry);
    void forget_stalls() noexcept { stall_group_.reset(); }
    log_writer& writer() noexcept { return writer_; }

private:
    log_writer writer_;
    std::vector<std::unique_ptr<shard_log>> shards_;
    std::atomic<std::uint64_t> stalls_{0};
    std::optional<metric_group> stall_group_;
};

} // namespace corewire
