// The suite of all providers, over the kernel's sockets.
// ctest: timeout=300 processors=2 serial=yes
#include "kernel_world.hh"

#include <tests/support/ipv6_only_cases.hh>
#include <tests/support/netns.hh>

namespace corewire {

BOOST_AUTO_TEST_SUITE(kernel_sockets)

#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name, kernel_world) { run(socket_suite::name(*this)); }
CW_SOCKET_SUITE(CASE)
#undef CASE

#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name, kernel_world) {                                                                      \
        if (test::have_ipv6()) run(ipv6_only_cases::name(*this, ipv4::loopback(), ipv6::loopback()));                  \
    }
CASE(a_listener_for_ipv6_leaves_ipv4_to_another)
CASE(a_datagram_socket_for_ipv6_leaves_ipv4_to_another)
#undef CASE

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire
