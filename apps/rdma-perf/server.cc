#include <corewire/apps/rdma-perf/perf.hh>

#include <corewire/reactor/task/spawn.hh>

#include <cstdio>

namespace corewire::rdma_perf {

namespace {

task<> session(rdma::rc_channel client) {
    try {
        auto memory = client.allocate(largest);
        for (std::size_t i = 0; i < largest; ++i) memory.data()[i] = pattern(i);
        const auto allowed = verbs::access::remote_write | verbs::access::remote_read | verbs::access::remote_atomic;
        const auto window = co_await client.expose(memory, 0, largest, allowed);
        const auto told = window.region().to_wire();
        co_await client.send(told);
        while (auto message = co_await client.receive()) {} // nothing comes but the goodbye
    } catch (const std::system_error& e) {
        std::fprintf(stderr, "cw-rdma-perf: a client's run ended: %s\n", e.what());
    }
}

} // namespace

task<> serve(rdma::listener& at, bool once) {
    do {
        auto client = co_await at.accept();
        if (once) co_await session(std::move(client));
        else spawn(session(std::move(client)));
    } while (!once);
}

} // namespace corewire::rdma_perf
