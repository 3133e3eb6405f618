// Threads of a program's own that hand work to its shards, through app: before, while and after these run.
// ctest: timeout=60 processors=2
#include <corewire/app.hh>
#include <corewire/shard.hh>
#include <corewire/task.hh>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <future>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

using namespace corewire;

namespace {

task<> until_stopped() { co_await sleep_for(std::chrono::hours{24}, this_shard::stopping()); }

bool is_cancelled(const std::system_error& e) { return e.code() == std::errc::operation_canceled; }

/// On one shard (two would need two CPUs), over the kernel's sockets.
int run_on_one(corewire::app& program, std::function<task<>()> body) {
    std::vector<std::string> given{"prog", "--net=kernel", "--cores=1"};
    std::vector<char*> argv;
    for (std::string& each : given) argv.push_back(each.data());
    if (const auto status = program.parse(static_cast<int>(argv.size()), argv.data())) return *status;
    return program.run(std::move(body));
}

} // namespace

BOOST_AUTO_TEST_SUITE(outside_threads)

BOOST_AUTO_TEST_CASE(a_thread_that_was_started_before_the_run_waits_for_the_shards_and_gets_its_results) {
    corewire::app program("prog");
    std::string failed;
    std::thread outside([&] {
        try {
            if (program.submit_from_thread(0, [] { return this_shard::id() + 40; }).get() != 40) failed = "a wrong result";
            const auto slow = []() -> task<int> {
                co_await sleep_for(std::chrono::milliseconds{1});
                co_return 42;
            };
            if (program.submit_from_thread(0, slow).get() != 42) failed = "a wrong result of a task";
            try {
                program.submit_from_thread(0, []() -> int { throw std::runtime_error("as asked"); }).get();
                failed = "nothing was thrown";
            } catch (const std::runtime_error&) {
            }
            program.submit_from_thread(0, [] { runtime::current().request_stop(); });
        } catch (const std::exception& e) {
            failed = e.what();
        }
    });
    BOOST_TEST(run_on_one(program, until_stopped) == 0);
    outside.join();
    BOOST_TEST(failed == "");
}

BOOST_AUTO_TEST_CASE(after_the_end_it_is_refused) {
    corewire::app program("prog");
    BOOST_TEST(run_on_one(program, []() -> task<> { co_return; }) == 0);
    BOOST_CHECK_EXCEPTION(program.submit_from_thread(0, [] {}), std::system_error, is_cancelled);
}

BOOST_AUTO_TEST_CASE(a_run_that_never_begins_turns_away_who_waits_for_it) {
    corewire::app program("prog");
    std::atomic<bool> refused{false};
    std::thread outside([&] {
        try {
            program.submit_from_thread(0, [] {});
        } catch (const std::system_error& e) {
            refused = is_cancelled(e);
        }
    });
    const std::function<task<>()> no_task = []() -> task<> { throw std::runtime_error("there will be no body"); };
    BOOST_TEST(run_on_one(program, no_task) != 0);
    outside.join();
    BOOST_TEST(refused);
}

BOOST_AUTO_TEST_CASE(many_threads_that_hammer_while_it_ends_all_get_an_answer) {
    corewire::app program("prog");
    program.runtime_settings().external_calls = 2;
    std::atomic<int> answered{0}, refused{0};
    std::vector<std::thread> outside;
    for (int t = 0; t < 4; ++t)
        outside.emplace_back([&] {
            for (;;) {
                try {
                    answered += program.submit_from_thread(0, [] { return 1; }).get();
                } catch (const std::system_error&) {
                    ++refused;
                    return;
                }
            }
        });
    static std::atomic<int>* done;
    done = &answered;
    const auto body = []() -> task<> {
        while (*done < 200) co_await sleep_for(std::chrono::milliseconds{1});
    };
    BOOST_TEST(run_on_one(program, body) == 0);
    for (std::thread& each : outside) each.join(); // one without an answer would hang here
    BOOST_TEST(answered >= 200);
    BOOST_TEST(refused == 4);
}

BOOST_AUTO_TEST_SUITE_END()
