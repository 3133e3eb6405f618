// The clients of one shard, from connecting to the outcome, and the watch over them.
// One shard's; it lives in that shard's body and returns what the report needs.
#pragma once

#include <corewire/apps/pingpong/meter.hh>
#include <corewire/net/port/port.hh>
#include <corewire/net/socket/address.hh>
#include <corewire/reactor/task/task.hh>

#include <atomic>

namespace corewire::pingpong {

/// What each client shard publishes a few times a second, for the progress line.
struct alignas(64) progress_board {
    std::atomic<std::uint64_t> round_trips{0};
    std::atomic<std::uint64_t> errors{0};
};

/// Connects load.connections sockets to `server` (through the current provider), plays, and returns the accounts.
/// `first` numbers the connections. Throws std::system_error if a connection cannot be opened.
task<outcome> run_clients(workload load, socket_address server, std::uint32_t first, progress_board& board);

/// The same with bare frames through `device`.
task<outcome> run_raw_client(workload load, port& device, progress_board& board);

} // namespace corewire::pingpong
