#include <corewire/apps/pingpong/in_process.hh>

#include <corewire/apps/echo/raw_echo.hh>
#include <corewire/apps/echo/raw_sink.hh>
#include <corewire/apps/echo/tcp_echo.hh>
#include <corewire/apps/echo/udp_echo.hh>
#include <corewire/apps/pingpong/bulk.hh>
#include <corewire/apps/pingpong/short_client.hh>
#include <corewire/apps/pingpong/tcp_client.hh>
#include <corewire/apps/runtime/network_setup.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/task/task_group.hh>

#include <utility>

namespace corewire::pingpong {

namespace {

constexpr unsigned server_shard = 0;
constexpr unsigned client_shard = 1;

/// Where the server listens: see network_setup's addresses of a wire.
net_address server_address(const workload& load) {
    if (load.over_ipv6) return network_setup::wire_address6(0).address();
    return network_setup::wire_address(0).address();
}

/// Makes another provider the current one, while connections are opened.
class provider_scope {
public:
    explicit provider_scope(socket_provider* p)
        : slot_(reactor::current().attached(reactor::attachment::network)), previous_(slot_) {
        if (p != nullptr) slot_ = p;
    }
    ~provider_scope() { slot_ = previous_; }
    provider_scope(const provider_scope&) = delete;

private:
    void*& slot_;
    void* previous_;
};

} // namespace

in_process::in_process(app& program, const workload& load, progress_board& board)
    : app_(program), load_(load), board_(board) {}

in_process::~in_process() = default;

outcome in_process::result() const {
    outcome all = client_.result;
    all.errors += server_.errors;
    return all;
}

bool in_process::one_shard() const noexcept { return this_shard::count() == 1; }

task<> in_process::body() {
    if (one_shard()) return both();
    return this_shard::id() == server_shard ? server() : client(*app_.device(), nullptr);
}

task<> in_process::both() {
    task_group ends("both ends");
    ends.spawn(server());
    ends.spawn(client(*app_.far_device(), app_.far_stack()));
    co_await ends.join();
    if (ends.failed() != 0) client_.result.errors += ends.failed();
}

task<> in_process::server() {
    if (load_.what == protocol::raw) co_await serve_frames();
    else if (load_.what == protocol::udp) co_await serve_datagrams();
    else co_await serve_streams();
}

task<> in_process::serve_streams() {
    auto listener = tcp_listener::bind({server_address(load_), server_port}, {.stream = stream_options(load_)});
    task_group accepting("accept");
    echo::server serve = echo::serve;
    if (load_.bulk) {
        serve = [this](tcp_stream peer) {
            server_.sinks.push_back(std::make_unique<bulk_sink>(load_.size));
            return server_.sinks.back()->run(std::move(peer));
        };
    }
    if (load_.brief) serve = [size = load_.size](tcp_stream peer) { return answer_once(std::move(peer), size); };
    accepting.spawn(echo::accept_all(listener, serve, {}));
    co_await say_ready();
    co_await server_.client_done.wait();
    listener.close();
    co_await accepting.join();
    for (const auto& sink : server_.sinks) server_.errors += sink->errors();
    runtime::current().request_stop(); // sessions of clients that gave up wait for ever where their resets were lost
}

task<> in_process::serve_datagrams() {
    auto socket = udp_socket::bind({server_address(load_), server_port});
    task_group serving("udp echo");
    serving.spawn(echo::serve_datagrams(socket, echo::udp_format::plain));
    co_await say_ready();
    co_await server_.client_done.wait();
    socket.close();
    co_await serving.join();
}

task<> in_process::serve_frames() {
    raw::echo bouncer(*app_.device());
    raw::sink swallower(*app_.device());
    if (load_.bulk) reactor::current().add_poller(swallower);
    else reactor::current().add_poller(bouncer);
    co_await say_ready();
    co_await server_.client_done.wait();
}

task<> in_process::client(port& device, socket_provider* through) {
    co_await client_.server_ready.wait();
    std::exception_ptr failure;
    try {
        const provider_scope connecting(through);
        if (load_.what == protocol::raw) {
            client_.result = co_await run_raw_client(load_, device, board_);
        } else {
            client_.result = co_await run_clients(load_, {server_address(load_), server_port}, 0, board_);
        }
    } catch (...) {
        failure = std::current_exception();
    }
    client_.port = device.statistics();
    co_await say_done();
    if (failure) std::rethrow_exception(failure);
}

task<> in_process::say_ready() {
    if (one_shard()) client_.server_ready.set();
    else co_await submit_to(client_shard, [this] { client_.server_ready.set(); });
}

task<> in_process::say_done() {
    if (one_shard()) server_.client_done.set();
    else co_await submit_to(server_shard, [this] { server_.client_done.set(); });
}

} // namespace corewire::pingpong
