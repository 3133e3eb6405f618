// Deadlines and stop tokens of everything that waits: names, directories, pipes, children, and the end of a writer.
#include "file_fixture.hh"

#include <corewire/file.hh>
#include <corewire/reactor/file/directory.hh>
#include <corewire/reactor/file/file_writer.hh>
#include <corewire/reactor/file/paths.hh>

#include <fcntl.h>
#include <functional>
#include <sys/stat.h>
#include <sys/wait.h>

namespace corewire::testing {

namespace {

template <typename T>
task<> ignore(task<T> t) {
    co_await t;
}

task<> watched(task<> work, int& error, bool& done) {
    error = co_await error_of(std::move(work));
    done = true;
}

/// Both limits end what `make` waits for while the disk holds still, and one that has been reached already ends it at once.
void each_limit_ends(file_world& world, const std::function<task<>(wait_limits)>& make, const char* what) {
    faults still(world, [](const io_arguments&) { return io_fault{.hold = true}; });
    BOOST_TEST_CONTEXT(what) {
        const wait_limits soon{.deadline = world.loop.now() + std::chrono::milliseconds{1}};
        BOOST_TEST(world.run(error_of(make(soon))) == ETIMEDOUT);
        BOOST_TEST(world.run(error_of(make(soon))) == ETIMEDOUT); // over before it began
        stop_source stop;
        int error = 0;
        bool done = false;
        world.loop.root_group().spawn(watched(make({.stop = stop.token()}), error, done));
        world.turn();
        BOOST_TEST(!done);
        stop.request_stop();
        world.turn_until([&] { return done; });
        BOOST_TEST(error == ECANCELED);
        BOOST_TEST(world.run(error_of(make({.stop = stop.token()}))) == ECANCELED);
    }
    BOOST_TEST(world.engine().operations().in_flight() == 0u);
    BOOST_TEST(world.engine().helped().in_flight() == 0u);
    BOOST_TEST(world.engine().waits().in_flight() == 0u);
}

bool has_children() { return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

} // namespace

BOOST_AUTO_TEST_SUITE(limits)

BOOST_AUTO_TEST_CASE_TEMPLATE(what_is_done_to_names_has_limits, Backend, both_backends) {
    file_world_over<Backend> world;
    const std::string a = world.directory / "a";
    const std::string b = world.directory / "b";
    put(a, "x");
    each_limit_ends(world, [&](wait_limits l) { return ignore(fs::status(a, true, l)); }, "status");
    each_limit_ends(world, [&](wait_limits l) { return fs::rename(a, b, true, l); }, "rename");
    each_limit_ends(world, [&](wait_limits l) { return fs::unlink(a, l); }, "unlink");
    each_limit_ends(world, [&](wait_limits l) { return fs::remove_directory(a, l); }, "remove_directory");
    each_limit_ends(world, [&](wait_limits l) { return fs::link(a, b, l); }, "link");
    each_limit_ends(world, [&](wait_limits l) { return fs::symlink(a, b, l); }, "symlink");
    each_limit_ends(world, [&](wait_limits l) { return fs::make_directory(b, 0755, l); }, "make_directory");
    each_limit_ends(world, [&](wait_limits l) { return fs::sync_directory(world.directory.path(), l); }, "sync_directory");
    BOOST_TEST(contents(a) == "x"); // what never began has done nothing
    BOOST_TEST(!std::filesystem::exists(b));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_listing_has_limits_and_goes_on_after_them, Backend, both_backends) {
    file_world_over<Backend> world;
    put(world.directory / "a", "x");
    each_limit_ends(world, [&](wait_limits l) { return ignore(directory::open(world.directory.path(), l)); }, "open");
    directory d = world.run(directory::open(world.directory.path()));
    each_limit_ends(world, [&](wait_limits l) { return ignore(d.next(l)); }, "next");
    const auto entry = world.run(d.next());
    BOOST_REQUIRE(entry.has_value());
    BOOST_TEST(entry->name == "a");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(starting_a_child_has_limits_and_leaves_none_behind, Backend, both_backends) {
    file_world_over<Backend> world;
    const auto descriptors = [] {
        return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator{});
    };
    world.run(child_process::spawn(command("true"))); // helper threads and the like are there
    const auto before = descriptors();
    const auto started = [](wait_limits l) {
        return ignore(child_process::spawn(command("sleep", "1000"), {.input = stdio::pipe, .output = stdio::pipe}, l));
    };
    each_limit_ends(world, started, "spawn");
    BOOST_TEST(!has_children());
    BOOST_TEST(descriptors() == before);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_fifo_without_a_writer_holds_no_open_up, Backend, both_backends) {
    file_world_over<Backend> world;
    const std::string fifo = world.directory / "fifo";
    BOOST_REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    const auto opened = [](std::string path) -> task<> {
        file f = co_await file::open(path, {}, {.deadline = reactor::current().now() + std::chrono::milliseconds{5}});
        BOOST_TEST((::fcntl(f.descriptor(), F_GETFL) & O_NONBLOCK) == 0); // nobody has asked for that
    };
    const int failure = world.run(error_of(opened(fifo)));
    BOOST_TEST((failure == 0 || (Backend::ring && failure == ETIMEDOUT))); // the kernel's worker may wait, until it is called back
}

/// How much went out is unknown to who wrote; it is a beginning of what was to be written, whatever ended it.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_write_to_a_full_pipe_has_limits, Backend, both_backends) {
    const std::string text = pattern(1'000'000); // more than a pipe holds
    for (const bool by_stop : {false, true}) {
        file_world_over<Backend> world;
        auto [out, in] = make_pipe();
        stop_source stop;
        int error = 0;
        bool done = false;
        const wait_limits until = by_stop ? wait_limits{.stop = stop.token()}
                                          : wait_limits{.deadline = world.loop.now() + std::chrono::milliseconds{3}};
        world.loop.root_group().spawn(watched(in.write(text, until), error, done));
        world.turn(1000);
        if (by_stop) stop.request_stop();
        world.turn_until([&] { return done; });
        BOOST_TEST(error == (by_stop ? ECANCELED : ETIMEDOUT));
        BOOST_TEST(world.engine().waits().in_flight() == 0u);
        in.close();
        const std::string got = world.run(out.read_all());
        BOOST_TEST(got.size() < text.size());
        BOOST_TEST((text.compare(0, got.size(), got) == 0));
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(the_last_step_of_closing_a_writer_has_limits_too, Backend, both_backends) {
    file_world_over<Backend> world;
    const auto descriptors = [] {
        return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator{});
    };
    world.run(ignore(file::open("/dev/null"))); // helper threads and the like are there
    const auto before = descriptors();
    bool closing = false;
    faults slow(world, [&closing](const io_arguments& a) {
        closing = a.opcode == io_opcode::close;
        return closing ? io_fault{.hold = true} : io_fault{};
    });
    stop_source stop;
    file_writer out(world.run(file::create(world.directory / "a")), {.buffer_size = 4096});
    world.run(out.write("all of it"));
    int error = 0;
    bool done = false;
    world.loop.root_group().spawn(watched(out.close({.stop = stop.token()}), error, done));
    world.turn_until([&] { return closing; });
    BOOST_TEST(!done);
    stop.request_stop();
    world.turn_until([&] { return done; });
    BOOST_TEST(error == ECANCELED);
    BOOST_TEST(descriptors() == before); // it is closed all the same
    BOOST_TEST(world.run(error_of(out.close())) == EBADF);
    BOOST_TEST(contents(world.directory / "a") == "all of it");
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire::testing
