// What stands between a coroutine and the kernel: limits, fairness, cancelling, faults, and life without io_uring.
#include "file_fixture.hh"

#include <corewire/reactor/file/uring.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/run_in.hh>
#include <corewire/reactor/task/sleep.hh>

#include <cstddef>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace corewire::testing {

namespace {

struct pipe_ends {
    pipe_ends() {
        std::array<int, 2> both{};
        BOOST_REQUIRE(::pipe2(both.data(), O_CLOEXEC) == 0);
        out = unique_fd{both[0]};
        in = unique_fd{both[1]};
    }
    void say(std::string_view text) const { BOOST_REQUIRE(::write(in.get(), text.data(), text.size()) == ssize_t(text.size())); }
    unique_fd out;
    unique_fd in;
};

io_arguments stream_read(int fd, mutable_byte_span into) {
    io_arguments a;
    a.opcode = io_opcode::read;
    a.waits = true;
    a.fd = fd;
    a.address = into.data();
    a.length = into.size();
    a.offset = io_arguments::no_offset;
    return a;
}

/// Reads once from a pipe; remembers how it ended.
struct reading {
    std::array<std::byte, 64> into{};
    int result = 0;
    bool done = false;
    static task<> run(reading& r, int fd, wait_limits limits) {
        r.result = co_await io_attempt(stream_read(fd, r.into), limits);
        r.done = true;
    }
};

std::ptrdiff_t descriptors() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator{});
}

/// A request that remembers.
struct probe final : io_request {
    explicit probe(const io_arguments& a, std::vector<int>* log = nullptr, int number = 0)
        : io_request(a, [](io_request& r, int rc) noexcept {
              auto& self = static_cast<probe&>(r);
              ++self.completions;
              self.result = rc;
              if (self.order != nullptr) self.order->push_back(self.id);
          }),
          order(log), id(number) {}
    std::vector<int>* order;
    int id;
    int completions = 0;
    int result = 0;
};

} // namespace

BOOST_AUTO_TEST_SUITE(io_requests)

