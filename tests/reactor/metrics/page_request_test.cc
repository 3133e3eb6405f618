// Asking another process for something by way of its page: what is asked is whole, what is answered comes back, and nobody else is asked.
// ctest: timeout=120
#include <corewire/reactor/metrics/metrics_page.hh>
#include <corewire/reactor/metrics/page_request.hh>
#include <tests/support/netns.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <string>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace corewire;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr duration long_enough = 60s; ///< for whoever does answer

struct asked_process {
    using answerer = std::function<void(metrics_page&, const std::string&)>;
    /// A process that answers each request like that, or takes none.
    explicit asked_process(answerer answer) {
        fs::create_directory(folder);
        fs::permissions(folder, fs::perms::all);
        int ready[2];
        BOOST_REQUIRE(::pipe(ready) == 0);
        pid = ::fork();
        if (pid == 0) serve(answer, ready[1]);
        char byte;
        BOOST_REQUIRE(::read(ready[0], &byte, 1) == 1);
        ::close(ready[0]);
        ::close(ready[1]);
    }
    ~asked_process() {
        end();
        fs::remove_all(folder);
    }
    void end() {
        if (pid == 0) return;
        ::kill(pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
        pid = 0;
    }
    [[noreturn]] void serve(const answerer& answer, int ready) {
        sigset_t ours;
        sigemptyset(&ours);
        sigaddset(&ours, SIGUSR1);
        ::sigprocmask(SIG_BLOCK, &ours, nullptr);
        metrics_page page("asked", "wire", 1, folder.string());
        page.take_requests(static_cast<bool>(answer));
        if (::write(ready, "x", 1) != 1) ::_exit(1);
        for (int signal; ::sigwait(&ours, &signal) == 0;)
            if (const auto request = page.next_request()) answer(page, *request);
        ::_exit(1);
    }
    page_answer ask(std::string_view text, duration patience = long_enough) const { return ask_for_log_levels(file(), text, patience); }
    std::string file() const { return fmt::format("{}/corewire-{}", folder.string(), pid_of_page != 0 ? pid_of_page : pid); }

    fs::path folder = fs::temp_directory_path() / fmt::format("corewire-requests-{}", ::getpid());
    pid_t pid = 0;
    pid_t pid_of_page = 0;
};

void repeats(metrics_page& page, const std::string& request) { page.answer_request(request != "no", "heard: " + request); }

void write_into(const std::string& file, std::size_t at, const void* bytes, std::size_t size) {
    const unique_fd page(::open(file.c_str(), O_RDWR));
    BOOST_REQUIRE(::pwrite(page.get(), bytes, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size));
}

} // namespace

BOOST_AUTO_TEST_SUITE(page_request)

BOOST_AUTO_TEST_CASE(what_is_asked_is_answered_again_and_again) {
    const asked_process other(repeats);
    for (const std::string& text : {std::string("debug"), std::string("tcp=debug,warn"), std::string(page::request_capacity - 1, 'x')}) {
        const page_answer answer = other.ask(text);
        BOOST_TEST(answer.granted);
        BOOST_TEST(answer.text == ("heard: " + text).substr(0, page::request_capacity - 1));
    }
    const page_answer refused = other.ask("no");
    BOOST_TEST(!refused.granted);
    BOOST_TEST(refused.text == "heard: no");
    BOOST_TEST(other.ask("yes").granted);
}

BOOST_AUTO_TEST_CASE(a_text_that_is_too_long_is_not_sent) {
    const asked_process other(repeats);
    const page_answer answer = other.ask(std::string(page::request_capacity, 'x'));
    BOOST_TEST(!answer.granted);
    BOOST_TEST(answer.text == fmt::format("levels of {} bytes: {} are read", page::request_capacity, page::request_capacity - 1));
}

BOOST_AUTO_TEST_CASE(what_a_process_says_is_made_fit_for_a_terminal) {
    const asked_process other([](metrics_page& page, const std::string&) { page.answer_request(true, "\x1b[2J\nhm\xff"); });
    BOOST_TEST(other.ask("debug").text == "?[2J?hm?");
}

