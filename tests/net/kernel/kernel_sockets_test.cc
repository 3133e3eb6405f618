// The suite of all providers, over the kernel's sockets.
// ctest: timeout=300 processors=2 serial=yes
#include "kernel_world.hh"

namespace corewire {

BOOST_AUTO_TEST_SUITE(kernel_sockets)

#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name, kernel_world) { run(socket_suite::name(*this)); }
CW_SOCKET_SUITE(CASE)
#undef CASE

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire
