#include <corewire/rdma/channel/listener.hh>
#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/reactor/task/task_group.hh>
#include <cstdio>
namespace cw = corewire;
using cw::verbs::access;
cw::task<> serve(cw::rdma::rc_channel client) {
    auto board = client.allocate(4096);                     // registered memory of ours
    const auto window = co_await client.expose(board, 0, 4096, access::remote_read | access::remote_write | access::remote_atomic);
    co_await client.send(window.region().to_wire());        // where it is, and the key: good on this channel only
    while (auto message = co_await client.receive()) co_await client.send(message->bytes()); // a view; none after a goodbye
}

cw::task<> listen(cw::socket_address at) {
    cw::rdma::context here;                                 // one a shard
    auto listener = cw::rdma::listener::bind(here, at);
    cw::task_group sessions("sessions");                   // which end before `here` does
    while (auto client = co_await listener.accept()) sessions.spawn(serve(std::move(client)));
}

cw::task<> visit(cw::socket_address server, cw::socket_address from) {
    cw::rdma::context here;
    auto peer = co_await cw::rdma::connector(here).connect(server, {}, from); // {}: for as long as it takes
    const auto first = co_await peer.receive();
    const auto board = cw::rdma::remote_region::from_wire(first->bytes()).value();
    const std::uint64_t before = co_await peer.fetch_and_add(board, 0, 42); // the server's processor has no part in these
    auto note = peer.allocate(8);
    co_await peer.read(note.at(0, 8), board);
    co_await peer.write(note.at(0, 8), board, 8);
    co_await peer.send(note.bytes());                       // a message: copied, or inside the work request
    const auto echoed = co_await peer.receive();
    std::printf("%u bytes came back; %d became %d\n", echoed->size(), static_cast<int>(before), std::to_integer<int>(note.data()[0]));
    co_await peer.close();
}

int main(int argc, char** argv) {                           // ADDRESS:PORT serves there; ADDRESS:0 SERVER:PORT visits it from there
    cw::reactor r;
    const auto ours = cw::socket_address::parse(argc > 1 ? argv[1] : "");
    cw::sleep_until_complete(r, argc > 2 ? visit(cw::socket_address::parse(argv[2]), ours) : listen(ours));
}
