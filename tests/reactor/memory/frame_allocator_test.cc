// Coroutine frames: recycled without malloc, sent home from other threads, and outliving their reactor.
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/memory/frame_allocator.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/reactor/task/sleep.hh>

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

using namespace corewire;

namespace {

task<int> small(int x) { co_return x; }
task<int> large(int x) {
    std::array<volatile char, 2000> ballast{};
    ballast[1999] = static_cast<char>(x);
    co_await corewire::yield();
    co_return ballast[1999];
}
task<long> busy(int rounds) {
    long sum = 0;
    for (int i = 0; i < rounds; ++i) {
        sum += co_await small(1);
        sum += co_await large(1);
    }
    co_return sum;
}

} // namespace

BOOST_AUTO_TEST_SUITE(frame_allocator)

BOOST_AUTO_TEST_CASE(a_service_in_its_stride_asks_malloc_for_nothing) {
    reactor r;
    BOOST_CHECK_EQUAL(run_until_complete(r, busy(10)), 20);
    const std::uint64_t before = r.frames().heap_allocations();
    BOOST_CHECK_GT(before, 0u);
    BOOST_CHECK_EQUAL(run_until_complete(r, busy(10'000)), 20'000);
    BOOST_CHECK_EQUAL(r.frames().heap_allocations(), before);
}

BOOST_AUTO_TEST_CASE(frames_of_every_size_are_whole_aligned_and_apart) {
    reactor r;
    const reactor::scope here(r);
    for (int round = 0; round < 2; ++round) {
        std::vector<std::pair<unsigned char*, std::size_t>> frames;
        for (std::size_t size = 1; size < 5000; size += 37) {
            auto* p = static_cast<unsigned char*>(corewire::frame_allocator::allocate(size));
            BOOST_CHECK_EQUAL(reinterpret_cast<std::uintptr_t>(p) % 16, 0u);
            std::memset(p, static_cast<int>(size % 251), size);
            frames.emplace_back(p, size);
        }
        for (const auto& [p, size] : frames) {
            BOOST_CHECK_EQUAL(p[0], size % 251);
            BOOST_CHECK_EQUAL(p[size - 1], size % 251);
            corewire::frame_allocator::deallocate(p, size);
        }
    }
}

BOOST_AUTO_TEST_CASE(the_cache_of_a_size_has_a_limit) {
    reactor r;
    const reactor::scope here(r);
    std::uint64_t frames_before = 0, bytes_before = 0;
    for (const std::size_t size : {40u, 100u, 1000u, 4000u}) {
        const std::uint32_t limit = corewire::frame_allocator::cached_limit_of(size);
        std::vector<void*> frames;
        for (std::uint32_t i = 0; i < limit + 100; ++i) frames.push_back(corewire::frame_allocator::allocate(size));
        BOOST_CHECK_EQUAL(r.frames().frames_held() - frames_before, limit + 100u);
        for (void* p : frames) corewire::frame_allocator::deallocate(p, size);
        BOOST_CHECK_EQUAL(r.frames().frames_held() - frames_before, limit);
        BOOST_CHECK_GE(r.frames().bytes_held() - bytes_before, limit * size);
        BOOST_CHECK_LE(r.frames().bytes_held() - bytes_before, corewire::frame_allocator::cached_bytes);
        frames_before = r.frames().frames_held();
        bytes_before = r.frames().bytes_held();
    }
    BOOST_CHECK_EQUAL(corewire::frame_allocator::cached_limit_of(40), corewire::frame_allocator::cached_limit);
    BOOST_CHECK_EQUAL(corewire::frame_allocator::cached_limit_of(4080), 256u);
}

/// Also where they come home from other threads.
BOOST_AUTO_TEST_CASE(frames_that_come_home_are_kept_within_the_same_limit) {
    reactor r;
    const reactor::scope here(r);
    constexpr std::size_t size = 4000;
    const std::uint32_t limit = corewire::frame_allocator::cached_limit_of(size);
    std::vector<void*> frames;
    for (std::uint32_t i = 0; i < 2 * limit; ++i) frames.push_back(corewire::frame_allocator::allocate(size));
    std::thread([&frames] {
        for (void* p : frames) corewire::frame_allocator::deallocate(p, size);
    }).join();
    BOOST_CHECK_EQUAL(r.frames().frames_held(), 2 * limit);
    void* const one = corewire::frame_allocator::allocate(size); // the list is dry: what came home is taken in
    BOOST_CHECK_EQUAL(r.frames().frames_held(), limit);
    BOOST_CHECK_LE(r.frames().bytes_held(), corewire::frame_allocator::cached_bytes);
    corewire::frame_allocator::deallocate(one, size);
}

BOOST_AUTO_TEST_CASE(a_frame_freed_on_another_thread_goes_home) {
    reactor r;
    const reactor::scope here(r);
    void* const p = corewire::frame_allocator::allocate(100);
    std::thread([p] {
        reactor other;
        const reactor::scope there(other);
        corewire::frame_allocator::deallocate(p, 100);
        BOOST_CHECK_EQUAL(other.frames().frames_held(), 0u);
    }).join();
    const std::uint64_t before = r.frames().heap_allocations();
    void* const again = corewire::frame_allocator::allocate(100);
    BOOST_CHECK_EQUAL(again, p);
    BOOST_CHECK_EQUAL(r.frames().came_home(), 1u);
    BOOST_CHECK_EQUAL(r.frames().heap_allocations(), before);
    corewire::frame_allocator::deallocate(again, 100);
}

BOOST_AUTO_TEST_CASE(two_threads_that_free_each_others_frames_lose_none) {
    constexpr int rounds = 20'000;
    reactor home;
    const reactor::scope here(home);
    std::vector<void*> frames;
    for (int i = 0; i < rounds; ++i) frames.push_back(corewire::frame_allocator::allocate(200));
    const std::uint64_t held = home.frames().frames_held();
    const auto free_every_second = [&frames](std::size_t from) {
        for (std::size_t i = from; i < frames.size(); i += 2) corewire::frame_allocator::deallocate(frames[i], 200);
    };
    std::thread first(free_every_second, 0u);
    std::thread second(free_every_second, 1u);
    first.join();
    second.join();
    corewire::frame_allocator::deallocate(corewire::frame_allocator::allocate(200), 200);
    BOOST_CHECK_EQUAL(home.frames().came_home(), static_cast<std::uint64_t>(rounds));
    BOOST_CHECK_LE(home.frames().frames_held(), held);
}

BOOST_AUTO_TEST_CASE(a_frame_may_outlive_the_reactor_it_came_from) {
    auto gone = std::make_unique<reactor>();
    corewire::task<int> survivor;
    {
        const reactor::scope here(*gone);
        survivor = small(5);
    }
    gone.reset();
    reactor r;
    BOOST_CHECK_EQUAL(run_until_complete(r, std::move(survivor)), 5);
}

BOOST_AUTO_TEST_CASE(without_a_reactor_frames_come_from_malloc) {
    corewire::task<int> t = small(5);
    t.handle().resume();
    BOOST_CHECK_EQUAL(t.handle().promise().take(), 5);
}

BOOST_AUTO_TEST_SUITE_END()
