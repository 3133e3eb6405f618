// The client alone: every shard takes its share of the connections to a server somewhere else.
// Owned by main(); each shard touches its own entry only, until every shard has ended.
#pragma once

#include <corewire/apps/pingpong/client_run.hh>
#include <corewire/apps/runtime/app.hh>
#include <corewire/net/resolve/named_address.hh>

#include <optional>
#include <vector>

namespace corewire::pingpong {

class remote {
public:
    /// `shards`: how many there will be at most. The server is not needed for raw frames.
    remote(app& program, const workload& load, std::optional<named_address> server, std::size_t shards,
           std::vector<progress_board>& boards);

    /// What every shard runs.
    task<> body();
    /// When all is over: everybody's accounts and port counters together.
    outcome result() const;
    std::optional<port_statistics> statistics() const;

private:
    struct share {
        outcome result;
        std::optional<port_statistics> port;
    };
    app& app_;
    workload load_;
    std::optional<named_address> server_;
    std::vector<share> shares_;
    std::vector<progress_board>& boards_;
};

} // namespace corewire::pingpong
