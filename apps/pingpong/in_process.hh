// Both ends in one process, joined by a `wire`: the server is shard 0 and the client shard 1, or both are one shard.
//
//     server: 10.99.0.1 ready ──────> client: 10.99.0.2 plays ──> done ──────> server closes, and all stop
//
// Owned by main(); each half is touched by its own shard only, until every shard has ended.
#pragma once

#include <corewire/apps/pingpong/client_run.hh>
#include <corewire/apps/runtime/app.hh>
#include <corewire/net/socket/provider.hh>
#include <corewire/reactor/task/event.hh>

#include <memory>
#include <vector>

namespace corewire::pingpong {

class bulk_sink;

class in_process {
public:
    in_process(app& program, const workload& load, progress_board& board);
    ~in_process();

    /// What every shard runs.
    task<> body();
    /// When all is over: the client's accounts, the server's errors among them.
    outcome result() const;
    /// The client's port.
    const port_statistics& statistics() const noexcept { return client_.port; }

private:
    static constexpr std::uint16_t server_port = 7;
    struct server_half {
        event client_done;
        std::vector<std::unique_ptr<bulk_sink>> sinks;
        std::uint64_t errors = 0;
    };
    struct client_half {
        event server_ready;
        outcome result;
        port_statistics port;
    };

    task<> both();
    task<> server();
    task<> client(port& device, socket_provider* through);
    task<> serve_streams();
    task<> serve_datagrams();
    task<> serve_frames();
    task<> say_ready();
    task<> say_done();
    bool one_shard() const noexcept;

    app& app_;
    workload load_;
    progress_board& board_;
    server_half server_;
    client_half client_;
};

} // namespace corewire::pingpong
