// Registered memory with a real kernel below it: huge pages from the system's reserve, buffers that go back from another thread.
#include "tests/rdma/channel_world.hh"
#include "tests/vm/guest/rxe_fabric.hh"

#include <cstdio>
#include <memory>
#include <thread>

using namespace corewire;
using namespace corewire::test;
using channel_world = basic_channel_world<rxe_fabric>;

namespace {

/// The system's reserve of 2 MiB pages, for a scope.
struct reserved_pages {
    explicit reserved_pages(unsigned count) { set(count); }
    ~reserved_pages() { set(0); }
    static void set(unsigned count) {
        std::FILE* const f = std::fopen("/proc/sys/vm/nr_hugepages", "w");
        BOOST_REQUIRE(f != nullptr);
        std::fprintf(f, "%u\n", count);
        std::fclose(f);
    }
};

rdma::memory_pool& pool_of_client(channel_world& w) { return w.in.adapter_for(address_of_rxe0).memory(); }

task<> exchange(channel_world& w, rdma::local_region what) {
    co_await w.client.send_in_place(what);
    const auto m = co_await w.server.receive();
    BOOST_REQUIRE(m.has_value());
    BOOST_TEST(std::memcmp(m->bytes().data(), what.data, what.size) == 0);
}

} // namespace

BOOST_AUTO_TEST_SUITE(registered_memory_on_rxe)

BOOST_AUTO_TEST_CASE(it_is_on_huge_pages_as_long_as_the_system_has_any_and_then_on_others) {
    const reserved_pages reserve(2);
    channel_world w; // a page for each end
    const rdma::memory_pool_statistics& counts = pool_of_client(w).statistics();
    BOOST_TEST(counts.huge == 2u << 20);
    BOOST_TEST(counts.transparent + counts.small == 0u);
    auto memory = w.client.allocate(4000);
    memory.data()[3999] = std::byte{7};
    w.run(exchange(w, memory.all()));
    const auto more = w.client.allocate(2 << 20);
    BOOST_TEST(counts.huge == 2u << 20);
    BOOST_TEST(counts.transparent + counts.small == 2u << 20);
    BOOST_TEST(counts.mapped == 4u << 20);
    w.run(exchange(w, more.at((2 << 20) - 4096, 4096)));
}

BOOST_AUTO_TEST_CASE(a_buffer_that_another_thread_destroys_goes_back_to_its_shard) {
    channel_world w;
    const rdma::memory_pool_statistics& counts = pool_of_client(w).statistics();
    const auto before = counts.used;
    auto memory = std::make_unique<rdma::registered_buffer>(w.client.allocate(10'000));
    BOOST_TEST(counts.used > before);
    std::thread([&] { memory.reset(); }).join();
    w.until([&] { return counts.used == before; });
    BOOST_TEST(counts.returned_from_elsewhere == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
