// Reading ahead, writing behind, copying: and above all what is said when the disk fails.
#include "file_fixture.hh"

#include <corewire/reactor/file/file_copy.hh>
#include <corewire/reactor/file/file_reader.hh>
#include <corewire/reactor/file/file_writer.hh>
#include <corewire/reactor/task/task_group.hh>

#include <fcntl.h>
#include <iostream>
#include <unistd.h>

namespace corewire::testing {

namespace {

task<std::string> read_all(std::string path, file_reader_options options = {}, bool direct = false) {
    file f = co_await file::open(std::move(path), {.direct = direct});
    file_reader in(f, options);
    std::string all;
    for (;;) {
        const byte_span part = co_await in.read();
        if (part.empty()) break;
        all.append(reinterpret_cast<const char*>(part.data()), part.size());
    }
    BOOST_TEST(in.position() == options.offset + all.size());
    co_return all;
}

task<bool> direct_works(std::string path) {
    try {
        file f = co_await file::open(std::move(path), {.write = true, .create = true, .direct = true});
    } catch (const std::system_error&) {
        co_return false;
    }
    co_return true;
}

constexpr file_writer_options small{.buffer_size = 4096, .buffers = 3};

} // namespace

BOOST_AUTO_TEST_SUITE(streams)

BOOST_AUTO_TEST_CASE_TEMPLATE(a_reader_gives_the_file_in_order, Backend, both_backends) {
    file_world_over<Backend> world;
    for (const std::size_t size : {0u, 1u, 4095u, 4096u, 4097u, 3 * 4096u, 100'000u}) {
        const std::string text = pattern(size);
        put(world.directory / "a", text);
        BOOST_TEST((world.run(read_all(world.directory / "a", {.buffer_size = 4096, .buffers = 3})) == text));
        const std::string middle = world.run(read_all(world.directory / "a", {.offset = 100, .length = 5000, .buffer_size = 1024}));
        BOOST_TEST((middle == (size > 100 ? text.substr(100, 5000) : "")));
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_reader_reads_ahead_and_no_further_than_its_buffers, Backend, both_backends) {
    file_world_over<Backend> world;
    put(world.directory / "a", pattern(100'000));
    file f = world.run(file::open(world.directory / "a"));
    std::uint64_t furthest = 0;
    faults watch(world, [&furthest](const io_arguments& a) {
        if (a.opcode == io_opcode::read) furthest = std::max(furthest, a.offset + a.length);
        return io_fault{};
    });
    file_reader in(f, {.buffer_size = 1000, .buffers = 5});
    world.turn(20'000);
    BOOST_TEST(furthest == 5000u);
    world.run([](file_reader& r) -> task<> {
        co_await r.read();
        co_await r.read(); // the first is used now
    }(in));
    BOOST_TEST(furthest == 6000u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(short_reads_leave_no_gap, Backend, both_backends) {
    file_world_over<Backend> world;
    const std::string text = pattern(20'000);
    put(world.directory / "a", text);
    faults shorten(world, [](const io_arguments& a) { return a.moves_bytes() ? io_fault{.at_most = 333} : io_fault{}; });
    BOOST_TEST((world.run(read_all(world.directory / "a", {.buffer_size = 4096})) == text));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_failed_read_comes_at_its_place_and_may_pass, Backend, both_backends) {
    file_world_over<Backend> world;
    const std::string text = pattern(20'000);
    put(world.directory / "a", text);
    bool broken = true;
    faults fail(world, [&broken](const io_arguments& a) {
        return broken && a.opcode == io_opcode::read && a.offset >= 8192 ? io_fault{.fail_with = EIO} : io_fault{};
    });
    world.run([](std::string path, const std::string& expected, bool& sick) -> task<> {
        file f = co_await file::open(path);
        file_reader in(f, {.buffer_size = 4096});
        std::string got(8192, '\0');
        std::size_t n = co_await in.read_exactly(bytes_of(got));
        BOOST_TEST(n == 8192u);
        const auto next = [](file_reader& r) -> task<> { co_await r.read(); };
        int failure = co_await error_of(next(in));
        BOOST_TEST(failure == EIO);
        failure = co_await error_of(next(in));
        BOOST_TEST(failure == EIO);
        sick = false;
        std::string rest(20'000, '\0');
        n = co_await in.read_exactly(bytes_of(rest));
        BOOST_TEST((expected.substr(in.position() - n) == rest.substr(0, n)));
        BOOST_TEST(in.position() == expected.size());
    }(world.directory / "a", text, broken));
}

/// What was read ahead is given out; then comes the end, and no error.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_file_that_is_cut_beneath_its_reader_ends_early, Backend, both_backends) {
    constexpr file_reader_options ahead{.buffer_size = 1000, .buffers = 3};
    const std::string text = pattern(20'000);
    for (const std::size_t cut : {0u, 2'500u, 4'000u, 15'500u}) {
        file_world_over<Backend> world;
        const std::string path = world.directory / "a";
        put(path, text);
        file f = world.run(file::open(path));
        file_reader in(f, ahead);
        std::string got(4'000, '\0');
        BOOST_TEST(world.run(in.read_exactly(bytes_of(got))) == 4'000u);
        std::filesystem::resize_file(path, cut);
        std::string rest(20'000, '\0');
        rest.resize(world.run(in.read_exactly(bytes_of(rest))));
        got += rest;
        BOOST_TEST(got.size() >= std::max<std::size_t>(cut, 4'000));
        BOOST_TEST(got.size() <= std::max<std::size_t>(cut, 4'000 + 3 * 1'000)); // the buffers were full at most
        BOOST_TEST((text.compare(0, got.size(), got) == 0));
        BOOST_TEST(in.position() == got.size());
        BOOST_TEST(world.run(in.read()).empty()); // and stays
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_writer_writes_on_into_a_file_that_was_unlinked_beneath, Backend, both_backends) {
    file_world_over<Backend> world;
    const std::string path = world.directory / "a";
    const std::string text = pattern(50'000);
    std::ifstream beside;
    world.run([](std::string name, std::string what, std::ifstream& other) -> task<> {
        file_writer out(co_await file::create(name), small);
        other.open(name, std::ios::binary);
        co_await out.write(what.substr(0, 20'000)); // some of it is on its way
        std::filesystem::remove(name);
        put(name, "another file");
        co_await out.write(what.substr(20'000));
        co_await out.sync();
        BOOST_TEST(out.written() == what.size());
        co_await out.close();
    }(path, text, beside));
    BOOST_TEST((std::string(std::istreambuf_iterator<char>(beside), {}) == text));
    BOOST_TEST(contents(path) == "another file");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_a_writer_accepted_is_in_the_file_after_a_flush, Backend, both_backends) {
    file_world_over<Backend> world;
    const std::string text = pattern(50'000);
    world.run([](std::string path, std::string what) -> task<> {
        file_writer out(co_await file::create(path), small);
        std::size_t at = 0;
        for (std::size_t n = 1; at < what.size(); n = n * 3 % 7919 + 1) {
            const std::string part = what.substr(at, n);
            co_await out.write(part);
            at += part.size();
            BOOST_TEST(out.position() == at);
            if (n % 5 != 0) continue;
            co_await out.flush();
            BOOST_TEST(out.written() == at);
            BOOST_REQUIRE((contents(path) == what.substr(0, at)));
        }
        co_await out.sync();
        co_await out.close();
        const int again = co_await error_of(out.flush());
        BOOST_TEST(again == EBADF);
    }(world.directory / "a", text));
    BOOST_TEST((contents(world.directory / "a") == text));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(short_and_interrupted_writes_lose_nothing, Backend, both_backends) {
    file_world_over<Backend> world;
    const std::string text = pattern(50'000);
    int calls = 0;
    faults disturb(world, [&calls](const io_arguments& a) {
        if (a.opcode != io_opcode::write) return io_fault{};
        return ++calls % 3 == 0 ? io_fault{.fail_with = EINTR} : io_fault{.at_most = 1000};
    });
    world.run([](std::string path, std::string what) -> task<> {
        file_writer out(co_await file::create(path), small);
        co_await out.write(what);
        co_await out.close();
    }(world.directory / "a", text));
    BOOST_TEST((contents(world.directory / "a") == text));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_failed_write_back_is_told_at_write_flush_and_close, Backend, both_backends) {
    file_world_over<Backend> world;
    faults full(world, [](const io_arguments& a) {
        return a.opcode == io_opcode::write && a.offset >= 8192 ? io_fault{.fail_with = ENOSPC} : io_fault{};
    });
    world.run([](std::string path) -> task<> {
        file_writer out(co_await file::create(path), small);
        const std::string block = pattern(4096);
        for (int i = 0; i < 3; ++i) co_await out.write(block); // accepted: the third fails behind our back
        int failure = co_await error_of(out.flush());
        BOOST_TEST(failure == ENOSPC);
        BOOST_TEST(out.written() == 8192u);
        BOOST_TEST(out.failure() == ENOSPC);
        failure = co_await error_of(out.write(block)); // and is not accepted
        BOOST_TEST(failure == ENOSPC);
        BOOST_TEST(out.position() == 3u * 4096u);
        failure = co_await error_of(out.flush());
        BOOST_TEST(failure == ENOSPC);
        failure = co_await error_of(out.sync());
        BOOST_TEST(failure == ENOSPC);
        failure = co_await error_of(out.close());
        BOOST_TEST(failure == ENOSPC);
        failure = co_await error_of(out.close());
        BOOST_TEST(failure == EBADF); // it is closed
    }(world.directory / "a"));
    BOOST_TEST(contents(world.directory / "a").size() == 8192u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_failure_first_known_at_close_is_told_there, Backend, both_backends) {
    file_world_over<Backend> world;
    faults sick(world, [](const io_arguments& a) { return a.opcode == io_opcode::write ? io_fault{.fail_with = EIO} : io_fault{}; });
    const auto write = [](std::string path) -> task<> {
        file_writer out(co_await file::create(path), small);
        co_await out.write("a few bytes");
        co_await out.close();
    };
    BOOST_TEST(world.run(error_of(write(world.directory / "a"))) == EIO);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_close_2_says_is_told, Backend, both_backends) {
    file_world_over<Backend> world;
    faults sick(world, [](const io_arguments& a) { return a.opcode == io_opcode::close ? io_fault{.report = EIO} : io_fault{}; });
    const auto write = [](std::string path) -> task<> {
        file_writer out(co_await file::create(path), small);
        co_await out.write("a few bytes");
        co_await out.close();
    };
    BOOST_TEST(world.run(error_of(write(world.directory / "a"))) == EIO);
    BOOST_TEST(contents(world.directory / "a") == "a few bytes");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_retry_saves_everything_once_there_is_room, Backend, both_backends) {
    file_world_over<Backend> world;
    const std::string text = pattern(12'000);
    bool full = true;
    faults disk(world, [&full](const io_arguments& a) {
        return full && a.opcode == io_opcode::write && a.offset < 8192 ? io_fault{.fail_with = ENOSPC} : io_fault{};
    });
    world.run([](std::string path, std::string what, bool& no_room) -> task<> {
        file_writer out(co_await file::create(path), small);
        co_await out.write(what);
        int failure = co_await error_of(out.flush());
        BOOST_TEST(failure == ENOSPC);
        failure = co_await error_of(out.retry());
        BOOST_TEST(failure == ENOSPC);
        no_room = false;
        co_await out.retry();
        BOOST_TEST(out.written() == what.size());
        co_await out.write("!");
        co_await out.close();
    }(world.directory / "a", text, full));
    BOOST_TEST((contents(world.directory / "a") == text + "!"));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_failed_sync_stays_and_no_retry_hides_it, Backend, both_backends) {
    file_world_over<Backend> world;
    bool sick = true;
    faults disk(world, [&sick](const io_arguments& a) {
        return sick && a.opcode == io_opcode::sync ? io_fault{.report = EIO} : io_fault{};
    });
    world.run([](std::string path, bool& broken) -> task<> {
        file_writer out(co_await file::create(path), small);
        co_await out.write("bytes");
        int failure = co_await error_of(out.sync());
        BOOST_TEST(failure == EIO);
        broken = false;
        failure = co_await error_of(out.retry());
        BOOST_TEST(failure == EIO);
        failure = co_await error_of(out.close());
        BOOST_TEST(failure == EIO);
    }(world.directory / "a", sick));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_limit_ends_the_wait_and_loses_nothing, Backend, both_backends) {
    file_world_over<Backend> world;
    bool hold = true;
    faults slow(world, [&hold](const io_arguments& a) {
        return hold && a.opcode == io_opcode::write ? io_fault{.hold = true} : io_fault{};
    });
    const std::string text = pattern(3 * 4096 + 10);
    world.run([](file_world& w, std::string what, bool& slow_disk) -> task<> {
        file_writer out(co_await file::create(w.directory / "a"), small);
        const auto soon = [&w] { return wait_limits{.deadline = w.loop.now() + std::chrono::milliseconds{2}}; };
        int failure = co_await error_of(out.write(what, soon())); // all buffers are on their way
        BOOST_TEST(failure == ETIMEDOUT);
        BOOST_TEST(out.position() == 3u * 4096u); // so much was accepted
        failure = co_await error_of(out.flush(soon()));
        BOOST_TEST(failure == ETIMEDOUT);
        failure = co_await error_of(out.close(soon()));
        BOOST_TEST(failure == ETIMEDOUT);
        slow_disk = false;
        w.engine().release_held();
        co_await out.write(what.substr(3 * 4096));
        co_await out.close();
    }(world, text, hold));
    BOOST_TEST((contents(world.directory / "a") == text));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(close_waits_for_what_is_on_its_way_behind_a_failure, Backend, both_backends) {
    file_world_over<Backend> world;
    faults sick(world, [](const io_arguments& a) {
        if (a.opcode != io_opcode::write) return io_fault{};
        return a.offset == 0 ? io_fault{.fail_with = EIO} : io_fault{.hold = true}; // one fails, the next takes its time
    });
    world.run([](file_world& w) -> task<> {
        file_writer out(co_await file::create(w.directory / "a"), small);
        co_await out.write(pattern(2 * 4096));
        const auto soon = [&w] { return wait_limits{.deadline = w.loop.now() + std::chrono::milliseconds{2}}; };
        int failure = co_await error_of(out.flush(soon()));
        BOOST_TEST(failure == ETIMEDOUT); // nobody has been told of the failure yet
        BOOST_TEST(out.failure() == EIO);
        failure = co_await error_of(out.close(soon()));
        BOOST_TEST(failure == ETIMEDOUT);
        w.engine().release_held();
        failure = co_await error_of(out.close());
        BOOST_TEST(failure == EIO);
        failure = co_await error_of(out.close());
        BOOST_TEST(failure == EBADF); // it is closed
    }(world));
    BOOST_TEST(contents(world.directory / "a").substr(4096) == pattern(2 * 4096).substr(4096));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_write_that_fails_half_way_goes_on_at_its_position, Backend, both_backends) {
    file_world_over<Backend> world;
    bool full = true;
    faults sick(world, [&full](const io_arguments& a) {
        return full && a.opcode == io_opcode::write && a.offset >= 4096 ? io_fault{.fail_with = ENOSPC} : io_fault{};
    });
    const std::string text = pattern(10 * 4096 + 10);
    world.run([](file_world& w, std::string what, bool& no_room) -> task<> {
        file_writer out(co_await file::create(w.directory / "a"), small);
        int failure = co_await error_of(out.write(what));
        BOOST_TEST(failure == ENOSPC);
        BOOST_TEST(out.position() > 0u);
        BOOST_TEST(out.position() < what.size());
        no_room = false;
        co_await out.retry();
        co_await out.write(what.substr(out.position()));
        co_await out.close();
    }(world, text, full));
    BOOST_TEST((contents(world.directory / "a") == text));
}

BOOST_AUTO_TEST_CASE(a_real_full_disk_is_told_too) {
    file_world world;
    const auto write = []() -> task<> {
        file_writer out(co_await file::open("/dev/full", {.write = true}), small);
        co_await out.write(pattern(12'000));
        co_await out.close();
    };
    BOOST_TEST(world.run(error_of(write())) == ENOSPC);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(direct_writing_has_the_right_size_and_goes_on_after_a_flush, Backend, both_backends) {
    file_world_over<Backend> world;
    if (!world.run(direct_works(world.directory / "probe"))) {
        std::cout << "SKIPPED: no O_DIRECT on this file system\n";
        return;
    }
    const std::string text = pattern(30'001);
    world.run([](std::string path, std::string what) -> task<> {
        file_writer out(co_await file::open(path, {.write = true, .create = true, .direct = true}), small);
        const std::array<std::size_t, 6> cuts{0, 10, 5000, 5003, 16'384, 30'001};
        for (std::size_t i = 1; i < cuts.size(); ++i) {
            co_await out.write(what.substr(cuts[i - 1], cuts[i] - cuts[i - 1]));
            co_await out.flush();
            BOOST_REQUIRE((contents(path) == what.substr(0, cuts[i])));
            BOOST_TEST(out.written() == cuts[i]);
        }
        co_await out.close();
    }(world.directory / "a", text));
    BOOST_TEST((world.run(read_all(world.directory / "a", {.buffer_size = 8192}, true)) == text));
    BOOST_TEST((world.run(read_all(world.directory / "a", {.offset = 4096, .length = 777, .buffer_size = 8192}, true)) ==
                text.substr(4096, 777)));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_copy_is_the_same_file, Backend, both_backends) {
    file_world_over<Backend> world;
    const bool direct = world.run(direct_works(world.directory / "probe"));
    for (const std::size_t size : {0u, 1u, 10'000u, 3'000'000u}) {
        const std::string text = pattern(size);
        put(world.directory / "a", text);
        const auto copied = [](std::string from, std::string to, bool past_cache) -> task<> {
            put(to, pattern(4'000'000, 7)); // longer than what comes
            file source = co_await file::open(from, {.direct = past_cache});
            file target = co_await file::open(to, {.write = true, .direct = past_cache});
            const std::uint64_t n = co_await copy(source, target, {.chunk = 64 * 1024, .in_flight = 4});
            const std::uint64_t all = co_await source.size();
            BOOST_TEST(n == all);
        };
        world.run(copied(world.directory / "a", world.directory / "b", false));
        BOOST_TEST((contents(world.directory / "b") == text));
        if (!direct) continue;
        world.run(copied(world.directory / "a", world.directory / "c", true));
        BOOST_TEST((contents(world.directory / "c") == text));
    }
}

BOOST_AUTO_TEST_CASE(a_direct_copy_by_chunks_that_are_not_aligned_is_refused) {
    file_world world;
    if (!world.run(direct_works(world.directory / "probe"))) return;
    for (const char* name : {"a", "b"}) put(world.directory / name, pattern(40'000));
    world.run([](std::string from, std::string to) -> task<> {
        file source = co_await file::open(from);
        file target = co_await file::open(to, {.write = true, .direct = true});
        const int failure = co_await error_of([](file& a, file& b) -> task<> { co_await copy(a, b, {.chunk = 5000}); }(source, target));
        BOOST_TEST(failure == EINVAL);
    }(world.directory / "a", world.directory / "b"));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_copy_reads_and_writes_where_the_kernel_will_not, Backend, both_backends) {
    file_world_over<Backend> world;
    const std::string text = pattern(1'000'000);
    put(world.directory / "a", text);
    bool sick = false;
    faults refuse(world, [&sick](const io_arguments& a) {
        if (a.opcode == io_opcode::copy) return io_fault{.fail_with = EXDEV};
        return sick && a.opcode == io_opcode::write && a.offset > 500'000 ? io_fault{.fail_with = EIO} : io_fault{};
    });
    const auto copied = [](std::string from, std::string to) -> task<> {
        file source = co_await file::open(from);
        file target = co_await file::create(to);
        co_await copy(source, target, {.chunk = 64 * 1024});
    };
    world.run(copied(world.directory / "a", world.directory / "b"));
    BOOST_TEST((contents(world.directory / "b") == text));
    sick = true;
    BOOST_TEST(world.run(error_of(copied(world.directory / "a", world.directory / "b"))) == EIO);
}

/// Where no room can be made beforehand, the writes find out themselves.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_direct_copy_makes_room_first_and_writes_nothing_where_there_is_none, Backend, both_backends) {
    file_world_over<Backend> world;
    if (!world.run(direct_works(world.directory / "probe"))) {
        std::cout << "SKIPPED: no O_DIRECT on this file system\n";
        return;
    }
    const std::string text = pattern(300'001);
    put(world.directory / "a", text);
    int refusal = 0;
    unsigned asked = 0, writes = 0;
    faults disk(world, [&](const io_arguments& a) {
        writes += a.opcode == io_opcode::write ? 1 : 0;
        if (a.opcode != io_opcode::allocate) return io_fault{};
        ++asked;
        BOOST_TEST(a.offset == 0u);
        BOOST_TEST(a.length == text.size());
        return io_fault{.fail_with = refusal};
    });
    const auto copied = [](std::string from, std::string to) -> task<> {
        file source = co_await file::open(from);
        file target = co_await file::open(to, {.write = true, .create = true, .direct = true});
        co_await copy(source, target, {.chunk = 64 * 1024});
    };
    for (const int full : {ENOSPC, EDQUOT, EIO}) {
        refusal = full;
        BOOST_TEST(world.run(error_of(copied(world.directory / "a", world.directory / "b"))) == full);
    }
    BOOST_TEST(asked == 3u);
    BOOST_TEST(writes == 0u);
    for (const int impossible : {EOPNOTSUPP, ENODEV, ESPIPE}) { // fallocate(2)
        refusal = impossible;
        const std::string to = world.directory / std::to_string(impossible);
        BOOST_TEST(world.run(error_of(copied(world.directory / "a", to))) == 0);
        BOOST_TEST((contents(to) == text));
    }
    BOOST_TEST(asked == 6u);
    BOOST_TEST(writes != 0u);
}

/// So that others have their turn between two of them.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_copy_asks_for_pieces, Backend, both_backends) {
    file_world_over<Backend> world;
    constexpr std::uint64_t size = (70 << 20) + 1;
    std::filesystem::resize_file((put(world.directory / "a", "x"), world.directory / "a"), size);
    std::uint64_t next = 0;
    unsigned asked = 0;
    faults watch(world, [&](const io_arguments& a) {
        if (a.opcode != io_opcode::copy) return io_fault{};
        ++asked;
        BOOST_TEST(a.length <= 32u << 20);
        BOOST_TEST(a.offset == a.other_offset);
        BOOST_TEST(a.offset >= next);
        next = a.offset;
        return io_fault{};
    });
    const auto copied = [](std::string from, std::string to) -> task<std::uint64_t> {
        file source = co_await file::open(from);
        file target = co_await file::create(to);
        const std::uint64_t n = co_await copy(source, target);
        co_return n;
    };
    BOOST_TEST(world.run(copied(world.directory / "a", world.directory / "b")) == size);
    BOOST_TEST(std::filesystem::file_size(world.directory / "b") == size);
    BOOST_TEST(std::ifstream(world.directory / "b").get() == 'x');
    if (next == 0) std::cout << "SKIPPED: copy_file_range(2) does not work here\n";
    else BOOST_TEST(asked >= 4u); // three pieces, and the one that finds the end
}

BOOST_AUTO_TEST_CASE(a_copy_that_is_stopped_is_whole_or_says_so) {
    file_world world;
    BOOST_REQUIRE(::truncate((put(world.directory / "a", "x"), world.directory / "a").c_str(), 512 << 20) == 0);
    stop_source stop;
    const auto copied = [](std::string from, std::string to, stop_token until) -> task<> {
        file source = co_await file::open(from);
        file target = co_await file::create(to);
        co_await copy(source, target, {}, {.stop = until});
    };
    int why = 0;
    bool done = false;
    const auto watched = [](task<> work, int& error, bool& ended) -> task<> {
        error = co_await error_of(std::move(work));
        ended = true;
    };
    task_group tasks{"copying"};
    tasks.spawn(watched(copied(world.directory / "a", world.directory / "b", stop.token()), why, done));
    std::error_code none;
    world.turn_until([&] { return done || std::filesystem::file_size(world.directory / "b", none) - 1 < (1u << 30); });
    stop.request_stop();
    while (!done) world.loop.poll_once();
    if (why == 0) BOOST_TEST(std::filesystem::file_size(world.directory / "b") == std::uintmax_t{512 << 20}); // it was faster
    else BOOST_TEST(why == ECANCELED);
}

BOOST_AUTO_TEST_CASE(a_destroyed_stream_takes_its_buffers_back) {
    file_world world;
    put(world.directory / "a", pattern(1 << 20));
    file f = world.run(file::open(world.directory / "a"));
    for (int i = 0; i < 20; ++i) {
        file_reader in(f, {.buffer_size = 65536});
        world.turn(i % 5);
    }
    BOOST_TEST(world.engine().operations().in_flight() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire::testing
