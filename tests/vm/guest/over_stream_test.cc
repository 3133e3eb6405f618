// On rdma_rxe: channels that two stacks of ours have made by an exchange over TCP, without rdma_cm; messages, remote memory, both ends of
// the stream (tests/rdma/channel/over_stream_test.cc has the rest).
#include "tests/rdma/channel_world.hh"
#include "tests/vm/guest/rxe_fabric.hh"

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

task<> echo(rdma::rc_channel& peer) {
    while (auto m = co_await peer.receive()) co_await peer.send(m->bytes());
}

task<std::string> echoed(rdma::rc_channel& peer, std::string what) {
    co_await peer.send(bytes_of(what));
    const auto m = co_await peer.receive();
    BOOST_REQUIRE(m.has_value());
    co_return text_of(m->bytes());
}

} // namespace

BOOST_AUTO_TEST_SUITE(over_stream)

BOOST_AUTO_TEST_CASE(a_channel_made_over_our_tcp_carries_messages_and_memory_and_ends_with_the_stream) {
    basic_channel_world<rxe_fabric, over_streams> w;
    w.r.root_group().spawn(echo(w.server));
    for (const std::size_t size : {1u, 500u, 4096u, 200'000u}) {
        const std::string text(size, 'v');
        BOOST_TEST((w.run(echoed(w.client, text)) == text));
    }
    auto theirs = w.server.allocate(8192);
    auto ours = w.client.allocate(8192);
    const auto window = w.run(w.server.expose(theirs, 0, 8192, verbs::access::remote_read | verbs::access::remote_write));
    std::memset(ours.data(), 0x5a, 8192);
    BOOST_TEST((w.run(failure_of(w.client.write(ours.at(0, 8192), window.region()))) == std::errc{}));
    BOOST_TEST(std::memcmp(theirs.data(), ours.data(), 8192) == 0);
    w.run(w.client.close());
    w.until([&] { return w.r.root_group().size() == 0; });
    BOOST_TEST(w.r.root_group().failed() == 0u);

    auto second = w.run(w.dial());
    auto accepted = w.run(w.listening.accept());
    second.abort(); // heard of by the stream, and not when the device gives up
    BOOST_TEST((w.run(failure_of(accepted.receive(w.within(5s)))) == std::errc::connection_reset));
}

BOOST_AUTO_TEST_SUITE_END()
