#include <corewire/apps/runtime/process_log.hh>

#include <corewire/apps/runtime/setup_error.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/loop/stall_detector.hh>

#include <CLI/CLI.hpp>
#include <sstream>

namespace corewire {

namespace {

constexpr log_event<> stalled{"stall", "stalled", log_level::warn, "a task has held its core too long"};

} // namespace

void add_log_options(CLI::App& to, log_settings& settings) {
    CLI::Option_group& group = *to.add_option_group("Log");
    group
        .add_option_function<std::string>(
            "--log-level",
            [&settings](const std::string& text) {
                if (const std::string wrong = log_levels{}.set(text); !wrong.empty()) throw CLI::ValidationError("--log-level", wrong);
                settings.levels = text;
            },
            "From which level on messages are written: debug, info, warn, error or off; of a module: tcp=debug,warn (default info)")
        ->type_name("LEVEL")
        ->take_last();
    group.add_option("--log-file", settings.file, "Append the log to this file instead of writing it to stderr")->type_name("FILE");
}

process_log::process_log(const log_settings& settings, unsigned shards) try
    : writer_({.shards = shards, .levels = settings.levels, .file = settings.file}), shards_(shards) {
} catch (const std::system_error& error) {
    throw setup_error(std::string("--log-file: ") + error.what());
}

void process_log::set_up(unsigned shard) {
    shards_[shard] = std::make_unique<shard_log>(writer_, writer_.ring(shard), reactor::current());
}

void process_log::register_stalls(metric_registry* registry) {
    stall_group_.emplace(registry);
    stall_group_->counter(
        "corewire_stalls_total", "Tasks that held their core too long, of all shards, as of the last report in the log.",
        [](const void* of) noexcept { return static_cast<const std::atomic<std::uint64_t>*>(of)->load(std::memory_order_relaxed); },
        &stalls_);
}

void process_log::tear_down(unsigned shard) noexcept { shards_[shard].reset(); }

void process_log::report(const stall_report& stall) {
    stalls_.fetch_add(1 + stall.unreported, std::memory_order_relaxed);
    std::istringstream text(to_string(stall));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    writer_.put(stalled, lines);
}

} // namespace corewire
