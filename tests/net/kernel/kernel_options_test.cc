// What tcp_options_set asks for, as the kernel's sockets come to have it.
#include <corewire/net/kernel/system_address.hh>
#include <tests/support/netns.hh>

#include <boost/test/unit_test.hpp>

#include <netinet/tcp.h>

#include <chrono>

namespace corewire {

namespace {

int option_of(int fd, int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    BOOST_TEST(::getsockopt(fd, level, name, &value, &size) == 0);
    return value;
}

} // namespace

BOOST_AUTO_TEST_SUITE(kernel_options)

BOOST_AUTO_TEST_CASE(what_the_kernel_would_refuse_for_its_size_is_the_most_that_it_takes) { // MAX_TCP_KEEPIDLE, _KEEPINTVL, _KEEPCNT
    const unique_fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    BOOST_REQUIRE(static_cast<bool>(fd));
    tcp_options_set o;
    o.keepalive = true;
    o.keepalive_idle = o.keepalive_interval = std::chrono::hours{24 * 365 * 100};
    o.keepalive_probes = 1'000;
    apply_options(fd.get(), o);
    BOOST_TEST(option_of(fd.get(), SOL_SOCKET, SO_KEEPALIVE) == 1);
    BOOST_TEST(option_of(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE) == 32'767);
    BOOST_TEST(option_of(fd.get(), IPPROTO_TCP, TCP_KEEPINTVL) == 32'767);
    BOOST_TEST(option_of(fd.get(), IPPROTO_TCP, TCP_KEEPCNT) == 127);
    o.keepalive_idle = o.keepalive_interval = duration{1};
    o.keepalive_probes = 0;
    apply_options(fd.get(), o, o);
    BOOST_TEST(option_of(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE) == 1);
    BOOST_TEST(option_of(fd.get(), IPPROTO_TCP, TCP_KEEPINTVL) == 1);
    BOOST_TEST(option_of(fd.get(), IPPROTO_TCP, TCP_KEEPCNT) == 1);
}

BOOST_AUTO_TEST_CASE(a_user_timeout_is_rounded_up_and_bounded) {
    const unique_fd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    BOOST_REQUIRE(static_cast<bool>(fd));
    tcp_options_set o;
    o.user_timeout = std::chrono::microseconds{1'001};
    apply_options(fd.get(), o);
    BOOST_TEST(option_of(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT) == 2);
    o.user_timeout = std::chrono::hours{24 * 365 * 100};
    apply_options(fd.get(), o);
    BOOST_TEST(option_of(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT) == INT32_MAX);
}

BOOST_AUTO_TEST_CASE(hops_and_traffic_class_are_those_of_either_family) { // RFC 9293 MUST-48, MUST-49
    tcp_options_set marked;
    marked.hops = 9;
    marked.traffic_class = 0xbb; // ECN's bits are not ours to set
    for (const int family : {AF_INET, AF_INET6}) {
        if (family == AF_INET6 && !test::have_ipv6()) continue;
        const unique_fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        BOOST_REQUIRE(fd);
        const int usual = option_of(fd.get(), IPPROTO_IP, IP_TTL);
        apply_options(fd.get(), marked);
        BOOST_TEST(option_of(fd.get(), IPPROTO_IP, IP_TTL) == 9);
        BOOST_TEST(option_of(fd.get(), IPPROTO_IP, IP_TOS) == 0xb8);
        if (family == AF_INET6) BOOST_TEST(option_of(fd.get(), IPPROTO_IPV6, IPV6_UNICAST_HOPS) == 9);
        if (family == AF_INET6) BOOST_TEST(option_of(fd.get(), IPPROTO_IPV6, IPV6_TCLASS) == 0xb8);
        apply_options(fd.get(), {}, marked);
        BOOST_TEST(option_of(fd.get(), IPPROTO_IP, IP_TTL) == usual);
        BOOST_TEST(option_of(fd.get(), IPPROTO_IP, IP_TOS) == 0);
    }
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire
