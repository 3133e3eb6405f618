// The echo server's loop of accepts, over our own stack on a virtual clock.
#include <corewire/apps/echo/tcp_echo.hh>
#include <tests/net/stack/stack_world.hh>
#include <tests/support/starved_listener.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace std::chrono_literals;

BOOST_FIXTURE_TEST_SUITE(tcp_echo, stack_world)

BOOST_AUTO_TEST_CASE(accepts_go_on_when_there_is_something_to_accept_with_again) {
    tcp_listener listener(std::make_unique<starved_listener>(server_.listen({first, 7}, {}), out_of_everything));
    run([](stack_world& w, tcp_listener& from) -> task<> {
        task_group serving{"serving"};
        serving.spawn(echo::accept_all(from, echo::serve, serving.token()));
        const time_point begun = w.loop().now();
        tcp_stream peer = co_await tcp_stream::connect({first, 7});
        co_await peer.write(std::string_view("x"));
        const buffer back = co_await peer.read({.deadline = begun + 10s});
        BOOST_TEST(back.text() == "x");
        BOOST_TEST((w.loop().now() - begun) / 100ms == 4); // a pause after each failure
        serving.request_stop();
        co_await serving.join();
        BOOST_TEST(serving.failed() == 0u);
    }(*this, listener));
    settle();
}

BOOST_AUTO_TEST_CASE(a_stop_ends_the_pause) {
    tcp_listener listener(std::make_unique<starved_listener>(server_.listen({first, 7}, {}), out_of_everything));
    run([](stack_world& w, tcp_listener& from) -> task<> {
        stop_source stop;
        task<> accepting = echo::accept_all(from, echo::serve, stop.token());
        const time_point begun = w.loop().now();
        accepting.handle().resume();
        BOOST_TEST(!accepting.done());
        stop.request_stop();
        while (!accepting.done() && w.loop().now() - begun < 1s) co_await yield();
        BOOST_TEST((w.loop().now() - begun) / 50ms == 0);
    }(*this, listener));
    settle();
}

BOOST_AUTO_TEST_SUITE_END()
