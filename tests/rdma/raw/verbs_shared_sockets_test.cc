// The socket API over the `verbs` port in shared mode: the addresses are a kernel's, ours are the ports and connections that a flow rule
// takes away from it, from bind until the last connection has closed. What else arrives the kernel hears, and nothing of ours.
#include "verbs_sockets_world.hh"

#include "tests/rdma/support.hh"

#include <algorithm>
#include <string_view>

using namespace corewire;

namespace {

struct shared_world : verbs_sockets_world {
    explicit shared_world(bool over_ipv6 = false) : verbs_sockets_world(over_ipv6, holds::the_kernels) {}
    std::uint64_t bulk_bytes() override { return 4'000'000; }
    void settle() override {
        verbs_sockets_world::settle();
        BOOST_TEST(server_host().kernel.heard + client_host().kernel.heard <= expected);
    }
    unsigned expected = 0; ///< frames that the two kernels may hear
};

struct shared_ipv6_world : shared_world {
    shared_ipv6_world() : shared_world(true) {}
};

/// A TCP segment, or a datagram, to a port of the server's.
std::vector<std::byte> frame_to(shared_world& w, std::uint8_t protocol, std::uint16_t port, bool six = false) {
    const mac_address mac = w.server().device().mac();
    auto frame = six ? test::udp_frame(mac, six_of(w.second), 5000, six_of(w.first), port, 40)
                     : test::udp_frame(mac, w.second, 5000, w.first, port, 40);
    frame[six ? 20 : 23] = static_cast<std::byte>(protocol);
    if (protocol == 6) frame[(six ? 54 : 34) + 13] = std::byte{4}; // RST: nobody answers
    return frame;
}

bool reaches_kernel(shared_world& w, std::uint8_t protocol, std::uint16_t port, bool six = false) {
    const unsigned before = w.server_host().kernel.heard;
    w.server_host().nic.deliver(frame_to(w, protocol, port, six));
    w.expected += w.server_host().kernel.heard - before;
    return w.server_host().kernel.heard != before;
}

/// What of a case the two kernels may hear: a SYN to a port that nobody has, what is on its way to a connection that has gone.
unsigned residue_of(std::string_view name) {
    constexpr std::string_view cut_short[] = {
        "a_connection_tells_about_itself", "a_connected_socket_hears_its_peer_only", "readable_and_writable_tell_the_truth",
        "a_cancelled_write_leaves", "a_cancelled_close_leaves", "cancelled_waits_for_readiness_leave", "an_expired_write_leaves",
        "an_expired_close_leaves", "expired_waits_for_readiness_leave", "a_close_after_a_reset_fails",
        "a_stop_gives_unacknowledged_bytes_their_time"};
    if (name == "a_closed_port_refuses") return 1;
    return std::ranges::count(cut_short, name) != 0 ? 2 : 0;
}

} // namespace

BOOST_AUTO_TEST_SUITE(verbs_shared_sockets)

/// Not where the kernel has to answer more than this test's does (errors by ICMP reach us by its raw socket: apps/runtime/verbs_shared),
/// and groups are the kernel's.
auto runs(std::string_view name, bool six) {
    const bool answered = name != "a_datagram_to_a_closed_port_is_refused" && name != "datagram_errors_are_told";
    const bool refused = !six || name != "a_closed_port_refuses";
    const bool of_groups = name == "a_member_of_a_group_hears_it_until_it_leaves" || name == "memberships_are_checked_and_bounded" ||
                           name == "datagrams_to_a_group_loop_back_unless_told_not_to";
    const bool can = answered && refused && !of_groups;
    return boost::unit_test::precondition([can](boost::unit_test::test_unit_id) { return boost::test_tools::assertion_result(can); });
}

#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name, shared_world, *runs(#name, false)) {                                                   \
        expected = residue_of(#name);                                                                                  \
        run(socket_suite::name(*this));                                                                                \
    }
CW_SOCKET_SUITE(CASE)

#undef CASE
#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name##_over_ipv6, shared_ipv6_world, *runs(#name, true)) {                                   \
        expected = residue_of(#name);                                                                                  \
        run(socket_suite::name(*this));                                                                                \
    }
CW_SOCKET_SUITE(CASE)