BOOST_AUTO_TEST_CASE(a_request_without_an_end_is_read_no_further_than_its_place) {
    const auto tells_size = [](metrics_page& page, const std::string& asked) { page.answer_request(true, std::to_string(asked.size())); };
    const asked_process other(tells_size);
    BOOST_TEST(other.ask("debug").text == "5");
    const std::size_t box = offsetof(page::header, request);
    const std::string endless(page::request_capacity, 'x');
    const std::uint64_t number = 7777;
    write_into(other.file(), box + offsetof(page::request_box, levels), endless.data(), endless.size());
    write_into(other.file(), box + offsetof(page::request_box, asked), &number, sizeof number);
    ::kill(other.pid, SIGUSR1);
    page::request_box seen;
    do {
        const unique_fd page(::open(other.file().c_str(), O_RDONLY));
        BOOST_REQUIRE(::pread(page.get(), &seen, sizeof seen, static_cast<off_t>(box)) == static_cast<ssize_t>(sizeof seen));
    } while (seen.answered != number);
    BOOST_TEST(seen.answer.data() == std::to_string(page::request_capacity));
    BOOST_TEST(other.ask("debug").text == "5"); // and it goes on
}

BOOST_AUTO_TEST_CASE(one_that_takes_no_requests_gets_no_signal) {
    asked_process other(nullptr);
    BOOST_TEST(other.ask("debug").text == "it takes no requests (now)");
    BOOST_TEST(::waitpid(other.pid, nullptr, WNOHANG) == 0);
}

BOOST_AUTO_TEST_CASE(one_that_is_stopped_does_not_answer_and_is_not_waited_for_longer) {
    const asked_process other(repeats);
    ::kill(other.pid, SIGSTOP);
    const page_answer answer = other.ask("debug", 20ms);
    BOOST_TEST(!answer.granted);
    BOOST_TEST(answer.text.starts_with("it does not answer"));
    ::kill(other.pid, SIGCONT);
    BOOST_TEST(other.ask("info").text == "heard: info");
}

BOOST_AUTO_TEST_CASE(the_dead_and_those_who_have_their_pid_now_are_not_asked) {
    asked_process other(repeats);
    other.pid_of_page = other.pid;
    page::header head;
    const auto us = static_cast<std::uint32_t>(::getpid()); // a SIGUSR1 would end us
    write_into(other.file(), offsetof(page::header, pid), &us, sizeof us);
    BOOST_TEST(other.ask("debug").text == "it has ended");
    head.pid = static_cast<std::uint32_t>(other.pid);
    write_into(other.file(), offsetof(page::header, pid), &head.pid, sizeof head.pid);
    BOOST_TEST(other.ask("debug").granted);
    other.end();
    BOOST_TEST(other.ask("debug").text == "it has ended");
}

BOOST_AUTO_TEST_CASE(what_is_no_page_is_not_written_to) {
    const asked_process other(repeats);
    const std::string rubbish = (other.folder / "corewire-1").string(), link = (other.folder / "corewire-2").string();
    std::ofstream(rubbish) << "rubbish";
    BOOST_TEST(ask_for_log_levels(rubbish, "debug", long_enough).text == "its page is none of this version");
    fs::create_symlink(other.file(), link);
    BOOST_TEST(!ask_for_log_levels(link, "debug", long_enough).granted);
    BOOST_TEST(!ask_for_log_levels(other.folder.string(), "debug", long_enough).granted);
    BOOST_TEST(!ask_for_log_levels("/no/such/page", "debug", long_enough).granted);
    std::string still;
    std::getline(std::ifstream(rubbish) >> std::ws, still);
    BOOST_TEST(still == "rubbish");
}

BOOST_AUTO_TEST_CASE(one_asks_at_a_time) {
    const asked_process other(repeats);
    const unique_fd page(::open(other.file().c_str(), O_RDONLY));
    BOOST_REQUIRE(::flock(page.get(), LOCK_EX) == 0);
    BOOST_TEST(other.ask("debug", 20ms).text == "somebody else is asking it");
    BOOST_REQUIRE(::flock(page.get(), LOCK_UN) == 0);
    BOOST_TEST(other.ask("debug").granted);
}

BOOST_AUTO_TEST_CASE(another_user_is_refused) {
    if (!test::have_root()) return; // only root can be two users
    const asked_process other(repeats);
    const pid_t child = ::fork();
    if (child == 0) {
        if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(3);
        const bool mode = other.ask("debug").text == "its page: Permission denied";
        ::_exit(mode ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    BOOST_TEST(status == 0);
    fs::permissions(other.file(), fs::perms::all); // also where the file would let him
    const pid_t second = ::fork();
    if (second == 0) {
        if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(3);
        ::_exit(other.ask("debug").text == "its page is not a file of this user's" ? 0 : 1);
    }
    ::waitpid(second, &status, 0);
    BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_SUITE_END()
