// What only the kernel's sockets do: buffer rings that run dry, bounds of what is received ahead, sockets that outlive
// their users in the kernel, and how a shut-out io_uring is told.
// ctest: processors=2
#include "kernel_world.hh"

#include <corewire/net/kernel/system_address.hh>
#include <corewire/reactor/file/uring_setup.hh>

#include <array>
#include <boost/mpl/list.hpp>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>

namespace corewire {

namespace {

using namespace socket_suite;

struct as_it_is {};
struct over_uring {
    using kernel = as_it_is;
    static constexpr io_options options{};
};
struct over_epoll {
    using kernel = as_it_is;
    static constexpr io_options options = without_uring;
};
/// The reactor has its ring, which lends no buffers.
struct over_epoll_beside_a_ring {
    using kernel = lent_buffers_unknown;
    static constexpr io_options options{};
};
using all_backends = boost::mpl::list<over_uring, over_epoll, over_epoll_beside_a_ring>;

template <typename Backend>
struct world_over : private Backend::kernel, kernel_world {
    world_over() : kernel_world({}, Backend::options) {}
};

struct few_buffers : kernel_world {
    explicit few_buffers(const io_options& io)
        : kernel_world({.stream_buffer_size = 4096, .stream_buffers = 4, .stream_buffers_limit = 16,
                        .datagram_buffers = 2, .datagram_buffers_limit = 4}, io) {}
};
template <typename Backend>
struct few_buffers_over : private Backend::kernel, few_buffers {
    few_buffers_over() : few_buffers(Backend::options) {}
};

/// Reads `n` pieces and keeps them.
task<> read_pieces(tcp_stream& stream, std::size_t n, std::vector<buffer>& kept) {
    while (kept.size() < n) {
        buffer data = co_await stream.read();
        if (!data) co_return;
        kept.push_back(std::move(data));
    }
}

task<> hoard(few_buffers& w) {
    ends hoarder = co_await connected(w);
    ends modest = co_await connected(w);
    static const std::vector<std::byte> much(64 * 4096, std::byte{'h'});
    task_group tasks{"hoarding"};
    std::vector<buffer> kept;
    tasks.spawn([](tcp_stream& s) -> task<> { co_await s.write(byte_span{much}); }(hoarder.client));
    tasks.spawn(read_pieces(hoarder.server, 64, kept));
    for (int i = 0; i < 1000 && w.provider.stream_buffers().starvations() == 0; ++i) co_await yield();
    // Every buffer there may ever be is out; the ring has grown to its limit and no further.
    BOOST_TEST(w.provider.stream_buffers().made() == 16u);
    BOOST_TEST(w.provider.stream_buffers().lent() == 16u);
    BOOST_TEST(w.provider.stream_buffers().starvations() != 0u);
    BOOST_TEST(kept.size() == 16u);

    co_await modest.client.write(std::string_view{"me too"});
    const std::errc starved = co_await error_of([&] { return modest.server.read(soon()); });
    BOOST_TEST(starved == std::errc::timed_out); // nothing to receive into

    // One buffer comes back at a time, and goes to whoever waits.
    buffer got;
    std::uint64_t total = 0;
    task_group others{"others"};
    others.spawn([](tcp_stream& s, buffer& into) -> task<> { into = co_await s.read(); }(modest.server, got));
    for (int i = 0; i < 100000 && (tasks.size() != 0 || others.size() != 0); ++i) {
        if (!kept.empty()) {
            total += kept.back().size();
            kept.back() = {};
            std::erase_if(kept, [](const buffer& b) { return b.empty(); });
        }
        co_await yield();
        if (total + 4096 * kept.size() >= much.size() && others.size() == 0) break;
    }
    BOOST_TEST(others.size() == 0u);
    BOOST_TEST(got.text() == "me too");
    tasks.destroy_all();
    kept.clear();
}

/// Every stream buffer there may ever be; the connection that they came by is gone.
task<> take_all_buffers(few_buffers& w, std::vector<buffer>& kept) {
    static const std::vector<std::byte> much(64 * 4096, std::byte{'h'});
    ends hoarder = co_await connected(w);
    task_group tasks{"writing"};
    tasks.spawn([](tcp_stream& s) -> task<> { co_await s.write(byte_span{much}); }(hoarder.client));
    co_await read_pieces(hoarder.server, 16, kept);
    tasks.destroy_all();
    hoarder.client.abort();
    hoarder = {};
    while (w.provider.objects() != 0) co_await yield();
    BOOST_TEST(w.provider.stream_buffers().lent() == 16u);
}

/// Who stands in line for a buffer asks again: with a new read, and with a wait beside it.
task<> asking_again_in_line(few_buffers& w) {
    std::vector<buffer> kept;
    co_await take_all_buffers(w, kept);
    ends both = co_await connected(w);
    co_await both.client.write(std::string_view{"at last"});
    for (int i = 0; i < 3; ++i) {
        const std::errc starved = co_await error_of([&] { return both.server.read(soon()); });
        BOOST_TEST(starved == std::errc::timed_out);
    }
    task_group tasks{"waiting"};
    bool told = false;
    buffer got;
    tasks.spawn([](tcp_stream& s, buffer& into) -> task<> { into = co_await s.read(soon(std::chrono::seconds{20})); }(both.server, got));
    co_await some_turns();
    tasks.spawn([](tcp_stream& s, bool& done) -> task<> {
        co_await s.wait_readable(soon(std::chrono::seconds{20}));
        done = true;
    }(both.server, told));
    co_await some_turns();
    kept.resize(14); // the second one finds nobody in line
    co_await tasks.join();
    BOOST_TEST(told);
    BOOST_TEST(got.text() == "at last");
}

task<> asking_again_for_datagrams(few_buffers& w) {
    udp_socket server = bind_udp_server(w);
    udp_socket client = bind_udp_client(w);
    const socket_address to = at_server(w, server.local_address().port);
    std::vector<datagram> kept;
    for (int i = 0; i < 6; ++i) co_await client.send_to(std::as_bytes(std::span{"0123456789"}.first(10)), to);
    for (int i = 0; i < 4; ++i) {
        datagram d = co_await server.receive_from();
        kept.push_back(std::move(d));
    }
    task_group tasks{"waiting"};
    int received = 0;
    for (int i = 0; i < 2; ++i) { // both stand in line by the one socket
        tasks.spawn([](udp_socket& s, int& n) -> task<> {
            datagram d = co_await s.receive_from(soon(std::chrono::seconds{20}));
            n += d.data.size() == 10;
        }(server, received));
        co_await some_turns();
    }
    kept.pop_back();
    kept.pop_back();
    co_await tasks.join();
    BOOST_TEST(received == 2);
}

/// One buffer comes back. Who stands before us in line has no use for it: it has gone, or nothing comes for it.
task<> buffer_for_who_can_use_it(few_buffers& w) {
    std::vector<buffer> kept;
    co_await take_all_buffers(w, kept);
    ends gone = co_await connected(w);
    ends idle = co_await connected(w);
    ends ours = co_await connected(w);
    co_await gone.client.write(std::string_view{"unread"});
    const std::errc starved = co_await error_of([&] { return gone.server.read(soon()); });
    BOOST_TEST(starved == std::errc::timed_out);
    task_group idling{"idling"};
    idling.spawn([](tcp_stream& s) -> task<> { co_await s.read(); }(idle.server));
    co_await some_turns();

    co_await ours.client.write(std::string_view{"for us"});
    task_group tasks{"waiting"};
    buffer got;
    const std::uint64_t before = w.provider.stream_buffers().starvations();
    tasks.spawn([](tcp_stream& s, buffer& into) -> task<> { into = co_await s.read(soon(std::chrono::seconds{20})); }(ours.server, got));
    while (w.provider.stream_buffers().starvations() == before) co_await yield();
    kept.pop_back();
    co_await tasks.join();
    BOOST_TEST(got.text() == "for us");
    idling.destroy_all();
}

task<> read_ahead(kernel_world& w) {
    ends both = co_await connected(w);
    co_await both.client.write(std::string_view{"start"});
    buffer first = co_await both.server.read(); // the recv is armed from now on
    for (int i = 0; i < 200; ++i) {
        co_await both.client.write(std::string_view{"more"});
        co_await yield();
    }
    co_await some_turns();
    // Some completions are on the way when the recv is stopped.
    const std::uint32_t ahead = w.provider.stream_buffers().lent() - 1;
    BOOST_TEST(ahead >= 16u);
    BOOST_TEST(ahead <= 64u);
    first = {};
    std::vector<std::byte> all(200 * 4);
    const std::size_t n = co_await both.server.read_exactly(all);
    BOOST_TEST(n == all.size());
}

task<> many_datagrams(kernel_world& w) {
    udp_socket server = bind_udp_server(w);
    udp_socket client = bind_udp_client(w);
    const socket_address to = at_server(w, server.local_address().port);
    std::vector<datagram> kept;
    for (int i = 0; i < 20; ++i) {
        const std::string text = std::to_string(i);
        co_await client.send_to(std::as_bytes(std::span{text}), to);
    }
    for (int i = 0; i < 4; ++i) {
        datagram d = co_await server.receive_from();
        BOOST_TEST(d.data.text() == std::to_string(i));
        kept.push_back(std::move(d));
    }
    const std::errc starved = co_await error_of([&] { return server.receive_from(soon()); });
    BOOST_TEST(starved == std::errc::timed_out);
    kept.clear();
    for (int i = 4; i < 20; ++i) {
        datagram d = co_await server.receive_from();
        BOOST_TEST(d.data.text() == std::to_string(i)); // the kernel has kept the rest
    }
    const std::string large(60000, 'L');
    co_await client.send_to(std::as_bytes(std::span{large}), to);
    datagram d = co_await server.receive_from();
    BOOST_TEST(d.data.text() == large);
    const std::string_view nothing;
    co_await client.send_to(std::as_bytes(std::span{nothing}), to);
    datagram empty = co_await server.receive_from();
    BOOST_TEST(empty.data.size() == 0u);
    BOOST_TEST(empty.from.port == client.local_address().port);
}

task<> connect_many(kernel_world& w, socket_address to, int n, std::vector<tcp_stream>& clients) {
    for (int i = 0; i < n; ++i) {
        tcp_stream client = co_await dial(w, to);
        clients.push_back(std::move(client));
    }
}

task<> accepted_ahead(kernel_world& w) {
    tcp_listener listener = listen(w, 0, {.backlog = 32});
    const socket_address to = listener.local_address();
    std::vector<tcp_stream> clients;
    co_await connect_many(w, to, 1, clients);
    tcp_stream first = co_await listener.accept(); // a multishot accept is in the kernel from now on
    for (int batch = 0; batch < 5; ++batch) {
        co_await connect_many(w, to, 16, clients);
        co_await some_turns();
    }
    // 64 have been accepted ahead and the accept was stopped: what comes now stays in the kernel.
    const std::size_t before = open_descriptors();
    co_await connect_many(w, to, 16, clients);
    co_await some_turns();
    BOOST_TEST(open_descriptors() == before + 16);
    for (int i = 1; i < 97; ++i) {
        tcp_stream next = co_await listener.accept(soon(std::chrono::seconds{10}));
        BOOST_TEST(static_cast<bool>(next));
    }
}

/// A stream that ends while the kernel has no room for what it has still to send.
task<> last_words(kernel_world& w) {
    ends both = co_await connected(w);
    co_await fill(both.client);
    buffer last = both.client.allocate(100);
    std::memset(last.append(100), 'z', 100);
    co_await both.client.write(std::move(last)); // taken, though nothing fits just now
    BOOST_TEST(!both.client.writable());
    both.client = {};
    char final_byte = 0;
    for (;;) {
        buffer data = co_await both.server.read(soon(std::chrono::seconds{10}));
        if (!data) break;
        final_byte = data.text().back();
    }
    BOOST_TEST(final_byte == 'z');
}

/// shutdown() while bytes still wait for room: the FIN comes behind them.
task<> fin_behind_bytes(kernel_world& w) {
    ends both = co_await connected(w);
    co_await fill(both.client);
    buffer last = both.client.allocate(100);
    std::memset(last.append(100), 'z', 100);
    co_await both.client.write(std::move(last));
    both.client.shutdown();
    char final_byte = 0;
    for (;;) {
        buffer data = co_await both.server.read(soon(std::chrono::seconds{10}));
        if (!data) break;
        final_byte = data.text().back();
    }
    BOOST_TEST(final_byte == 'z');
}

/// Connections that were accepted ahead, and that nobody asked for, end with their listener.
task<> accepted_for_nobody(kernel_world& w) {
    tcp_listener listener = listen(w);
    std::vector<tcp_stream> clients;
    co_await connect_many(w, listener.local_address(), 1, clients);
    tcp_stream first = co_await listener.accept();
    co_await connect_many(w, listener.local_address(), 1, clients);
    co_await some_turns();
    listener.close();
    const std::errc ended = co_await error_of([&] { return clients.back().read(soon(std::chrono::seconds{10})); });
    BOOST_TEST(ended == std::errc::connection_reset);
}

/// Many connections that answer in one turn share a system call.
task<> answers_together(kernel_world& w) {
    std::vector<ends> all;
    for (int i = 0; i < 16; ++i) {
        ends both = co_await connected(w);
        all.push_back(std::move(both));
    }
    task_group sessions{"sessions"};
    for (ends& both : all) sessions.spawn(echo(std::move(both.server)));
    co_await some_turns();
    for (ends& both : all) co_await both.client.write(std::string_view{"ping"});
    co_await some_turns();
    const std::uint64_t before = w.provider.ring().statistics().started;
    for (ends& both : all) co_await both.client.write(std::string_view{"ping"});
    co_await some_turns();
    BOOST_TEST(w.provider.ring().statistics().started - before >= 8u); // sends by the ring; the recvs stay
    for (ends& both : all) {
        std::vector<std::byte> reply(8);
        const std::size_t n = co_await both.client.read_exactly(reply);
        BOOST_TEST(n == 8u);
    }
    all.clear();
    co_await sessions.join();
}

/// Closes a stream that has more to send than the kernel takes; the peer reads nothing.
task<> write_too_much(socket_address to) {
    tcp_stream stream = co_await tcp_stream::connect(to);
    co_await fill(stream);
    buffer last = stream.allocate(100);
    std::memset(last.append(100), 'z', 100);
    co_await stream.write(std::move(last));
}

/// Runs `body` in a child process; its exit status.
template <typename Body>
int in_child(Body body) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(body());
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/// A peer that uses MSG_OOB, written without our sockets.
void say_with_urgency(int fd) {
    for (const auto& [text, flags] : {std::pair{"a", 0}, std::pair{"!", int{MSG_OOB}}, std::pair{"b", 0}})
        BOOST_REQUIRE(::send(fd, text, 1, flags) == 1);
}

task<> urgent_in_line(kernel_world& w) { // RFC 6093 6
    std::array<std::byte, 3> got{};
    tcp_listener listener = tcp_listener::bind({ipv4::loopback(), 0});
    const unique_fd caller{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    const system_address there(listener.local_address());
    BOOST_REQUIRE(::connect(caller.get(), &there.generic, there.size) == 0);
    tcp_stream accepted = co_await listener.accept();
    say_with_urgency(caller.get());
    co_await accepted.read_exactly(got);
    BOOST_TEST(std::memcmp(got.data(), "a!b", 3) == 0);

    const unique_fd host{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    BOOST_REQUIRE(::listen(host.get(), 1) == 0);
    const socket_address hosted(w.server_address(), local_address_of(host.get()).port);
    tcp_stream made = co_await tcp_stream::connect(hosted);
    const unique_fd called{::accept(host.get(), nullptr, nullptr)};
    say_with_urgency(called.get());
    got = {};
    co_await made.read_exactly(got);
    BOOST_TEST(std::memcmp(got.data(), "a!b", 3) == 0);
}

} // namespace

BOOST_AUTO_TEST_SUITE(kernel_limits)

BOOST_FIXTURE_TEST_CASE_TEMPLATE(readers_wait_for_buffers_and_get_them, Backend, all_backends, few_buffers_over<Backend>) {
    this->run(hoard(*this));
}
BOOST_FIXTURE_TEST_CASE_TEMPLATE(who_waits_for_a_buffer_may_ask_again, Backend, all_backends, few_buffers_over<Backend>) {
    this->run(asking_again_in_line(*this));
}
BOOST_FIXTURE_TEST_CASE_TEMPLATE(who_waits_for_a_datagrams_buffer_may_ask_again, Backend, all_backends, few_buffers_over<Backend>) {
    this->run(asking_again_for_datagrams(*this));
}
BOOST_FIXTURE_TEST_CASE_TEMPLATE(a_buffer_that_comes_back_is_for_who_can_use_it, Backend, all_backends, few_buffers_over<Backend>) {
    this->run(buffer_for_who_can_use_it(*this));
}
BOOST_FIXTURE_TEST_CASE_TEMPLATE(what_nobody_reads_stays_in_the_kernel, Backend, all_backends, world_over<Backend>) {
    this->run(read_ahead(*this));
}
BOOST_FIXTURE_TEST_CASE_TEMPLATE(datagrams_wait_for_buffers_in_the_kernel, Backend, all_backends, few_buffers_over<Backend>) {
    this->run(many_datagrams(*this));
}
BOOST_FIXTURE_TEST_CASE_TEMPLATE(what_nobody_accepts_stays_in_the_backlog, Backend, all_backends, world_over<Backend>) {
    this->run(accepted_ahead(*this));
}

BOOST_FIXTURE_TEST_CASE_TEMPLATE(what_write_has_taken_is_sent_after_the_stream_is_gone, Backend, all_backends, world_over<Backend>) {
    this->run(last_words(*this));
}
BOOST_FIXTURE_TEST_CASE_TEMPLATE(fin_comes_behind_bytes_that_wait, Backend, all_backends, world_over<Backend>) {
    this->run(fin_behind_bytes(*this));
}
BOOST_FIXTURE_TEST_CASE_TEMPLATE(what_was_accepted_for_nobody_ends_with_the_listener, Backend, all_backends, world_over<Backend>) {
    this->run(accepted_for_nobody(*this));
}
BOOST_FIXTURE_TEST_CASE_TEMPLATE(the_answers_of_a_turn_go_together, Backend, all_backends, world_over<Backend>) {
    this->run(answers_together(*this));
}

BOOST_FIXTURE_TEST_CASE_TEMPLATE(urgent_bytes_stay_in_line_at_both_ends, Backend, all_backends, world_over<Backend>) {
    this->run(urgent_in_line(*this));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_provider_takes_everything_back_before_it_goes, Backend, all_backends) {
    const std::size_t before = open_descriptors();
    [[maybe_unused]] const typename Backend::kernel kernel;
    {
        reactor loop({.io = Backend::options});
        reactor::scope here(loop);
        {
            kernel_provider provider(loop);
            loop.attached(reactor::attachment::network) = &provider;
            task_group waiting{"waiting"};
            waiting.spawn([]() -> task<> {
                tcp_listener listener = tcp_listener::bind({ipv4::loopback(), 0});
                tcp_stream client = co_await tcp_stream::connect(listener.local_address());
                tcp_stream server = co_await listener.accept();
                co_await client.read();
            }());
            const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds{20};
            while (provider.objects() != 3 && std::chrono::steady_clock::now() < enough) loop.poll_once();
            BOOST_TEST(provider.objects() == 3u);
            for (int i = 0; i < 100; ++i) loop.poll_once(); // the read is under way
            waiting.destroy_all();
            BOOST_TEST(provider.objects() != 0u); // the kernel still has a recv and an accept
        }
        BOOST_TEST(loop.io().in_kernel() == 0u);
    }
    BOOST_TEST(open_descriptors() == before);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_can_no_longer_be_sent_ends_with_a_reset, Backend, all_backends) {
    [[maybe_unused]] const typename Backend::kernel kernel;
    const unique_fd host{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    BOOST_REQUIRE(::listen(host.get(), 1) == 0);
    reactor loop({.io = Backend::options});
    reactor::scope here(loop);
    {
        kernel_provider provider(loop);
        loop.attached(reactor::attachment::network) = &provider;
        task_group writing{"writing"};
        writing.spawn(write_too_much({ipv4::loopback(), local_address_of(host.get()).port}));
        const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds{60};
        while (writing.size() != 0 && std::chrono::steady_clock::now() < enough) loop.poll_once();
        BOOST_TEST(writing.size() == 0u);
        BOOST_TEST(provider.lingers());
    }
    const unique_fd peer{::accept(host.get(), nullptr, nullptr)};
    std::vector<char> bytes(65536);
    ssize_t got;
    do got = ::recv(peer.get(), bytes.data(), bytes.size(), 0);
    while (got > 0);
    BOOST_TEST(got == -1); // and no end of stream
    BOOST_TEST(errno == ECONNRESET);
}

BOOST_AUTO_TEST_CASE(where_io_uring_lends_no_buffers_sockets_go_by_epoll_and_the_ring_stays) {
    const lent_buffers_unknown old_kernel;
    reactor loop;
    reactor::scope here(loop);
    const bool has_ring = loop.io().by_epoll().empty();
    kernel_provider provider(loop);
    BOOST_TEST(provider.describe() == "kernel sockets over epoll");
    BOOST_TEST(loop.io().by_epoll().empty() == has_ring);
    BOOST_TEST((&provider.ring() != &loop.io()) == has_ring);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_server_that_sleeps_between_requests_answers_each, Backend, all_backends) {
    [[maybe_unused]] const typename Backend::kernel kernel;
    reactor loop({.spin = std::chrono::microseconds{0}, .io = Backend::options});
    reactor::scope here(loop);
    kernel_provider provider(loop);
    loop.attached(reactor::attachment::network) = &provider;
    tcp_listener listener = tcp_listener::bind({ipv4::loopback(), 0});
    const std::uint16_t port = listener.local_address().port;
    task_group serving{"serving"};
    serving.spawn([](tcp_listener& l, reactor& r) -> task<> {
        tcp_stream peer = co_await l.accept();
        co_await echo(std::move(peer));
        r.request_exit();
    }(listener, loop));
    int round_trips = 0;
    std::thread client([&] {
        const unique_fd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        const system_address to(socket_address{ipv4::loopback(), port});
        if (::connect(fd.get(), &to.generic, to.size) != 0) return;
        for (; round_trips < 500; ++round_trips) {
            char byte = 'x';
            if (::send(fd.get(), &byte, 1, MSG_NOSIGNAL) != 1 || ::recv(fd.get(), &byte, 1, 0) != 1) return;
        }
    });
    loop.run();
    client.join();
    BOOST_TEST(round_trips == 500);
    BOOST_TEST(loop.sleeps() > 0u);
}

BOOST_AUTO_TEST_CASE(two_shards_share_a_port) {
    reactor one;
    reactor two;
    kernel_provider first(one);
    kernel_provider second(two);
    const auto a = first.listen({ipv4::loopback(), 0}, {});
    const auto b = second.listen(a->local_address(), {});
    BOOST_TEST(a->local_address().port == b->local_address().port);
    const auto c = first.bind_udp({ipv4::loopback(), 0}, {});
    const auto d = second.bind_udp(c->local_address(), {});
    BOOST_TEST(c->local_address().port == d->local_address().port);
}

BOOST_AUTO_TEST_CASE(sockets_that_ask_for_any_port_have_one_each) {
    reactor loop;
    kernel_provider provider(loop);
    std::vector<std::unique_ptr<udp_backend>> sockets;
    std::set<std::uint16_t> ports;
    for (int i = 0; i < 500; ++i) {
        sockets.push_back(provider.bind_udp({ipv4::loopback(), 0}, {}));
        ports.insert(sockets.back()->local_address().port);
    }
    BOOST_TEST(ports.size() == sockets.size());
}

BOOST_AUTO_TEST_CASE(no_descriptor_left_is_told_in_words) {
    const int status = in_child([] {
        rlimit usual{};
        ::getrlimit(RLIMIT_NOFILE, &usual);
        const rlimit none{.rlim_cur = 0, .rlim_max = usual.rlim_max};
        ::setrlimit(RLIMIT_NOFILE, &none);
        io_uring ring;
        try {
            set_up_uring(ring, 8, 8);
        } catch (const std::system_error& e) {
            ::setrlimit(RLIMIT_NOFILE, &usual);
            return std::string_view(e.what()).find("ulimit -n") != std::string_view::npos ? 0 : 1;
        }
        return 2;
    });
    BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire
