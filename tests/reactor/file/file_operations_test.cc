// A file's operations, over io_uring and over helper threads.
#include "file_fixture.hh"

#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <optional>
#include <sys/stat.h>

namespace corewire::testing {

BOOST_AUTO_TEST_SUITE(file_operations)

BOOST_AUTO_TEST_CASE_TEMPLATE(what_is_written_is_read, Backend, both_backends) {
    file_world_over<Backend> world;
    world.run([](std::string path) -> task<> {
        file f = co_await file::create(path);
        co_await f.write("hello, disk", 0);
        co_await f.write("DISK", 7);
        std::string into(64, '\0');
        const std::size_t n = co_await f.read(bytes_of(into), 7);
        BOOST_TEST(into.substr(0, n) == "DISK");
        const std::size_t end = co_await f.read(bytes_of(into), 11);
        BOOST_TEST(end == 0u);
        co_await f.close();
        BOOST_TEST(!f);
    }(world.directory / "a"));
    BOOST_TEST(contents(world.directory / "a") == "hello, DISK");
    BOOST_TEST(world.engine().has_ring() == Backend::ring);
    BOOST_TEST((world.engine().statistics().by_helpers == 0) == Backend::ring);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(read_exactly_stops_at_the_end_only, Backend, both_backends) {
    file_world_over<Backend> world;
    const std::string text = pattern(300'000);
    put(world.directory / "a", text);
    world.run([](std::string path, std::string expected) -> task<> {
        file f = co_await file::open(path);
        std::string into(400'000, '\0');
        const std::size_t n = co_await f.read_exactly(bytes_of(into), 0);
        BOOST_TEST(n == expected.size());
        into.resize(n);
        BOOST_TEST((into == expected));
    }(world.directory / "a", text));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(pieces_are_gathered_and_scattered, Backend, both_backends) {
    file_world_over<Backend> world;
    world.run([](std::string path) -> task<> {
        file f = co_await file::create(path);
        std::string a = "one ";
        std::string b = "two";
        const std::array<iovec, 2> out{iovec{a.data(), a.size()}, iovec{b.data(), b.size()}};
        const std::size_t written = co_await f.write_vectored(out, 2);
        BOOST_TEST(written == 7u);
        std::string c(3, '\0');
        std::string d(9, '\0');
        const std::array<iovec, 2> in{iovec{c.data(), c.size()}, iovec{d.data(), d.size()}};
        const std::size_t got = co_await f.read_vectored(in, 2);
        BOOST_TEST(got == 7u);
        BOOST_TEST(c == "one");
        BOOST_TEST(d.substr(0, 4) == " two");
    }(world.directory / "a"));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(size_room_and_status_are_the_kernels, Backend, both_backends) {
    file_world_over<Backend> world;
    world.run([](std::string path) -> task<> {
        file f = co_await file::create(path, 0640);
        co_await f.allocate(0, 1 << 20);
        std::uint64_t size = co_await f.size();
        BOOST_TEST(size == 1u << 20);
        co_await f.truncate(12'345);
        const file_status s = co_await f.status();
        BOOST_TEST(s.size == 12'345u);
        BOOST_TEST((s.type == file_type::regular));
        BOOST_TEST(s.links == 1u);
        BOOST_TEST(s.modified_ns > 1'600'000'000'000'000'000);
        struct stat plain {};
        BOOST_TEST(::fstat(f.descriptor(), &plain) == 0);
        BOOST_TEST(s.inode == plain.st_ino);
        BOOST_TEST(s.device == plain.st_dev);
        BOOST_TEST(s.permissions == (plain.st_mode & 07777));
        co_await f.advise(POSIX_FADV_WILLNEED);
        co_await f.sync();
        co_await f.sync_data();
        co_await f.close();
    }(world.directory / "a"));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(opening_fails_as_open_2_does, Backend, both_backends) {
    file_world_over<Backend> world;
    const auto opened = [](std::string path, open_options how) -> task<> {
        file f = co_await file::open(std::move(path), how);
    };
    put(world.directory / "there", "x");
    BOOST_TEST(world.run(error_of(opened(world.directory / "missing", {}))) == ENOENT);
    BOOST_TEST(world.run(error_of(opened(world.directory / "there/under", {}))) == ENOTDIR);
    BOOST_TEST(world.run(error_of(opened(world.directory.path(), {.write = true}))) == EISDIR);
    BOOST_TEST(world.run(error_of(opened(world.directory / "there", {.write = true, .create = true, .exclusive = true}))) == EEXIST);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_message_names_the_file, Backend, both_backends) {
    file_world_over<Backend> world;
    try {
        world.run([](std::string path) -> task<> {
            file f = co_await file::open(std::move(path));
            co_await f.write("no", 0); // opened for reading
        }("/dev/null"));
        BOOST_FAIL("it was written");
    } catch (const std::system_error& e) {
        BOOST_TEST(e.code().value() == EBADF);
        BOOST_TEST(std::string{e.what()}.find("write of '/dev/null'") == 0u);
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_closed_file_says_so, Backend, both_backends) {
    file_world_over<Backend> world;
    world.run([](std::string path) -> task<> {
        file f = co_await file::create(path);
        co_await f.close();
        std::array<std::byte, 4> into{};
        int failure = co_await error_of(f.close());
        BOOST_TEST(failure == EBADF);
        bool failed = false;
        try {
            co_await f.read(mutable_byte_span{into}, 0);
        } catch (const std::system_error& e) {
            failed = e.code().value() == EBADF;
        }
        BOOST_TEST(failed);
    }(world.directory / "a"));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(direct_io_goes_through_aligned_memory, Backend, both_backends) {
    file_world_over<Backend> world;
    world.run([](file_world& w) -> task<> {
        const std::string path = w.directory / "a";
        file f;
        try {
            f = co_await file::open(path, {.write = true, .create = true, .direct = true});
        } catch (const std::system_error& e) {
            std::cout << "SKIPPED: no O_DIRECT here: " << e.what() << '\n';
            co_return;
        }
        BOOST_TEST(f.direct());
        BOOST_TEST(f.alignment() >= 512u);
        f.register_with_ring();
        BOOST_TEST(f.registered() == w.engine().has_ring());
        io_memory memory(8192);
        BOOST_TEST(memory.registered() == w.engine().has_ring());
        const std::string text = pattern(4096);
        std::memcpy(memory.bytes().data(), text.data(), text.size());
        co_await f.write(memory.piece(0, 4096), 4096);
        const std::size_t n = co_await f.read(memory.piece(4096, 4096), 4096);
        BOOST_TEST(n == 4096u);
        BOOST_TEST(std::memcmp(memory.bytes().data(), memory.bytes().data() + 4096, 4096) == 0);
        co_await f.truncate(5000); // an odd end
        const std::size_t rest = co_await f.read_exactly(memory.whole(), 4096);
        BOOST_TEST(rest == 5000u - 4096u);
        co_await f.close();
    }(world));
}

BOOST_AUTO_TEST_CASE(large_memory_begins_at_a_huge_page_and_takes_no_more_than_it_needs) {
    file_world world;
    const auto pages = [] {
        std::ifstream statm("/proc/self/statm");
        std::size_t of_the_process = 0;
        statm >> of_the_process;
        return of_the_process;
    };
    constexpr std::size_t huge_page = 2 << 20;
    std::optional<io_memory> memory(std::in_place, 4096); // what the first one needs besides is there then
    memory.reset();
    pages();
    const std::size_t before = pages();
    memory.emplace(2 * huge_page + 1);
    const std::size_t with_it = pages();
    const auto begins_at = reinterpret_cast<std::uintptr_t>(memory->bytes().data());
    const bool zeroed = std::ranges::all_of(memory->bytes(), [](std::byte b) { return b == std::byte{}; });
    memory.reset();
    const std::size_t after = pages();
    BOOST_TEST(begins_at % huge_page == 0u);
    BOOST_TEST(zeroed);
    BOOST_TEST(with_it - before == 2 * huge_page / 4096 + 1);
    BOOST_TEST(after == before);
    BOOST_CHECK_THROW(io_memory(SIZE_MAX - 1), std::bad_alloc);
}

BOOST_AUTO_TEST_CASE(more_memory_than_the_ring_takes_still_works) {
    file_world world;
    std::vector<io_memory> all;
    for (unsigned i = 0; i < io_engine::most_memories + 3; ++i) all.emplace_back(4096);
    BOOST_TEST(all[io_engine::most_memories - 1].registered());
    BOOST_TEST(!all[io_engine::most_memories].registered());
    BOOST_TEST(world.engine().statistics().unregistered == 3u);
    world.run([](std::string path, io_memory& plain) -> task<> {
        file f = co_await file::create(path);
        co_await f.write(plain.whole(), 0);
    }(world.directory / "a", all.back()));
    BOOST_TEST(contents(world.directory / "a").size() == 4096u);
    all.erase(all.begin()); // its place is free again
    BOOST_TEST(io_memory(4096).registered());
}

BOOST_AUTO_TEST_CASE(more_files_than_the_ring_takes_still_work) {
    file_world world;
    world.run([](file_world& w) -> task<> {
        io_engine& engine = w.engine();
        file f = co_await file::create(w.directory / "a");
        for (unsigned i = 0; i < io_engine::most_files; ++i) BOOST_REQUIRE(engine.register_file(f.descriptor()) == int(i));
        BOOST_TEST(!f.register_with_ring());
        BOOST_TEST(!f.registered());
        BOOST_TEST(engine.statistics().unregistered == 1u);
        co_await f.write("plain", 0);
        engine.unregister_file(7); // its place is free again
        BOOST_TEST(f.register_with_ring());
        co_await f.write(", registered", 5);
        co_await f.close();
        BOOST_TEST(engine.register_file(0) == 7); // and again, when the file is closed
        BOOST_TEST(engine.register_file(0) == -1);
        BOOST_TEST(engine.statistics().unregistered == 2u);
    }(world));
    BOOST_TEST(contents(world.directory / "a") == "plain, registered");
}

BOOST_AUTO_TEST_CASE(what_is_no_descriptor_is_not_registered) {
    file_world world;
    BOOST_TEST(world.engine().register_file(1'000'000) == -1);
    BOOST_TEST(world.engine().statistics().unregistered == 1u);
    file_world without(io_options{.allow_uring = false});
    BOOST_TEST(without.engine().register_file(0) == -1);
    BOOST_TEST(without.engine().statistics().unregistered == 0u); // nobody wished for a ring
}

BOOST_AUTO_TEST_CASE(a_moved_file_keeps_its_registration) {
    file_world world;
    world.run([](std::string path) -> task<> {
        file f = co_await file::create(path);
        BOOST_TEST(f.register_with_ring());
        file g = std::move(f);
        BOOST_TEST(g.registered());
        BOOST_TEST(!f.registered());
        co_await g.write("moved", 0);
        f = std::move(g);
        co_await f.close();
    }(world.directory / "a"));
    BOOST_TEST(contents(world.directory / "a") == "moved");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(many_at_once_all_arrive, Backend, both_backends) {
    file_world_over<Backend> world;
    world.run([](std::string path) -> task<> {
        file f = co_await file::create(path);
        const auto one = [](file& to, unsigned i) -> task<> {
            const std::string text = pattern(512, i);
            co_await to.write(bytes_of(text), i * 512);
        };
        std::vector<task<>> all;
        for (unsigned i = 0; i < 1000; ++i) all.push_back(one(f, i));
        for (task<>& t : all) reactor::current().root_group().spawn(std::move(t));
        co_await reactor::current().root_group().join();
        co_await f.close();
    }(world.directory / "a"));
    const std::string text = contents(world.directory / "a");
    BOOST_REQUIRE(text.size() == 512'000u);
    for (unsigned i = 0; i < 1000; ++i) BOOST_REQUIRE((text.compare(i * 512, 512, pattern(512, i)) == 0));
    BOOST_TEST(world.engine().statistics().waited_in_line > 0u);
    BOOST_TEST(world.engine().operations().in_flight() == 0u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_file_deleted_beneath_is_still_ours, Backend, both_backends) {
    file_world_over<Backend> world;
    world.run([](std::string path) -> task<> {
        file f = co_await file::create(path);
        co_await f.write("before", 0);
        BOOST_REQUIRE(::unlink(path.c_str()) == 0);
        co_await f.write("-after", 6);
        std::string into(12, '\0');
        const std::size_t n = co_await f.read_exactly(bytes_of(into), 0);
        BOOST_TEST(n == 12u);
        BOOST_TEST(into == "before-after");
        const file_status s = co_await f.status();
        BOOST_TEST(s.links == 0u);
        co_await f.close();
    }(world.directory / "a"));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_full_disk_is_enospc, Backend, both_backends) {
    file_world_over<Backend> world;
    const auto write = []() -> task<> {
        file f = co_await file::open("/dev/full", {.write = true});
        co_await f.write("no room for this", 0);
    };
    BOOST_TEST(world.run(error_of(write())) == ENOSPC);
    BOOST_TEST(world.engine().statistics().failed == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire::testing
