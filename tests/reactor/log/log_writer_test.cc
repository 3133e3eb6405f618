// The writer: order, other threads, its end, files that go away, readers that do not read.
#include "log_fixture.hh"

#include <corewire/reactor/base/unique_fd.hh>

#include <boost/test/unit_test.hpp>

#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace corewire;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr log_event<unsigned> numbered{"test", "numbered", log_level::info, "number {}", {.burst = 1'000'000, .each = 1s}};
constexpr log_event<> quiet{"test", "quiet", log_level::debug, "hardly of interest"};

struct temporary_folder {
    fs::path path = fs::temp_directory_path() / ("corewire-log-" + std::to_string(::getpid()));
    temporary_folder() { fs::create_directory(path); }
    ~temporary_folder() { fs::remove_all(path); }
};

std::string text_of(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
}

using texts = std::vector<std::string>;

} // namespace

BOOST_AUTO_TEST_SUITE(log_writer)

BOOST_AUTO_TEST_CASE(messages_of_several_shards_come_by_their_time) {
    kept_log log(2);
    for (unsigned i = 0; i < 6; ++i) {
        log.pass(1ms);
        const reactor::scope here(*log.loops[i % 2]);
        log_message(numbered, i);
    }
    const texts expected{"info s0 test: number 0", "info s1 test: number 1", "info s0 test: number 2",
                         "info s1 test: number 3", "info s0 test: number 4", "info s1 test: number 5"};
    BOOST_TEST(log.messages() == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(another_thread_says_its_part_without_a_shard) {
    kept_log log;
    std::thread([&] { log.writer.from_thread(numbered, 5u); }).join();
    log.writer.from_thread(quiet);
    const texts frames{"one", "  #0 two"};
    log.writer.put(numbered, frames);
    const texts expected{"info - test: number 5", "info - test: one", "info - test:   #0 two"};
    BOOST_TEST(log.messages() == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(other_threads_have_a_limit_too) {
    corewire::log_writer writer({.thread_lines = 4, .own_thread = false, .write = [](std::string_view) { return true; }});
    for (unsigned i = 0; i < 10; ++i) writer.from_thread(numbered, i);
    BOOST_TEST(writer.statistics().dropped == 6u);
    writer.drain();
    BOOST_TEST(writer.statistics().lines == 4u);
}

BOOST_AUTO_TEST_CASE(a_line_that_is_not_taken_is_counted) {
    kept_log log;
    log.refuses = true;
    log.writer.from_thread(numbered, 1u);
    log.writer.drain();
    BOOST_TEST(log.writer.statistics().lost == 1u);
    BOOST_TEST(log.writer.statistics().lines == 0u);
}

BOOST_AUTO_TEST_CASE(a_very_long_line_is_cut) {
    kept_log log;
    const texts one{std::string(10'000, '\n')};
    log.writer.put(numbered, one);
    BOOST_TEST(log.messages().at(0).size() < 4'096u);
}

BOOST_AUTO_TEST_CASE(all_that_was_said_before_the_end_is_written) {
    texts lines; // by the writer's thread, which has ended when they are read
    {
        corewire::log_writer writer({.write = [&](std::string_view line) { return lines.emplace_back(line), true; }});
        reactor loop;
        corewire::shard_log log(writer, writer.ring(0), loop);
        const reactor::scope here(loop);
        for (unsigned i = 0; i < 500; ++i) log_message(numbered, i);
    }
    BOOST_REQUIRE_EQUAL(lines.size(), 500u);
    for (unsigned i = 0; i < 500; ++i)
        BOOST_REQUIRE(lines[i].ends_with("number " + std::to_string(i) + "\n"));
}

BOOST_AUTO_TEST_CASE(nothing_is_lost_when_the_shard_and_the_writer_wake_and_rest_in_turn) {
    std::atomic<unsigned> written{0};
    corewire::log_writer writer({.write = [&](std::string_view) { return written.fetch_add(1), written.notify_all(), true; }});
    reactor loop;
    corewire::shard_log log(writer, writer.ring(0), loop);
    const reactor::scope here(loop);
    for (unsigned i = 0; i < 2'000; ++i) { // each waits for the writer, which rests then
        log_message(numbered, i);
        for (unsigned seen = written.load(); seen <= i; seen = written.load()) written.wait(seen);
    }
    BOOST_TEST(log.statistics().dropped == 0u);
}

BOOST_AUTO_TEST_CASE(a_file_is_appended_to_and_made_anew_when_it_has_been_renamed) {
    const temporary_folder folder;
    const fs::path file = folder.path / "log";
    std::ofstream(file) << "before\n";
    log_output output(file.string());
    output.follow_the_name();
    const auto say = [&](std::string_view text) { return output.write(log_output::wall_time{1h}, log_level::info, "test", 0, text); };
    BOOST_TEST(say("one"));
    fs::rename(file, folder.path / "log.1");
    BOOST_TEST(say("two")); // within the same second: the old one still
    log_output later(file.string());
    fs::remove(file);
    later.follow_the_name();
    BOOST_TEST(later.write(log_output::wall_time{1h}, log_level::info, "test", 0, "three"));
    BOOST_TEST(text_of(folder.path / "log.1") ==
               "before\n1970-01-01T01:00:00.000000Z info s0 test: one\n1970-01-01T01:00:00.000000Z info s0 test: two\n");
    BOOST_TEST(text_of(file) == "1970-01-01T01:00:00.000000Z info s0 test: three\n");
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_opened_and_levels_that_are_wrong_are_refused) {
    BOOST_CHECK_THROW(corewire::log_writer({.file = "/no/such/folder/log"}), std::system_error);
    BOOST_CHECK_THROW(corewire::log_writer({.levels = "loud"}), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(a_full_disk_loses_lines_and_counts_them) {
    corewire::log_writer writer({.file = "/dev/full", .own_thread = false});
    writer.from_thread(numbered, 1u);
    writer.drain();
    BOOST_TEST(writer.statistics().lost == 1u);
}

BOOST_AUTO_TEST_CASE(a_reader_that_does_not_read_delays_the_end_by_a_second_at_most) {
    const temporary_folder folder;
    const std::string fifo = (folder.path / "fifo").string();
    BOOST_REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    const unique_fd reader(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    const auto begun = std::chrono::steady_clock::now();
    {
        corewire::log_writer writer({.file = fifo, .thread_lines = 10'000});
        for (unsigned i = 0; i < 10'000; ++i) writer.from_thread(numbered, i); // more than a pipe holds
    }
    BOOST_CHECK(std::chrono::steady_clock::now() - begun < 20s); // it ends
}

BOOST_AUTO_TEST_SUITE_END()
