// cw-echo's datagrams, over the kernel's sockets.
#include <tests/net/kernel/kernel_world.hh>

#include <corewire/apps/echo/udp_echo.hh>

namespace corewire {

namespace {

task<> ask_at_the_second_address(std::string& said) {
    udp_socket server = udp_socket::bind({ipv4::any(), 0});
    task_group serving{"echo"};
    serving.spawn(echo::serve_datagrams(server, echo::udp_format::plain));
    udp_socket client = udp_socket::connect({ipv4(127, 0, 0, 2), server.local_address().port}); // it hears nobody else
    const std::string_view text = "hello";
    co_await client.send(std::as_bytes(std::span{text}));
    const datagram answer = co_await client.receive_from(socket_suite::soon(std::chrono::seconds{10}));
    said = answer.data.text();
    server.close();
    co_await serving.join();
}

} // namespace

BOOST_AUTO_TEST_SUITE(udp_echo)

BOOST_FIXTURE_TEST_CASE(a_request_is_answered_from_the_address_that_was_asked, kernel_world) {
    std::string said;
    run(ask_at_the_second_address(said));
    BOOST_TEST(said == "hello");
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire
