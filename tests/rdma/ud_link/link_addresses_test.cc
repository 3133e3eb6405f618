// Link addresses, the MACs that stand for them, and the two tables that are asked for them.
#include <corewire/rdma/ud_link/handle_cache.hh>

#include "tests/rdma/datagram_end.hh"

#include <set>

using namespace corewire;
using namespace corewire::test;

namespace {

link_address host(std::uint32_t number, std::uint32_t pair = 0x11) { return {pair, mapped(ipv4(number))}; }
constexpr std::uint32_t network = 10u << 24;

/// Peers whose handles contend for the same four places.
std::vector<mac_address> five_of_one_set(link_peers& peers) {
    std::vector<mac_address> same_set;
    const auto set_of = [](mac_address mac) { return mac.value() % (handle_cache::capacity / 4); };
    for (std::uint32_t i = 1; same_set.size() < 5; ++i) {
        const link_address who = host(network + i);
        if (set_of(who.mac()) != set_of(host(network + 1).mac())) continue;
        peers.learn({who});
        same_set.push_back(who.mac());
    }
    return same_set;
}

} // namespace

BOOST_AUTO_TEST_SUITE(link_addresses)

BOOST_AUTO_TEST_CASE(flags_are_not_part_of_an_address) {
    std::array<std::byte, link_address::size> bytes{};
    host(network + 1).store(bytes.data());
    BOOST_TEST((link_address::load(bytes.data()) == host(network + 1)));
    bytes[0] = std::byte{0x80};
    BOOST_TEST((link_address::load(bytes.data()) == host(network + 1)));
    BOOST_TEST(to_string(host(network + 1)) == "0x11 at ::ffff:10.0.0.1");
}

