// Calls that wait, on threads of their own: when the owner is woken, and when no longer.
#include <corewire/rdma/verbs/waiting_calls.hh>
#include <corewire/reactor/base/time.hh>

#include <boost/test/unit_test.hpp>

#include <memory>
#include <poll.h>
#include <sys/resource.h>
#include <system_error>
#include <thread>

using namespace corewire;

namespace {

struct brief final : verbs::waiting_call {
    explicit brief(unsigned& n) : finished_calls(n) {}
    void execute() noexcept override {}
    void finished() noexcept override { ++finished_calls; }
    unsigned& finished_calls;
};

bool is_readable(int fd) {
    pollfd p{fd, POLLIN, 0};
    return ::poll(&p, 1, 0) == 1;
}

} // namespace

BOOST_AUTO_TEST_SUITE(waiting_calls)

BOOST_AUTO_TEST_CASE(who_has_taken_all_calls_may_sleep) { // also if it was awake when they ended
    verbs::waiting_calls calls(1);
    unsigned finished = 0, still_readable = 0;
    for (unsigned i = 1; i <= 20'000; ++i) {
        std::unique_ptr<verbs::waiting_call> next = std::make_unique<brief>(finished);
        BOOST_REQUIRE(calls.start(next));
        while (finished != i)
            if (!calls.take_finished()) std::this_thread::yield();
        BOOST_TEST_REQUIRE(calls.prepare_sleep());
        still_readable += is_readable(calls.wake_fd());
    }
    BOOST_TEST(still_readable == 0u);
}

#if !defined(__SANITIZE_ADDRESS__) // UBSan looks at objects through a pipe
BOOST_AUTO_TEST_CASE(without_a_descriptor_to_be_woken_by_there_are_none) {
    rlimit before;
    BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    rlimit none = before;
    none.rlim_cur = 0;
    BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    std::error_code why;
    try {
        verbs::waiting_calls calls;
    } catch (const std::system_error& e) {
        why = e.code();
    }
    BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    BOOST_TEST((why == std::errc::too_many_files_open));
}
#endif

BOOST_AUTO_TEST_SUITE_END()
