// The pool of registered memory, on the fake NIC: pages, bounds, who may touch a block until when, and whose it is.
// ctest: timeout=60
#include <corewire/rdma/channel/memory_pool.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/memory/poison.hh>

#include "tests/rdma/support.hh"

#include <cstdlib>
#include <new>
#include <thread>

namespace {

thread_local std::uint64_t allocations = 0;

} // namespace

#ifndef CW_ADDRESS_SANITIZER // which has its own
void* operator new(std::size_t size) {
    ++allocations;
    if (void* p = std::malloc(size)) return p;
    throw std::bad_alloc();
}
// Not inlined: g++ takes the free() for a mistake where it sees a new beside it.
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif

using namespace corewire;
using namespace corewire::test;
using rdma::mapped_memory;
using rdma::memory_block;

using rdma::page_kind;

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

struct pool_world {
    explicit pool_world(rdma::memory_pool_options options = {}) : here(r), base(nic.live_objects()), pool(domain, r, options) {}
    unsigned registrations() const { return nic.live_objects() - base; }
    fake::nic nic;
    verbs::device device = verbs::device::open("fake0", fake::api());
    verbs::protection_domain domain{device};
    reactor r;
    reactor::scope here;
    unsigned base;
    rdma::memory_pool pool;
};

struct counting_waiter final : rdma::memory_waiter {
    void memory_came_free() noexcept override { ++told; }
    int told = 0;
};

std::size_t place_of(const memory_block* b) { return reinterpret_cast<std::uintptr_t>(b->data); }

/// As a device has them that knows windows of type 1 alone.
int only_windows_of_type_1(ibv_context* on, ibv_device_attr_ex* out) {
    const int error = fake::api().query_device(on, out);
    out->orig_attr.device_cap_flags &= ~static_cast<unsigned>(IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B);
    out->orig_attr.device_cap_flags |= IBV_DEVICE_MEM_WINDOW;
    return error;
}

} // namespace

BOOST_AUTO_TEST_SUITE(registered_memory)

BOOST_AUTO_TEST_CASE(memory_is_on_the_best_pages_that_there_are_and_says_on_which) {
    for (const page_kind best : {page_kind::huge, page_kind::transparent, page_kind::small}) {
        mapped_memory large(2 * mebibyte + 1, best);
        BOOST_TEST(large.bytes().size() == 4 * mebibyte);
        BOOST_TEST(reinterpret_cast<std::uintptr_t>(large.bytes().data()) % mapped_memory::huge_page == 0u);
        BOOST_TEST((large.pages() <= best));
        for (const std::size_t i : {std::size_t{0}, 4 * mebibyte - 1}) {
            BOOST_TEST((large.bytes()[i] == std::byte{0}));
            large.bytes()[i] = std::byte{1};
        }
    }
    const mapped_memory small(5000);
    BOOST_TEST(small.bytes().size() == 8192u);
    BOOST_TEST((small.pages() == page_kind::small));
    BOOST_TEST(mapped_memory(0).bytes().size() == 4096u);
    const std::string too_much = sentence_of([] { static_cast<void>(mapped_memory(std::size_t{1} << 60)); });
    BOOST_TEST(mentions(too_much, "map 1152921504606846976 bytes"));
    BOOST_TEST(mentions(too_much, "overcommit"));
}

BOOST_AUTO_TEST_CASE(windows_of_type_1_are_none) {
    pool_world w;
    BOOST_TEST(w.pool.has_windows());
    verbs::verbs_api older = fake::api();
    older.query_device = only_windows_of_type_1;
    const verbs::device device = verbs::device::open("fake0", older);
    const verbs::protection_domain domain(device);
    BOOST_TEST(!rdma::memory_pool(domain, w.r).has_windows());
}

BOOST_AUTO_TEST_CASE(small_pages_are_said_in_the_statistics) {
    pool_world w({.best = page_kind::small});
    memory_block* const b = w.pool.allocate(100);
    BOOST_TEST(w.pool.statistics().small == 2 * mebibyte);
    BOOST_TEST(w.pool.statistics().huge + w.pool.statistics().transparent == 0u);
    b->release();
}

