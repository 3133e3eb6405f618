// What is done to names and directories, over io_uring and over helper threads.
#include "file_fixture.hh"

#include <corewire/reactor/file/directory.hh>
#include <corewire/reactor/file/paths.hh>

#include <algorithm>
#include <sys/stat.h>

namespace corewire::testing {

BOOST_AUTO_TEST_SUITE(names)

BOOST_AUTO_TEST_CASE_TEMPLATE(names_are_made_changed_and_removed, Backend, both_backends) {
    file_world_over<Backend> world;
    world.run([](temporary_directory& d) -> task<> {
        co_await fs::make_directory(d / "sub", 0750);
        file_status s = co_await fs::status(d / "sub");
        BOOST_TEST((s.type == file_type::directory));
        put(d / "sub/a", "text");
        co_await fs::rename(d / "sub/a", d / "b");
        co_await fs::link(d / "b", d / "c");
        s = co_await fs::status(d / "c");
        BOOST_TEST(s.links == 2u);
        BOOST_TEST(s.size == 4u);
        co_await fs::symlink("c", d / "l");
        s = co_await fs::status(d / "l");
        BOOST_TEST((s.type == file_type::regular));
        s = co_await fs::status(d / "l", false);
        BOOST_TEST((s.type == file_type::symlink));
        int failure = co_await error_of(fs::rename(d / "b", d / "c", false));
        BOOST_TEST(failure == EEXIST);
        failure = co_await error_of(fs::unlink(d / "sub"));
        BOOST_TEST(failure == EISDIR);
        co_await fs::remove_directory(d / "sub");
        co_await fs::unlink(d / "b");
        failure = co_await error_of(fs::unlink(d / "b"));
        BOOST_TEST(failure == ENOENT);
        co_await fs::sync_directory(d.path());
        BOOST_TEST(contents(d / "c") == "text");
    }(world.directory));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_directory_is_listed_whole, Backend, both_backends) {
    file_world_over<Backend> world;
    BOOST_TEST(world.run(list_directory(world.directory.path())).empty());
    std::vector<std::string> expected{"dir", "link"};
    std::filesystem::create_directory(world.directory / "dir");
    std::filesystem::create_symlink("nowhere", world.directory / "link");
    for (int i = 0; i < 2000; ++i) { // several buffers full
        expected.push_back("a file with number " + std::to_string(i));
        put(world.directory / expected.back(), "");
    }
    std::vector<std::string> found;
    for (const directory_entry& e : world.run(list_directory(world.directory.path()))) {
        found.push_back(e.name);
        BOOST_TEST(e.inode != 0u);
        if (e.name == "dir") BOOST_TEST((e.type == file_type::directory || e.type == file_type::unknown));
        if (e.name == "link") BOOST_TEST((e.type == file_type::symlink || e.type == file_type::unknown));
    }
    std::sort(expected.begin(), expected.end());
    std::sort(found.begin(), found.end());
    BOOST_TEST((found == expected));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(listing_fails_as_it_should, Backend, both_backends) {
    file_world_over<Backend> world;
    const auto list = [](std::string path) -> task<> { co_await list_directory(path); };
    put(world.directory / "a", "");
    BOOST_TEST(world.run(error_of(list(world.directory / "missing"))) == ENOENT);
    BOOST_TEST(world.run(error_of(list(world.directory / "a"))) == ENOTDIR);
    faults sick(world, [](const io_arguments& a) { return a.opcode == io_opcode::list ? io_fault{.fail_with = EIO} : io_fault{}; });
    BOOST_TEST(world.run(error_of(list(world.directory.path()))) == EIO);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire::testing
