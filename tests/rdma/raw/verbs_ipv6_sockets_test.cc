// The socket API over IPv6 over the `verbs` port: what net/stack/ipv6_sockets plays over a wire, here by rules for IPv6 alone.
#include "verbs_sockets_world.hh"

using namespace corewire;

namespace {

struct verbs_ipv6_world : verbs_sockets_world {
    verbs_ipv6_world() : verbs_sockets_world(true) {}
    std::uint64_t bulk_bytes() override { return 4'000'000; }
};

} // namespace

BOOST_AUTO_TEST_SUITE(verbs_ipv6_sockets)

#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name, verbs_ipv6_world) { run(socket_suite::name(*this)); }
CASE(one_connection_echoes)
CASE(a_hundred_connections_echo)
CASE(bulk_arrives_unchanged_both_ways)
CASE(both_ends_agree_on_the_addresses)
CASE(a_connection_tells_about_itself)
CASE(half_close_lets_the_other_side_finish)
CASE(a_read_after_a_reset_fails)
CASE(a_closed_port_refuses)
CASE(a_port_is_bound_once)
CASE(a_connection_nobody_accepted_dies_with_the_listener)
CASE(an_expired_connect_leaves)
CASE(datagrams_echo)
CASE(a_datagram_to_a_closed_port_is_refused)
CASE(a_connected_socket_hears_its_peer_only)
CASE(datagram_errors_are_told)
CASE(closing_a_datagram_socket_cancels_receive)
CASE(a_stop_ends_a_hundred_idle_sessions)

BOOST_AUTO_TEST_SUITE_END()
