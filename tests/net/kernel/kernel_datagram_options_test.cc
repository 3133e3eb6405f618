// A datagram's source, hop limit and traffic class over the kernel's sockets, as another socket of the kernel's hears them.
#include "kernel_world.hh"

#include <corewire/net/kernel/system_address.hh>
#include <tests/support/netns.hh>

#include <netinet/ip.h>

namespace corewire {

namespace {

/// A plain socket of the loopback that is told everything.
struct listener {
    explicit listener(bool six) : fd(::socket(six ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        system_address at(six ? socket_address(ipv6::loopback(), 0) : socket_address(ipv4::loopback(), 0));
        usable = fd && ::bind(fd.get(), &at.generic, at.size) == 0;
        const int yes = 1;
        for (const int option : {IP_RECVTTL, IP_RECVTOS})
            if (!six) ::setsockopt(fd.get(), IPPROTO_IP, option, &yes, sizeof yes);
        for (const int option : {IPV6_RECVHOPLIMIT, IPV6_RECVTCLASS})
            if (six) ::setsockopt(fd.get(), IPPROTO_IPV6, option, &yes, sizeof yes);
    }
    void receive() {
        alignas(cmsghdr) char control[256];
        char text[64];
        iovec data{text, sizeof text};
        system_address sender;
        msghdr m{};
        m.msg_name = &sender.generic;
        m.msg_namelen = sender.size;
        m.msg_iov = &data;
        m.msg_iovlen = 1;
        m.msg_control = control;
        m.msg_controllen = sizeof control;
        BOOST_REQUIRE(::recvmsg(fd.get(), &m, 0) >= 0); // over the loopback it is there as soon as it is sent
        from = sender.decoded().net();
        for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
            const bool one = c->cmsg_len == CMSG_LEN(1);
            int value = 0;
            std::memcpy(&value, CMSG_DATA(c), one ? 1 : sizeof value);
            const bool is_hops = (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL) ||
                                 (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT);
            (is_hops ? hops : traffic_class) = value;
        }
    }
    socket_address address() const { return local_address_of(fd.get()); }
    unique_fd fd;
    bool usable = false;
    net_address from;
    int hops = -1, traffic_class = -1;
};

/// With an IPv6 socket, or one of both families.
task<> marks_arrive(bool six, bool of_both) {
    listener at(six);
    if (six && !test::have_ipv6()) co_return;
    BOOST_REQUIRE(at.usable);
    udp_socket socket = udp_socket::bind({of_both ? net_address(ipv6::any()) : net_address(ipv4::any()), 0});
    const std::string_view text = "marked";
    const byte_span bytes = std::as_bytes(std::span{text});
    for (const int hops : {1, 2, 255}) {
        for (const int traffic_class : {0, 1, 0xb8, 255}) {
            const datagram_options how{.hops = static_cast<std::uint8_t>(hops), .traffic_class = static_cast<std::uint8_t>(traffic_class)};
            co_await socket.send_to(bytes, at.address(), how);
            at.receive();
            BOOST_TEST(at.hops == hops);
            BOOST_TEST(at.traffic_class == traffic_class);
        }
    }
    co_await socket.send_to(bytes, at.address());
    at.receive();
    BOOST_TEST(at.hops > 2);
    BOOST_TEST(at.traffic_class == 0);
}

task<> answer_from_the_second() {
    listener at(false);
    const ipv4 second(127, 0, 0, 2);
    const std::string_view text = "from the second";
    for (const bool of_both : {false, true}) { // a socket of both families says IPv4's as IPv4's
        udp_socket server = udp_socket::bind({of_both ? net_address(ipv6::any()) : net_address(ipv4::any()), 0});
        const system_address to({second, server.local_address().port});
        BOOST_REQUIRE(::sendto(at.fd.get(), "?", 1, 0, &to.generic, to.size) == 1);
        const datagram question = co_await server.receive_from();
        BOOST_TEST(question.to == net_address(second));
        const datagram_options how{.from = question.to};
        co_await server.send_to(std::as_bytes(std::span{text}), question.from, how);
        at.receive();
        BOOST_TEST(at.from == net_address(second));
    }
}

task<> all_are_told() {
    const unique_fd at(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const system_address any({ipv4::any(), 0});
    BOOST_REQUIRE(::bind(at.get(), &any.generic, any.size) == 0);
    udp_socket socket = udp_socket::bind({ipv4::any(), 0});
    const std::string_view text = "to all";
    const socket_address to(ipv4(127, 255, 255, 255), local_address_of(at.get()).port);
    co_await socket.send_to(std::as_bytes(std::span{text}), to);
    char heard[16];
    BOOST_TEST(::recv(at.get(), heard, sizeof heard, MSG_DONTWAIT) == static_cast<ssize_t>(text.size()));
}

/// Linux by itself delivers to each socket at any address what any socket of the host has joined.
task<> others_join() {
    const ipv4 group(239, 77, 9, 9);
    const unique_fd other(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ip_mreqn on{};
    group.store(reinterpret_cast<std::byte*>(&on.imr_multiaddr));
    ipv4::loopback().store(reinterpret_cast<std::byte*>(&on.imr_address));
    BOOST_REQUIRE(::setsockopt(other.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &on, sizeof on) == 0);
    BOOST_REQUIRE(::setsockopt(other.get(), IPPROTO_IP, IP_MULTICAST_IF, &on, sizeof on) == 0);
    for (const bool of_both : {false, true}) {
        udp_socket socket = udp_socket::bind({of_both ? net_address(ipv6::any()) : net_address(ipv4::any()), 0});
        const std::uint16_t port = socket.local_address().port;
        const system_address feed({group, port}), itself({ipv4::loopback(), port});
        BOOST_REQUIRE(::sendto(other.get(), "feed", 4, 0, &feed.generic, feed.size) == 4);
        BOOST_REQUIRE(::sendto(other.get(), "yours", 5, 0, &itself.generic, itself.size) == 5);
        const datagram heard = co_await socket.receive_from();
        BOOST_TEST(heard.data.text() == "yours");
    }
}

/// A loopback that takes no more than Ethernet.
struct narrow_namespace {
    narrow_namespace() { ns.check("ip link set lo mtu 1500"); }
    test::network_namespace ns;
    test::network_namespace::scope inside{ns};
};
struct narrow_world : private narrow_namespace, kernel_world {};

task<> sizes_are_heeded(bool six) {
    const listener at(six);
    if (!at.usable) co_return; // no IPv6 here
    const std::uint32_t headers = six ? 48 : 28;
    udp_socket socket = udp_socket::connect(at.address());
    BOOST_TEST(socket.path_mtu() == 1500u);
    const std::vector<std::byte> fits(1500 - headers), too_large(1501 - headers);
    for (const datagram_size how : {datagram_size::refuse, datagram_size::probe, datagram_size::cut}) {
        socket.set_datagram_size(how);
        co_await socket.send(byte_span{fits});
        const std::errc why = co_await socket_suite::error_of([&] { return socket.send(byte_span{too_large}); });
        BOOST_TEST((why == (how == datagram_size::cut ? std::errc{} : std::errc::message_size)));
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(kernel_datagram_options)

BOOST_AUTO_TEST_CASE(what_may_not_be_cut_and_is_too_large_is_refused) {
    if (!test::have_root()) return;
    narrow_world w;
    w.run(sizes_are_heeded(false));
    w.run(sizes_are_heeded(true));
}


BOOST_FIXTURE_TEST_CASE(broadcasts_leave, kernel_world) { run(all_are_told()); }

BOOST_FIXTURE_TEST_CASE(groups_that_other_programs_have_joined_are_not_heard, kernel_world) { run(others_join()); }

BOOST_FIXTURE_TEST_CASE(a_server_at_any_address_answers_from_the_one_that_was_asked, kernel_world) {
    run(answer_from_the_second());
}

BOOST_FIXTURE_TEST_CASE(hops_and_traffic_class_are_the_datagrams_own, kernel_world) {
    run(marks_arrive(false, false));
    run(marks_arrive(false, true));
    run(marks_arrive(true, true));
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire
