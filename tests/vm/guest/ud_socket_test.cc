// rdma::ud_socket between two real devices.
#include "tests/rdma/channel_world.hh"
#include "tests/vm/guest/rxe_pair.hh"

#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/rdma/channel/ud_socket.hh>

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

struct datagram_world {
    explicit datagram_world(rdma::ud_options options = {})
        : here(r), a(rdma::ud_socket::bind(in, address_of_rxe0, options)), b(rdma::ud_socket::bind(in, address_of_rxe1, options)) {}
    template <typename T>
    T run(task<T> work) {
        return run_until_complete(r, with_deadline(std::move(work), {.deadline = r.read_clock() + 30s}));
    }
    reactor r;
    reactor::scope here;
    rdma::context in;
    rdma::ud_socket a, b;
};

task<std::string> pass(rdma::ud_socket& from, rdma::ud_address to, rdma::ud_socket& at, std::string what) {
    co_await from.send_to(bytes_of(what), to);
    auto got = co_await at.receive_from();
    co_return text_of(got.bytes());
}

} // namespace

BOOST_AUTO_TEST_SUITE(ud_socket)

BOOST_AUTO_TEST_CASE(a_datagram_arrives_and_can_be_answered) {
    datagram_world w;
    BOOST_TEST(w.a.largest_datagram() == 1024u);
    for (const std::size_t size : {0u, 1u, 128u, 129u, 1024u}) {
        const std::string text(size, 'd');
        BOOST_TEST(w.run(pass(w.a, w.b.local_address(), w.b, text)) == text);
    }
    const auto there_and_back = [](datagram_world& x) -> task<> {
        co_await x.a.send_to(bytes_of("question"), x.b.local_address());
        auto question = co_await x.b.receive_from();
        BOOST_TEST(question.from().queue_pair == x.a.local_address().queue_pair);
        co_await x.b.send_to(bytes_of("answer"), question.from());
        auto answer = co_await x.a.receive_from();
        BOOST_TEST(text_of(answer.bytes()) == "answer");
    };
    w.run(there_and_back(w));
    BOOST_TEST(w.a.statistics().handles_made == 1u); // one for all of them
}

BOOST_AUTO_TEST_CASE(a_datagram_that_is_too_long_is_refused) {
    datagram_world w;
    BOOST_TEST((w.run(failure_of(w.a.send_to(bytes_of(std::string(1025, 'x')), w.b.local_address()))) == std::errc::message_size));
}

BOOST_AUTO_TEST_CASE(more_datagrams_than_the_send_queue_holds_wait_for_room) {
    rdma::ud_options few;
    few.send_depth = 4;
    datagram_world w(few);
    const auto all = [](datagram_world& x) -> task<> {
        for (int i = 0; i < 100; ++i) co_await x.a.send_to(bytes_of("x"), x.b.local_address());
        for (int i = 0; i < 100; ++i) static_cast<void>(co_await x.b.receive_from());
    };
    w.run(all(w));
    BOOST_TEST(w.a.statistics().waits_for_room > 0u);
}

BOOST_AUTO_TEST_CASE(what_finds_no_buffer_is_lost_and_the_next_one_is_not) {
    rdma::ud_options few;
    few.receive_depth = 4;
    datagram_world w(few);
    const auto flood = [](datagram_world& x) -> task<> {
        for (int i = 0; i < 50; ++i) co_await x.a.send_to(bytes_of("flood"), x.b.local_address());
    };
    w.run(flood(w));
    const auto drain = [](datagram_world& x, unsigned& n) -> task<> {
        for (;;) {
            static_cast<void>(co_await x.b.receive_from({.deadline = x.r.read_clock() + 200ms}));
            ++n;
        }
    };
    unsigned received = 0;
    BOOST_TEST((w.run(failure_of(drain(w, received))) == std::errc::timed_out));
    BOOST_TEST(received >= 4u);
    BOOST_TEST(w.run(pass(w.a, w.b.local_address(), w.b, "next")) == "next");
}

BOOST_AUTO_TEST_CASE(a_group_is_heard_by_who_has_joined_it) {
    datagram_world w;
    ibv_gid group{};
    group.raw[10] = group.raw[11] = 0xff;
    store_be32(reinterpret_cast<std::byte*>(group.raw + 12), ipv4(239, 1, 2, 3).value());
    {
        const auto member = w.b.join(group);
        BOOST_TEST(w.run(pass(w.a, rdma::ud_address::of_group(group), w.b, "to all")) == "to all");
    }
    const auto nothing = [](datagram_world& x) -> task<> {
        const ibv_gid nobodys{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3}};
        co_await x.a.send_to(bytes_of("to nobody"), rdma::ud_address::of_group(nobodys));
        static_cast<void>(co_await x.b.receive_from({.deadline = x.r.read_clock() + 100ms}));
    };
    BOOST_TEST((w.run(failure_of(nothing(w))) == std::errc::timed_out));
}

BOOST_AUTO_TEST_CASE(a_wait_ends_by_its_deadline) {
    datagram_world w;
    BOOST_TEST((w.run(failure_of(w.a.receive_from({.deadline = w.r.read_clock() + 20ms}))) == std::errc::timed_out));
}

BOOST_AUTO_TEST_SUITE_END()
