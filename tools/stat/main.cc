// cw-stat: which Corewire processes there are and what they are doing; alive, hung or dead.
#include "views.hh"

#include <corewire/apps/runtime/command_line.hh>
#include <corewire/reactor/metrics/page_request.hh>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>

namespace cw = corewire;

namespace {

struct stat_options {
    std::uint32_t pid = 0;
    bool json = false;
    bool collect = false;
    std::string log_levels;
    double watch = 0;
    unsigned count = 0;
    std::string folder = cw::metrics_page::default_folder;
};

std::optional<cw::page_report> read(const cw::page_file& file) {
    cw::page_report report;
    const cw::page_error error = cw::read_page(file.path, report);
    if (error == cw::page_error::none) return report;
    fmt::print(stderr, "cw-stat: {} {}\n", file.path, cw::name_of(error));
    return std::nullopt;
}

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

/// One page after the other: anybody may leave large ones, and many.
void show_all(const stat_options& options) {
    bool first = true;
    print(options.json ? "[" : cw::stat::list_heading());
    for (const cw::page_file& file : cw::find_pages(options.folder)) {
        const auto report = read(file);
        if (!report) continue;
        if (options.json) {
            if (!first) print(",");
            cw::stat::process_json(*report, print);
        } else {
            print(cw::stat::list_line(*report));
        }
        first = false;
    }
    if (options.json) print("]\n");
}

/// Of the process that was asked for; null, and it has been said why.
std::optional<cw::page_report> read_one(const stat_options& options) {
    const auto all = cw::find_pages(options.folder);
    const auto its = std::ranges::find(all, options.pid, &cw::page_file::pid);
    if (its != all.end()) return read(*its);
    fmt::print(stderr, "cw-stat: no Corewire process {} has a page in {}: `cw-stat` lists them\n", options.pid, options.folder);
    return std::nullopt;
}

void show_one(const cw::page_report& report, const stat_options& options, const cw::page_report* before) {
    if (!options.json) return print(cw::stat::process_text(report, before));
    cw::stat::process_json(report, print);
    print("\n");
}

int ask_for_levels(const stat_options& options) {
    const std::string path = fmt::format("{}/{}{}", options.folder, cw::metrics_page::file_prefix, options.pid);
    const cw::page_answer answer = cw::ask_for_log_levels(path, options.log_levels, std::chrono::seconds{5});
    fmt::print(answer.granted ? stdout : stderr, "cw-stat: process {}: {}\n", options.pid, answer.text);
    return answer.granted ? 0 : 2;
}

int run(const stat_options& options) {
    if (options.collect) {
        fmt::print("{} removed\n", cw::collect_dead_pages(0, options.folder));
        return 0;
    }
    std::optional<cw::page_report> before;
    for (unsigned round = 1;; ++round) {
        std::optional<cw::page_report> one;
        if (options.pid != 0 && !(one = read_one(options))) return 2;
        if (options.watch > 0 && !options.json && ::isatty(1)) fmt::print("\x1b[H\x1b[2J");
        if (one) show_one(*one, options, before ? &*before : nullptr);
        else show_all(options);
        std::fflush(stdout);
        if (options.watch <= 0 || round == options.count) return 0;
        before = std::move(one);
        const auto ns = static_cast<long long>(options.watch * 1e9);
        const timespec pause{ns / 1'000'000'000, ns % 1'000'000'000};
        ::nanosleep(&pause, nullptr);
    }
}

} // namespace

int main(int argc, char** argv) {
    cw::command_line command("cw-stat", "Lists the Corewire processes of this host, or shows one. Works on hung and dead ones too.");
    stat_options options;
    command.add_option("pid", options.pid, "Show this process: shards, drops, connections").type_name("PID");
    command.add_flag("--json", options.json, "Everything that the pages say, as JSON");
    command.add_option("--watch", options.watch, "Show again every so many seconds; a process with rates")
        .check_range(0.1, 3600.0).type_name("SECONDS");
    command.add_option("--count", options.count, "With --watch: end after so many times").check_range(1, 1'000'000).type_name("N");
    command.add_option("--log-level", options.log_levels, "Ask this process of yours for other log levels: debug, tcp=debug,warn, ...")
        .type_name("LEVEL");
    command.add_flag("--collect", options.collect, "Remove the pages of dead processes of this user");
    command.add_option("--folder", options.folder, "Where the pages are").type_name("PATH").capture_default_str();
    if (const auto status = command.parse(argc, argv)) return *status;
    if (options.log_levels.empty()) return run(options);
    if (options.pid == 0) return command.refuse("--log-level needs the PID of a process");
    return ask_for_levels(options);
}
