// Reading, writing and waiting for it take nothing from this shard's heap in their stride.
#include "file_fixture.hh"
#include "tests/support/counting_new.hh"

namespace corewire::testing {

namespace {

task<> one_round(file& f, std::string& text) {
    co_await f.write(bytes_of(std::as_const(text)), 0);
    co_await f.read_exactly(bytes_of(text), 0);
    co_await f.sync();
    co_await f.status();
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

} // namespace

BOOST_AUTO_TEST_SUITE(file_allocation)

BOOST_AUTO_TEST_CASE_TEMPLATE(requests_allocate_nothing_in_their_stride, Backend, both_backends) {
    io_options options = Backend::options();
    options.helpers = 1; // a further one that is started, because the first is slow to take what it is given, allocates
    file_world world(options);
    const std::uint64_t taken = world.run(rounds(world.directory / "file"));
    BOOST_TEST(taken == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire::testing
