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
CW_SOCKET_SUITE(CASE)

BOOST_AUTO_TEST_SUITE_END()
