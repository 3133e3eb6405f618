// The suite of all providers, over the kernel's sockets where io_uring is forbidden.
// ctest: timeout=300 processors=2 serial=yes
#include "kernel_world.hh"

namespace corewire {

BOOST_AUTO_TEST_SUITE(kernel_sockets_by_epoll)

#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name, kernel_world_by_epoll) { run(socket_suite::name(*this)); }
CW_SOCKET_SUITE(CASE)
#undef CASE

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire
