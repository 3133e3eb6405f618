// Our ends against librdmacm's own examples: rping, ucmatose and udaddy, each as client and as server.
//
//     rping      client: where its text is -> server READs it -> "go on" -> client: where the text may go -> server WRITEs it -> "done"
//     ucmatose   server: messages -> client: as many back -> server disconnects
//     udaddy     the same by datagrams, the client first; it is told by rdma_cm where the server is, the server by the datagrams
//     (rdma-core, librdmacm/examples)
#include <corewire/rdma/verbs/address_handle.hh>
#include <corewire/reactor/base/bytes.hh>

#include "tests/vm/guest/child_program.hh"
#include "tests/vm/guest/cm_end.hh"

using namespace corewire;
using namespace corewire::test;

namespace {

const std::string rxe0 = "192.0.2.1", rxe1 = "192.0.2.2";

// ---- rping: its messages are of 16 bytes, an address, a key, a size, big-endian ----

constexpr std::uint32_t info = 16;
constexpr unsigned pings = 3;
constexpr std::uint32_t text_size = 64; ///< rping's own
constexpr std::size_t received = 0, sent = 1024, text = 2048, sink = 4096;

void post_receives(cm_end& e) {
    for (std::size_t i = 0; i < 4; ++i) e.receive(received + i * info, info, i);
}

/// The place of the next message; completions of our own requests are passed over.
const std::byte* hear(cm_end& e) {
    for (;;) {
        const ibv_wc wc = e.next();
        if (wc.opcode != IBV_WC_RECV) continue;
        BOOST_REQUIRE(wc.byte_len == info);
        return e.memory() + received + wc.wr_id * info;
    }
}

void tell(cm_end& e, std::size_t where, std::uint32_t size) {
    store_be64(e.memory() + sent, e.address(where));
    store_be32(e.memory() + sent + 8, e.key());
    store_be32(e.memory() + sent + 12, size);
    e.post(sent, info, [](ibv_send_wr&) {});
}

void post_receive_again(cm_end& e, const std::byte* at) {
    const auto i = static_cast<std::size_t>(at - (e.memory() + received)) / info;
    e.receive(received + i * info, info, i);
}

// ---- ucmatose and udaddy ----

constexpr unsigned messages = 10;
constexpr std::uint32_t size = 100;
constexpr std::uint32_t header = 40; ///< of a datagram received

void expect_messages(cm_end& e, std::uint32_t of) {
    for (unsigned i = 0; i < messages;) {
        const ibv_wc wc = e.next();
        if ((wc.opcode & IBV_WC_RECV) == 0) continue;
        BOOST_REQUIRE(wc.byte_len == of);
        ++i;
    }
}

void expect_sent(cm_end& e) {
    for (unsigned i = 0; i < messages; ++i) BOOST_REQUIRE(e.next().opcode == IBV_WC_SEND);
}

} // namespace

BOOST_AUTO_TEST_SUITE(rdmacm_interop)

BOOST_AUTO_TEST_CASE(we_ping_a_server_of_rping) {
    child_program they({"rping", "-s", "-a", rxe1, "-p", "18701", "-C", std::to_string(pings)});
    cm_end us(RDMA_PS_TCP);
    us.connect(18701, [&] { post_receives(us); });
    for (unsigned n = 0; n < pings; ++n) {
        std::string said = "ours-" + std::to_string(n) + ": ";
        while (said.size() < text_size - 1) said.push_back(static_cast<char>('A' + said.size() % 26));
        std::memcpy(us.memory() + text, said.c_str(), text_size);
        tell(us, text, text_size);
        post_receive_again(us, hear(us)); // it has read
        tell(us, sink, text_size);
        post_receive_again(us, hear(us)); // it has written
        BOOST_TEST(std::string(reinterpret_cast<const char*>(us.memory() + sink)) == said);
    }
    us.disconnect();
    BOOST_TEST(they.status() == 0);
}

BOOST_AUTO_TEST_CASE(a_client_of_rping_pings_us) {
    cm_end us(RDMA_PS_TCP);
    us.listen(18702);
    child_program they({"rping", "-c", "-a", rxe1, "-I", rxe0, "-p", "18702", "-C", std::to_string(pings), "-V"}); // it compares
    us.accept([&] { post_receives(us); });
    for (unsigned n = 0; n < pings; ++n) {
        std::uint32_t length = 0;
        for (const ibv_wr_opcode what : {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE}) {
            const std::byte* const heard = hear(us);
            const std::uint64_t address = load_be64(heard);
            const std::uint32_t key = load_be32(heard + 8);
            length = load_be32(heard + 12);
            BOOST_REQUIRE(length <= 1024u);
            post_receive_again(us, heard);
            us.post(text, length, [&](ibv_send_wr& wr) {
                wr.opcode = what;
                wr.wr.rdma = {address, key};
            });
            while (us.next().opcode != (what == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE)) {}
            tell(us, text, length);
        }
        BOOST_TEST(std::string(reinterpret_cast<const char*>(us.memory() + text)).starts_with("rdma-ping-" + std::to_string(n)));
    }
    us.expect(RDMA_CM_EVENT_DISCONNECTED);
    BOOST_TEST(they.status() == 0);
}

BOOST_AUTO_TEST_CASE(we_exchange_messages_with_a_server_of_ucmatose) {
    child_program they({"ucmatose", "-b", rxe1, "-p", "18703", "-C", std::to_string(messages), "-S", std::to_string(size)});
    cm_end us(RDMA_PS_TCP);
    us.connect(18703, [&] {
        for (unsigned i = 0; i < messages; ++i) us.receive(i * size, size);
    });
    expect_messages(us, size);
    for (unsigned i = 0; i < messages; ++i) us.post(0, size, [](ibv_send_wr&) {});
    expect_sent(us);
    us.expect(RDMA_CM_EVENT_DISCONNECTED);
    us.disconnect();
    BOOST_TEST(they.status() == 0);
}

BOOST_AUTO_TEST_CASE(a_client_of_ucmatose_exchanges_messages_with_us) {
    cm_end us(RDMA_PS_TCP);
    us.listen(18704);
    child_program they({"ucmatose", "-s", rxe1, "-b", rxe0, "-p", "18704", "-C", std::to_string(messages), "-S", std::to_string(size)});
    us.accept([&] {
        for (unsigned i = 0; i < messages; ++i) us.receive(i * size, size);
    });
    for (unsigned i = 0; i < messages; ++i) us.post(0, size, [](ibv_send_wr&) {});
    expect_messages(us, size);
    us.disconnect();
    BOOST_TEST(they.status() == 0);
}

BOOST_AUTO_TEST_CASE(we_exchange_datagrams_with_a_server_of_udaddy) {
    child_program they({"udaddy", "-b", rxe1, "-C", std::to_string(messages), "-S", std::to_string(size)});
    cm_end us(RDMA_PS_UDP);
    us.connect(7174, [&] {
        for (unsigned i = 0; i < messages; ++i) us.receive(0, size + header);
    });
    const auto index = static_cast<std::uint8_t>(us.device().address_for(address_of_rxe0).index);
    const verbs::address_handle way(us.domain(), {.gid = us.peer().ah_attr.grh.dgid, .gid_index = index});
    for (unsigned i = 0; i < messages; ++i)
        us.post(4096, size, [&](ibv_send_wr& wr) {
            wr.opcode = IBV_WR_SEND_WITH_IMM;
            wr.imm_data = htonl(us.number());
            wr.wr.ud = {way.get(), us.peer().qp_num, us.peer().qkey};
        });
    expect_messages(us, size + header);
    BOOST_TEST(they.status() == 0);
}

BOOST_AUTO_TEST_CASE(a_client_of_udaddy_exchanges_datagrams_with_us) {
    cm_end us(RDMA_PS_UDP);
    us.listen(7174);
    child_program they({"udaddy", "-s", rxe1, "-b", rxe0, "-C", std::to_string(messages), "-S", std::to_string(size)});
    us.accept([&] {
        for (unsigned i = 0; i < messages; ++i) us.receive(0, size + header);
    });
    std::uint32_t pair = 0;
    for (unsigned i = 0; i < messages; ++i) {
        const ibv_wc wc = us.next();
        BOOST_REQUIRE(wc.byte_len == size + header);
        BOOST_REQUIRE((wc.wc_flags & IBV_WC_WITH_IMM) != 0);
        pair = ntohl(wc.imm_data);
    }
    ibv_gid gid{};
    gid.raw[10] = gid.raw[11] = 0xff;
    std::memcpy(gid.raw + 12, us.memory() + 32, 4); // RoCE over IPv4: the header's source address
    const auto index = static_cast<std::uint8_t>(us.device().address_for(address_of_rxe1).index);
    const verbs::address_handle way(us.domain(), {.gid = gid, .gid_index = index});
    for (unsigned i = 0; i < messages; ++i)
        us.post(4096, size, [&](ibv_send_wr& wr) {
            wr.opcode = IBV_WR_SEND_WITH_IMM;
            wr.imm_data = htonl(us.number());
            wr.wr.ud = {way.get(), pair, RDMA_UDP_QKEY};
        });
    expect_sent(us);
    BOOST_TEST(they.status() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
