// The registration cache: hits, bounds, and memory that is unmapped behind its back.
#include <corewire/rdma/verbs/registration_cache.hh>

#include "tests/rdma/support.hh"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace corewire;
using namespace corewire::test;

namespace {

constexpr std::size_t page = 4096;

std::byte* map(std::size_t pages, void* at = nullptr) {
    void* p = ::mmap(at, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | (at ? MAP_FIXED : 0), -1, 0);
    BOOST_REQUIRE(p != MAP_FAILED);
    return static_cast<std::byte*>(p);
}

struct cache_world {
    fake::nic nic;
    verbs::device device = verbs::device::open("fake0", fake::api());
    verbs::protection_domain domain{device};
    unsigned base = nic.live_objects();
    unsigned regions() const { return nic.live_objects() - base; }
};

bool cannot_watch(const verbs::registration_cache& cache) {
    if (cache.keeps()) return false;
    std::puts("SKIPPED: userfaultfd may not be used here");
    return true;
}

} // namespace

BOOST_AUTO_TEST_SUITE(registration_cache)

BOOST_AUTO_TEST_CASE(memory_is_registered_once_and_its_parts_are_found) {
    cache_world w;
    verbs::registration_cache cache(w.domain);
    if (cannot_watch(cache)) return;
    std::byte* at = map(4);
    std::uint32_t key = 0;
    {
        const auto first = cache.get({at, 4 * page});
        key = first.region().local_key();
    }
    const auto part = cache.get({at + 100, 5000});
    BOOST_TEST(part.region().local_key() == key);
    BOOST_TEST(part.region().contains(byte_span(at + 100, 5000)));
    BOOST_TEST(cache.statistics().registered == 1u);
    BOOST_TEST(cache.statistics().hits == 1u);
}

BOOST_AUTO_TEST_CASE(memory_that_was_unmapped_and_mapped_again_is_registered_again) {
    cache_world w;
    verbs::registration_cache cache(w.domain);
    if (cannot_watch(cache)) return;
    std::byte* at = map(2);
    std::uint32_t key = cache.get({at, 2 * page}).region().local_key();
    ::munmap(at, 2 * page);
    BOOST_REQUIRE(map(2, at) == at); // other pages at the same address
    const auto again = cache.get({at, 2 * page});
    BOOST_TEST(again.region().local_key() != key);
    BOOST_TEST(cache.statistics().invalidated == 1u);
    BOOST_TEST(w.regions() == 1u); // the stale one has gone
    ::munmap(at, 2 * page);
}

BOOST_AUTO_TEST_CASE(dropped_and_moved_pages_count_as_unmapped) {
    cache_world w;
    verbs::registration_cache cache(w.domain);
    if (cannot_watch(cache)) return;
    std::byte* at = map(2);
    static_cast<void>(cache.get({at, 2 * page}));
    ::madvise(at, page, MADV_DONTNEED);
    BOOST_TEST(cache.statistics().invalidated == 1u);
    static_cast<void>(cache.get({at, 2 * page}));
    void* moved = ::mremap(at, 2 * page, 64 * page, MREMAP_MAYMOVE);
    BOOST_REQUIRE(moved != MAP_FAILED);
    static_cast<void>(cache.get({static_cast<std::byte*>(moved), page}));
    BOOST_TEST(cache.statistics().hits == 0u);
    BOOST_TEST(cache.statistics().registered == 3u);
    ::munmap(moved, 64 * page);
}

BOOST_AUTO_TEST_CASE(shared_memory_whose_pages_may_go_unheard_is_not_kept) {
    cache_world w;
    verbs::registration_cache cache(w.domain);
    if (cannot_watch(cache)) return;
    const int file = ::memfd_create("shared", MFD_CLOEXEC);
    BOOST_REQUIRE(::ftruncate(file, 2 * page) == 0);
    for (const int how : {MAP_SHARED, MAP_PRIVATE}) {
        void* const at = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, how | MAP_POPULATE, file, 0);
        BOOST_REQUIRE(at != MAP_FAILED);
        for (int i = 0; i < 2; ++i) static_cast<void>(cache.get({static_cast<std::byte*>(at), 2 * page}));
        ::munmap(at, 2 * page);
    }
    ::close(file);
    BOOST_TEST(cache.statistics().hits == 0u);
    BOOST_TEST(cache.statistics().registered == 4u);
    BOOST_TEST(w.regions() == 0u);
}

