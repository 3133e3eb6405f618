// Our queue pairs against libibverbs' own examples, ibv_rc_pingpong and ibv_ud_pingpong, each as client and as server: they tell
// each other where they are, and then send one message to and fro. Of rdma/channel: channel_interop_test.cc.
#include <corewire/rdma/verbs/address_handle.hh>

#include "tests/vm/guest/pingpong_talk.hh"

using namespace corewire;
using namespace corewire::test;
using namespace corewire::test::pingpong;

namespace {

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
    child_program they = example(program, port, false);
    const unique_fd line = connection_to(port);
    say(line, to_text(us.ours()));
    us.reach(from_text(hear(line, to_text({}).size())));
    us.listen_for_one();
    say(line, std::string("done", 5));
    us.play(true);
    BOOST_TEST(they.status() == 0);
}

void we_are_the_server(const char* program, verbs::transport kind, std::uint16_t port) {
    our_end us(kind);
    const unique_fd door = door_at(port);
    child_program they = example(program, port, true);
    const unique_fd line = who_comes_in(door);
    us.reach(from_text(hear(line, to_text({}).size())));
    us.listen_for_one();
    say(line, to_text(us.ours()));
    BOOST_TEST(hear(line, 5) == std::string("done", 5));
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
