// The socket API over our own stack over the `verbs` port: the suite that the kernel's sockets and the other ports pass.
#include "verbs_sockets_world.hh"

using namespace corewire;

BOOST_AUTO_TEST_SUITE(verbs_sockets)

#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name, verbs_sockets_world) { run(socket_suite::name(*this)); }
CW_SOCKET_SUITE(CASE)

BOOST_AUTO_TEST_SUITE_END()
