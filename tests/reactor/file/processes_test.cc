// Pipes, standard input, kernel timers, signals and children, over io_uring and without.
#include "file_fixture.hh"

#include <corewire/file.hh>
#include <corewire/reactor/task/sleep.hh>

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <sys/wait.h>
#include <thread>

namespace corewire::testing {

namespace {

task<std::string> output_of(std::vector<std::string> words, spawn_options how = {}) {
    how.output = stdio::pipe;
    child_process child = co_await child_process::spawn(std::move(words), how);
    std::string text = co_await child.output().read_all();
    const exit_status status = co_await child.wait();
    BOOST_TEST(status.success());
    co_return text;
}

template <typename T>
task<> ignore(task<T> t) {
    co_await t;
}

bool has_children() { return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

} // namespace

BOOST_AUTO_TEST_SUITE(processes)

BOOST_AUTO_TEST_CASE_TEMPLATE(a_pipe_carries_bytes_in_order_until_its_end, Backend, both_backends) {
    file_world_over<Backend> world;
    world.run([]() -> task<> {
        auto [out, in] = make_pipe();
        const std::string text = pattern(1'000'000); // more than a pipe holds: both wait for each other
        const auto feed = [](pipe_writer to, const std::string& what) -> task<> {
            co_await to.write(what);
            to.close();
        };
        reactor::current().root_group().spawn(feed(std::move(in), text));
        const std::string got = co_await out.read_all();
        BOOST_TEST((got == text));
        std::array<std::byte, 8> rest;
        const std::size_t n = co_await out.read(rest);
        BOOST_TEST(n == 0u);
    }());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(two_writers_of_one_pipe_do_not_hold_the_shard_up, Backend, both_backends) {
    file_world_over<Backend> world;
    auto [out, in] = make_pipe();
    BOOST_REQUIRE(::fcntl(in.descriptor(), F_SETPIPE_SZ, 4096) == 4096);
    const std::string page = pattern(4096);
    BOOST_REQUIRE(::write(in.descriptor(), page.data(), page.size()) == 4096);
    task_group writing{"writing"};
    writing.spawn(in.write(page));
    writing.spawn(in.write(page));
    world.turn();
    std::string got(4096, ' ');
    BOOST_REQUIRE(::read(out.descriptor(), got.data(), got.size()) == 4096); // room for one of them
    world.turn_until([&] { return writing.size() == 1; });
    world.turn();
    BOOST_TEST(writing.size() == 1u);
    writing.destroy_all();
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_terminal_that_nobody_reads_does_not_hold_the_shard_up, Backend, both_backends) {
    file_world_over<Backend> world;
    const unique_fd reading(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    BOOST_REQUIRE((reading && ::grantpt(reading.get()) == 0 && ::unlockpt(reading.get()) == 0));
    pipe_writer screen(unique_fd(::open(::ptsname(reading.get()), O_RDWR | O_NOCTTY | O_CLOEXEC)));
    BOOST_REQUIRE(static_cast<bool>(screen));
    world.run([](pipe_writer& to) -> task<> {
        const std::string text = pattern(1'000'000);
        const int failure = co_await error_of(to.write(text, {.deadline = reactor::current().now() + std::chrono::milliseconds{5}}));
        BOOST_TEST(failure == ETIMEDOUT);
    }(screen));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_pipe_without_readers_is_epipe_and_no_signal, Backend, both_backends) {
    file_world_over<Backend> world;
    world.run([]() -> task<> {
        auto [out, in] = make_pipe();
        out.close();
        const int failure = co_await error_of(in.write("nobody hears this"));
        BOOST_TEST(failure == EPIPE);
    }());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(more_than_was_asked_for_is_refused, Backend, both_backends) {
    file_world_over<Backend> world;
    world.run([]() -> task<> {
        auto [out, in] = make_pipe();
        co_await in.write(pattern(5000));
        in.close();
        const int failure = co_await error_of(ignore(out.read_all(4999)));
        BOOST_TEST(failure == EMSGSIZE);
    }());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_pipe_whose_descriptor_does_not_block_is_waited_for, Backend, both_backends) {
    file_world_over<Backend> world;
    world.run([]() -> task<> {
        auto [out, in] = make_pipe();
        BOOST_REQUIRE(::fcntl(out.descriptor(), F_SETFL, O_NONBLOCK) == 0);
        BOOST_REQUIRE(::fcntl(in.descriptor(), F_SETFL, O_NONBLOCK) == 0);
        const std::string text = pattern(300'000);
        const auto feed = [](pipe_writer to, const std::string& what) -> task<> { co_await to.write(what); };
        reactor::current().root_group().spawn(feed(std::move(in), text));
        const std::string got = co_await out.read_all();
        BOOST_TEST((got == text));
    }());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(standard_input_is_read_and_stays_open, Backend, both_backends) {
    file_world_over<Backend> world;
    const unique_fd before{::fcntl(0, F_DUPFD_CLOEXEC, 3)};
    auto [out, in] = make_pipe();
    BOOST_REQUIRE(::dup2(out.descriptor(), 0) == 0);
    world.run([](pipe_writer to) -> task<> {
        co_await to.write("typed");
        to.close();
        pipe_reader from = standard_input();
        const std::string text = co_await from.read_all();
        BOOST_TEST(text == "typed");
    }(std::move(in)));
    BOOST_TEST(::fcntl(0, F_GETFD) >= 0);
    if (before) ::dup2(before.get(), 0);
}

/// prog <file
BOOST_AUTO_TEST_CASE_TEMPLATE(a_reactor_that_sleeps_at_once_reads_a_file_as_a_stream, Backend, both_backends) {
    reactor loop({.spin = std::chrono::microseconds{0}, .io = Backend::options()});
    const reactor::scope here(loop);
    temporary_directory directory;
    const std::string text = pattern(100'000); // many reads
    put(directory / "a", text);
    std::string got;
    bool rescued = false;
    spawn([](reactor& r, std::string path, std::string& all) -> task<> {
        pipe_reader from(unique_fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)});
        all = co_await from.read_all();
        r.request_exit();
    }(loop, directory / "a", got));
    spawn([](reactor& r, bool& too_late) -> task<> { // nothing else may have to wake it
        co_await sleep_for(std::chrono::seconds{20});
        too_late = true;
        r.request_exit();
    }(loop, rescued));
    loop.run();
    BOOST_TEST(!rescued);
    BOOST_TEST((got == text));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_kernel_timer_counts_what_nobody_saw, Backend, both_backends) {
    file_world_over<Backend> world;
    world.run([]() -> task<> {
        descriptor_timer timer;
        timer.arm(std::chrono::milliseconds{1}, std::chrono::milliseconds{1});
        std::uint64_t seen = 0;
        while (seen < 5) seen += co_await timer.expirations();
        timer.disarm();
        const time_point soon = reactor::current().read_clock() + std::chrono::milliseconds{10};
        // One may have come before it was disarmed; then there is silence.
        int failure = co_await error_of(ignore(timer.expirations({.deadline = soon})));
        if (failure == 0) failure = co_await error_of(ignore(timer.expirations({.deadline = soon})));
        BOOST_TEST(failure == ETIMEDOUT);
        descriptor_timer wall(descriptor_timer::clock::wall);
        wall.arm_at(std::chrono::system_clock::now() + std::chrono::milliseconds{2});
        const std::uint64_t once = co_await wall.expirations();
        BOOST_TEST(once == 1u);
    }());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(signals_are_events, Backend, both_backends) {
    const blocked_signals quiet({SIGUSR1, SIGUSR2});
    file_world_over<Backend> world;
    world.run([]() -> task<> {
        signal_stream signals({SIGUSR1, SIGUSR2});
        ::kill(::getpid(), SIGUSR1);
        signal_event e = co_await signals.next();
        BOOST_TEST(e.signal == SIGUSR1);
        BOOST_TEST(e.sender == ::getpid());
        const auto later = []() -> task<> {
            co_await sleep_for(std::chrono::milliseconds{2});
            ::sigqueue(::getpid(), SIGUSR2, {.sival_int = 42});
        };
        spawn(later());
        e = co_await signals.next();
        BOOST_TEST(e.signal == SIGUSR2);
        BOOST_TEST(e.value == 42);
        const time_point soon = reactor::current().read_clock() + std::chrono::milliseconds{2};
        const int failure = co_await error_of(ignore(signals.next({.deadline = soon})));
        BOOST_TEST(failure == ETIMEDOUT);
    }());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_child_is_fed_and_heard, Backend, both_backends) {
    file_world_over<Backend> world;
    world.run([]() -> task<> {
        child_process sort = co_await child_process::spawn(command("sort"), {.input = stdio::pipe, .output = stdio::pipe});
        co_await sort.input().write("b\nc\na\n");
        sort.input().close();
        const std::string text = co_await sort.output().read_all();
        BOOST_TEST(text == "a\nb\nc\n");
        exit_status status = co_await sort.wait();
        BOOST_TEST(status.success());
        status = co_await sort.wait();
        BOOST_TEST(status.success());
        sort.kill(SIGTERM); // harmless
    }());
    BOOST_TEST(!has_children());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_childs_end_is_told, Backend, both_backends) {
    file_world_over<Backend> world;
    world.run([]() -> task<> {
        child_process child = co_await child_process::spawn(command("sh", "-c", "echo oh >&2; exit 7"), {.error = stdio::pipe});
        const std::string said = co_await child.error().read_all();
        BOOST_TEST(said == "oh\n");
        exit_status status = co_await child.wait();
        BOOST_TEST(status.code == 7);
        BOOST_TEST(status.signal == 0);
        child_process sleeper = co_await child_process::spawn(command("sleep", "1000"));
        const time_point soon = reactor::current().read_clock() + std::chrono::milliseconds{5};
        const int failure = co_await error_of(ignore(sleeper.wait({.deadline = soon})));
        BOOST_TEST(failure == ETIMEDOUT);
        sleeper.kill(SIGTERM);
        status = co_await sleeper.wait();
        BOOST_TEST(status.signal == SIGTERM);
        BOOST_TEST(!status.success());
    }());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(all_who_wait_for_a_child_hear_how_it_ended, Backend, both_backends) {
    file_world_over<Backend> world;
    child_process child = world.run(child_process::spawn(command("sleep", "1000")));
    std::vector<task<exit_status>> waiting;
    for (int i = 0; i < 3; ++i) {
        waiting.push_back(child.wait());
        waiting.back().handle().resume();
    }
    child.kill(SIGTERM);
    world.turn_until([&] { return std::ranges::all_of(waiting, [](const auto& each) { return each.done(); }); });
    for (auto& each : waiting) BOOST_TEST(each.handle().promise().take().signal == SIGTERM);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(streams_do_not_cross_where_our_own_input_is_closed, Backend, both_backends) {
    file_world_over<Backend> world;
    const int kept = ::fcntl(0, F_DUPFD_CLOEXEC, 10);
    ::close(0); // as a daemon does: what is opened next is 0
    std::string heard;
    exit_status status;
    world.run([](std::string& text, exit_status& how_it_ended) -> task<> {
        child_process child = co_await child_process::spawn(command("sh", "-c", "cat >&2; echo nobody hears this"),
                                                            {.input = stdio::pipe, .output = stdio::null, .error = stdio::pipe});
        co_await child.input().write("hello");
        child.input().close();
        text = co_await child.error().read_all();
        how_it_ended = co_await child.wait();
    }(heard, status));
    if (kept >= 0) {
        ::dup2(kept, 0);
        ::close(kept);
    }
    BOOST_TEST(heard == "hello");
    BOOST_TEST(status.success());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(surroundings_are_as_asked, Backend, both_backends) {
    const blocked_signals blocked({SIGTERM}); // which no child inherits
    file_world_over<Backend> world;
    BOOST_TEST(world.run(output_of(command("pwd"), {.working_directory = "/usr"})) == "/usr\n");
    const std::vector<std::string> environment{"X=set"};
    BOOST_TEST(world.run(output_of(command("sh", "-c", "echo $X"), {.environment = &environment})) == "set\n");
    BOOST_TEST(world.run(output_of(command("grep", "SigBlk", "/proc/self/status"))) == "SigBlk:\t0000000000000000\n");
    const std::string ignored = world.run(output_of(command("grep", "SigIgn", "/proc/self/status")));
    BOOST_TEST((std::stoull(ignored.substr(8), nullptr, 16) & ~0x180000000ull) == 0u); // 32 and 33 are glibc's own
    int inherited = 3 + 1; // 0, 1, 2, the listing's own, and what whoever started this test left open
    for (int fd = 3; fd < 1024; ++fd) {
        const int flags = ::fcntl(fd, F_GETFD);
        if (flags >= 0 && (flags & FD_CLOEXEC) == 0) ++inherited;
    }
    const std::string listing = world.run(output_of(command("ls", "/proc/self/fd")));
    BOOST_TEST(std::count(listing.begin(), listing.end(), '\n') == inherited);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_cannot_be_started_says_why, Backend, both_backends) {
    file_world_over<Backend> world;
    BOOST_TEST(world.run(error_of(ignore(child_process::spawn(command("/no/such/program"))))) == ENOENT);
    BOOST_TEST(world.run(error_of(ignore(child_process::spawn(command("/etc/passwd"))))) == EACCES);
    BOOST_TEST(world.run(error_of(ignore(child_process::spawn(command("true"), {.working_directory = "/no/such"})))) == ENOENT);
    BOOST_TEST(world.run(error_of(ignore(child_process::spawn(command())))) == EINVAL);
    BOOST_TEST(!has_children());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(no_child_outlives_its_owner, Backend, both_backends) {
    file_world_over<Backend> world;
    {
        child_process child = world.run(child_process::spawn(command("sleep", "1000")));
        BOOST_TEST(has_children());
    }
    BOOST_TEST(!has_children());
    for (int i = 0; i < 20; ++i) { // given up at any stage of being started
        task<child_process> starting = child_process::spawn(command("sleep", "1000"), {.output = stdio::pipe});
        starting.handle().resume();
        world.turn(i * i * 10);
    }
    BOOST_TEST(!has_children());
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire::testing
