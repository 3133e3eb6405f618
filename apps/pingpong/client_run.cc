#include <corewire/apps/pingpong/client_run.hh>

#include <corewire/apps/pingpong/bulk.hh>
#include <corewire/apps/pingpong/raw_client.hh>
#include <corewire/apps/pingpong/raw_source.hh>
#include <corewire/apps/pingpong/short_client.hh>
#include <corewire/apps/pingpong/tcp_client.hh>
#include <corewire/apps/pingpong/udp_client.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/task_group.hh>

#include <memory>
#include <vector>

namespace corewire::pingpong {

namespace {

using namespace std::chrono_literals;
constexpr duration look_every = 50ms;

template <typename Client>
using clients = std::vector<std::unique_ptr<Client>>;

/// Looks after the clients until told to stop: gives up what does not move, publishes progress, passes on a wish to end.
template <typename Client>
task<> watch(const clients<Client>& all, meter& accounts, progress_board& board, stop_token enough) {
    try {
        for (;;) {
            co_await sleep_for(look_every, enough);
            if (this_shard::stopping().stop_requested()) accounts.stop();
            for (const auto& client : all) client->check_progress(reactor::current().now());
            board.round_trips.store(accounts.round_trips_so_far(), std::memory_order_relaxed);
            board.errors.store(accounts.errors(), std::memory_order_relaxed);
        }
    } catch (const std::system_error&) { // ECANCELED: enough
    }
}

template <typename Client>
task<outcome> play(const clients<Client>& all, meter& accounts, progress_board& board) {
    task_group playing("clients");
    task_group watching("watch");
    accounts.begin(reactor::current().read_clock());
    for (const auto& client : all) playing.spawn(client->run());
    watching.spawn(watch(all, accounts, board, watching.token()));
    co_await playing.join();
    watching.request_stop();
    co_await watching.join();
    co_return accounts.close();
}

template <typename Client>
task<outcome> connect_and_play(workload load, socket_address server, std::uint32_t first, progress_board& board) {
    meter accounts(load);
    clients<Client> all;
    for (std::uint32_t c = 0; c < load.connections; ++c) {
        tcp_stream stream = co_await tcp_stream::connect(server, stream_options(load));
        all.push_back(std::make_unique<Client>(std::move(stream), accounts, first + c));
    }
    outcome result = co_await play(all, accounts, board);
    co_return result;
}

task<outcome> send_datagrams(workload load, socket_address server, std::uint32_t first, progress_board& board) {
    meter accounts(load);
    clients<udp_client> all;
    for (std::uint32_t c = 0; c < load.connections; ++c)
        all.push_back(std::make_unique<udp_client>(udp_socket::connect(server), accounts, first + c));
    outcome result = co_await play(all, accounts, board);
    co_return result;
}

task<outcome> play_short(workload load, socket_address server, std::uint32_t first, progress_board& board) {
    meter accounts(load);
    clients<short_client> all;
    for (std::uint32_t c = 0; c < load.connections; ++c) all.push_back(std::make_unique<short_client>(server, accounts, first + c));
    outcome result = co_await play(all, accounts, board);
    co_return result;
}

template <typename Client>
task<outcome> play_frames(workload load, port& device, progress_board& board) {
    meter accounts(load);
    clients<Client> one;
    one.push_back(std::make_unique<Client>(device, accounts));
    reactor::current().add_poller(*one.front());
    outcome result = co_await play(one, accounts, board);
    co_return result;
}

} // namespace

task<outcome> run_clients(workload load, socket_address server, std::uint32_t first, progress_board& board) {
    if (load.what == protocol::udp) return send_datagrams(load, server, first, board);
    if (load.bulk) return connect_and_play<bulk_source>(load, server, first, board);
    if (load.brief) return play_short(load, server, first, board);
    return connect_and_play<tcp_client>(load, server, first, board);
}

task<outcome> run_raw_client(workload load, port& device, progress_board& board) {
    if (load.bulk) return play_frames<raw_source>(load, device, board);
    return play_frames<raw_client>(load, device, board);
}

} // namespace corewire::pingpong
