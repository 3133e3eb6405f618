// rdma/channel against programs that know nothing of it, each as client and as server. A ud_socket plays with ibv_ud_pingpong and
// `ib_send_lat -c UD`: it puts no header of its own before the bytes, and its Q_Key is theirs; each end tells the other its GID and its
// queue pair's number over TCP. An rc_channel has credits in each message: rping is no peer of its own, and is told so.
#include "tests/rdma/channel_world.hh"
#include "tests/vm/guest/perftest_talk.hh"
#include "tests/vm/guest/pingpong_talk.hh"
#include "tests/vm/guest/rxe_fabric.hh"

#include <corewire/rdma/channel/ud_socket.hh>
#include <corewire/reactor/task/run_until_complete.hh>

#include <cstring>

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

struct socket_world {
    socket_world() : here(r), socket(rdma::ud_socket::bind(in, address_of_rxe0)), ours(socket.local_address()) {}
    void run(task<> play) {
        run_until_complete(r, with_deadline(std::move(play), {.deadline = r.read_clock() + 30s}));
        r.poll_once(); // the doorbell of what was sent last
    }
    reactor r;
    reactor::scope here;
    rdma::context in;
    rdma::ud_socket socket;
    rdma::ud_address ours;
};

/// What one end says, so that no two messages are the same.
std::string message(unsigned round, std::size_t size) {
    std::string text(size, static_cast<char>('a' + round % 26));
    text.replace(0, 4, fmt::format("{:04}", round));
    return text;
}

/// Both ends send `rounds` messages in turn. `echoes`: they send back what they have received.
task<> play(rdma::ud_socket& socket, rdma::ud_address to, bool first, unsigned rounds, std::size_t size, bool echoes) {
    if (first) co_await socket.send_to(bytes_of(message(0, size)), to);
    unsigned sent = first ? 1 : 0;
    for (unsigned received = 0; received < rounds; ++received) {
        const auto got = co_await socket.receive_from();
        BOOST_TEST(got.bytes().size() == size);
        BOOST_TEST(got.from().queue_pair == to.queue_pair);
        BOOST_TEST(std::memcmp(got.from().gid.raw, to.gid.raw, sizeof to.gid.raw) == 0);
        if (echoes && sent != 0) BOOST_TEST(text_of(got.bytes()) == message(sent - 1, size));
        if (sent == rounds) continue;
        const std::string next = message(sent++, size);
        co_await socket.send_to(bytes_of(next), to);
    }
    BOOST_TEST(sent == rounds);
}

task<> play_pingpong(socket_world& w, pingpong::where theirs, bool first) {
    return play(w.socket, {theirs.gid, theirs.pair}, first, pingpong::rounds, pingpong::size, true);
}

std::string line_of(const socket_world& w) { return to_text(pingpong::where{0, w.ours.queue_pair, 7, w.ours.gid}); }

task<> play_latency(socket_world& w, const perftest::talk& with, const perftest::place& theirs) {
    return play(w.socket, {theirs.end.gid, theirs.end.queue_pair}, with.first, perftest::rounds, perftest::size, false);
}

void measure_latency(socket_world& w, const perftest::talk& with) {
    const std::string ours = perftest::place_of(w.ours.gid, w.ours.queue_pair);
    const perftest::place theirs = greet(with, ours, 3);
    with.exchange(ours); // ready
    w.run(play_latency(w, with, theirs));
    with.exchange(ours); // done
}

} // namespace

BOOST_AUTO_TEST_SUITE(channel_interop)

BOOST_AUTO_TEST_CASE(a_socket_plays_with_ibv_ud_pingpong_as_its_client) {
    socket_world w;
    child_program they = pingpong::example("ibv_ud_pingpong", 18621, false);
    const unique_fd line = connection_to(18621);
    say(line, line_of(w));
    const pingpong::where theirs = pingpong::from_text(hear(line, line_of(w).size()));
    say(line, std::string("done", 5));
    w.run(play_pingpong(w, theirs, true));
    BOOST_TEST(they.status() == 0);
}

BOOST_AUTO_TEST_CASE(a_socket_plays_with_ibv_ud_pingpong_as_its_server) {
    socket_world w;
    const unique_fd door = door_at(18622);
    child_program they = pingpong::example("ibv_ud_pingpong", 18622, true);
    const unique_fd line = who_comes_in(door);
    const pingpong::where theirs = pingpong::from_text(hear(line, line_of(w).size()));
    say(line, line_of(w));
    BOOST_TEST(hear(line, 5) == std::string("done", 5));
    w.run(play_pingpong(w, theirs, false));
    BOOST_TEST(they.status() == 0);
}

BOOST_AUTO_TEST_CASE(a_socket_is_measured_with_a_server_of_ib_send_lat) {
    socket_world w;
    child_program they(perftest::words("ib_send_lat", 18721, perftest::size, false, {"-c", "UD"}));
    measure_latency(w, {connection_to(18721)});
    BOOST_TEST(they.status() == 0);
}

BOOST_AUTO_TEST_CASE(a_client_of_ib_send_lat_measures_with_a_socket) {
    socket_world w;
    const unique_fd door = door_at(18722);
    child_program they(perftest::words("ib_send_lat", 18722, perftest::size, true, {"-c", "UD"}));
    measure_latency(w, {who_comes_in(door), false});
    BOOST_TEST(they.status() == 0);
}

BOOST_AUTO_TEST_CASE(a_client_of_rping_is_refused_by_a_listener_which_goes_on) {
    basic_channel_world<rxe_fabric> w;
    child_program they({"rping", "-c", "-a", "192.0.2.2", "-I", "192.0.2.1", "-p", std::to_string(w.listening.port()), "-C", "1"});
    w.until([&] { return w.listening.statistics().rejected_foreign == 1; });
    BOOST_TEST(they.status() != 0);
    w.run(w.connect({}));
    w.run([](auto& x) -> task<> {
        co_await x.client.send(bytes_of("after it"));
        const auto got = co_await x.server.receive();
        BOOST_TEST(text_of(got->bytes()) == "after it");
    }(w));
}

BOOST_AUTO_TEST_CASE(a_server_of_rping_is_no_peer_of_a_channel) {
    basic_channel_world<rxe_fabric> w;
    child_program they({"rping", "-s", "-a", "192.0.2.2", "-p", "18731", "-C", "1"});
    std::errc why = std::errc::connection_refused;
    for (int tries = 0; tries < 200 && why == std::errc::connection_refused; ++tries) { // it may not listen yet
        if (tries != 0) ::usleep(50'000);
        why = w.run(failure_of(w.dial(18731)));
    }
    BOOST_TEST((why == std::errc::protocol_error));
}

BOOST_AUTO_TEST_SUITE_END()
