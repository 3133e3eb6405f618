// The service of docs/RDMA.md, compiled and run. Between the two marks stands what the page shows (tests/vm/rdma_page.sh compares).
#include "tests/rdma/channel_world.hh"
#include "tests/vm/guest/rxe_pair.hh"

#include <corewire/reactor/task/run_until_complete.hh>

// --- docs/RDMA.md
#include <corewire/rdma/channel/listener.hh>
#include <corewire/reactor/task/spawn.hh>
namespace cw = corewire;
using cw::verbs::access;

cw::task<> serve(cw::rdma::rc_channel client) {
    auto board = client.allocate(4096);                             // registered memory of ours
    const auto window = co_await client.expose(board, 0, 4096, access::remote_read | access::remote_write | access::remote_atomic);
    const auto told = window.region().to_wire();
    co_await client.send(told);                                     // where it is, and the key: good on this channel only
    while (auto message = co_await client.receive())                // a view of the device's buffer; none after a goodbye
        co_await client.send(message->bytes());
}

cw::task<> listen(cw::rdma::context& here, cw::socket_address at) { // one context, and one of these, a shard
    auto listener = cw::rdma::listener::bind(here, at);
    for (;;) {
        auto client = co_await listener.accept();
        cw::spawn(serve(std::move(client)));
    }
}

cw::task<std::uint64_t> visit(cw::rdma::context& here, cw::socket_address server, cw::socket_address from) {
    auto peer = co_await cw::rdma::connector(here).connect(server, {}, from); // {}: for as long as it takes
    const auto first = co_await peer.receive();
    const auto board = cw::rdma::remote_region::from_wire(first->bytes()).value();

    auto note = peer.allocate(64);
    std::strcpy(reinterpret_cast<char*>(note.data()), "was here");
    co_await peer.write(note.at(0, 9), board, 8);                   // the server's processor has no part in these
    co_await peer.read(note.at(32, 9), board, 8);
    co_await peer.fetch_and_add(board, 0, 41);
    const std::uint64_t count = co_await peer.fetch_and_add(board, 0, 1);

    co_await peer.send(note.bytes().subspan(32, 9));                // a message: copied, or inside the work request
    const auto echoed = co_await peer.receive();
    co_await peer.close();
    co_return echoed->size() == 9 ? count : 0;
}
// --- docs/RDMA.md

BOOST_AUTO_TEST_SUITE(rdma_service)

BOOST_AUTO_TEST_CASE(the_service_of_the_page_serves) {
    cw::reactor r;
    const cw::reactor::scope here(r);
    cw::rdma::context in;
    cw::task_group service("service");
    const cw::socket_address at(cw::test::address_of_rxe1, 7473);
    service.spawn(listen(in, at));
    const cw::wait_limits patience{.deadline = r.read_clock() + std::chrono::seconds{30}};
    BOOST_TEST(cw::run_until_complete(r, cw::with_deadline(visit(in, at, {cw::test::address_of_rxe0, 0}), patience)) == 41u);
    const cw::time_point end = r.read_clock() + std::chrono::seconds{20};
    while (r.root_group().size() != 0 && r.read_clock() < end) r.poll_once(); // the session hears the goodbye
    BOOST_TEST(r.root_group().size() == 0u);
    service.destroy_all();
}

BOOST_AUTO_TEST_SUITE_END()