BOOST_FIXTURE_TEST_CASE(what_nobody_of_ours_has_the_kernel_refuses, shared_world) {
    expected = 1; // the SYN; the answer is our connection's
    run(socket_suite::a_closed_port_refuses(*this));
    BOOST_TEST(server_host().kernel.heard == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_port_is_ours_from_bind_until_its_last_connection_has_closed, shared_world) {
    BOOST_TEST(reaches_kernel(*this, 6, 7));
    run([](shared_world& w) -> task<> {
        tcp_listener listener = socket_suite::listen(w, 7);
        BOOST_TEST(!reaches_kernel(w, 6, 7));
        BOOST_TEST(reaches_kernel(w, 17, 7)); // datagrams are another matter
        BOOST_TEST(reaches_kernel(w, 6, 8));
        tcp_stream client = co_await socket_suite::dial(w, listener.local_address());
        tcp_stream server = co_await listener.accept();
        listener.close();
        BOOST_TEST(!reaches_kernel(w, 6, 7));
        co_await client.write(std::string_view{"still ours"});
        buffer data = co_await server.read();
        BOOST_TEST(data.text() == "still ours");
    }(*this));
    BOOST_TEST(reaches_kernel(*this, 6, 7)); // TIME-WAIT is over, too
    const std::vector<std::byte> request(60, std::byte{0xff}); // broadcast, of no type that we know
    const std::uint64_t ours = server().device().statistics().received_packets;
    server_host().nic.deliver(request);
    loop().poll_once();
    BOOST_TEST(server().device().statistics().received_packets == ours);
}

BOOST_FIXTURE_TEST_CASE(a_port_of_both_families_has_a_rule_for_each, shared_ipv6_world) {
    run([](shared_world& w) -> task<> {
        w.loop().attached(reactor::attachment::network) = static_cast<socket_provider*>(&w.server());
        const unsigned before = w.server_host().nic.live_objects();
        tcp_listener listener = tcp_listener::bind({ipv6::any(), 80});
        BOOST_TEST(w.server_host().nic.live_objects() == before + 2);
        for (const bool six : {false, true}) BOOST_TEST(!reaches_kernel(w, 6, 80, six));
        listener.close();
        for (const bool six : {false, true}) BOOST_TEST(reaches_kernel(w, 6, 80, six));
        co_return;
    }(*this));
}

BOOST_FIXTURE_TEST_CASE(a_connection_that_finds_no_rule_is_refused_and_the_next_one_is_not, shared_world) {
    run([](shared_world& w) -> task<> {
        tcp_listener listener = socket_suite::listen(w, 7);
        for (const auto& [error, told] : {std::pair{ENOMEM, ENOBUFS}, {ENOSPC, ENOBUFS}, {EIO, ENODEV}}) {
            w.client_host().nic.fail_calls("create_flow", error);
            const std::errc why = co_await socket_suite::error_of([&] { return socket_suite::dial(w, listener.local_address()); });
            BOOST_TEST(static_cast<int>(why) == told);
        }
        w.client_host().nic.fail_calls("create_flow", EBUSY); // somebody has this port: the next one is tried
        tcp_stream client = co_await socket_suite::dial(w, listener.local_address());
        tcp_stream server = co_await listener.accept();
    }(*this));
}

BOOST_AUTO_TEST_CASE(a_device_tells_why_it_steers_nothing) {
    fake::nic nic({.max_rules = 2});
    verbs_device device({.device = "fake0", .steering = verbs_steering::flows, .api = &fake::api()});
    const steered_flow port{.protocol = 6, .local = ipv4(10, 0, 0, 1), .local_port = 7}, every{.protocol = 6, .local_port = 9};
    BOOST_TEST(device.own_flow(port) == 0);
    BOOST_TEST(device.own_flow(port) == 0); // the same: one rule
    BOOST_TEST(device.own_flow(every) == ENOBUFS); // needs two, and keeps none
    BOOST_TEST(device.own_flow({.protocol = 6, .local = ipv4(10, 0, 0, 1), .local_port = 8}) == 0);
    device.disown_flow(port);
    for (const auto& [error, told] : {std::pair{EEXIST, EADDRINUSE}, {EBUSY, EADDRINUSE}, {ENOSPC, ENOBUFS}, {EPERM, EPERM}}) {
        nic.fail_calls("create_flow", error);
        BOOST_TEST(device.own_flow(port) == told);
    }
    nic.remove();
    BOOST_TEST(device.own_flow(port) == ENODEV);
    device.disown_flow(port); // there is none
}

BOOST_AUTO_TEST_SUITE_END()
