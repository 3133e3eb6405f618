// Reading, writing and waiting for it take nothing from this shard's heap in their stride.
#include "file_fixture.hh"
#include "tests/support/counting_new.hh"

#include <corewire/reactor/file/file_reader.hh>
#include <corewire/reactor/file/file_writer.hh>
#include <corewire/reactor/file/process/pipe.hh>
#include <corewire/reactor/task/when_all.hh>

namespace corewire::testing {

namespace {

task<> one_round(file& f, std::string& text) {
    co_await f.write(bytes_of(std::as_const(text)), 0);
    co_await f.read_exactly(bytes_of(text), 0);
    co_await f.sync();
    co_await f.status();
    const std::array<iovec, 2> pieces{iovec{text.data(), 1000}, iovec{text.data() + 1000, 3096}};
    co_await f.write_vectored(pieces, 0);
    co_await f.read_vectored(pieces, 0);
}
task<std::uint64_t> rounds(std::string path) {
    file f = co_await file::open(path, {.write = true, .create = true});
    std::string text = pattern(4096);
    for (int i = 0; i < 20; ++i) co_await one_round(f, text);
    const std::uint64_t before = heap_allocations;
    for (int i = 0; i < 200; ++i) co_await one_round(f, text);
    const std::uint64_t taken = heap_allocations - before;
    co_await f.close();
    co_return taken;
}

task<std::uint64_t> streams(std::string path) {
    const std::string block = pattern(1000);
    file_writer out(co_await file::create(path), {.buffer_size = 4096, .buffers = 3});
    const auto write_some = [](file_writer& to, const std::string& what) -> task<> {
        for (int i = 0; i < 50; ++i) co_await to.write(what);
        co_await to.flush();
        co_await to.sync();
    };
    co_await write_some(out, block);
    std::uint64_t before = heap_allocations;
    for (int i = 0; i < 5; ++i) co_await write_some(out, block);
    std::uint64_t taken = heap_allocations - before;
    co_await out.close();

    const file f = co_await file::open(path);
    file_reader in(f, {.buffer_size = 4096, .buffers = 3});
    std::string into(1000, '\0');
    for (int i = 0; i < 50; ++i) co_await in.read_exactly(bytes_of(into));
    before = heap_allocations;
    for (int i = 0; i < 250; ++i) co_await in.read_exactly(bytes_of(into));
    taken += heap_allocations - before;
    BOOST_TEST((into == block));
    co_return taken;
}

task<> reads(pipe_reader& out, std::string& into, wait_limits limits) { co_await out.read(bytes_of(into), limits); }
task<std::uint64_t> pipes() {
    auto [out, in] = make_pipe();
    const std::string text = pattern(1000);
    std::string into(1000, '\0');
    std::uint64_t before = 0;
    for (int i = 0; i < 120; ++i) {
        if (i == 20) before = heap_allocations;
        const wait_limits limits{.deadline = reactor::current().now() + std::chrono::minutes{1}};
        co_await when_all(reads(out, into, limits), in.write(text, limits)); // the reader waits for the writer
    }
    BOOST_TEST((into == text));
    co_return heap_allocations - before;
}

} // namespace

BOOST_AUTO_TEST_SUITE(file_allocation)

BOOST_AUTO_TEST_CASE_TEMPLATE(requests_allocate_nothing_in_their_stride, Backend, both_backends) {
    io_options options = Backend::options();
    options.helpers = 1; // a further one that is started, because the first is slow to take what it is given, allocates
    file_world world(options);
    const temporary_directory folder(in_memory()); // hundreds of sync() are no matter of a disk's here
    BOOST_TEST(world.run(rounds(folder / "file")) == 0u);
    BOOST_TEST(world.run(streams(folder / "stream")) == 0u);
    BOOST_TEST(world.run(pipes()) == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire::testing
