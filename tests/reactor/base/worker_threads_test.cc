// Threads for jobs that block: how many there are, what they may do, and how they end. Whoever waits here waits for another thread,
// never for time.
// ctest: timeout=60 processors=2
#include <corewire/reactor/base/worker_threads.hh>

#include <boost/test/unit_test.hpp>

#include <condition_variable>
#include <csignal>
#include <deque>
#include <functional>
#include <latch>
#include <pthread.h>
#include <semaphore>
#include <set>
#include <string>

using namespace corewire;

namespace {

/// The least that a user of worker_threads is.
struct pool {
    explicit pool(unsigned most, const cpu_set_t& where = affinity_of_this_thread())
        : workers("test-worker", most, where, [this](std::unique_lock<std::mutex>& lock) { one(lock); }) {}
    void one(std::unique_lock<std::mutex>& lock) {
        auto job = std::move(queue.front());
        queue.pop_front();
        lock.unlock();
        job();
        lock.lock();
        ++done;
        finished.notify_all();
    }
    bool start(std::function<void()> job) {
        {
            const std::lock_guard lock(workers.mutex());
            if (!workers.expect_job()) return false;
            queue.push_back(std::move(job));
        }
        workers.job_there();
        return true;
    }
    void until_done(int n) {
        std::unique_lock lock(workers.mutex());
        finished.wait(lock, [&] { return done >= n; });
    }
    unsigned threads() {
        const std::lock_guard lock(workers.mutex());
        return workers.threads();
    }

    std::deque<std::function<void()>> queue;
    std::condition_variable finished;
    int done = 0;
    worker_threads workers;
};

} // namespace

BOOST_AUTO_TEST_SUITE(worker_threads)

BOOST_AUTO_TEST_CASE(no_thread_is_made_before_the_first_job_and_no_more_than_the_most) {
    pool p(2);
    BOOST_TEST(p.threads() == 0u);
    std::counting_semaphore<8> go(0);
    for (int i = 0; i < 5; ++i) BOOST_TEST(p.start([&] { go.acquire(); }));
    BOOST_TEST(p.threads() == 2u);
    go.release(5);
    p.until_done(5);
    BOOST_TEST(p.threads() == 2u);
}

BOOST_AUTO_TEST_CASE(jobs_that_block_at_the_same_time_each_have_a_thread) {
    pool p(3);
    std::latch all_here(3); // three jobs that wait for each other end only if there are three threads
    for (int i = 0; i < 3; ++i) BOOST_TEST(p.start([&] { all_here.arrive_and_wait(); }));
    p.until_done(3);
    BOOST_TEST(p.threads() == 3u);
}

BOOST_AUTO_TEST_CASE(an_idle_thread_is_used_again) {
    pool p(64);
    for (int i = 1; i <= 64; ++i) {
        p.start([] {});
        p.until_done(i); // it keeps the mutex until it is idle
    }
    BOOST_TEST(p.threads() == 1u);
}

BOOST_AUTO_TEST_CASE(one_idle_thread_is_not_counted_on_for_two_jobs) {
    pool p(2);
    p.start([] {});
    p.until_done(1);
    std::latch both_here(2);
    {
        const std::lock_guard lock(p.workers.mutex()); // so that it cannot begin the first before the second is there
        for (int i = 0; i < 2; ++i) {
            BOOST_TEST(p.workers.expect_job());
            p.queue.push_back([&] { both_here.arrive_and_wait(); });
        }
    }
    for (int i = 0; i < 2; ++i) p.workers.job_there();
    p.until_done(3);
    BOOST_TEST(p.threads() == 2u);
}

BOOST_AUTO_TEST_CASE(workers_take_no_signals_have_the_name_and_run_where_they_were_told_to) {
    const cpu_set_t all = affinity_of_this_thread();
    unsigned one = 0;
    while (!CPU_ISSET(one, &all)) ++one;
    cpu_set_t only_one;
    CPU_ZERO(&only_one);
    CPU_SET(one, &only_one);

    sigset_t before, after;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
    pool p(1, only_one);
    char name[16] = {};
    sigset_t mask;
    cpu_set_t runs_on;
    p.start([&] {
        ::pthread_getname_np(::pthread_self(), name, sizeof name);
        ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
        runs_on = affinity_of_this_thread();
    });
    p.until_done(1);
    ::pthread_sigmask(SIG_SETMASK, nullptr, &after);

    BOOST_TEST(std::string(name) == "test-worker");
    BOOST_TEST(CPU_EQUAL(&runs_on, &only_one) != 0);
    for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGUSR1, SIGCHLD}) {
        BOOST_TEST(sigismember(&mask, signal) == 1, signal);
        BOOST_TEST(sigismember(&after, signal) == sigismember(&before, signal), signal);
    }
}

BOOST_AUTO_TEST_CASE(the_end_waits_for_what_runs_begins_nothing_more_and_refuses_what_comes) {
    pool p(1);
    std::binary_semaphore begun(0), go(0);
    bool first = false, second = false;
    p.start([&] {
        begun.release();
        go.acquire();
        first = true;
    });
    p.start([&] { second = true; });
    begun.acquire();
    std::thread ends([&] { p.workers.end(); });
    for (bool refused = false; !refused;) { // until the other thread has come to it
        const std::lock_guard lock(p.workers.mutex());
        refused = p.workers.waiting() == 0;
    }
    BOOST_TEST(!p.start([] {}));
    go.release();
    ends.join();
    BOOST_TEST(first);
    BOOST_TEST(!second);
}

BOOST_AUTO_TEST_CASE(a_job_taken_back_before_it_was_begun_wakes_nobody) {
    pool p(1);
    std::binary_semaphore begun(0), go(0);
    bool taken_back_ran = false;
    p.start([&] {
        begun.release();
        go.acquire();
    });
    begun.acquire();
    p.start([&] { taken_back_ran = true; });
    {
        const std::lock_guard lock(p.workers.mutex());
        p.queue.pop_back();
        p.workers.job_withdrawn();
        BOOST_TEST(p.workers.waiting() == 0u);
    }
    go.release();
    p.until_done(1);
    p.start([] {});
    p.until_done(2);
    BOOST_TEST(!taken_back_ran);
}

BOOST_AUTO_TEST_SUITE_END()
