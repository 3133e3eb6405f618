#include <tests/support/socket_suite.hh>

#include <chrono>
#include <exception>

namespace corewire::socket_suite {

namespace {

task<> guarded(task<> body, std::exception_ptr& failure) {
    try {
        co_await body;
    } catch (...) {
        failure = std::current_exception();
    }
}

} // namespace

void use(world& w, socket_provider& provider) { w.loop().attached(reactor::attachment::network) = &provider; }

void world::run(task<> body) {
    reactor::scope here(loop());
    std::exception_ptr failure;
    task_group group{"test case"};
    group.spawn(guarded(std::move(body), failure));
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes{2};
    while (group.size() != 0) {
        turn();
        if (std::chrono::steady_clock::now() < limit) continue;
        group.destroy_all();
        BOOST_FAIL("the test case has not ended within two minutes");
    }
    if (failure) std::rethrow_exception(failure);
    settle();
}

tcp_listener listen(world& w, std::uint16_t port, const listen_options& options) {
    use(w, w.server());
    return tcp_listener::bind({w.server_address(), port}, options);
}

udp_socket bind_udp_server(world& w) {
    use(w, w.server());
    return udp_socket::bind({w.server_address(), 0});
}

udp_socket bind_udp_client(world& w) {
    use(w, w.client());
    return udp_socket::bind({w.server_address().is_v4() ? net_address(ipv4::any()) : net_address(ipv6::any()), 0});
}

socket_address at_server(world& w, std::uint16_t port) { return {w.server_address(), port}; }

task<tcp_stream> dial(world& w, socket_address to, wait_limits limits, tcp_options_set options) {
    use(w, w.client());
    tcp_stream stream = co_await tcp_stream::connect(to, options, limits);
    co_return stream;
}

task<ends> connected(world& w, tcp_options_set client_options) {
    tcp_listener listener = listen(w);
    ends both;
    both.client = co_await dial(w, listener.local_address(), {}, client_options);
    both.server = co_await listener.accept();
    co_return both;
}

task<> echo(tcp_stream peer) {
    try {
        for (;;) {
            buffer data = co_await peer.read();
            if (!data) break;
            co_await peer.write(std::move(data));
        }
    } catch (const std::system_error&) {
        // The other side has gone: the case that caused it looks at its own end.
    }
}

task<> fill(tcp_stream& stream) {
    static const std::vector<std::byte> block(65536, std::byte{'f'});
    // Longer than an ACK may be delayed (40 ms), which makes room once more.
    constexpr duration patience = std::chrono::milliseconds{250};
    // Thrice in a row: a kernel may find a little more room after its first silence. A silence that was noticed late, because our thread
    // did not run, tells nothing.
    for (int stalls = 0; stalls < 3;) {
        const time_point began = reactor::current().now();
        const std::errc why = co_await error_of([&] { return stream.write(byte_span{block}, soon(patience)); });
        if (why != std::errc::timed_out) BOOST_REQUIRE_EQUAL(why, std::errc{});
        const bool in_time = reactor::current().now() - began < patience + std::chrono::milliseconds{50};
        stalls = why == std::errc::timed_out && in_time ? stalls + 1 : 0;
    }
}

task<> some_turns() {
    for (int i = 0; i < 20; ++i) co_await yield();
    co_await sleep_for(std::chrono::milliseconds{2});
}

} // namespace corewire::socket_suite
