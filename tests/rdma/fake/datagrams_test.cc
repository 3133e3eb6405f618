// Datagrams between UD queue pairs of the fake: what arrives, what is lost, and what a device refuses to send.
#include "tests/rdma/datagram_end.hh"

using namespace corewire;
using namespace corewire::test;

namespace {

struct two_ends {
    datagram_end a{"fake_a", ipv4(192, 0, 2, 1)}, b{"fake_b", ipv4(192, 0, 2, 2)};
    verbs::address_handle to_b = a.way_to(b.address.gid);
    /// b has heard nothing of what a has sent, and a does not know.
    void nothing_arrives() {
        BOOST_TEST(a.next().status == IBV_WC_SUCCESS);
        BOOST_TEST(b.poll().empty());
        BOOST_TEST(a.nic.statistics().datagrams_lost == 1u);
    }
};

ibv_gid group_of(ipv4 address) {
    ibv_gid g{};
    g.raw[10] = g.raw[11] = 0xff;
    store_be32(reinterpret_cast<std::byte*>(g.raw + 12), address.value());
    return g;
}

} // namespace

BOOST_AUTO_TEST_SUITE(datagrams)

BOOST_AUTO_TEST_CASE(a_datagram_comes_with_its_header_and_is_answered_by_it) {
    two_ends w;
    BOOST_TEST(w.b.receive() == 0);
    BOOST_TEST(w.a.send(w.to_b, w.b.pair.number(), 500) == 0);
    BOOST_TEST(w.a.next().status == IBV_WC_SUCCESS);
    ibv_wc got = w.b.next();
    BOOST_TEST(got.status == IBV_WC_SUCCESS);
    BOOST_TEST(got.wr_id == 5u);
    BOOST_TEST(got.byte_len == 540u);
    BOOST_TEST(got.src_qp == w.a.pair.number());
    BOOST_TEST((got.wc_flags & IBV_WC_GRH) != 0u);
    BOOST_TEST(std::memcmp(w.b.received() + 40, w.a.memory.data(), 500) == 0);
    BOOST_TEST(load_be32(w.b.received() + 32) == ipv4(192, 0, 2, 1).value());

    ibv_grh header;
    std::memcpy(&header, w.b.received(), sizeof header);
    const verbs::address_handle back(w.b.domain, got, header);
    w.a.receive();
    w.b.send(back, got.src_qp, 10);
    BOOST_TEST(w.a.next().byte_len == 50u);
    BOOST_TEST(w.a.nic.violations().empty());
    BOOST_TEST(w.b.nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(a_wrong_key_a_wrong_number_and_an_address_that_nobody_has_lose_it) {
    {
        two_ends w;
        w.b.receive();
        w.a.send(w.to_b, w.b.pair.number(), 10, key + 1);
        w.nothing_arrives();
    }
    {
        two_ends w;
        w.b.receive();
        w.a.send(w.to_b, w.b.pair.number() + 100, 10);
        w.nothing_arrives();
    }
    two_ends w;
    w.b.receive();
    const auto nobody = w.a.way_to(group_of(ipv4(192, 0, 2, 77)));
    w.a.send(nobody, w.b.pair.number(), 10);
    w.nothing_arrives();
}

BOOST_AUTO_TEST_CASE(without_a_posted_receive_it_is_lost_and_counted) {
    two_ends w;
    w.a.send(w.to_b, w.b.pair.number(), 10);
    BOOST_TEST(w.b.poll().empty());
    BOOST_TEST(w.b.nic.statistics().no_receive == 1u);
}

BOOST_AUTO_TEST_CASE(a_key_with_its_highest_bit_stands_for_that_of_the_queue_pair) {
    two_ends w;
    w.b.receive();
    w.a.send(w.to_b, w.b.pair.number(), 10, 0x80000000);
    BOOST_TEST(w.b.next().byte_len == 50u);
}

BOOST_AUTO_TEST_CASE(what_is_longer_than_the_path_s_mtu_is_not_sent) {
    two_ends w;
    w.a.send(w.to_b, w.b.pair.number(), 1024);
    BOOST_TEST(w.a.next().status == IBV_WC_SUCCESS);
    w.a.send(w.to_b, w.b.pair.number(), 1025);
    BOOST_TEST(w.a.next().status == IBV_WC_LOC_LEN_ERR);
    BOOST_TEST(*w.a.pair.state() == IBV_QPS_SQE);
    BOOST_TEST(w.a.nic.violations().size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_buffer_without_room_for_the_header_fails_its_queue_pair) {
    two_ends w;
    w.b.receive(500);
    w.a.send(w.to_b, w.b.pair.number(), 500);
    BOOST_TEST(w.b.next().status == IBV_WC_LOC_LEN_ERR);
    BOOST_TEST(*w.b.pair.state() == IBV_QPS_ERR);
}

BOOST_AUTO_TEST_CASE(a_handle_that_is_gone_or_of_another_domain_is_refused) {
    two_ends w;
    verbs::address_handle brief = w.a.way_to(w.b.address.gid);
    ibv_ah* const gone = brief.get();
    brief = {};
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud = {gone, w.b.pair.number(), key};
    ibv_send_wr* bad = nullptr;
    BOOST_TEST(w.a.pair.post_send(&wr, &bad) == EINVAL);

    const verbs::protection_domain other(w.a.device);
    const verbs::address_handle foreign(other, {.gid = w.b.address.gid, .gid_index = 1});
    w.a.send(foreign, w.b.pair.number(), 10);
    BOOST_TEST(w.a.next().status == IBV_WC_LOC_QP_OP_ERR);
    BOOST_TEST(w.a.nic.violations().size() == 2u);
    BOOST_TEST(mentions(sentence_of([&] { w.a.way_to({}); }), "address handle"));
}

BOOST_AUTO_TEST_CASE(a_group_hears_each_datagram_once_a_member_the_sender_too) {
    two_ends w;
    const ibv_gid group = group_of(ipv4(239, 1, 2, 3));
    const auto to_group = w.a.way_to(group);
    w.a.receive();
    w.b.receive();
    w.b.receive();
    {
        const verbs::multicast_attachment a(fake::api(), w.a.pair.get(), group), b(fake::api(), w.b.pair.get(), group);
        w.a.send(to_group, group_pair, 60);
        BOOST_TEST(w.a.poll().size() == 2u); // its send, and its own copy
        BOOST_TEST(w.b.next().byte_len == 100u);
        BOOST_TEST(load_be32(w.b.received() + 36) == ipv4(239, 1, 2, 3).value());
    }
    w.a.send(to_group, group_pair, 60);
    w.nothing_arrives();
    BOOST_CHECK_THROW(verbs::multicast_attachment(fake::api(), w.b.pair.get(), w.b.address.gid), std::system_error);
}

BOOST_AUTO_TEST_CASE(a_link_that_is_down_at_either_end_loses_it) {
    two_ends w;
    w.b.receive();
    w.b.nic.set_link(false);
    w.a.send(w.to_b, w.b.pair.number(), 10);
    w.nothing_arrives();
    w.b.nic.set_link(true);
    w.a.nic.lose_datagrams(1);
    w.a.send(w.to_b, w.b.pair.number(), 10);
    BOOST_TEST(w.a.next().status == IBV_WC_SUCCESS);
    BOOST_TEST(w.b.poll().empty());
    w.a.send(w.to_b, w.b.pair.number(), 10);
    BOOST_TEST(w.b.next().byte_len == 50u);
}

BOOST_AUTO_TEST_SUITE_END()