BOOST_AUTO_TEST_CASE_TEMPLATE(a_deadline_ends_a_wait_and_the_kernel_lets_go, Backend, both_backends) {
    file_world_over<Backend> world;
    pipe_ends pipe;
    reading r;
    spawn(reading::run(r, pipe.out.get(), {.deadline = world.loop.now() + std::chrono::milliseconds{5}}));
    world.turn_until([&] { return r.done; });
    BOOST_TEST(r.result == -ETIMEDOUT);
    BOOST_TEST(world.engine().waits().in_flight() == 0u);
    pipe.say("late"); // nobody takes it
    std::array<char, 8> rest{};
    BOOST_TEST(::read(pipe.out.get(), rest.data(), rest.size()) == 4);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_stop_token_ends_a_wait, Backend, both_backends) {
    file_world_over<Backend> world;
    pipe_ends pipe;
    stop_source stop;
    reading r;
    spawn(reading::run(r, pipe.out.get(), {.stop = stop.token()}));
    world.turn();
    BOOST_TEST(!r.done);
    stop.request_stop();
    world.turn_until([&] { return r.done; });
    BOOST_TEST(r.result == -ECANCELED);
    reading late;
    spawn(reading::run(late, pipe.out.get(), {.stop = stop.token()}));
    BOOST_TEST(late.done);
    BOOST_TEST(late.result == -ECANCELED);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_the_kernel_did_before_the_stop_is_not_thrown_away, Backend, both_backends) {
    file_world_over<Backend> world;
    pipe_ends pipe;
    stop_source stop;
    reading r;
    spawn(reading::run(r, pipe.out.get(), {.stop = stop.token()}));
    world.turn();
    pipe.say("just in time");
    if (world.engine().has_ring()) {
        stop.request_stop(); // the kernel has read, or will have when it looks at the request to cancel
        world.turn_until([&] { return r.done; });
        std::array<char, 16> rest{};
        const ssize_t left = r.result < 0 ? ::read(pipe.out.get(), rest.data(), rest.size()) : 0;
        BOOST_TEST((r.result == 12 || left == 12)); // either way nothing is lost
    } else {
        world.turn_until([&] { return r.done; });
        stop.request_stop();
        BOOST_TEST(r.result == 12);
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_destroyed_wait_takes_its_buffer_back, Backend, both_backends) {
    file_world_over<Backend> world;
    pipe_ends pipe;
    reading r;
    {
        task<> waiting = reading::run(r, pipe.out.get(), {});
        waiting.handle().resume();
        world.turn();
        BOOST_TEST(world.engine().waits().in_flight() == 1u);
    }
    BOOST_TEST(world.engine().waits().in_flight() == 0u);
    pipe.say("late");
    world.turn();
    BOOST_TEST(!r.done);
    BOOST_TEST((r.into[0] == std::byte{0}));
    std::array<char, 8> rest{};
    BOOST_TEST(::read(pipe.out.get(), rest.data(), rest.size()) == 4);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_regular_file_is_ready_at_once_and_keeps_its_place_as_a_stream, Backend, both_backends) {
    file_world_over<Backend> world;
    put(world.directory / "a", pattern(100));
    const unique_fd f{::open((world.directory / "a").c_str(), O_RDWR | O_CLOEXEC)};
    io_arguments until_ready;
    until_ready.opcode = io_opcode::poll;
    until_ready.waits = true;
    until_ready.fd = f.get();
    until_ready.flags = POLLIN;
    probe ready(until_ready);
    world.engine().submit(ready);
    BOOST_TEST(ready.completions == 0); // never from inside
    world.turn_until([&] { return ready.completions == 1; });
    BOOST_TEST(ready.result == POLLIN);
    std::string got;
    for (const std::size_t expected : {64u, 36u, 0u}) {
        std::array<std::byte, 64> into;
        probe part(stream_read(f.get(), into));
        world.engine().submit(part);
        world.turn_until([&] { return part.completions == 1; });
        BOOST_REQUIRE(part.result == int(expected));
        got.append(reinterpret_cast<const char*>(into.data()), expected);
    }
    BOOST_TEST((got == pattern(100)));
    BOOST_TEST(world.engine().waits().in_flight() == 0u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(destroyed_disk_operations_are_waited_for, Backend, both_backends) {
    file_world_over<Backend> world;
    put(world.directory / "a", pattern(1 << 20));
    file f = world.run(file::open(world.directory / "a"));
    for (int round = 0; round < 50; ++round) {
        std::vector<std::byte> into(1 << 20);
        task<std::size_t> whole = f.read_exactly(mutable_byte_span{into}, 0);
        whole.handle().resume();
        world.turn(round % 3);
    } // the memory goes with the request under way: the sanitizers look on
    BOOST_TEST(world.engine().operations().in_flight() == 0u);
    BOOST_TEST(world.engine().helped().in_flight() == 0u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_open_that_nobody_waits_for_any_more_leaks_no_descriptor, Backend, both_backends) {
    file_world_over<Backend> world;
    put(world.directory / "a", "x");
    world.run(file::open(world.directory / "a"));
    const auto before = descriptors();
    for (int round = 0; round < 100; ++round) {
        task<file> opening = file::open(world.directory / "a");
        opening.handle().resume();
        world.turn(round % 4);
    }
    for (int round = 0; round < 100; ++round) {
        file f = world.run(file::open(world.directory / "a"));
        task<> closing = f.close();
        closing.handle().resume();
        world.turn(round % 4);
    }
    BOOST_TEST(descriptors() == before);
}

/// Between the completion and the coroutine's turn somebody else, as with_deadline(), destroys it.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_descriptor_that_came_for_nobody_is_closed, Backend, both_backends) {
    file_world_over<Backend> world;
    put(world.directory / "a", "x");
    world.run(file::open(world.directory / "a"));
    const auto before = descriptors();
    destroy_completed(world, file::open(world.directory / "a"));
    BOOST_TEST(descriptors() == before);
    file f = world.run(file::open(world.directory / "a"));
    destroy_completed(world, f.close());
    BOOST_TEST(descriptors() == before);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_close_that_a_limit_ended_closes_also_when_nobody_hears_of_it, Backend, both_backends) {
    file_world_over<Backend> world;
    put(world.directory / "a", "x");
    world.run(file::open(world.directory / "a"));
    const auto before = descriptors();
    file by_stop = world.run(file::open(world.directory / "a"));
    file by_deadline = world.run(file::open(world.directory / "a"));
    faults still(world, [](const io_arguments&) { return io_fault{.hold = true}; });
    stop_source stop;
    task<> closing = by_stop.close({.stop = stop.token()});
    closing.handle().resume();
    stop.request_stop();
    BOOST_TEST(!closing.done());
    closing = {};
    destroy_completed(world, by_deadline.close({.deadline = world.loop.now() + std::chrono::milliseconds{1}}));
    BOOST_TEST(descriptors() == before);
}

/// The number may be somebody else's by then.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_close_that_the_file_system_says_has_timed_out_is_not_done_twice, Backend, both_backends) {
    file_world_over<Backend> world;
    put(world.directory / "a", "x");
    for (const bool destroyed : {false, true}) {
        file f = world.run(file::open(world.directory / "a"));
        int number = -1;
        unique_fd next;
        faults remote(world, [&number](const io_arguments& a) {
            number = a.fd;
            return io_fault{.report = ETIMEDOUT};
        });
        task<> closing = f.close({.deadline = world.loop.now() + std::chrono::hours{1}});
        closing.handle().resume();
        once_completed(world, [&] {
            next.reset(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, number));
            if (destroyed) closing = {};
        });
        world.turn();
        BOOST_TEST(next.get() == number);
        BOOST_TEST(::fcntl(number, F_GETFD) != -1);
        if (!destroyed) BOOST_CHECK_THROW(closing.handle().promise().take(), std::system_error);
    }
}

BOOST_AUTO_TEST_CASE(no_more_than_the_limit_are_in_flight_and_the_line_is_fifo) {
    file_world world(io_options{.in_flight = 4});
    faults hold(world, [](const io_arguments&) { return io_fault{.hold = true}; });
    std::vector<int> order;
    std::vector<std::unique_ptr<probe>> all;
    for (int i = 0; i < 20; ++i) {
        all.push_back(std::make_unique<probe>(io_arguments{}, &order, i));
        world.engine().submit(*all.back());
    }
    BOOST_TEST(world.engine().operations().in_flight() == 4u);
    BOOST_TEST(world.engine().operations().waiting() == 16u);
    BOOST_TEST(world.engine().statistics().waited_in_line == 16u);
    world.engine().cancel(*all[10]);
    world.engine().cancel(*all[2]);
    BOOST_TEST(all[10]->result == -ECANCELED);
    BOOST_TEST(world.engine().operations().in_flight() == 4u); // the next in line has come up
    for (int i = 0; i < 100 && world.engine().release_held(); ++i) world.turn(50);
    world.turn_until([&] { return order.size() == 20; });
    std::vector<int> expected{10, 2};
    for (int i = 0; i < 20; ++i)
        if (i != 10 && i != 2) expected.push_back(i);
    BOOST_TEST(order == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(groups_in_line_are_served_by_their_shares) {
    io_line line(1);
    io_arguments nothing;
    std::vector<std::unique_ptr<probe>> all;
    all.push_back(std::make_unique<probe>(nothing));
    BOOST_TEST(line.enter(*all.back(), 0, 1)); // takes the one place
    for (int i = 0; i < 400; ++i) {
        all.push_back(std::make_unique<probe>(nothing, nullptr, 1));
        BOOST_TEST(!line.enter(*all.back(), 1, 100));
    }
    for (int i = 0; i < 400; ++i) {
        all.push_back(std::make_unique<probe>(nothing, nullptr, 2));
        BOOST_TEST(!line.enter(*all.back(), 2, 300));
    }
    int first = 0;
    for (int i = 0; i < 400; ++i) {
        line.leave();
        first += static_cast<probe&>(*line.next()).id == 1 ? 1 : 0;
    }
    BOOST_TEST(first >= 98);
    BOOST_TEST(first <= 102);
    line.leave();
    while (line.next() != nullptr) line.leave();
}

/// What counts is what is moved, not in how many pieces.
BOOST_AUTO_TEST_CASE(groups_in_line_are_served_by_bytes) {
    constexpr std::uint64_t piece = io_line::bytes_a_unit;
    std::array<iovec, 64> pieces;
    pieces.fill({nullptr, piece});
    std::array<io_arguments, 4> kinds;
    kinds[0].opcode = io_opcode::write;
    kinds[0].length = 64 * piece;
    kinds[1].opcode = io_opcode::write_vectored;
    kinds[1].address = pieces.data();
    kinds[1].length = pieces.size();
    kinds[2].opcode = io_opcode::copy;
    kinds[2].length = 64 * piece;
    kinds[3].opcode = io_opcode::read;
    kinds[3].length = piece;
    io_line line(1);
    probe first{io_arguments{}};
    BOOST_TEST(line.enter(first, 0, 1));
    std::vector<std::unique_ptr<probe>> all;
    for (int i = 0; i < 1000; ++i)
        for (unsigned kind = 0; kind < 4; ++kind) {
            all.push_back(std::make_unique<probe>(kinds[kind], nullptr, kind));
            BOOST_REQUIRE(!line.enter(*all.back(), kind + 1, 100));
        }
    std::array<int, 4> served{};
    while (served[0] < 20) {
        line.leave();
        ++served[static_cast<std::size_t>(static_cast<probe&>(*line.next()).id)];
    }
    BOOST_TEST(served[1] >= 19);
    BOOST_TEST(served[1] <= 20);
    BOOST_TEST(served[2] >= 19);
    BOOST_TEST(served[2] <= 20);
    BOOST_TEST(served[3] >= 600); // at two units, beside 65
    BOOST_TEST(served[3] <= 660);
    line.leave();
    while (line.next() != nullptr) line.leave();
}

namespace {

/// Two groups that always want more of `what` get it 1 : 3, as their shares are.
void busy_groups_share(file_world& world, const io_arguments& what) {
    std::array<unsigned, 2> done{};
    bool stop = false;
    const auto work = [](io_arguments a, unsigned& count, const bool& enough) -> task<> {
        while (!enough) {
            co_await io_attempt(a, {});
            ++count;
        }
    };
    const scheduling_group few = world.loop.make_scheduling_group("few", 100);
    const scheduling_group many = world.loop.make_scheduling_group("many", 300);
    for (int i = 0; i < 40; ++i) {
        spawn(run_in(few, work(what, done[0], stop)));
        spawn(run_in(many, work(what, done[1], stop)));
    }
    world.turn_until([&] { return done[0] + done[1] >= 4000; });
    BOOST_TEST(done[0] >= 900u);
    BOOST_TEST(done[0] <= 1100u);
    stop = true;
    world.turn_until([&] { return world.loop.root_group().size() == 0; });
}

} // namespace

BOOST_AUTO_TEST_CASE(busy_scheduling_groups_share_the_disk_as_they_share_the_core) {
    file_world world(io_options{.in_flight = 1});
    busy_groups_share(world, io_arguments{});
}

BOOST_AUTO_TEST_CASE_TEMPLATE(busy_scheduling_groups_share_the_helper_threads_too, Backend, both_backends) {
    file_world_over<Backend> world;
    io_arguments call;
    call.opcode = io_opcode::call;
    call.function = [](void*) noexcept { return 0; };
    busy_groups_share(world, call);
    BOOST_TEST(world.engine().statistics().by_helpers == world.engine().statistics().submitted);
}

BOOST_AUTO_TEST_CASE(busy_scheduling_groups_share_what_there_is_without_a_ring) {
    file_world_over<over_helpers> world;
    put(world.directory / "a", "x");
    file f = world.run(file::open(world.directory / "a"));
    std::array<std::byte, 1> into;
    busy_groups_share(world, f.bytes_at(io_opcode::read, into.data(), into.size(), 0, -1));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_listing_is_next_also_where_many_copies_wait, Backend, both_backends) {
    io_options options = Backend::options();
    options.helpers = 1;
    file_world world(options);
    put(world.directory / "a", pattern(4096));
    const unique_fd from(::open((world.directory / "a").c_str(), O_RDONLY | O_CLOEXEC));
    const unique_fd to(::open((world.directory / "b").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const unique_fd names(::open(world.directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    io_arguments copy;
    copy.opcode = io_opcode::copy;
    copy.fd = from.get();
    copy.other_fd = to.get();
    copy.length = 4096;
    std::array<std::byte, 4096> entries;
    io_arguments list;
    list.opcode = io_opcode::list;
    list.fd = names.get();
    list.address = entries.data();
    list.length = entries.size();
    std::vector<io_opcode> order;
    faults watch(world, [&order](const io_arguments& a) {
        order.push_back(a.opcode);
        return io_fault{};
    });
    bool stop = false;
    const auto copying = [](io_arguments a, const bool& enough) -> task<> {
        while (!enough) co_await io_attempt(a, {});
    };
    const scheduling_group batch = world.loop.make_scheduling_group("batch", 100);
    for (int i = 0; i < 8; ++i) spawn(run_in(batch, copying(copy, stop)));
    world.turn_until([&] { return order.size() >= 100 && world.engine().helped().waiting() > 0; });
    BOOST_TEST(world.engine().helped().in_flight() <= 2u); // one that is done, one at hand
    const std::size_t before = order.size();
    probe listing(list);
    world.engine().submit(listing);
    world.turn_until([&] { return listing.completions == 1; });
    BOOST_TEST(listing.result > 0);
    BOOST_TEST((order.at(before) == io_opcode::list));
    stop = true;
    world.turn_until([&] { return world.loop.root_group().size() == 0; });
}

BOOST_AUTO_TEST_CASE(waits_do_not_use_up_the_places_of_disk_operations) {
    file_world world(io_options{.in_flight = 2, .waits = 2});
    pipe_ends pipe;
    std::array<reading, 4> all;
    for (reading& r : all) spawn(reading::run(r, pipe.out.get(), {}));
    world.turn();
    BOOST_TEST(world.engine().waits().in_flight() == 2u);
    BOOST_TEST(world.engine().waits().waiting() == 2u);
    put(world.directory / "a", "disk");
    world.run([](std::string path) -> task<> {
        file f = co_await file::open(path);
        std::string into(4, '\0');
        const std::size_t n = co_await f.read(bytes_of(into), 0);
        BOOST_TEST(n == 4u);
    }(world.directory / "a"));
    for (int i = 0; i < 4; ++i) {
        pipe.say("x");
        world.turn_until([&] { return std::count_if(all.begin(), all.end(), [](reading& r) { return r.done; }) == i + 1; });
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(short_reads_and_writes_lose_nothing, Backend, both_backends) {
    file_world_over<Backend> world;
    faults seven(world, [](const io_arguments& a) { return a.moves_bytes() ? io_fault{.at_most = 7} : io_fault{}; });
    const std::string text = pattern(1000);
    world.run([](std::string path, std::string what) -> task<> {
        file f = co_await file::create(path);
        const std::size_t some = co_await f.write_some(bytes_of(what), 0);
        BOOST_TEST(some == 7u);
        co_await f.write(what, 0);
        std::string into(2000, '\0');
        const std::size_t n = co_await f.read_exactly(bytes_of(into), 0);
        BOOST_TEST(n == 1000u);
        BOOST_TEST((into.substr(0, n) == what));
        const std::array<iovec, 2> pieces{iovec{what.data(), 3}, iovec{what.data() + 3, 4}};
        const std::size_t first = co_await f.write_vectored(pieces, 0);
        BOOST_TEST(first == 3u);
    }(world.directory / "a", text));
    BOOST_TEST((contents(world.directory / "a") == text));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_interrupted_operation_is_done_again, Backend, both_backends) {
    file_world_over<Backend> world;
    int left = 3;
    faults interrupt(world, [&left](const io_arguments& a) {
        return a.opcode == io_opcode::write && left-- > 0 ? io_fault{.fail_with = EINTR} : io_fault{};
    });
    world.run([](std::string path) -> task<> {
        file f = co_await file::create(path);
        co_await f.write("in the end", 0);
    }(world.directory / "a"));
    BOOST_TEST(contents(world.directory / "a") == "in the end");
    BOOST_TEST(world.engine().statistics().interrupted == 3u);
}

BOOST_AUTO_TEST_CASE(a_full_ring_refuses_nobody) {
    file_world world(io_options{.in_flight = 100'000});
    std::vector<std::unique_ptr<probe>> all;
    for (unsigned i = 0; i < 5000; ++i) { // several times what the submission queue holds, in one turn
        all.push_back(std::make_unique<probe>(io_arguments{}));
        world.engine().submit(*all.back());
    }
    world.turn_until([&] { return world.engine().statistics().completed == 5000; });
    for (const auto& each : all) BOOST_REQUIRE(each->completions == 1);
}

BOOST_AUTO_TEST_CASE(a_kernel_thread_may_submit) {
    file_world world(io_options{.sqpoll = true});
    BOOST_TEST(world.engine().description().find("SQPOLL") != std::string::npos);
    std::vector<std::unique_ptr<probe>> all;
    for (unsigned i = 0; i < 3000; ++i) {
        all.push_back(std::make_unique<probe>(io_arguments{}));
        world.engine().submit(*all.back());
    }
    world.turn_until([&] { return world.engine().statistics().completed == 3000; });
    world.run([](std::string path) -> task<> {
        file f = co_await file::create(path);
        co_await f.write("by the kernel's thread", 0);
        co_await f.close();
    }(world.directory / "a"));
    BOOST_TEST(contents(world.directory / "a") == "by the kernel's thread");
}

BOOST_AUTO_TEST_CASE(a_batch_of_requests_is_one_system_call) {
    file_world world;
    put(world.directory / "a", pattern(4096));
    file f = world.run(file::open(world.directory / "a"));
    const auto one = [](file& from) -> task<> {
        std::array<std::byte, 16> into;
        co_await from.read(mutable_byte_span{into}, 0);
    };
    const std::uint64_t before = world.loop.io().statistics().enters;
    for (int i = 0; i < 64; ++i) spawn(one(f));
    world.turn_until([&] { return world.loop.root_group().size() == 0; });
    BOOST_TEST(world.loop.io().statistics().enters - before <= 2u);
    const std::uint64_t idle = world.loop.io().statistics().enters;
    world.turn(1000);
    BOOST_TEST(world.loop.io().statistics().enters == idle);
}

BOOST_AUTO_TEST_CASE(the_ring_says_how_it_was_made) {
    file_world world;
    BOOST_TEST(world.engine().description().find("io_uring") == 0u);
    BOOST_TEST_MESSAGE(world.engine().description());
    file_world without(io_options{.allow_uring = false});
    BOOST_TEST(without.engine().description().find("at most 4 helper threads: ") == 0u);
}

/// In a child, whose system calls io_uring_setup fail like in a container that forbids them.
void without_io_uring(int error, const std::function<int()>& work, std::string& said) {
    pipe_ends out;
    const pid_t child = ::fork();
    BOOST_REQUIRE(child >= 0);
    if (child == 0) {
        ::dup2(out.in.get(), 2);
        std::array<sock_filter, 4> program{
            sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
            sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
            sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const sock_fprog filter{program.size(), program.data()};
        if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ::_exit(90);
        if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) ::_exit(91);
        int status = 92;
        try {
            status = work();
        } catch (...) {
        }
        ::_exit(status);
    }
    out.in.reset();
    std::array<char, 4096> text{};
    for (ssize_t n; (n = ::read(out.out.get(), text.data(), text.size())) > 0;) said.append(text.data(), static_cast<std::size_t>(n));
    int status = 0;
    ::waitpid(child, &status, 0);
    BOOST_TEST(WIFEXITED(status));
    BOOST_TEST(WEXITSTATUS(status) == 0);
}

BOOST_AUTO_TEST_CASE(where_io_uring_is_forbidden_files_work_and_one_message_says_so) {
    for (const int error : {EPERM, ENOSYS}) {
        std::string said;
        without_io_uring(error, [] {
            for (int shard = 0; shard < 2; ++shard) {
                file_world world;
                if (world.engine().has_ring()) return 1;
                world.run([](std::string path) -> task<> {
                    file f = co_await file::create(path);
                    co_await f.write("without a ring", 0);
                    co_await f.sync();
                    co_await f.close();
                }(world.directory / "a"));
                if (contents(world.directory / "a") != "without a ring") return 2;
            }
            return 0;
        }, said);
        BOOST_TEST(std::count(said.begin(), said.end(), '\n') == 1);
        BOOST_TEST(said.find("files and pipes go through 4 helper threads a shard") == 0u);
        BOOST_TEST(said.find(error == EPERM ? "kernel.io_uring_disabled" : "no io_uring") != std::string::npos);
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_reactor_asleep_is_woken_by_a_completion, Backend, both_backends) {
    reactor loop({.spin = std::chrono::microseconds{0}, .io = Backend::options()});
    reactor::scope here(loop);
    temporary_directory directory;
    pipe_ends pipe;
    spawn([](reactor& r, std::string path, pipe_ends& p) -> task<> {
        file f = co_await file::create(path);
        for (int i = 0; i < 20; ++i) {
            co_await f.write("x", static_cast<std::uint64_t>(i));
            co_await f.sync();
        }
        co_await f.close();
        const auto later = [](pipe_ends& to) -> task<> {
            co_await sleep_for(std::chrono::milliseconds{20});
            to.say("wake up");
        };
        spawn(later(p));
        std::array<std::byte, 16> into;
        const int n = co_await io_attempt(stream_read(p.out.get(), into), {});
        BOOST_TEST(n == 7);
        r.request_exit();
    }(loop, directory / "a", pipe));
    loop.run();
    BOOST_TEST(loop.sleeps() > 0u);
    BOOST_TEST(contents(directory / "a").size() == 20u);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire::testing
