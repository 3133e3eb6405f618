// rdma_cm between fakes: what rc_channel leaves to it.
#include "tests/rdma/support.hh"

#include <netinet/in.h>

using namespace corewire;
using namespace corewire::test;

namespace {

constexpr ipv4 first{192, 0, 2, 1}, second{192, 0, 2, 2}, nobody{192, 0, 2, 99};

sockaddr_in name_of(ipv4 address, std::uint16_t port = 0) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = host_to_be(port);
    a.sin_addr.s_addr = host_to_be(address.value());
    return a;
}

/// An id with a channel of its own, and what a connection stands on.
struct end {
    end() : channel(cm.create_event_channel()) { cm.create_id(channel, &id, nullptr, RDMA_PS_TCP); }
    ~end() {
        drop(id);
        drop(asking);
        if (queue != nullptr) fake::api().destroy_cq(queue);
        if (domain != nullptr) fake::api().dealloc_pd(domain);
        cm.destroy_event_channel(channel);
    }
    void drop(rdma_cm_id*& which) const {
        if (which == nullptr) return;
        if (which->qp != nullptr) cm.destroy_qp(which);
        BOOST_TEST(cm.destroy_id(std::exchange(which, nullptr)) == 0);
    }
    bool next(rdma_cm_event_type what) {
        rdma_cm_event* e = nullptr;
        if (cm.get_cm_event(channel, &e) != 0) return false;
        const rdma_cm_event_type came = e->event;
        if (came == RDMA_CM_EVENT_CONNECT_REQUEST) {
            asking = e->id;
            heard.assign(static_cast<const char*>(e->param.conn.private_data), e->param.conn.private_data_len);
        }
        cm.ack_cm_event(e);
        BOOST_TEST(came == what);
        return came == what;
    }
    bool quiet() const {
        rdma_cm_event* e = nullptr;
        return cm.get_cm_event(channel, &e) != 0;
    }
    int resolve(ipv4 from, ipv4 to, std::uint16_t port) const {
        sockaddr_in here = name_of(from), there = name_of(to, port);
        return cm.resolve_addr(id, reinterpret_cast<sockaddr*>(&here), reinterpret_cast<sockaddr*>(&there), 100);
    }
    int bind(ipv4 at, std::uint16_t port) const {
        sockaddr_in here = name_of(at, port);
        return cm.bind_addr(id, reinterpret_cast<sockaddr*>(&here));
    }
    void make_queue_pair(rdma_cm_id* of) {
        domain = fake::api().alloc_pd(of->verbs);
        queue = fake::api().create_cq(of->verbs, 16, nullptr, nullptr, 0);
        ibv_qp_init_attr a{};
        a.send_cq = a.recv_cq = queue;
        a.qp_type = IBV_QPT_RC;
        a.cap = {4, 4, 1, 1, 0};
        BOOST_REQUIRE(cm.create_qp(of, domain, &a) == 0);
    }
    void connect_to(std::uint16_t port) {
        BOOST_REQUIRE(resolve(first, second, port) == 0);
        BOOST_REQUIRE(next(RDMA_CM_EVENT_ADDR_RESOLVED));
        BOOST_REQUIRE(cm.resolve_route(id, 100) == 0);
        BOOST_REQUIRE(next(RDMA_CM_EVENT_ROUTE_RESOLVED));
        make_queue_pair(id);
        rdma_conn_param p{};
        p.private_data = "hello";
        p.private_data_len = 5;
        BOOST_REQUIRE(cm.connect(id, &p) == 0);
    }
    void listen_at(std::uint16_t port) const {
        BOOST_REQUIRE(bind(second, port) == 0);
        BOOST_REQUIRE(cm.listen(id, 4) == 0);
    }
    int accept() {
        make_queue_pair(asking);
        rdma_conn_param p{};
        return cm.accept(asking, &p);
    }

    const verbs::cm_api& cm = fake::cm();
    rdma_event_channel* channel;
    rdma_cm_id *id = nullptr, *asking = nullptr;
    ibv_pd* domain = nullptr;
    ibv_cq* queue = nullptr;
    std::string heard;
};

