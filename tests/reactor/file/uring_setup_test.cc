// From the fastest ring down to none: each step that a kernel may force, by flags that it is taken not to know.
#include "file_fixture.hh"

#include <corewire/reactor/file/uring.hh>
#include <corewire/reactor/file/uring_setup.hh>

#include <iostream>
#include <liburing.h>

namespace corewire::testing {

namespace {

/// The flags of a ring on a kernel that refuses `flags`, and that a file is written and read over it.
unsigned flags_without(unsigned flags, bool sqpoll = false, int refusal = EINVAL) {
    const uring_refusal refused(flags, refusal);
    file_world world(io_options{.sqpoll = sqpoll});
    BOOST_REQUIRE(world.engine().has_ring());
    world.run([](std::string path) -> task<> {
        file f = co_await file::create(path);
        co_await f.write("by any ring", 0);
        std::string into(11, '\0');
        const std::size_t n = co_await f.read_exactly(bytes_of(into), 0);
        BOOST_TEST(n == 11u);
        BOOST_TEST(into == "by any ring");
        co_await f.close();
    }(world.directory / "a"));
    BOOST_TEST(world.engine().statistics().by_helpers == 0u);
    return world.loop.io().setup_flags() & ~unsigned{IORING_SETUP_CQSIZE};
}

/// What making a ring fails with where the fastest one is refused, and the sentence.
std::pair<int, std::string> failing(int refusal) {
    const uring_refusal refused(IORING_SETUP_DEFER_TASKRUN, refusal);
    try {
        static_cast<void>(probe_uring({}));
    } catch (const std::system_error& e) {
        return {e.code().value(), e.what()};
    }
    return {0, "it was made"};
}

/// What these tests take away must be there.
bool newest() {
    const bool here = probe_uring({}) == describe_uring(fastest_uring);
    if (!here) std::cout << "SKIPPED: this kernel has not the fastest ring to begin with: " << probe_uring({}) << '\n';
    return here;
}

constexpr unsigned linux_5_19 = IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;

} // namespace

BOOST_AUTO_TEST_SUITE(uring_setup)

BOOST_AUTO_TEST_CASE(each_step_down_is_a_ring_that_works) {
    if (!newest()) return;
    // As on Linux before 6.1, 5.19 and 5.18.
    for (const auto& [refused, had] : {std::pair<unsigned, unsigned>{0, fastest_uring},
                                       {IORING_SETUP_DEFER_TASKRUN, linux_5_19},
                                       {IORING_SETUP_SINGLE_ISSUER, linux_5_19},
                                       {IORING_SETUP_COOP_TASKRUN, IORING_SETUP_SUBMIT_ALL},
                                       {IORING_SETUP_TASKRUN_FLAG, IORING_SETUP_SUBMIT_ALL},
                                       {IORING_SETUP_SUBMIT_ALL, 0}})
        BOOST_TEST(flags_without(refused) == had);
}

BOOST_AUTO_TEST_CASE(each_step_down_with_a_submitting_thread_works_too) {
    if (!newest()) return;
    for (const auto& [refused, had] :
         {std::pair<unsigned, unsigned>{0, IORING_SETUP_SQPOLL | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER},
          {IORING_SETUP_SINGLE_ISSUER, IORING_SETUP_SQPOLL | IORING_SETUP_SUBMIT_ALL},
          {IORING_SETUP_SUBMIT_ALL, IORING_SETUP_SQPOLL},
          {IORING_SETUP_SQPOLL, fastest_uring},
          {IORING_SETUP_SQPOLL | IORING_SETUP_DEFER_TASKRUN, linux_5_19}})
        BOOST_TEST(flags_without(refused, true) == had);
}

BOOST_AUTO_TEST_CASE(a_submitting_thread_that_is_not_permitted_costs_the_thread_and_not_the_ring) {
    if (!newest()) return;
    for (const int why : {EPERM, ENOMEM, EINVAL}) {
        BOOST_TEST(flags_without(IORING_SETUP_SQPOLL, true, why) == fastest_uring);
        const uring_refusal refused(IORING_SETUP_SQPOLL, why);
        const std::string text = probe_uring({.sqpoll = true});
        BOOST_TEST(text.ends_with("; SQPOLL is not to be had here"), text);
    }
    BOOST_TEST(probe_uring({.sqpoll = true}).find("SQPOLL is not") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_is_no_matter_of_flags_is_said_and_not_tried_again) {
    const auto [permission, forbidden] = failing(EPERM);
    BOOST_TEST(permission == EPERM);
    BOOST_TEST(forbidden.find("kernel.io_uring_disabled=0") != std::string::npos, forbidden);
    const auto [memory, locked] = failing(ENOMEM);
    BOOST_TEST(memory == ENOMEM);
    BOOST_TEST(locked.find("ulimit -l") != std::string::npos, locked);
    const auto [files, open] = failing(EMFILE);
    BOOST_TEST(files == EMFILE);
    BOOST_TEST(open.find("ulimit -n") != std::string::npos, open);
    const auto [missing, old] = failing(ENOSYS);
    BOOST_TEST(missing == ENOSYS);
    BOOST_TEST(old.find("files need Linux 5.5 or newer, sockets Linux 6.0") != std::string::npos, old);
    for (const std::string& each : {forbidden, locked, open, old}) BOOST_TEST(each.size() <= 200u, each); // a log line takes it whole
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire::testing