BOOST_AUTO_TEST_CASE(many_blocks_share_one_registration_and_do_not_overlap) {
    pool_world w;
    std::vector<memory_block*> blocks;
    for (std::size_t size = 1; size < 60'000; size = size * 3 + 1)
        for (int i = 0; i < 3; ++i) blocks.push_back(w.pool.allocate(size));
    std::ranges::sort(blocks, {}, place_of);
    for (std::size_t i = 0; i + 1 < blocks.size(); ++i) {
        BOOST_TEST(place_of(blocks[i]) % (blocks[i]->size >= 2048 ? 4096 : 64) == 0u);
        BOOST_TEST(place_of(blocks[i]) + blocks[i]->size <= place_of(blocks[i + 1]));
        BOOST_TEST(blocks[i]->region().contains({blocks[i]->data, blocks[i]->size}));
    }
    BOOST_TEST(w.registrations() == 1u);
    BOOST_TEST(w.pool.statistics().registrations == 1u);
    for (memory_block* b : blocks) b->release();
    BOOST_TEST(w.pool.statistics().used == 0u);
    BOOST_TEST(w.pool.statistics().blocks == 0u);
    memory_block* const whole = w.pool.allocate(2 * mebibyte); // the pieces have been joined
    BOOST_TEST(w.registrations() == 1u);
    whole->release();
}

BOOST_AUTO_TEST_CASE(freed_in_any_order_stretches_are_joined) {
    for (const std::array<int, 3> order : {std::array{0, 1, 2}, std::array{2, 1, 0}, std::array{0, 2, 1}, std::array{1, 0, 2}}) {
        pool_world w;
        std::array<memory_block*, 3> b{};
        for (auto& each : b) each = w.pool.allocate(600'000);
        for (const int i : order) b[static_cast<std::size_t>(i)]->release();
        memory_block* const whole = w.pool.allocate(2 * mebibyte);
        BOOST_TEST(w.registrations() == 1u);
        whole->release();
    }
}

BOOST_AUTO_TEST_CASE(a_block_comes_free_without_an_allocation_whoever_its_neighbours_are) {
    pool_world w;
    std::vector<memory_block*> blocks;
    for (std::size_t seed = 1; seed < 50; ++seed) {
        for (const std::size_t size : {64u, 100u, 5000u, 200u, 2048u, 64u, 70'000u, 4096u}) blocks.push_back(w.pool.allocate(size));
        for (std::size_t i = 1; i < blocks.size(); ++i) std::swap(blocks[i], blocks[i * seed % (i + 1)]);
        const std::uint64_t before = allocations;
        while (blocks.size() > seed % 4) {
            blocks.back()->release();
            blocks.pop_back();
        }
        BOOST_TEST(allocations == before);
    }
    for (memory_block* b : blocks) b->release();
    BOOST_TEST(w.pool.statistics().used == 0u);
    w.pool.allocate(2 * mebibyte)->release(); // all has been joined
    BOOST_TEST(w.registrations() == 1u);
}

BOOST_AUTO_TEST_CASE(a_block_has_no_other_owner_while_a_request_may_touch_it) {
    pool_world w;
    memory_block* const first = w.pool.allocate(2 * mebibyte);
    const std::size_t place = place_of(first);
    first->hold(); // a work request
    first->give_back(); // its buffer has gone
    BOOST_TEST(w.pool.statistics().blocks == 1u);
    memory_block* const second = w.pool.allocate(2 * mebibyte);
    BOOST_TEST(place_of(second) != place);
    first->release(); // the request is over
    memory_block* const third = w.pool.allocate(2 * mebibyte);
    BOOST_TEST(place_of(third) == place);
    second->release();
    third->release();
}

BOOST_AUTO_TEST_CASE(what_is_mapped_stays_within_the_limit_and_what_is_kept_within_its_own) {
    pool_world w({.limit = 8 * mebibyte, .kept = 4 * mebibyte});
    BOOST_CHECK_THROW(w.pool.allocate(8 * mebibyte + 1), std::system_error);
    BOOST_CHECK_THROW(w.pool.allocate(~std::size_t{0} - 100), std::system_error);
    memory_block* const small = w.pool.allocate(3 * mebibyte); // a chunk of 4
    memory_block* const other = w.pool.allocate(4 * mebibyte);
    const std::string said = sentence_of([&] { static_cast<void>(w.pool.allocate(2 * mebibyte)); });
    BOOST_TEST(mentions(said, "context_options::memory"));
    BOOST_TEST(w.pool.statistics().refused == 3u);
    BOOST_TEST(w.pool.statistics().mapped == 8 * mebibyte);
    small->release();
    BOOST_TEST(w.pool.statistics().mapped == 8 * mebibyte); // kept
    other->release();
    BOOST_TEST(w.pool.statistics().mapped == 4 * mebibyte); // kept no more
    memory_block* const all = w.pool.allocate(8 * mebibyte); // what is kept makes room
    BOOST_TEST(w.registrations() == 1u);
    all->release();
    BOOST_TEST(w.pool.statistics().mapped == 0u);
    BOOST_TEST(w.registrations() == 0u);
    BOOST_TEST(w.pool.statistics().most_mapped == 8 * mebibyte);
}

BOOST_AUTO_TEST_CASE(copies_take_no_more_than_half_of_the_limit_and_nothing_of_what_is_in_the_other_half) {
    pool_world w({.limit = 8 * mebibyte});
    const auto copies = rdma::memory_use::copies;
    BOOST_TEST(w.pool.limit(copies) == 4 * mebibyte);
    memory_block* const small = w.pool.allocate(100);
    memory_block* const a = w.pool.allocate(100, copies);
    memory_block* const b = w.pool.allocate(2 * mebibyte, copies);
    BOOST_TEST(small->chunk != a->chunk);
    BOOST_TEST(w.pool.statistics().for_copies == 4 * mebibyte);
    BOOST_CHECK_THROW(w.pool.allocate(2 * mebibyte, copies), std::system_error);
    memory_block* const whole = w.pool.allocate(2 * mebibyte); // is there still
    BOOST_TEST(w.pool.statistics().mapped == 8 * mebibyte);
    b->release();
    memory_block* const again = w.pool.allocate(2 * mebibyte, copies);
    BOOST_CHECK_THROW(w.pool.allocate(4 * mebibyte + 1, copies), std::system_error);
    again->release();
    a->release();
    memory_block* const more = w.pool.allocate(4 * mebibyte); // what no copy uses is everybody's
    BOOST_TEST(w.pool.statistics().for_copies == 0u);
    BOOST_CHECK_THROW(w.pool.allocate(100, copies), std::system_error);
    for (memory_block* each : {small, whole, more}) each->release();
    memory_block* const last = w.pool.allocate(100, copies);
    last->release();
}

BOOST_AUTO_TEST_CASE(a_pool_of_one_chunk_has_no_room_for_copies) {
    pool_world w({.limit = 2 * mebibyte});
    BOOST_TEST(w.pool.limit(rdma::memory_use::copies) == 0u);
    BOOST_CHECK_THROW(w.pool.allocate(100, rdma::memory_use::copies), std::system_error);
}

BOOST_AUTO_TEST_CASE(who_waits_is_told_once_when_memory_comes_free) {
    pool_world w;
    counting_waiter waiter;
    memory_block* const a = w.pool.allocate(100);
    memory_block* const b = w.pool.allocate(100);
    w.pool.wait(waiter);
    w.pool.wait(waiter);
    a->release();
    BOOST_TEST(waiter.told == 1);
    b->release();
    BOOST_TEST(waiter.told == 1);
}

BOOST_AUTO_TEST_CASE(what_another_thread_gives_back_is_taken_in_by_the_owner) {
    pool_world w;
    counting_waiter waiter;
    std::vector<memory_block*> blocks;
    for (int i = 0; i < 64; ++i) blocks.push_back(w.pool.allocate(1000));
    w.pool.wait(waiter);
    std::vector<std::thread> others;
    for (std::size_t t = 0; t < 2; ++t)
        others.emplace_back([&, t] {
            for (std::size_t i = t; i < blocks.size(); i += 2) blocks[i]->give_back();
        });
    for (std::thread& t : others) t.join();
    BOOST_TEST(w.pool.any_returned());
    BOOST_TEST(w.pool.statistics().blocks == 64u); // not theirs to change
    BOOST_TEST(waiter.told == 0);
    BOOST_TEST(w.pool.take_returned());
    BOOST_TEST(!w.pool.take_returned());
    BOOST_TEST(w.pool.statistics().blocks == 0u);
    BOOST_TEST(w.pool.statistics().returned_from_elsewhere == 64u);
    BOOST_TEST(waiter.told == 1);
}

BOOST_AUTO_TEST_SUITE_END()