struct connections_world {
    fake::nic a{{.name = "fake_a", .mac = mac_address(0x02'00'00'00'00'01), .addresses = {first}}};
    fake::nic b{{.name = "fake_b", .mac = mac_address(0x02'00'00'00'00'02), .addresses = {second}}};
    end active, passive;
};

} // namespace

BOOST_AUTO_TEST_SUITE(connections)

BOOST_FIXTURE_TEST_CASE(a_request_brings_its_data_and_both_ends_hear_that_they_are_connected_and_that_they_are_not, connections_world) {
    passive.listen_at(7000);
    active.connect_to(7000);
    BOOST_REQUIRE(passive.next(RDMA_CM_EVENT_CONNECT_REQUEST));
    BOOST_TEST(passive.heard.size() == 56u); // the packet's room
    BOOST_TEST(passive.heard.substr(0, 6) == std::string("hello\0", 6));
    BOOST_TEST(passive.accept() == 0);
    BOOST_TEST(active.next(RDMA_CM_EVENT_ESTABLISHED));
    BOOST_TEST(passive.next(RDMA_CM_EVENT_ESTABLISHED));
    BOOST_TEST(active.id->qp->state == IBV_QPS_RTS);
    BOOST_TEST(active.cm.disconnect(active.id) == 0);
    BOOST_TEST(active.id->qp->state == IBV_QPS_ERR);
    BOOST_TEST(passive.asking->qp->state == IBV_QPS_RTS); // its owner's affair
    BOOST_TEST(active.next(RDMA_CM_EVENT_DISCONNECTED));
    BOOST_TEST(passive.next(RDMA_CM_EVENT_DISCONNECTED));
    for (int i = 0; i < 2; ++i) { // the other end does so, too: each has been told already
        BOOST_TEST(passive.cm.disconnect(passive.asking) == 0);
        BOOST_TEST(active.cm.disconnect(active.id) == 0);
    }
    BOOST_TEST(passive.asking->qp->state == IBV_QPS_ERR);
    BOOST_TEST(passive.quiet());
    BOOST_TEST(active.quiet());
}

BOOST_FIXTURE_TEST_CASE(who_listens_at_no_port_rejects_or_goes_refuses, connections_world) {
    active.connect_to(7001);
    BOOST_TEST(active.next(RDMA_CM_EVENT_REJECTED));
    {
        end listening, asks;
        listening.listen_at(7002);
        asks.connect_to(7002);
        BOOST_REQUIRE(listening.next(RDMA_CM_EVENT_CONNECT_REQUEST));
        BOOST_TEST(listening.cm.reject(listening.asking, nullptr, 0) == 0);
        BOOST_TEST(asks.next(RDMA_CM_EVENT_REJECTED));
    }
    end asks;
    {
        end listening;
        listening.listen_at(7003);
        asks.connect_to(7003);
    } // with a request that it has not looked at
    BOOST_TEST(asks.next(RDMA_CM_EVENT_REJECTED));
}

BOOST_FIXTURE_TEST_CASE(a_request_whose_sender_has_gone_is_accepted_by_nobody, connections_world) {
    passive.listen_at(7004);
    {
        end brief;
        brief.connect_to(7004);
    }
    BOOST_REQUIRE(passive.next(RDMA_CM_EVENT_CONNECT_REQUEST));
    BOOST_TEST(passive.accept() == -1);
}

BOOST_FIXTURE_TEST_CASE(addresses_are_those_of_the_nics_and_a_port_is_listened_at_once, connections_world) {
    passive.listen_at(7005);
    BOOST_TEST(active.bind(second, 7005) == -1);
    BOOST_TEST(errno == EADDRINUSE);
    BOOST_TEST(active.bind(nobody, 7006) == -1);
    BOOST_TEST(errno == EADDRNOTAVAIL);
    BOOST_TEST(active.resolve(nobody, second, 7005) == -1);
    BOOST_TEST(active.resolve(first, nobody, 7005) == 0);
    BOOST_TEST(active.next(RDMA_CM_EVENT_ADDR_ERROR));
}

BOOST_FIXTURE_TEST_CASE(a_link_that_is_down_reaches_nobody_and_a_device_that_goes_is_told_of, connections_world) {
    passive.listen_at(7007);
    b.set_link(false);
    active.connect_to(7007);
    BOOST_TEST(active.next(RDMA_CM_EVENT_UNREACHABLE));
    BOOST_TEST(passive.quiet());
    b.remove();
    BOOST_TEST(passive.next(RDMA_CM_EVENT_DEVICE_REMOVAL));
}

BOOST_AUTO_TEST_SUITE_END()
