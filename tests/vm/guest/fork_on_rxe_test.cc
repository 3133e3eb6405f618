// fork() with a real kernel below: the device goes on with the parent's memory, whatever the child does with its copy, and memory of
// rdma/channel is not in the child at all.
#include <corewire/rdma/verbs/registration_cache.hh>

#include "tests/rdma/channel_world.hh"
#include "tests/vm/guest/forked_child.hh"
#include "tests/vm/guest/pages.hh"
#include "tests/vm/guest/rxe_fabric.hh"

#include <cerrno>

using namespace corewire;
using namespace corewire::test;

namespace {

constexpr auto for_all = verbs::access::local_write | verbs::access::remote_read;

/// The device of `a` reads `memory` for a send, and for a READ of its peer's; and it receives into it.
void expect_the_parents_bytes(connected_pair& p, const pages& memory, const verbs::memory_region& region) {
    const auto size = static_cast<std::uint32_t>(memory.size());
    const ibv_sge ours{reinterpret_cast<std::uintptr_t>(memory.data()), size, region.local_key()};
    const auto theirs_are = [&](char what) {
        return std::ranges::all_of(p.b.memory, [what](std::byte b) { return b == static_cast<std::byte>(what); });
    };
    memory.fill('p'); // were the page shared with the child, this would give the parent another one, and leave the device the old one
    BOOST_TEST(p.b.receive(0, size) == 0);
    BOOST_TEST(post_send(p.a.pair, ours, [](ibv_send_wr&) {}) == 0);
    BOOST_TEST(p.a.next().status == IBV_WC_SUCCESS);
    BOOST_TEST(p.b.next().byte_len == size);
    BOOST_TEST(theirs_are('p'));

    memory.fill('q');
    const auto as_read = [&](ibv_send_wr& wr) { wr.opcode = IBV_WR_RDMA_READ, wr.wr.rdma = {ours.addr, region.remote_key()}; };
    BOOST_TEST(p.b.send(0, size, as_read) == 0);
    BOOST_TEST(p.b.next().status == IBV_WC_SUCCESS);
    BOOST_TEST(theirs_are('q'));

    std::ranges::fill(p.b.memory, std::byte{'b'});
    BOOST_TEST(post_receive(p.a.pair, ours) == 0);
    BOOST_TEST(p.b.send(0, size) == 0);
    BOOST_TEST(p.a.next().byte_len == size);
    BOOST_TEST(memory.holds('b'));
}

/// Memory that `registered` has registered, while there is a child that leaves its copy alone, and one that writes it.
template <typename Registered>
void fork_beside(Registered registered) {
    for (const bool writes : {false, true}) {
        connected_pair p(for_all);
        const pages memory(2);
        BOOST_REQUIRE(memory.size() == p.b.memory.size());
        memory.fill('a');
        registered(p, memory, [&](const verbs::memory_region& region) {
            const forked_child child([&] {
                if (writes) memory.fill('c');
                return writes ? 'c' : ' ';
            });
            expect_the_parents_bytes(p, memory, region);
        });
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(fork_on_rxe)

BOOST_AUTO_TEST_CASE(the_device_works_on_the_parents_memory_while_a_child_is_there) {
    fork_beside([](connected_pair& p, const pages& memory, auto with) {
        const verbs::memory_region region(p.a.domain, memory.all(), for_all);
        with(region);
    });
}

BOOST_AUTO_TEST_CASE(so_it_does_on_what_the_registration_cache_has_registered) {
    fork_beside([](connected_pair& p, const pages& memory, auto with) {
        verbs::registration_cache cache(p.a.domain, {.allowed = for_all});
        BOOST_REQUIRE(cache.keeps());
        static_cast<void>(cache.get(memory.all()));
        const auto lease = cache.get(memory.all());
        BOOST_TEST(cache.statistics().hits == 1u);
        with(lease.region());
    });
}

BOOST_AUTO_TEST_CASE(memory_of_a_channel_is_not_in_the_child_and_serves_the_parent) {
    basic_channel_world<rxe_fabric> w;
    const auto memory = w.client.allocate(100'000); // fetched by a READ
    std::byte* const first = memory.data();
    std::fill_n(first, memory.size(), std::byte{'a'});
    const forked_child child([first] {
        unsigned char there = 0;
        auto* const page = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(first) / 4096 * 4096);
        return ::mincore(page, 4096, &there) == -1 && errno == ENOMEM ? 'n' : 'y';
    });
    BOOST_TEST(child.said() == 'n');
    std::fill_n(first, memory.size(), std::byte{'p'});
    w.run([](auto& x, rdma::local_region what) -> task<> {
        co_await x.client.send_in_place(what);
        const auto got = co_await x.server.receive();
        BOOST_TEST(got->bytes().size() == what.size);
        BOOST_TEST(std::ranges::all_of(got->bytes(), [](std::byte b) { return b == std::byte{'p'}; }));
    }(w, memory.all()));
}

BOOST_AUTO_TEST_SUITE_END()
