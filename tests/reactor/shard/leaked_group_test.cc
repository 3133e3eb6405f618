// Nothing detached outlives its owner, and whoever forgets to join a group is told its name.
#include "some_shards.hh"

#include <corewire/reactor/task/task_group.hh>
#include <tests/reactor/task/driven.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdio>
#include <string>
#include <unistd.h>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

/// What `run` writes to stderr.
template <typename Run>
std::string errors_of(Run&& run) {
    std::FILE* file = std::tmpfile();
    BOOST_REQUIRE(file != nullptr);
    std::fflush(stderr);
    const int before = ::dup(STDERR_FILENO);
    ::dup2(::fileno(file), STDERR_FILENO);
    run();
    std::fflush(stderr);
    ::dup2(before, STDERR_FILENO);
    ::close(before);
    std::rewind(file);
    std::string text;
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
    std::fclose(file);
    return text;
}

struct marks_its_end {
    bool& gone;
    ~marks_its_end() { gone = true; }
};
task<> waits_for_ever(bool& gone) {
    const marks_its_end mark{gone};
    co_await sleep_for(1h);
}

} // namespace

BOOST_AUTO_TEST_SUITE(leaked_group)

BOOST_AUTO_TEST_CASE(a_group_that_is_destroyed_with_tasks_in_it_destroys_them_and_is_named) {
    reactor_test::driven d;
    bool gone = false;
    const std::string said = errors_of([&] {
        task_group sessions{"sessions"};
        sessions.spawn(waits_for_ever(gone));
    });
    BOOST_TEST(gone);
    BOOST_TEST(said.find("group 'sessions' was destroyed with 1 task in it") != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(one_that_was_joined_or_emptied_on_purpose_is_not) {
    reactor_test::driven d;
    bool gone = false;
    const std::string said = errors_of([&] {
        task_group empty{"empty"};
        task_group emptied{"emptied"};
        emptied.spawn(waits_for_ever(gone));
        emptied.destroy_all();
    });
    BOOST_TEST(gone);
    BOOST_TEST(said == "");
}

BOOST_AUTO_TEST_CASE(what_outlives_the_stop_is_abandoned_and_every_group_of_it_named) {
    runtime_options options = shard_test::shards(1);
    options.drain = 10ms;
    corewire::runtime r(options);
    static bool gone;
    gone = false;
    const std::string said = errors_of([&] {
        r.run([]() -> task<> {
            task_group sessions{"deaf sessions"};
            sessions.spawn(waits_for_ever(gone));
            corewire::runtime::current().request_stop();
            co_await sessions.join();
        });
    });
    BOOST_TEST(gone);
    BOOST_TEST(r.abandoned() == 1u);
    BOOST_TEST(said.find("1 task of group 'root' did not end within 10 ms") != std::string::npos, said);
    BOOST_TEST(said.find("group 'deaf sessions' was destroyed with 1 task in it") != std::string::npos, said);
}

BOOST_AUTO_TEST_SUITE_END()
