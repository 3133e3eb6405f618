// The socket API over our own stack: the same suite that the kernel's sockets pass, on a virtual clock. The hosts are one
// reactor's, whose frames change hands on the wire.
#include "stack_world.hh"

using namespace corewire;

BOOST_AUTO_TEST_SUITE(stack_sockets)

#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name, stack_world) { run(socket_suite::name(*this)); }
CW_SOCKET_SUITE(CASE)

BOOST_AUTO_TEST_CASE(handles_without_a_socket_say_so) {
    const auto bad = [](const std::system_error& e) { return e.code() == std::errc::bad_file_descriptor; };
    BOOST_CHECK_EXCEPTION(tcp_listener{}.local_address(), std::system_error, bad);
    BOOST_CHECK_EXCEPTION(tcp_stream{}.local_address(), std::system_error, bad);
    BOOST_CHECK_EXCEPTION(udp_socket{}.local_address(), std::system_error, bad);
    BOOST_CHECK_EXCEPTION(udp_socket{}.allocate(1), std::system_error, bad);
}

BOOST_AUTO_TEST_SUITE_END()
