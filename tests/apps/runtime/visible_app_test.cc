// A program seen from outside: its page comes and goes, those of the dead are collected, a shard that hangs is shown as last known.
// ctest: timeout=120 processors=2
#include <corewire/apps/runtime/app.hh>
#include <corewire/apps/runtime/inspection/inspection.hh>
#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/log/log_writer.hh>
#include <corewire/reactor/log/shard_log.hh>
#include <corewire/reactor/metrics/metrics_page.hh>
#include <corewire/reactor/metrics/page_request.hh>
#include <corewire/reactor/shard/run_blocking.hh>
#include <corewire/reactor/shard/this_shard.hh>
#include <corewire/reactor/task/sleep.hh>

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include <arpa/inet.h>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iostream>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace corewire;
namespace fs = std::filesystem;

namespace {

struct folder_of_pages {
    fs::path path = fs::temp_directory_path() / fmt::format("corewire-visible-{}", ::getpid());
    folder_of_pages() { fs::create_directory(path); }
    ~folder_of_pages() { fs::remove_all(path); }
    std::size_t files() const { return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), {})); }
};

/// Runs an app in a child that ends without a destructor, as after _exit() in a program of one's own. Its exit code.
int run_in_child(const fs::path& pages, std::vector<std::string> arguments, std::function<task<>()> body) {
    std::cout.flush();
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
        corewire::app program("prog", "A program under test");
        program.inspection_settings().page_folder = pages.string();
        std::vector<char*> argv{const_cast<char*>("prog")};
        for (std::string& a : arguments) argv.push_back(a.data());
        ::_exit(program.run_on_every_core(static_cast<int>(argv.size()), argv.data(), std::move(body)));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// The page of a process that is gone and published last `age` ago.
fs::path leave_a_dead_page(const fs::path& folder, std::uint64_t age) {
    const pid_t child = ::fork();
    if (child == 0) {
        const auto* left = new metrics_page("crasher", "wire", 1, folder.string());
        auto* head = reinterpret_cast<page::section_header*>(left->section(0));
        head->published = boot_time_ns() - age;
        reinterpret_cast<page::header*>(left->section(0) - page::header_size)->created = head->published;
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    return folder / fmt::format("corewire-{}", child);
}

task<> nothing() { co_return; }

std::uint16_t free_port() {
    const unique_fd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    BOOST_REQUIRE(::bind(probe.get(), reinterpret_cast<sockaddr*>(&at), size) == 0);
    BOOST_REQUIRE(::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
    return ntohs(at.sin_port);
}

/// Blocks until the whole answer is there.
std::string scrape(std::uint16_t port) {
    const unique_fd peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(port);
    if (::connect(peer.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) return {};
    const std::string request = "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    if (::send(peer.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return {};
    std::string all;
    char bytes[4096];
    for (ssize_t n; (n = ::read(peer.get(), bytes, sizeof bytes)) > 0;) all.append(bytes, static_cast<std::size_t>(n));
    return all;
}

/// The line of a series, or nothing.
std::string line_of(const std::string& page, const std::string& series) {
    const std::size_t at = page.find("\n" + series + " ");
    return at == page.npos ? "" : page.substr(at + 1, page.find('\n', at + 1) - at - 1);
}

// Of the child that hangs.
std::atomic<bool> hang{false}, hung{false}, release{false};

task<> hangs_when_told() {
    while (!hang) co_await yield();
    hung = true;
    release.wait(false); // a task that blocks its shard
}

/// Three scrapes, the last two of them while the other shard hangs, each into a file.
task<> scrapes(fs::path folder, std::uint16_t port) {
    const auto blocking = [port] { return scrape(port); };
    for (int number = 1; number <= 3; ++number) {
        auto call = run_blocking(blocking);
        const std::string page = co_await call;
        std::ofstream(folder / std::to_string(number)) << page;
        hang = true;
        while (!hung) co_await yield();
    }
    release = true;
    release.notify_all();
}

std::string text_of(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
}

constexpr log_event<unsigned> step{"test", "step", log_level::info, "step {}"};

/// Says 1 while the file says "off", then has it read again: as "test=info,off", and as nonsense.
task<> changes_its_levels(fs::path file) {
    const log_levels& levels = std::as_const(*shard_log::current_or_null()).writer().levels();
    log_message(step, 1u);
    std::ofstream(file) << "test=info,off\n";
    const std::uint32_t before = levels.generation();
    ::kill(::getpid(), SIGUSR1);
    while (levels.generation() == before) co_await yield();
    log_message(step, 2u);
}

constexpr log_event<unsigned> fine_step{"test", "fine_step", log_level::debug, "fine step {}"};

/// Asks itself, as cw-stat would, and writes down what it hears.
task<> is_asked_for_levels(fs::path folder) {
    std::ofstream heard(folder / "heard");
    const auto page = (folder / fmt::format("corewire-{}", ::getpid())).string();
    unsigned number = 0;
    for (const char* levels : {"test=debug", "off", "loudly,\x1b[31m", "debug"}) {
        auto call = run_blocking([page, levels] { return ask_for_log_levels(page, levels, std::chrono::minutes{1}); });
        const page_answer answer = co_await call;
        heard << (answer.granted ? "granted: " : "refused: ") << answer.text << "\n";
        log_message(fine_step, ++number);
    }
}

corewire::app* its_app = nullptr;
task<> sets_its_levels() {
    log_message(fine_step, 1u);
    its_app->set_log_levels("test=debug,off");
    log_message(fine_step, 2u);
    bool thrown = false;
    try {
        its_app->set_log_levels("loudly");
    } catch (const std::invalid_argument&) {
        thrown = true;
    }
    log_message(fine_step, thrown ? 3u : 0u);
    co_return;
}

/// Nonsense in the file, then no file: each time the program says so, and writes on as before.
task<> keeps_its_levels(fs::path file, fs::path log) {
    const log_levels& levels = std::as_const(*shard_log::current_or_null()).writer().levels();
    const std::uint32_t before = levels.generation();
    for (unsigned n = 1; n <= 2; ++n) {
        if (n == 1) std::ofstream(file) << "test=loudly,\x1b[31m=off\n";
        else fs::remove(file);
        ::kill(::getpid(), SIGUSR1);
        for (std::string said; std::count(said.begin(), said.end(), '\n') < 2 * n - 1;) {
            co_await yield();
            said = text_of(log);
        }
        log_message(step, n);
        for (std::string said; std::count(said.begin(), said.end(), '\n') < 2 * n;) {
            co_await yield();
            said = text_of(log);
        }
    }
    if (levels.generation() != before) throw std::runtime_error("the levels have changed");
}

/// Ends while a helper is in a call that nobody waits for any more, and that returns when the log tells of it; after a minute at most.
task<> leaves_a_call_behind(fs::path log) {
    static std::atomic<bool> begun;
    static fs::path where;
    where = std::move(log);
    const auto hangs = [] {
        begun = true;
        const auto enough = std::chrono::steady_clock::now() + std::chrono::minutes{1};
        while (text_of(where).find("of run_blocking()") == std::string::npos && std::chrono::steady_clock::now() < enough)
            std::this_thread::sleep_for(std::chrono::milliseconds{1});
    };
    const auto given_up = [](auto what, stop_token until) -> task<> {
        auto call = run_blocking(what, {.stop = until});
        try {
            co_await call;
        } catch (const std::system_error&) {
        }
    };
    stop_source stop;
    spawn(given_up(hangs, stop.token()));
    while (!begun) co_await yield();
    stop.request_stop();
    co_await yield(); // it goes before the source of its stop does
}

/// Keeps its core until the log says so; ten seconds at most.
task<> holds_its_core(fs::path log) {
    const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds{10};
    while (text_of(log).find("stall: ") == std::string::npos && std::chrono::steady_clock::now() < enough) {}
    co_return;
}

} // namespace

BOOST_AUTO_TEST_SUITE(visible_app)

BOOST_AUTO_TEST_CASE(the_page_goes_when_the_run_ends_however_the_process_does_afterwards) {
    const folder_of_pages pages;
    BOOST_TEST(run_in_child(pages.path, {"--net=kernel", "--cores=1"}, nothing) == 0);
    BOOST_TEST(pages.files() == 0u);
}

BOOST_AUTO_TEST_CASE(pages_of_the_dead_go_when_a_program_starts_ten_minutes_later) {
    if (boot_time_ns() < 700'000'000'000) {
        std::cout << "SKIPPED: this machine has not been up for twelve minutes\n";
        return;
    }
    const folder_of_pages pages;
    const fs::path old = leave_a_dead_page(pages.path, 601'000'000'000);
    const fs::path young = leave_a_dead_page(pages.path, 500'000'000'000);
    BOOST_REQUIRE(fs::exists(old));
    BOOST_TEST(run_in_child(pages.path, {"--net=kernel", "--cores=1"}, nothing) == 0);
    BOOST_TEST(!fs::exists(old));
    BOOST_TEST(fs::exists(young));
}

BOOST_AUTO_TEST_CASE(a_shard_that_hangs_is_shown_as_it_was_and_counted) {
    if (::sysconf(_SC_NPROCESSORS_ONLN) < 2) {
        std::cout << "SKIPPED: two cores are needed\n";
        return;
    }
    const folder_of_pages pages;
    const folder_of_pages* const folder = &pages;
    const std::uint16_t port = free_port();
    const auto body = [folder, port] { return this_shard::id() == 0 ? scrapes(folder->path, port) : hangs_when_told(); };
    BOOST_TEST(run_in_child(pages.path, {"--net=kernel", "--cores=2", "--stall-ms=0", "--metrics-port", std::to_string(port)}, body) == 0);
    const std::string alive = text_of(pages.path / "1"), second = text_of(pages.path / "2"), third = text_of(pages.path / "3");
    BOOST_TEST(line_of(alive, "corewire_scrape_stale_total{shard=\"0\"}") == "corewire_scrape_stale_total{shard=\"0\"} 0");
    // A page has the count of before its own scrape: the third one that the second was stale. (The first may be, on a slow machine.)
    const auto stale = [](const std::string& page) {
        const std::string series = "corewire_scrape_stale_total{shard=\"0\"}", line = line_of(page, series);
        return line.size() <= series.size() ? -1 : std::stoi(line.substr(series.size()));
    };
    BOOST_TEST(stale(second) >= 0);
    BOOST_TEST(stale(third) == stale(second) + 1);
    const std::string turns = "corewire_reactor_turns_total{shard=\"1\"}";
    BOOST_TEST(line_of(second, turns).size() > turns.size());
    BOOST_TEST(line_of(second, turns) == line_of(third, turns)); // as it was
    BOOST_TEST(line_of(second, "corewire_scrapes_total{shard=\"0\"}") != line_of(third, "corewire_scrapes_total{shard=\"0\"}"));
    for (const char* series : {"corewire_file_requests_total{shard=\"0\"}", "corewire_scheduling_shares{shard=\"1\",group=\"main\"}",
                               "corewire_stalls_total{shard=\"0\"}", "corewire_thread_calls_total{shard=\"1\"}",
                               "corewire_log_records_total{shard=\"1\"}", "corewire_log_lines_total{shard=\"0\"}"})
        BOOST_TEST(!line_of(alive, series).empty(), series << " is missing");
    BOOST_TEST(line_of(third, "corewire_blocking_calls_total{shard=\"0\"}") == "corewire_blocking_calls_total{shard=\"0\"} 3");
}

BOOST_AUTO_TEST_CASE(a_task_that_holds_its_core_for_too_long_is_told_in_the_log) {
    const folder_of_pages folder;
    const fs::path log = folder.path / "log";
    const auto body = [log] { return holds_its_core(log); };
    BOOST_TEST(run_in_child({}, {"--net=kernel", "--cores=1", "--log-file", log.string()}, body) == 0); // 25 ms, unless said otherwise
    const std::string said = text_of(log);
    BOOST_TEST(said.find("warning - stall: shard 0: a task of group 'main' ") != said.npos, said);
}

BOOST_AUTO_TEST_CASE(a_blocking_call_that_hangs_at_the_end_is_told_in_the_log) {
    const folder_of_pages folder;
    const fs::path log = folder.path / "log";
    const auto body = [log] { return leaves_a_call_behind(log); };
    BOOST_TEST(run_in_child({}, {"--net=kernel", "--cores=1", "--log-file", log.string()}, body) == 0);
    const std::string said = text_of(log);
    BOOST_TEST(said.find("warning - task: 1 call of run_blocking() still run") != said.npos, said);
}

BOOST_AUTO_TEST_CASE(the_levels_of_its_log_are_read_again_at_SIGUSR1) {
    const folder_of_pages folder;
    const fs::path file = folder.path / "levels", log = folder.path / "log";
    std::ofstream(file) << "off\n";
    const auto body = [file] { return changes_its_levels(file); };
    BOOST_TEST(run_in_child({}, {"--net=kernel", "--cores=1", "--log-level", "@" + file.string(), "--log-file", log.string()}, body) == 0);
    const std::string said = text_of(log);
    BOOST_TEST(said.find("step 1") == said.npos, said);
    BOOST_TEST(said.find("info s0 test: step 2\n") != said.npos, said);
}

BOOST_AUTO_TEST_CASE(nonsense_in_the_file_of_levels_changes_none_and_is_told) {
    const folder_of_pages folder;
    const fs::path file = folder.path / "levels", log = folder.path / "log";
    std::ofstream(file) << "file=warn,info\n";
    const auto body = [file, log] { return keeps_its_levels(file, log); }; // which counts the lines of the log
    const std::vector<std::string> arguments{"--net=kernel", "--cores=1", "--stall-ms=0", "--log-level", "@" + file.string(), "--log-file",
                                             log.string()};
    BOOST_TEST(run_in_child({}, arguments, body) == 0);
    const std::string said = text_of(log);
    const std::size_t nonsense = said.find("warning - log: SIGUSR1: "), first = said.find("info s0 test: step 1\n"),
                      missing = said.find("No such file or directory; the levels stay as they are\n"),
                      second = said.find("info s0 test: step 2\n");
    BOOST_TEST(second != said.npos, said);
    BOOST_TEST((nonsense < first && first < missing && missing < second), said);
    BOOST_TEST(said.find("'loudly'") != said.npos, said);
    BOOST_TEST(said.find('\x1b') == said.npos, said);
}

BOOST_AUTO_TEST_CASE(a_program_without_a_file_of_levels_is_asked_for_others_by_way_of_its_page) {
    const folder_of_pages folder;
    const fs::path log = folder.path / "log";
    const auto body = [folder = folder.path] { return is_asked_for_levels(folder); };
    BOOST_TEST(run_in_child(folder.path, {"--net=kernel", "--cores=1", "--stall-ms=0", "--log-file", log.string()}, body) == 0);
    BOOST_TEST(text_of(folder.path / "heard") == "granted: levels are now test=debug,info\n"
                                                 "granted: levels are now off\n"
                                                 "refused: 'loudly' is none of debug, info, warn, error, off\n"
                                                 "granted: levels are now debug\n");
    const std::string said = text_of(log);
    for (const char* line : {"log: levels are now test=debug,info\n", "debug s0 test: fine step 1\n", "debug s0 test: fine step 4\n"})
        BOOST_TEST(said.find(line) != said.npos, said);
    for (const char* line : {"fine step 2\n", "fine step 3\n", "\x1b"}) BOOST_TEST(said.find(line) == said.npos, said);
}

BOOST_AUTO_TEST_CASE(a_program_sets_its_levels_itself) {
    const folder_of_pages folder;
    const fs::path log = folder.path / "log";
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
        corewire::app program("prog", "A program under test");
        its_app = &program;
        program.inspection_settings().page_folder = "";
        program.set_log_levels("error");
        std::string file = log.string();
        std::vector<const char*> argv{"prog", "--net=kernel", "--cores=1", "--log-file", file.c_str()};
        ::_exit(program.run_on_every_core(static_cast<int>(argv.size()), const_cast<char**>(argv.data()), sets_its_levels));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    BOOST_TEST(status == 0);
    const std::string said = text_of(log);
    BOOST_TEST(said.find("fine step 1") == said.npos, said);
    BOOST_TEST(said.find("debug s0 test: fine step 2\n") != said.npos, said);
    BOOST_TEST(said.find("debug s0 test: fine step 3\n") != said.npos, said);
}

BOOST_AUTO_TEST_CASE(levels_that_cannot_be_read_are_an_error_of_setting_up) {
    BOOST_TEST(run_in_child({}, {"--net=kernel", "--cores=1", "--log-level", "@/no/such/file"}, nothing) == 2);
    BOOST_TEST(run_in_child({}, {"--net=kernel", "--cores=1", "--log-level", "loud"}, nothing) == 2);
    BOOST_TEST(run_in_child({}, {"--net=kernel", "--cores=1", "--log-file", "/no/such/folder/log"}, nothing) == 2);
}

BOOST_AUTO_TEST_SUITE_END()
