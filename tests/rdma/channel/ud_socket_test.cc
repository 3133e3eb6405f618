// rdma::ud_socket on two fake NICs and a virtual clock: what errors do to it, and datagrams that outlive it. On rdma_rxe it has
// tests/vm/guest/ud_socket_test.cc.
// ctest: timeout=60
#include <corewire/rdma/channel/ud_socket.hh>

#include "tests/rdma/channel_world.hh"
#include "tests/rdma/fake_fabric.hh"

using namespace corewire;
using namespace corewire::test;

namespace {

struct datagram_world : fake_fabric {
    explicit datagram_world(const rdma::ud_options& options = {})
        : here(loop()), in({.verbs = &fake::api(), .cm = &fake::cm()}), a(rdma::ud_socket::bind(in, address_of_client, options)),
          b(rdma::ud_socket::bind(in, address_of_server, options)) {}
    template <typename T>
    T run(task<T> work) {
        task<T> bounded = with_deadline(std::move(work), {.deadline = loop().read_clock() + std::chrono::seconds{30}});
        const auto frame = bounded.handle();
        frame.resume();
        while (!frame.done()) turn();
        return frame.promise().take();
    }
    void turns(int n) {
        while (n-- > 0) turn();
    }
    reactor::scope here;
    rdma::context in;
    rdma::ud_socket a, b;
};

task<std::string> pass(rdma::ud_socket& from, rdma::ud_socket& to, std::string what) {
    co_await from.send_to(bytes_of(what), to.local_address());
    const auto got = co_await to.receive_from();
    co_return text_of(got.bytes());
}

task<> send_some(rdma::ud_socket& from, rdma::ud_address to, int count) {
    for (int i = 0; i < count; ++i) co_await from.send_to(bytes_of(std::to_string(i)), to);
}

task<rdma::ud_datagram> next_of(rdma::ud_socket& at) {
    auto got = co_await at.receive_from();
    co_return got;
}

task<std::errc> end_of(rdma::ud_socket& at) {
    const std::errc how = co_await failure_of(at.receive_from());
    co_return how;
}

} // namespace

BOOST_AUTO_TEST_SUITE(ud_socket)

BOOST_AUTO_TEST_CASE(datagrams_arrive_and_more_than_the_send_queue_holds_wait_for_room) {
    rdma::ud_options few;
    few.send_depth = 4;
    datagram_world w(few);
    for (const std::size_t size : {0u, 1u, 128u, 129u, 1024u}) {
        const std::string text(size, 'd');
        BOOST_TEST(w.run(pass(w.a, w.b, text)) == text);
    }
    BOOST_TEST(w.a.statistics().handles_made == 1u);
    w.run(send_some(w.a, w.b.local_address(), 100));
    BOOST_TEST(w.a.statistics().waits_for_room > 0u);
    for (int i = 0; i < 100; ++i) BOOST_TEST(text_of(w.run(next_of(w.b)).bytes()) == std::to_string(i));
}

BOOST_AUTO_TEST_CASE(a_send_that_fails_is_lost_and_the_socket_goes_on) {
    datagram_world w;
    BOOST_TEST(w.run(pass(w.a, w.b, "before")) == "before");
    w.run(send_some(w.b, w.a.local_address(), 2));
    const auto kept = w.run(next_of(w.a)); // one is held by the program, one waits: neither buffer goes to the device again
    w.first().fail_sends(IBV_WC_LOC_QP_OP_ERR);
    w.run(send_some(w.a, w.b.local_address(), 20)); // the first fails, what is behind it is flushed
    w.turns(5);
    BOOST_TEST(w.a.statistics().failed_sends > 0u);
    BOOST_TEST(w.a.statistics().restarts == 1u);
    BOOST_TEST(text_of(kept.bytes()) == "0");
    BOOST_TEST(text_of(w.run(next_of(w.a)).bytes()) == "1");
    BOOST_TEST(w.run(pass(w.a, w.b, "after")) == "after");
    for (int i = 0; i < 600; ++i) BOOST_TEST(w.run(pass(w.b, w.a, std::to_string(i))) == std::to_string(i)); // each buffer, twice
    BOOST_TEST(text_of(kept.bytes()) == "0");
}

BOOST_AUTO_TEST_CASE(a_receive_that_fails_is_lost_and_the_socket_goes_on) {
    datagram_world w;
    w.second().fail_receives(IBV_WC_LOC_PROT_ERR);
    w.run(send_some(w.a, w.b.local_address(), 1));
    w.turns(5);
    BOOST_TEST(w.b.statistics().restarts == 1u);
    for (int i = 0; i < 300; ++i) BOOST_TEST(w.run(pass(w.a, w.b, std::to_string(i))) == std::to_string(i));
}

BOOST_AUTO_TEST_CASE(errors_without_end_end_it) {
    datagram_world w;
    int sent = 0;
    for (; sent < 100; ++sent) {
        w.first().fail_sends(IBV_WC_LOC_QP_OP_ERR);
        if (w.run(failure_of(w.a.send_to(bytes_of("x"), w.b.local_address()))) != std::errc{}) break;
        w.turns(5);
    }
    BOOST_TEST(w.a.statistics().restarts == 16u);
    BOOST_TEST((w.run(failure_of(w.a.receive_from())) == std::errc::io_error));
    BOOST_TEST(sent == 17);
}

BOOST_AUTO_TEST_CASE(who_has_been_given_a_datagram_keeps_it_though_the_socket_goes_in_the_same_turn) {
    datagram_world w;
    auto waiting = next_of(w.b);
    waiting.handle().resume();
    auto cut = std::optional(next_of(w.b)); // given one as well, and destroyed before it runs
    cut->handle().resume();
    w.run(send_some(w.a, w.b.local_address(), 2));
    poller& first = w.in.adapter_for(address_of_client);
    poller& second = w.in.adapter_for(address_of_server);
    static_cast<void>(first.flush(w.loop().now()));
    static_cast<void>(second.poll(w.loop().now()));
    { const rdma::ud_socket gone = std::move(w.b); }
    cut.reset();
    w.turns(2);
    BOOST_REQUIRE(waiting.done());
    const auto got = waiting.handle().promise().take();
    BOOST_TEST(text_of(got.bytes()) == "0");
}

BOOST_AUTO_TEST_CASE(waits_end_with_the_socket) {
    datagram_world w;
    auto waiting = end_of(w.b);
    waiting.handle().resume();
    { const rdma::ud_socket gone = std::move(w.b); }
    w.turns(2);
    BOOST_REQUIRE(waiting.done());
    BOOST_TEST((waiting.handle().promise().take() == std::errc::operation_canceled));
}

BOOST_AUTO_TEST_SUITE_END()
