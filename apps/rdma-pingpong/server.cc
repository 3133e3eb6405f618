#include <corewire/apps/rdma-pingpong/server.hh>

#include <corewire/reactor/task/spawn.hh>

#include <algorithm>
#include <cstdio>

namespace corewire::rdma_pingpong {

namespace {

task<> echo_messages(rdma::rc_channel& peer) {
    while (auto m = co_await peer.receive()) co_await peer.send(m->bytes());
}

task<> echo_writes(rdma::rc_channel& peer, opening theirs) {
    auto memory = peer.allocate(std::max(theirs.size, 1u));
    const auto window = co_await peer.expose(memory, 0, memory.size(), verbs::access::remote_write);
    opening ours = theirs;
    ours.memory = window.region();
    const auto wire = ours.to_wire();
    co_await peer.send(wire);
    while (auto m = co_await peer.receive()) {
        const rdma::local_region what = memory.at(0, theirs.size);
        co_await peer.write_with_immediate(what, theirs.memory, 0, m->immediate());
    }
}

task<> echo_datagrams(rdma::ud_socket& socket) {
    for (;;) {
        auto d = co_await socket.receive_from();
        co_await socket.send_to(d.bytes(), d.from());
    }
}

task<> session(rdma::context& in, rdma::rc_channel peer, ip_address ours) {
    try {
        auto first = co_await peer.receive();
        const auto theirs = first ? opening::from_wire(first->bytes()) : std::nullopt;
        first.reset();
        if (!theirs) co_return;
        if (theirs->what == mode::rc_write) {
            co_await echo_writes(peer, *theirs);
        } else if (theirs->what == mode::ud) {
            auto socket = rdma::ud_socket::bind(in, ours);
            opening mine = *theirs;
            mine.datagrams = socket.local_address();
            const auto wire = mine.to_wire();
            task_group echoes("datagram echo");
            echoes.spawn(echo_datagrams(socket));
            co_await peer.send(wire);
            static_cast<void>(co_await peer.receive()); // nothing comes but the goodbye
            echoes.destroy_all();
        } else {
            const auto wire = theirs->to_wire();
            co_await peer.send(wire);
            co_await echo_messages(peer);
        }
    } catch (const std::system_error& e) {
        std::fprintf(stderr, "cw-rdma-pingpong: a client's run ended: %s\n", e.what());
    }
}

} // namespace

rdma::rc_options options_for(std::uint32_t size) noexcept {
    rdma::rc_options o;
    o.message_size = std::max<std::uint32_t>(size, opening::wire_size);
    o.receive_depth = o.send_depth = size <= 65536 ? 64 : 8;
    return o;
}

task<> serve(rdma::context& in, rdma::listener& at, ip_address ours, bool once) {
    do {
        auto peer = co_await at.accept();
        if (once) co_await session(in, std::move(peer), ours);
        else spawn(session(in, std::move(peer), ours));
    } while (!once);
}

} // namespace corewire::rdma_pingpong
