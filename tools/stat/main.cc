// cw-stat: which Corewire processes there are and what they are doing; alive, hung or dead.
#include "views.hh"

#include <corewire/apps/runtime/command_line.hh>
#include <corewire/apps/runtime/standard_output.hh>
#include <corewire/reactor/metrics/page_request.hh>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <dirent.h>
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

/// Of a process, whether there is such a file or not.
std::string page_path(const stat_options& options) {
    return fmt::format("{}/{}{}", options.folder, cw::metrics_page::file_prefix, options.pid);
}

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
    const std::string path = page_path(options);
    if (::access(path.c_str(), F_OK) == 0) return read({path, options.pid});
    fmt::print(stderr, "cw-stat: no Corewire process {} has a page in {}: `cw-stat` lists them\n", options.pid, options.folder);
    return std::nullopt;
}

void show_one(const cw::page_report& report, const stat_options& options, const cw::page_report* before) {
    if (!options.json) return print(cw::stat::process_text(report, before));
    cw::stat::process_json(report, print);
    print("\n");
}

int ask_for_levels(const stat_options& options) {
    const cw::page_answer answer = cw::ask_for_log_levels(page_path(options), options.log_levels, std::chrono::seconds{5});
    fmt::print(answer.granted ? stdout : stderr, "cw-stat: process {}: {}\n", options.pid, answer.text);
    return answer.granted ? 0 : 2;
}

/// No pages in a folder that is not there would be read as no processes.
bool can_be_listed(const std::string& folder) {
    DIR* listing = ::opendir(folder.c_str());
    if (listing != nullptr) return ::closedir(listing) == 0;
    fmt::print(stderr, "cw-stat: {}: {}\n", folder, std::strerror(errno));
    return false;
}

int run(const stat_options& options) {
    if (!can_be_listed(options.folder)) return 2;
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
        if (std::fflush(stdout) != 0 || options.watch <= 0 || round == options.count) return 0;
        before = std::move(one);
        const auto ns = static_cast<long long>(options.watch * 1e9);
        const timespec pause{ns / 1'000'000'000, ns % 1'000'000'000};
        ::nanosleep(&pause, nullptr);
    }
}

/// What makes no sense together would be ignored; null when all does.
const char* contradiction(const cw::command_line& command, const stat_options& options) {
    const bool levels = !options.log_levels.empty();
    if (levels && options.pid == 0) return "--log-level needs the PID of a process";
    if (levels && (options.collect || options.watch > 0)) return "--log-level goes with neither --collect nor --watch";
    if (options.collect && (options.pid != 0 || options.watch > 0)) return "--collect goes with neither a PID nor --watch";
    if (command.given("--count") && options.watch <= 0) return "--count goes with --watch";
    return nullptr;
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
    if (const char* why = contradiction(command, options)) return command.refuse(why);
    return cw::after_output("cw-stat", options.log_levels.empty() ? run(options) : ask_for_levels(options));
}
