// The socket API over our own stack over the `verbs` port: the suite that the kernel's sockets and the other ports pass.
#include "verbs_sockets_world.hh"

using namespace corewire;

BOOST_AUTO_TEST_SUITE(verbs_sockets)

#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name, verbs_sockets_world) { run(socket_suite::name(*this)); }
CW_SOCKET_SUITE(CASE)

BOOST_FIXTURE_TEST_CASE(most_of_bulk_is_cut_by_the_device, verbs_sockets_world) {
    run(socket_suite::bulk_arrives_unchanged_both_ways(*this));
    BOOST_TEST(server_host().nic.statistics().segments > bulk_bytes() / 1460 / 2);
}

BOOST_AUTO_TEST_SUITE_END()