BOOST_AUTO_TEST_CASE(a_lease_whose_memory_was_dropped_lasts_and_is_given_to_nobody_else) {
    cache_world w;
    verbs::registration_cache cache(w.domain);
    if (cannot_watch(cache)) return;
    std::byte* at = map(2);
    auto held = cache.get({at, 2 * page});
    const std::uint32_t key = held.region().local_key();
    ::madvise(at, page, MADV_DONTNEED);
    const auto other = cache.get({at, 2 * page});
    BOOST_TEST(other.region().local_key() != key);
    BOOST_TEST(held.region().local_key() == key);
    BOOST_TEST(w.regions() == 2u);
    held = {};
    BOOST_TEST(w.regions() == 1u); // the stale one
    ::munmap(at, 2 * page);
}

BOOST_AUTO_TEST_CASE(what_is_kept_is_bounded_in_bytes_too) {
    cache_world w;
    verbs::registration_cache cache(w.domain, {.max_bytes = 4 * page});
    if (cannot_watch(cache)) return;
    std::byte* at = map(12);
    for (unsigned n = 0; n < 4; ++n) static_cast<void>(cache.get({at + n * 3 * page, 2 * page}));
    BOOST_TEST(cache.statistics().evicted == 2u);
    BOOST_TEST(w.regions() == 2u);
    ::munmap(at, 12 * page);
}

BOOST_AUTO_TEST_CASE(what_is_kept_is_bounded_and_the_longest_unused_goes_first) {
    cache_world w;
    verbs::registration_cache cache(w.domain, {.max_regions = 2});
    if (cannot_watch(cache)) return;
    std::byte* at = map(6);
    const auto get = [&](unsigned n) { return cache.get({at + n * 2 * page, page}); };
    static_cast<void>(get(0));
    static_cast<void>(get(1));
    static_cast<void>(get(0)); // a hit: 1 is the older one now
    static_cast<void>(get(2));
    BOOST_TEST(cache.statistics().evicted == 1u);
    static_cast<void>(get(0));
    BOOST_TEST(cache.statistics().hits == 2u);
    const auto a = get(0), b = get(2);
    const std::string too_many = sentence_of([&] { get(1); });
    BOOST_TEST(mentions(too_many, "more than 2 registrations"));
    BOOST_TEST(!mentions(too_many, "ulimit"));
    BOOST_TEST(w.regions() == 2u);
    ::munmap(at, 6 * page);
}

BOOST_AUTO_TEST_CASE(nothing_is_left_when_the_cache_goes) {
    cache_world w;
    std::byte* at = map(1);
    {
        verbs::registration_cache cache(w.domain);
        const auto held = cache.get({at, page});
        BOOST_TEST(w.regions() == 1u);
    }
    BOOST_TEST(w.regions() == 0u);
    ::munmap(at, page); // and nobody waits for a watcher that has gone
}

BOOST_AUTO_TEST_CASE(a_forked_child_gets_nothing_from_its_parents_cache) {
    cache_world w;
    verbs::registration_cache cache(w.domain);
    std::byte* at = map(1);
    static_cast<void>(cache.get({at, page}));
    const pid_t child = ::fork();
    if (child == 0)
        ::_exit(!cache.keeps() && cache.statistics().registered == 0 &&
                        mentions(sentence_of([&] { cache.get({at, page}); }), "forked child") ? 0 : 1);
    int status = -1;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    BOOST_TEST(status == 0);
    ::munmap(at, page);
}

BOOST_AUTO_TEST_SUITE_END()
