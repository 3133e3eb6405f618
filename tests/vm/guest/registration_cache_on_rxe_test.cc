// verbs::registration_cache with a real device: what it keeps serves again, and pages that are mapped anew at an old address are the
// device's only after they have been registered.
#include <corewire/rdma/verbs/registration_cache.hh>

#include "tests/vm/guest/pages.hh"
#include "tests/vm/guest/rxe_pair.hh"

#include <optional>

using namespace corewire;
using namespace corewire::test;

namespace {

struct cache_world : connected_pair {
    cache_world() : cache(a.domain) { BOOST_REQUIRE(cache.keeps()); }
    /// How the device of `a` ends a send of these pages under the key; `arrived` tells what came.
    ibv_wc_status send(const pages& memory, std::uint32_t key) {
        const auto size = static_cast<std::uint32_t>(memory.size());
        BOOST_REQUIRE(b.receive(0, size) == 0);
        BOOST_REQUIRE(post_send(a.pair, {reinterpret_cast<std::uintptr_t>(memory.data()), size, key}, [](ibv_send_wr&) {}) == 0);
        const ibv_wc_status ended = a.next().status;
        if (ended == IBV_WC_SUCCESS) BOOST_TEST(b.next().byte_len == size);
        return ended;
    }
    bool arrived(char what) const {
        return std::ranges::all_of(b.memory, [what](std::byte each) { return each == static_cast<std::byte>(what); });
    }
    verbs::registration_cache cache;
};

} // namespace

BOOST_AUTO_TEST_SUITE(registration_cache_on_rxe)

BOOST_AUTO_TEST_CASE(what_it_has_registered_serves_again) {
    cache_world w;
    const pages memory(2);
    std::uint32_t key = 0;
    for (const char what : {'a', 'b'}) {
        memory.fill(what);
        const auto lease = w.cache.get(memory.all());
        if (key != 0) BOOST_TEST(lease.region().local_key() == key);
        key = lease.region().local_key();
        BOOST_TEST(w.send(memory, key) == IBV_WC_SUCCESS);
        BOOST_TEST(w.arrived(what));
    }
    BOOST_TEST(w.cache.statistics().registered == 1u);
    BOOST_TEST(w.cache.statistics().hits == 1u);
}

BOOST_AUTO_TEST_CASE(pages_that_are_mapped_anew_at_the_same_address_are_registered_anew) {
    cache_world w;
    std::optional<pages> memory(std::in_place, 2);
    std::byte* const at = memory->data();
    memory->fill('a');
    const std::uint32_t old = w.cache.get(memory->all()).region().local_key();
    BOOST_TEST(w.send(*memory, old) == IBV_WC_SUCCESS); // kept, and good
    memory.reset();
    memory.emplace(2, at);
    memory->fill('b');
    {
        const auto lease = w.cache.get(memory->all());
        BOOST_TEST(w.send(*memory, lease.region().local_key()) == IBV_WC_SUCCESS);
        BOOST_TEST(w.arrived('b'));
    }
    BOOST_TEST(w.cache.statistics().invalidated == 1u);
    BOOST_TEST(w.cache.statistics().registered == 2u);
    BOOST_TEST(w.send(*memory, old) != IBV_WC_SUCCESS); // rdma_rxe: IBV_WC_LOC_QP_OP_ERR, where others say IBV_WC_LOC_PROT_ERR
}

BOOST_AUTO_TEST_SUITE_END()
