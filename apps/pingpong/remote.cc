#include <corewire/apps/pingpong/remote.hh>

#include <corewire/apps/pingpong/report.hh>
#include <corewire/reactor/shard/this_shard.hh>

namespace corewire::pingpong {

remote::remote(app& program, const workload& load, std::optional<named_address> server, std::size_t shards,
               std::vector<progress_board>& boards)
    : app_(program), load_(load), server_(std::move(server)), shares_(shards), boards_(boards) {}

task<> remote::body() {
    const unsigned id = this_shard::id();
    const unsigned shards = this_shard::count();
    const workload mine = load_.share(id, shards);
    if (mine.connections == 0) co_return;
    share& own = shares_[id];
    if (load_.what == protocol::raw) {
        own.result = co_await run_raw_client(mine, *app_.device(), boards_[id]);
    } else {
        const std::uint32_t first = load_.connections_before(id, shards);
        resolver names;
        const socket_address server = co_await server_->resolve(names);
        own.result = co_await run_clients(mine, server, first, boards_[id]);
    }
    if (const port* device = app_.device()) own.port = device->statistics();
}

outcome remote::result() const {
    outcome all;
    for (const share& s : shares_) all.merge(s.result);
    return all;
}

std::optional<port_statistics> remote::statistics() const {
    std::optional<port_statistics> all;
    for (const share& s : shares_)
        if (s.port) all = all ? *all + *s.port : *s.port;
    return all;
}

} // namespace corewire::pingpong
