// Our queue pairs against libibverbs' own examples, ibv_rc_pingpong and ibv_ud_pingpong, each as client and as server: they tell
// each other where they are in a line of text over TCP, and then send one message to and fro.
//
//     "LID:QPN:PSN:GID" of the client -> that of the server -> "done" -> ping, pong, ping ... (rdma-core, libibverbs/examples)
#include <corewire/rdma/verbs/address_handle.hh>
#include <corewire/reactor/base/unique_fd.hh>

#include "tests/vm/guest/rxe_pair.hh"

#include <arpa/inet.h>
#include <cstdio>
#include <fmt/format.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace corewire;
using namespace corewire::test;

namespace {

constexpr unsigned rounds = 50;
constexpr std::uint32_t size = 512;
constexpr std::uint32_t key = 0x11111111; ///< theirs, of datagrams

struct where {
    unsigned lid = 0, pair = 0, sequence = 0;
    ibv_gid gid{};
};

std::string to_text(const where& w) {
    std::string text = fmt::format("{:04x}:{:06x}:{:06x}:", w.lid, w.pair, w.sequence);
    for (const std::uint8_t byte : w.gid.raw) text += fmt::format("{:02x}", byte);
    text.push_back('\0'); // it is sent as well
    return text;
}

where from_text(const std::string& text) {
    where w;
    char gid[33] = {};
    BOOST_REQUIRE(std::sscanf(text.c_str(), "%x:%x:%x:%32s", &w.lid, &w.pair, &w.sequence, gid) == 4);
    for (unsigned i = 0; i < 16; ++i) {
        unsigned byte = 0;
        std::sscanf(gid + 2 * i, "%2x", &byte);
        w.gid.raw[i] = static_cast<std::uint8_t>(byte);
    }
    return w;
}

void say(int to, const std::string& what) { BOOST_REQUIRE(::send(to, what.data(), what.size(), MSG_NOSIGNAL) == ssize_t(what.size())); }

std::string hear(int from, std::size_t count) {
    std::string text(count, '\0');
    BOOST_REQUIRE(::recv(from, text.data(), count, MSG_WAITALL) == ssize_t(count));
    return text;
}

sockaddr_in at_port(std::uint16_t port) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

/// One of the examples, on rxe1; with `server` it connects to us.
class example {
public:
    example(const std::string& program, std::uint16_t port, bool connects) {
        std::vector<std::string> words{program, "-d", "rxe1", "-g", "1", "-n", std::to_string(rounds), "-s", std::to_string(size),
                                       "-p", std::to_string(port)};
        if (connects) words.emplace_back("127.0.0.1");
        std::vector<char*> pointers;
        for (std::string& word : words) pointers.push_back(word.data());
        pointers.push_back(nullptr);
        BOOST_REQUIRE(::posix_spawnp(&id_, program.c_str(), nullptr, nullptr, pointers.data(), environ) == 0);
    }
    example(const example&) = delete;
    ~example() {
        if (id_ == 0) return;
        ::kill(id_, SIGKILL);
        ::waitpid(id_, nullptr, 0);
    }
    int status() {
        int ended = -1;
        ::waitpid(std::exchange(id_, 0), &ended, 0);
        return ended;
    }

private:
    pid_t id_ = 0;
};

unique_fd connection_to(std::uint16_t port) {
    const sockaddr_in there = at_port(port);
    for (int tries = 0; tries < 100; ++tries) {
        unique_fd s(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::connect(s.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0) return s;
        ::usleep(100'000);
    }
    BOOST_FAIL("the example does not listen");
    return {};
}

/// Our end, which knows how to get to theirs once it has heard where that is.
struct our_end {
    explicit our_end(verbs::transport kind) : end("rxe0", address_of_rxe0, verbs::access::local_write, kind) {
        if (kind == verbs::transport::unreliable_datagram) end.pair.activate(verbs::datagram_parameters{.key = key, .first_sequence = 7});
    }
    where ours() const { return {0, end.pair.number(), 7, end.address.gid}; }
    void reach(const where& w) {
        theirs = w;
        const auto index = static_cast<std::uint8_t>(end.address.index);
        if (end.pair.type() == verbs::transport::unreliable_datagram) {
            way = verbs::address_handle(end.domain, {.gid = w.gid, .gid_index = index});
            return;
        }
        verbs::connection_parameters p;
        p.gid_index = index;
        p.first_sequence = 7;
        end.pair.activate({.queue_pair = w.pair, .first_sequence = w.sequence, .gid = w.gid}, p);
    }
    void listen_for_one() { BOOST_REQUIRE(end.receive(4096, size + 40) == 0); }
    void ping() {
        BOOST_REQUIRE(end.send(0, size, [&](ibv_send_wr& wr) {
            if (way) wr.wr.ud = {way.get(), theirs.pair, key};
        }) == 0);
    }
    /// Each side sends and receives `rounds` messages, the client first.
    void play(bool first) {
        if (first) ping();
        unsigned sent = 0, received = 0;
        while (sent < rounds || received < rounds) {
            const ibv_wc done = end.next();
            BOOST_REQUIRE(done.status == IBV_WC_SUCCESS);
            if (done.opcode != IBV_WC_RECV) {
                ++sent;
                continue;
            }
            BOOST_REQUIRE(done.byte_len == size + (way ? 40 : 0));
            if (++received < rounds) listen_for_one();
            if (received < rounds || !first) ping();
        }
    }
    rxe_end end;
    where theirs;
    verbs::address_handle way;
};

void we_are_the_client(const char* program, verbs::transport kind, std::uint16_t port) {
    our_end us(kind);
    example they(program, port, false);
    const unique_fd line = connection_to(port);
    say(line.get(), to_text(us.ours()));
    us.reach(from_text(hear(line.get(), to_text({}).size())));
    us.listen_for_one();
    say(line.get(), std::string("done", 5));
    us.play(true);
    BOOST_TEST(they.status() == 0);
}

void we_are_the_server(const char* program, verbs::transport kind, std::uint16_t port) {
    our_end us(kind);
    const unique_fd door(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in here = at_port(port);
    BOOST_REQUIRE(::bind(door.get(), reinterpret_cast<const sockaddr*>(&here), sizeof here) == 0);
    BOOST_REQUIRE(::listen(door.get(), 1) == 0);
    example they(program, port, true);
    const unique_fd line(::accept(door.get(), nullptr, nullptr));
    us.reach(from_text(hear(line.get(), to_text({}).size())));
    us.listen_for_one();
    say(line.get(), to_text(us.ours()));
    BOOST_TEST(hear(line.get(), 5) == std::string("done", 5));
    us.play(false);
    BOOST_TEST(they.status() == 0);
}

} // namespace

BOOST_AUTO_TEST_SUITE(pingpong_interop)

BOOST_AUTO_TEST_CASE(we_play_with_ibv_rc_pingpong_as_its_client) {
    we_are_the_client("ibv_rc_pingpong", verbs::transport::reliable_connection, 18611);
}
BOOST_AUTO_TEST_CASE(we_play_with_ibv_rc_pingpong_as_its_server) {
    we_are_the_server("ibv_rc_pingpong", verbs::transport::reliable_connection, 18612);
}
BOOST_AUTO_TEST_CASE(we_play_with_ibv_ud_pingpong_as_its_client) {
    we_are_the_client("ibv_ud_pingpong", verbs::transport::unreliable_datagram, 18613);
}
BOOST_AUTO_TEST_CASE(we_play_with_ibv_ud_pingpong_as_its_server) {
    we_are_the_server("ibv_ud_pingpong", verbs::transport::unreliable_datagram, 18614);
}

BOOST_AUTO_TEST_SUITE_END()
