// cw-bench-stream: bulk TCP by plain blocking sockets of the kernel, with large reads and writes: what a program without any
// framework gets. `sink PORT` reads to the end of each connection and answers with the number of bytes (8, big-endian), as
// `cw-echo --discard` does, so that cw-pingpong --bulk can talk to it; `source HOST PORT` prints {"gbit_per_s", "bytes", "errors"}.
#include <corewire/apps/runtime/command_line.hh>
#include <corewire/reactor/base/bytes.hh>
#include <corewire/reactor/base/unique_fd.hh>


#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <system_error>
#include <vector>

namespace cw = corewire;

namespace {

constexpr std::size_t piece = 256 << 10; ///< bytes a call

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

sockaddr_in address_of(const std::string& host, std::uint16_t port) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    if (::inet_pton(AF_INET, host.c_str(), &a.sin_addr) != 1) throw std::invalid_argument(host + " is not an IPv4 address");
    return a;
}

cw::unique_fd make_socket() {
    cw::unique_fd s(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!s) fail("socket");
    return s;
}

void swallow(int peer, std::vector<std::byte>& room) {
    std::uint64_t received = 0;
    for (;;) {
        const ssize_t n = ::recv(peer, room.data(), room.size(), 0);
        if (n < 0) return; // the source will miss its answer
        if (n == 0) break;
        received += static_cast<std::uint64_t>(n);
    }
    std::byte tally[8];
    cw::store_be64(tally, received);
    static_cast<void>(::send(peer, tally, sizeof tally, MSG_NOSIGNAL));
}

int sink(std::uint16_t port) {
    const cw::unique_fd listener = make_socket();
    const int on = 1;
    ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const sockaddr_in at = address_of("0.0.0.0", port);
    if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) fail("bind");
    if (::listen(listener.get(), 16) != 0) fail("listen");
    std::printf("cw-bench-stream: sink on port %u\n", port);
    std::fflush(stdout);
    std::vector<std::byte> room(piece);
    for (;;) {
        const cw::unique_fd peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (peer) swallow(peer.get(), room);
        else if (errno != EINTR && errno != ECONNABORTED) fail("accept");
    }
}

int source(const std::string& host, std::uint16_t port, double seconds) {
    using clock = std::chrono::steady_clock;
    const cw::unique_fd s = make_socket();
    const sockaddr_in to = address_of(host, port);
    if (::connect(s.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) fail("connect");
    const std::vector<std::byte> data(piece, std::byte{0x5a});
    const auto warm = clock::now() + std::chrono::milliseconds{100};
    const auto end = warm + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds));
    std::uint64_t sent = 0, sent_before = 0;
    auto begun = clock::now();
    for (auto now = begun; now < end; now = clock::now()) {
        if (now < warm) {
            begun = now;
            sent_before = sent;
        }
        const ssize_t n = ::send(s.get(), data.data(), data.size(), MSG_NOSIGNAL);
        if (n < 0) fail("send");
        sent += static_cast<std::uint64_t>(n);
    }
    ::shutdown(s.get(), SHUT_WR);
    std::byte tally[8];
    if (::recv(s.get(), tally, sizeof tally, MSG_WAITALL) != sizeof tally) fail("the sink's answer");
    const double took = std::chrono::duration<double>(clock::now() - begun).count();
    const bool good = cw::load_be64(tally) == sent;
    const auto bytes = static_cast<double>(sent - sent_before);
    std::printf("{\"gbit_per_s\": %.4f, \"bytes\": %.0f, \"errors\": %d}\n", bytes * 8 / took / 1e9, bytes, good ? 0 : 1);
    return good ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) try {
    cw::command_line command("cw-bench-stream", "Bulk TCP by plain sockets: the baseline of tools/bench tcp.");
    command.require_subcommand(1, 1);
    std::uint16_t port = 0;
    std::string host;
    double seconds = 1;
    cw::command_line reading = command.add_subcommand("sink", "Read and count");
    reading.add_option("port", port).required();
    cw::command_line writing = command.add_subcommand("source", "Write as fast as it goes");
    writing.add_option("host", host).required();
    writing.add_option("port", port).required();
    writing.add_option("--duration", seconds, "Seconds measured").check_range(0.01, 3600.0).capture_default_str();
    if (const auto status = command.parse(argc, argv)) return *status;
    return command.got_subcommand("sink") ? sink(port) : source(host, port, seconds);
} catch (const std::exception& e) {
    std::fprintf(stderr, "cw-bench-stream: %s\n", e.what());
    return 2;
}
