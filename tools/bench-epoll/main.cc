// cw-bench-epoll: a bare epoll echo loop, and the client that drives it, on kernel sockets and system calls alone.
// The server is the baseline of `cw-echo --net=kernel`; the client is the same for both, so that only the server differs.
//
//     serve  PORT                    one thread: epoll_wait, recv, send; no buffers, no timers, no error handling to speak of
//     drive  HOST:PORT ...           C connections, each with one message in flight; prints {"rate": ..} as JSON

#include <corewire/apps/runtime/command_line.hh>

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace {

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "cw-bench-epoll: %s: %s\n", what, std::strerror(errno));
    std::exit(2);
}

int checked(int value, const char* what) {
    if (value < 0) fail(what);
    return value;
}

void no_delay(int fd) {
    const int on = 1;
    checked(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "TCP_NODELAY");
}

void watch(int epoll, int fd) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    checked(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

sockaddr_in address_of(const std::string& host, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
        std::fprintf(stderr, "cw-bench-epoll: '%s' is no IPv4 address\n", host.c_str());
        std::exit(2);
    }
    return address;
}

/// Echoes until killed.
[[noreturn]] void serve(std::uint16_t port) {
    const int listener = checked(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), "socket");
    const int on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const sockaddr_in address = address_of("0.0.0.0", port);
    checked(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), "bind");
    checked(listen(listener, 128), "listen");
    const int epoll = checked(epoll_create1(0), "epoll_create1");
    watch(epoll, listener);
    std::printf("cw-bench-epoll: TCP port %u\n", unsigned{port}); // who started it waits for this line
    std::fflush(stdout);

    std::array<epoll_event, 64> events;
    std::array<char, 16384> bytes;
    for (;;) {
        const int n = epoll_wait(epoll, events.data(), events.size(), -1);
        for (int i = 0; i < n; ++i) {
            const int fd = events[static_cast<std::size_t>(i)].data.fd;
            if (fd == listener) {
                const int peer = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK);
                if (peer < 0) continue;
                no_delay(peer);
                watch(epoll, peer);
                continue;
            }
            const ssize_t got = recv(fd, bytes.data(), bytes.size(), 0);
            if (got > 0) {
                if (send(fd, bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) != got) close(fd);
            } else if (got == 0 || errno != EAGAIN) {
                close(fd);
            }
        }
    }
}

struct drive_options {
    std::string host;
    std::uint16_t port = 0;
    unsigned connections = 16;
    std::size_t size = 64;
    double seconds = 1;
    double warmup = 0.2;
};

/// One message in flight on each connection; counts replies once the warm-up is over.
int drive(const drive_options& o) {
    using clock = std::chrono::steady_clock;
    const sockaddr_in address = address_of(o.host, o.port);
    const int epoll = checked(epoll_create1(0), "epoll_create1");
    const std::vector<char> message(o.size, 'x');
    std::vector<char> reply(o.size);
    std::vector<int> peers;
    for (unsigned c = 0; c < o.connections; ++c) {
        const int fd = checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
        checked(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), "connect");
        no_delay(fd);
        watch(epoll, fd);
        peers.push_back(fd);
    }
    std::vector<std::size_t> received(static_cast<std::size_t>(peers.back()) + 1);
    const auto send_one = [&](int fd) {
        if (send(fd, message.data(), o.size, MSG_NOSIGNAL) != static_cast<ssize_t>(o.size)) fail("send");
    };
    for (const int fd : peers) send_one(fd);

    const auto start = clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(o.warmup));
    const auto end = start + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(o.seconds));
    std::uint64_t round_trips = 0;
    std::array<epoll_event, 64> events;
    auto now = clock::now();
    while (now < end) {
        const int n = epoll_wait(epoll, events.data(), events.size(), 1000);
        if (n == 0) {
            std::fprintf(stderr, "cw-bench-epoll: no reply from %s:%u for a second\n", o.host.c_str(), unsigned{o.port});
            return 1;
        }
        for (int i = 0; i < n; ++i) {
            const int fd = events[static_cast<std::size_t>(i)].data.fd;
            std::size_t& have = received[static_cast<std::size_t>(fd)];
            const ssize_t got = recv(fd, reply.data(), o.size - have, MSG_DONTWAIT);
            if (got <= 0) fail("the server closed a connection");
            have += static_cast<std::size_t>(got);
            if (have < o.size) continue;
            have = 0;
            if (now >= start) ++round_trips;
            send_one(fd);
        }
        now = clock::now();
    }
    const double seconds = std::chrono::duration<double>(now - start).count();
    std::printf("{\"connections\": %u, \"round_trips\": %llu, \"seconds\": %.3f, \"rate\": %.0f}\n", o.connections,
                static_cast<unsigned long long>(round_trips), seconds, static_cast<double>(round_trips) / seconds);
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    corewire::command_line app("cw-bench-epoll", "A bare epoll echo server and its client: the baseline of cw-echo --net=kernel.");
    app.require_subcommand(1, 1);
    drive_options o;
    corewire::command_line server = app.add_subcommand("serve", "Echo TCP on every address of this host");
    server.add_option("port", o.port, "TCP port").required();
    corewire::command_line client = app.add_subcommand("drive", "Ping-pong on C connections; prints JSON");
    client.add_option("host", o.host, "IPv4 address of the server").required();
    client.add_option("port", o.port, "TCP port").required();
    client.add_option("--connections", o.connections, "Connections").check_range(1u, 10000u).capture_default_str();
    client.add_option("--size", o.size, "Bytes a message").check_range(1, 65536).capture_default_str();
    client.add_option("--duration", o.seconds, "Seconds measured").check_range(0.01, 3600.0).capture_default_str();
    client.add_option("--warmup", o.warmup, "Seconds before that").check_range(0.0, 60.0).capture_default_str();
    if (const auto status = app.parse(argc, argv)) return *status;
    if (app.got_subcommand("serve")) serve(o.port);
    return drive(o);
}
