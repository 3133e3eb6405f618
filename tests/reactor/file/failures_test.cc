// Bad input, and what the kernel refuses: every operation says so, and nothing is lost or left behind.
#include "file_fixture.hh"

#include <corewire/file.hh>
#include <corewire/reactor/file/directory.hh>
#include <corewire/reactor/file/file_reader.hh>
#include <corewire/reactor/file/file_writer.hh>
#include <corewire/reactor/file/paths.hh>

#include <chrono>
#include <cstddef>
#include <exception>
#include <fcntl.h>
#include <iostream>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace corewire::testing {

namespace {

template <typename T>
task<> ignore(task<T> t) {
    co_await t;
}
template <typename Start>
task<> await(Start start) {
    co_await start();
}

/// The sanitizers need descriptors for their first look at a type, later ones they remember: so before they run out.
void let_sanitizers_see_system_error() {
    try {
        throw std::system_error(EMFILE, std::generic_category(), "seen");
    } catch (const std::system_error& e) {
        const std::system_error copy = e;
        BOOST_REQUIRE(copy.code().value() == EMFILE);
    }
}

/// The next descriptors fail with EMFILE, but for so many.
class few_descriptors {
public:
    explicit few_descriptors(unsigned free) {
        let_sanitizers_see_system_error();
        ::getrlimit(RLIMIT_NOFILE, &before_);
        rlimit now = before_;
        std::vector<unique_fd> fill;
        for (unsigned i = 0; i < free; ++i) fill.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        const unique_fd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        BOOST_REQUIRE(next.get() >= 0);
        now.rlim_cur = static_cast<rlim_t>(next.get());
        BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &now) == 0);
    }
    ~few_descriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
    few_descriptors(const few_descriptors&) = delete;

private:
    rlimit before_{};
};

/// The errno that `t` fails with where only so many descriptors are free. It is looked at when there are some again.
int error_with_few(file_world& world, unsigned free, task<> t) {
    std::exception_ptr failure;
    {
        const few_descriptors few(free);
        try {
            world.run(std::move(t));
        } catch (...) {
            failure = std::current_exception();
        }
    }
    try {
        if (failure) std::rethrow_exception(failure);
    } catch (const std::system_error& e) {
        return e.code().value();
    }
    return 0;
}

auto descriptors() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator{});
}

bool has_children() { return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

/// Of a file opened with O_DIRECT; empty where there is no such thing.
file open_direct(file_world& world, const std::string& name) {
    put(world.directory / name, std::string(16'384, 'x'));
    try {
        return world.run(file::open(world.directory / name, {.write = true, .direct = true}));
    } catch (const std::system_error& e) {
        std::cout << "SKIPPED: no O_DIRECT here: " << e.what() << '\n';
        return {};
    }
}

constexpr int works = 0;

} // namespace

BOOST_AUTO_TEST_SUITE(failures)

BOOST_AUTO_TEST_CASE_TEMPLATE(every_operation_can_fail_and_says_so, Backend, both_backends) {
    file_world_over<Backend> world;
    put(world.directory / "a", "x");
    file f = world.run(file::open(world.directory / "a", {.write = true}));
    io_opcode victim = io_opcode::count;
    faults fail(world, [&victim](const io_arguments& a) { return a.opcode == victim ? io_fault{.fail_with = EIO} : io_fault{}; });
    const auto failing = [&](io_opcode which, task<> t) {
        victim = which;
        BOOST_TEST(world.run(error_of(std::move(t))) == EIO, name_of(which));
    };
    const std::string a = world.directory / "a";
    const std::string b = world.directory / "b";
    std::array<char, 4> bytes{};
    const std::array<iovec, 1> pieces{iovec{bytes.data(), bytes.size()}};
    const mutable_byte_span whole = std::as_writable_bytes(std::span{bytes});
    failing(io_opcode::read, await([&] { return f.read(whole, 0); }));
    failing(io_opcode::write, await([&] { return f.write("y", 0); }));
    failing(io_opcode::read_vectored, await([&] { return f.read_vectored(pieces, 0); }));
    failing(io_opcode::write_vectored, await([&] { return f.write_vectored(pieces, 0); }));
    failing(io_opcode::sync, await([&] { return f.sync(); }));
    failing(io_opcode::sync, await([&] { return f.sync_data(); }));
    failing(io_opcode::allocate, await([&] { return f.allocate(0, 1); }));
    failing(io_opcode::truncate, await([&] { return f.truncate(0); }));
    failing(io_opcode::advise, await([&] { return f.advise(0); }));
    failing(io_opcode::stat, await([&] { return f.status(); }));
    failing(io_opcode::open, ignore(file::open(a)));
    failing(io_opcode::rename, fs::rename(a, b));
    failing(io_opcode::unlink, fs::unlink(a));
    failing(io_opcode::unlink, fs::remove_directory(a));
    failing(io_opcode::link, fs::link(a, b));
    failing(io_opcode::symlink, fs::symlink(a, b));
    failing(io_opcode::make_directory, fs::make_directory(b));
    failing(io_opcode::stat, ignore(fs::status(a)));
    failing(io_opcode::sync, fs::sync_directory(world.directory.path()));
    failing(io_opcode::open, ignore(directory::open(world.directory.path())));
    failing(io_opcode::call, ignore(child_process::spawn(command("true"), {.output = stdio::pipe})));
    BOOST_TEST(!has_children());
    victim = io_opcode::count;
    BOOST_TEST(contents(a) == "x"); // nothing has happened to it
    BOOST_TEST(!std::filesystem::exists(b));
    faults late(world, [](const io_arguments& x) { return x.opcode == io_opcode::close ? io_fault{.report = EIO} : io_fault{}; });
    BOOST_TEST(world.run(error_of(f.close())) == EIO);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(messages_of_paths_name_them, Backend, both_backends) {
    file_world_over<Backend> world;
    const auto message = [&](task<> t) {
        try {
            world.run(std::move(t));
        } catch (const std::system_error& e) {
            return std::string{e.what()};
        }
        return std::string{};
    };
    const std::string missing = world.directory / "missing";
    BOOST_TEST(message(fs::unlink(missing)).find("unlink of '" + missing + "'") == 0u);
    BOOST_TEST(message(ignore(fs::status(missing))).find("status of '" + missing + "'") == 0u);
    BOOST_TEST(message(fs::rename(missing, missing + "2")).find("rename of '" + missing + "'") == 0u);
    BOOST_TEST(message(ignore(child_process::spawn(command(missing)))).find("starting '" + missing + "'") == 0u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_interrupted_close_has_closed_and_is_not_done_again, Backend, both_backends) {
    file_world_over<Backend> world;
    file f = world.run(file::create(world.directory / "a"));
    const unique_fd still_open{f.descriptor()}; // since the fault keeps the close from the kernel
    unsigned closes = 0;
    faults interrupt(world, [&closes](const io_arguments& a) {
        if (a.opcode != io_opcode::close) return io_fault{};
        return ++closes == 1 ? io_fault{.fail_with = EINTR} : io_fault{};
    });
    BOOST_TEST(world.run(error_of(f.close())) == EINTR);
    BOOST_TEST(closes == 1u);
    BOOST_TEST(!f);
    BOOST_TEST(world.engine().statistics().interrupted == 0u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_is_not_aligned_for_direct_io_is_refused, Backend, both_backends) {
    file_world_over<Backend> world;
    file f = open_direct(world, "a");
    if (!f) return;
    io_memory memory(3 * f.alignment());
    const int odd = world.run(error_of(f.write(memory.piece(0, f.alignment()), 100)));
    if (odd == works) {
        std::cout << "SKIPPED: this file system takes every alignment\n";
        return;
    }
    BOOST_TEST(odd == EINVAL); // the offset
    BOOST_TEST(world.run(error_of(f.write(memory.piece(0, 100), 0))) == EINVAL); // the length
    BOOST_TEST(world.run(error_of(await([&] { return f.read(memory.piece(0, 100), 0); }))) == EINVAL);
    BOOST_TEST(world.run(error_of(await([&] { return f.read(memory.piece(0, f.alignment()), 100); }))) == EINVAL);
    BOOST_TEST(world.run(error_of(f.write(memory.piece(0, f.alignment()), 0))) == works); // and the file goes on
}

BOOST_AUTO_TEST_CASE(streams_that_are_not_aligned_for_direct_io_are_refused_at_once) {
    file_world world;
    file f = open_direct(world, "a");
    if (!f) return;
    const std::size_t unit = f.alignment();
    const auto refusal_of = [](auto make) {
        try {
            make();
        } catch (const std::system_error& e) {
            BOOST_TEST(std::string{e.what()}.find("not aligned for O_DIRECT") != std::string::npos);
            return e.code().value();
        }
        return works;
    };
    const auto before = descriptors();
    for (const auto& [offset, size] : {std::pair<std::uint64_t, std::size_t>{100, unit}, {0, unit + 1}}) {
        BOOST_TEST(refusal_of([&] { file_reader in(f, {.offset = offset, .buffer_size = size}); }) == EINVAL);
        BOOST_TEST(refusal_of([&] {
            file_writer out(world.run(file::open(world.directory / "a", {.write = true, .direct = true})),
                            {.offset = offset, .buffer_size = size});
        }) == EINVAL);
    }
    BOOST_TEST(descriptors() == before); // the file that a refused writer was given is closed
    BOOST_TEST(refusal_of([&] { file_reader in(f, {.offset = unit, .buffer_size = unit}); }) == works);
    BOOST_TEST(world.engine().operations().in_flight() == 0u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_direct_flush_whose_cut_fails_says_so_until_a_retry_has_cut, Backend, both_backends) {
    file_world_over<Backend> world;
    if (!open_direct(world, "a")) return;
    bool sick = true;
    faults disk(world, [&sick](const io_arguments& a) {
        return sick && a.opcode == io_opcode::truncate ? io_fault{.fail_with = EIO} : io_fault{};
    });
    world.run([](std::string path, bool& broken) -> task<> {
        file_writer out(co_await file::open(path, {.write = true, .create = true, .direct = true}), {.buffer_size = 8192});
        co_await out.write("a few bytes");
        int failure = co_await error_of(out.flush());
        BOOST_TEST(failure == EIO);
        BOOST_TEST(out.failure() == EIO);
        failure = co_await error_of(out.write("more")); // not accepted while the file is too long
        BOOST_TEST(failure == EIO);
        failure = co_await error_of(out.retry());
        BOOST_TEST(failure == EIO);
        broken = false;
        failure = co_await error_of(out.flush());
        BOOST_TEST(failure == EIO); // it stays
        co_await out.retry();
        BOOST_TEST(contents(path) == "a few bytes");
        co_await out.write(" more");
        co_await out.close();
    }(world.directory / "a", sick));
    BOOST_TEST(contents(world.directory / "a") == "a few bytes more");
    sick = true;
    const auto written = [](std::string path) -> task<> {
        file_writer out(co_await file::open(path, {.write = true, .create = true, .direct = true}), {.buffer_size = 8192});
        co_await out.write("first known at close");
        co_await out.close();
    };
    const auto before = descriptors();
    BOOST_TEST(world.run(error_of(written(world.directory / "b"))) == EIO);
    BOOST_TEST(descriptors() == before); // closed all the same
}

BOOST_AUTO_TEST_CASE_TEMPLATE(without_descriptors_pipes_and_children_say_emfile_and_leave_nothing, Backend, both_backends) {
    file_world_over<Backend> world;
    world.run(child_process::spawn(command("true"))); // helper threads and the like are there
    const auto before = descriptors();
    const auto piped = []() -> task<> {
        static_cast<void>(make_pipe());
        co_return;
    };
    for (const unsigned free : {0u, 1u}) BOOST_TEST(error_with_few(world, free, piped()) == EMFILE);
    if constexpr (!Backend::ring) { // a wait without a ring watches through a descriptor of its own
        auto [out, in] = make_pipe();
        BOOST_TEST(error_with_few(world, 0, ignore(out.read_all())) == EMFILE);
    }
    // One by one they run out: at /dev/null, in the middle of a pipe, at the pidfd of a child that runs already.
    unsigned failed = 0;
    for (unsigned free = 0; free < 8; ++free) {
        const int error = error_with_few(world, free, ignore(child_process::spawn(command("sleep", "1000"), {.output = stdio::pipe})));
        BOOST_TEST((error == EMFILE || error == works));
        failed += error == EMFILE ? 1 : 0;
        if (error == works) break;
    }
    BOOST_TEST(failed >= 4u); // /dev/null, both ends, the pidfd
    BOOST_TEST(!has_children());
    BOOST_TEST(descriptors() == before);
}

BOOST_AUTO_TEST_CASE(without_a_thread_to_be_had_an_operation_fails_with_eagain) {
    const pid_t child = ::fork();
    BOOST_REQUIRE(child >= 0);
    if (child == 0) { // where no thread can be made: ulimit -u, or the cgroup's pids.max
        std::array<sock_filter, 5> program{
            sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
            sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
            sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
            sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const sock_fprog filter{program.size(), program.data()};
        int status = 90;
        try {
            file_world world(io_options{.allow_uring = false});
            put(world.directory / "a", "x");
            if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0) {
                const int error = world.run(error_of(ignore(file::open(world.directory / "a"))));
                status = error == EAGAIN && world.engine().helped().in_flight() == 0 && world.engine().helpers() == 0 ? 0 : 91;
            }
        } catch (...) {
            status = 92;
        }
        ::_exit(status);
    }
    int status = 0;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    BOOST_TEST(WIFEXITED(status));
    BOOST_TEST(WEXITSTATUS(status) == 0);
}

/// What timerfd_create(2) says of TFD_TIMER_CANCEL_ON_SET. Nobody sets this machine's clock for a test: the kernel's answer is made.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_clock_that_is_set_ends_a_wait_for_its_time, Backend, both_backends) {
    file_world_over<Backend> world;
    bool set = true;
    faults clock(world, [&set](const io_arguments& a) {
        return set && a.opcode == io_opcode::read ? io_fault{.fail_with = ECANCELED} : io_fault{};
    });
    world.run([](bool& was_set) -> task<> {
        descriptor_timer timer(descriptor_timer::clock::wall);
        timer.arm_at(std::chrono::system_clock::now() + std::chrono::milliseconds{5});
        const int failure = co_await error_of(ignore(timer.expirations()));
        BOOST_TEST(failure == ECANCELED);
        was_set = false;
        const std::uint64_t once = co_await timer.expirations(); // it is still armed
        BOOST_TEST(once == 1u);
    }(set));
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire::testing