BOOST_AUTO_TEST_CASE(macs_are_local_unicast_and_differ) {
    std::set<std::uint64_t> all;
    for (std::uint32_t i = 0; i < 1000; ++i)
        for (std::uint32_t pair = 2; pair < 12; ++pair) {
            const mac_address mac = host(network + i, pair).mac();
            BOOST_TEST_REQUIRE((mac.is_unicast() && mac.is_locally_administered()));
            all.insert(mac.value());
        }
    BOOST_TEST(all.size() == 10'000u);
}

BOOST_AUTO_TEST_CASE(peers_are_bounded_and_the_latest_are_known) {
    link_peers peers;
    constexpr std::uint32_t many = 10'000;
    for (std::uint32_t i = 0; i < many; ++i) peers.learn({host(network + i)});
    std::size_t known = 0;
    for (std::uint32_t i = 0; i < many; ++i) known += peers.find(host(network + i).mac()).has_value();
    BOOST_TEST(known == many - peers.evicted());
    BOOST_TEST(known <= link_peers::capacity);
    BOOST_TEST(known > link_peers::capacity * 9 / 10);
    BOOST_TEST((peers.find(host(network + many - 1).mac())->address == host(network + many - 1)));
    BOOST_TEST(!peers.find(mac_address(0x02'12'34'56'78'9a)).has_value());
}

BOOST_AUTO_TEST_CASE(handles_are_kept_bounded_and_never_taken_from_a_send_under_way) {
    datagram_end end("fake_a", ipv4(192, 0, 2, 1));
    link_peers peers;
    handle_cache cache(end.domain, peers, {.port = 1, .gid_index = 1, .retry_after = std::chrono::milliseconds{1000}});
    constexpr std::uint32_t many = 2000;
    const std::uint64_t first = UINT32_MAX - 10;
    std::uint64_t position = first;
    for (std::uint32_t i = 1; i <= many; ++i) {
        peers.learn({host(network + i)});
        const auto to = cache.find(host(network + i).mac(), position, position);
        BOOST_TEST_REQUIRE(to.handle != nullptr);
        BOOST_TEST_REQUIRE(to.queue_pair == 0x11u);
        ++position;
    }
    BOOST_TEST(cache.count() <= handle_cache::capacity);
    BOOST_TEST(cache.count() + cache.statistics().evicted == many);
    const std::uint64_t made = cache.statistics().made;
    static_cast<void>(cache.find(host(network + many).mac(), position, position));
    BOOST_TEST(cache.statistics().made == made);

    handle_cache busy(end.domain, peers, {.port = 1, .gid_index = 1, .retry_after = std::chrono::milliseconds{1000}});
    for (std::uint32_t i = 1; i <= many; ++i) { // nothing completes
        peers.learn({host(network + i)});
        static_cast<void>(busy.find(host(network + i).mac(), first + i, first));
    }
    BOOST_TEST(busy.statistics().evicted == 0u);
    BOOST_TEST(busy.statistics().no_room == many - busy.count());
    busy.all_completed();
    const std::uint64_t refused = busy.statistics().no_room;
    for (std::uint32_t i = 1; i <= many; ++i) static_cast<void>(busy.find(host(network + i).mac(), i, i));
    BOOST_TEST(busy.statistics().no_room == refused);
}

BOOST_AUTO_TEST_CASE(a_handle_that_has_rested_for_billions_of_sends_gives_room) {
    datagram_end end("fake_a", ipv4(192, 0, 2, 1));
    link_peers peers;
    handle_cache cache(end.domain, peers, {.port = 1, .gid_index = 1, .retry_after = std::chrono::milliseconds{1000}});
    const std::vector<mac_address> same_set = five_of_one_set(peers);
    for (std::size_t i = 0; i < 4; ++i) BOOST_TEST((cache.find(same_set[i], i, i).handle != nullptr));
    const std::uint64_t much_later = (std::uint64_t{1} << 31) + 10; // a 32-bit difference would call that not yet completed
    BOOST_TEST((cache.find(same_set[4], much_later, much_later).handle != nullptr));
    BOOST_TEST(cache.statistics().no_room == 0u);
}

BOOST_AUTO_TEST_CASE(after_a_restart_the_handle_that_was_used_last_is_no_less_in_use_than_others) {
    datagram_end end("fake_a", ipv4(192, 0, 2, 1));
    link_peers peers;
    handle_cache cache(end.domain, peers, {.port = 1, .gid_index = 1, .retry_after = std::chrono::milliseconds{1000}});
    const std::vector<mac_address> same_set = five_of_one_set(peers);
    static_cast<void>(cache.find(same_set[0], 0, 0));
    cache.all_completed();
    std::uint32_t position = 0; // of the queue that was started again; nothing completes
    for (std::size_t i = 0; i < 4; ++i) BOOST_TEST((cache.find(same_set[i], position++, 0).handle != nullptr));
    BOOST_TEST((cache.find(same_set[4], position, 0).handle == nullptr));
    BOOST_TEST(cache.statistics().evicted == 0u);
    BOOST_TEST(cache.statistics().no_room == 1u);
}

BOOST_AUTO_TEST_CASE(a_peer_that_is_heard_of_again_gets_a_new_handle_and_sends_under_way_keep_the_old_one) {
    datagram_end end("fake_a", ipv4(192, 0, 2, 1));
    link_peers peers;
    const link_address who = host(network + 1);
    peers.learn({who, 7});
    const unsigned base = end.nic.live_objects();
    handle_cache calm(end.domain, peers, {.port = 1, .gid_index = 1, .retry_after = std::chrono::hours{1}});
    ibv_ah* const first = calm.find(who.mac(), 0, 0).handle;
    peers.learn({who, 7});
    BOOST_TEST((calm.find(who.mac(), 1, 0).handle == first)); // made a moment ago
    peers.learn({who, 8});
    BOOST_TEST((calm.find(who.mac(), 2, 0).handle != first)); // another LID: at once
    BOOST_TEST(calm.statistics().refreshed == 1u);
    BOOST_TEST(end.nic.live_objects() == base + 2); // the first two sends are under way
    peers.learn({who, 9});
    static_cast<void>(calm.find(who.mac(), 3, 1));
    BOOST_TEST(calm.statistics().refreshed == 1u); // one at a time
    peers.learn({who, 9});
    static_cast<void>(calm.find(who.mac(), 4, 2));
    BOOST_TEST(calm.statistics().refreshed == 2u);
    BOOST_TEST(end.nic.live_objects() == base + 2); // the first has gone, the second is under way
    calm.all_completed();
    BOOST_TEST(end.nic.live_objects() == base + 1);
    end.nic.fail_calls("create_ah", ETIMEDOUT);
    peers.learn({who, 10});
    BOOST_TEST((calm.find(who.mac(), 5, 5).handle != nullptr)); // better the old one than none
    BOOST_TEST(calm.statistics().refreshed == 2u);
    peers.learn({who, 10});
    static_cast<void>(calm.find(who.mac(), 6, 6));
    BOOST_TEST(calm.statistics().refreshed == 3u);
    // What had to wait is not forgotten, though nobody says it again.
    peers.learn({who, 11});
    static_cast<void>(calm.find(who.mac(), 7, 6));
    peers.learn({who, 12});
    static_cast<void>(calm.find(who.mac(), 8, 6));
    BOOST_TEST(calm.statistics().refreshed == 4u);
    static_cast<void>(calm.find(who.mac(), 9, 9));
    BOOST_TEST(calm.statistics().refreshed == 5u);
}

BOOST_AUTO_TEST_SUITE_END()
