// The socket suite over our own stack, with a wire that carries frames as it does between two reactors.
#include "stack_world.hh"

using namespace corewire;

namespace {

struct copying_world : stack_world {
    copying_world() : stack_world({.vouch_for_checksums = false, .hand_over = false}) {}
};

} // namespace

BOOST_AUTO_TEST_SUITE(stack_sockets_copied)

#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name, copying_world) { run(socket_suite::name(*this)); }
CW_SOCKET_SUITE(CASE)

BOOST_AUTO_TEST_SUITE_END()
