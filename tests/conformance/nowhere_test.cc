// Calls that name memory at NULL: EFAULT where Linux finds that out, and nothing is sent, read or set by them.
// ctest: timeout=120
#include "player.hh"

#include <boost/test/unit_test.hpp>

#include <array>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <vector>

using namespace corewire::conformance;

namespace {

/// What a call says: its result, or its errno as a negative number.
template <typename Result>
Result said(Result r) {
    return r < 0 ? -errno : r;
}

constexpr const char* connected = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n"
                                  "+0 < S 0:0(0) win 32792 <mss 1000>\n+0 > S. 0:0(0) ack 1 <mss 1460>\n"
                                  "+0 < . 1:1(0) ack 1 win 32792\n+0 accept(3, ..., ...) = 4\n"
                                  "+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n";

/// A connection that is open, and the calls that a script has no words for.
struct open_connection {
    explicit open_connection(const std::string& more = {}) : p("linux settings=none segments=single") {
        p.play(connected + more);
        fd = p.connection_fd();
    }
    ssize_t write(const void* at, std::size_t n) { return said(i.write(i.userdata, fd, at, n)); }
    ssize_t send(const void* at, std::size_t n, int flags) { return said(i.send(i.userdata, fd, at, n, flags)); }
    ssize_t writev(std::vector<iovec> v) { return said(i.writev(i.userdata, fd, v.data(), static_cast<int>(v.size()))); }
    ssize_t readv(std::vector<iovec> v) { return said(i.readv(i.userdata, fd, v.data(), static_cast<int>(v.size()))); }
    ssize_t recv(void* into, std::size_t n, int flags) { return said(i.recv(i.userdata, fd, into, n, flags)); }
    int ioctl(unsigned long what) {
        int n = -1;
        return said(i.ioctl(i.userdata, fd, what, &n)) == 0 ? n : -1;
    }
    int set(int level, int name, socklen_t size) { return said(i.setsockopt(i.userdata, fd, level, name, nullptr, size)); }

    player p;
    packetdrill_interface& i = p.table();
    int fd = -1;
    char bytes[4000] = {};
};

} // namespace

BOOST_AUTO_TEST_SUITE(nowhere)

BOOST_AUTO_TEST_CASE(what_is_to_be_sent_from_nowhere_is_a_fault_and_nothing_is_sent) {
    open_connection c;
    packetdrill_interface& i = c.i;
    BOOST_TEST(c.write(nullptr, 1000) == -EFAULT);
    BOOST_TEST(c.write(nullptr, 0) == 0);
    BOOST_TEST(c.send(nullptr, 1000, MSG_DONTWAIT | MSG_EOR | MSG_OOB) == -EFAULT);
    BOOST_TEST(said(i.sendto(i.userdata, c.fd, nullptr, 1, 0, nullptr, 0)) == -EFAULT);
    BOOST_TEST(c.writev({{c.bytes, 100}, {nullptr, 100}}) == -EFAULT); // what one buffer takes goes whole or not at all
    BOOST_TEST(said(i.writev(i.userdata, c.fd, nullptr, 1)) == -EFAULT);
    BOOST_TEST(said(i.writev(i.userdata, c.fd, nullptr, 0)) == 0);
    BOOST_TEST(c.ioctl(SIOCOUTQ) == 0);
    BOOST_TEST(c.writev({{c.bytes, 100}, {nullptr, 0}, {c.bytes, 10}}) == 110);
    c.p.play("+0 > P. 1:111(110) ack 1\n+0 < . 1:1(0) ack 111 win 32792\n");
}

BOOST_AUTO_TEST_CASE(a_write_ends_before_the_buffer_that_cannot_be_filled) {
    open_connection c;
    // Buffers are of one segment: twenty are full, the next one would reach beyond what is there.
    std::vector<char> bytes(20'500);
    const ssize_t taken = c.writev({{bytes.data(), bytes.size()}, {nullptr, 5000}, {bytes.data(), 10}});
    BOOST_TEST(taken == 20'000);
    BOOST_TEST(c.ioctl(SIOCOUTQ) == taken);
}

BOOST_AUTO_TEST_CASE(a_fault_lends_nothing_and_uses_no_number) {
    open_connection c("+0 setsockopt(4, SOL_SOCKET, SO_ZEROCOPY, [1], 4) = 0\n");
    BOOST_TEST(c.send(nullptr, 1000, MSG_ZEROCOPY) == -EFAULT);
    BOOST_TEST(c.send(c.bytes, 100, MSG_ZEROCOPY) == 100);
    c.p.play("+0 > P. 1:101(100) ack 1\n+0 < . 1:1(0) ack 101 win 32792\n+0 recvmsg(4, {lo: 0, hi: 0}, MSG_ERRQUEUE) = 0\n");
}

BOOST_AUTO_TEST_CASE(nothing_is_read_at_once_but_recv_waits_for_something) { // sock_read_iter(), sock_rcvlowat()
    open_connection c;
    BOOST_TEST(c.recv(nullptr, 0, 0) == -EAGAIN);
    BOOST_TEST(c.readv({}) == 0);
    BOOST_TEST(said(c.i.read(c.i.userdata, c.fd, nullptr, 0)) == 0);
    c.p.play("+0 < P. 1:101(100) ack 1 win 32792\n+0 > . 1:1(0) ack 101\n");
    BOOST_TEST(c.recv(nullptr, 0, 0) == 0);
    BOOST_TEST(c.ioctl(SIOCINQ) == 100);
}

BOOST_AUTO_TEST_CASE(what_is_read_into_nowhere_stays) {
    open_connection c;
    BOOST_TEST(c.recv(nullptr, 10, 0) == -EAGAIN); // there is nothing yet
    c.p.play("+0 < P. 1:101(100) ack 1 win 32792\n+0 > . 1:1(0) ack 101\n");
    BOOST_TEST(c.recv(nullptr, 10, 0) == -EFAULT);
    BOOST_TEST(c.recv(nullptr, 10, MSG_PEEK) == -EFAULT);
    BOOST_TEST(c.recv(nullptr, 0, 0) == 0);
    BOOST_TEST(c.readv({{c.bytes, 10}, {nullptr, 300}}) == -EFAULT);
    BOOST_TEST(said(c.i.recvmsg(c.i.userdata, c.fd, nullptr, 0)) == -EFAULT);
    BOOST_TEST(c.ioctl(SIOCINQ) == 100);
    BOOST_TEST(c.recv(nullptr, 10, MSG_TRUNC | MSG_PEEK) == 10);
    BOOST_TEST(c.recv(nullptr, 10, MSG_TRUNC) == 10); // which copies nothing
    BOOST_TEST(c.readv({{c.bytes, 90}, {nullptr, 300}}) == 90); // as far as there is something to copy
    c.p.play("+0 < F. 101:101(0) ack 1 win 32792\n");
    BOOST_TEST(c.recv(nullptr, 10, 0) == 0);
}

BOOST_AUTO_TEST_CASE(a_queue_under_repair_is_looked_at_by_who_has_room_for_it) {
    open_connection c("+0 setsockopt(4, SOL_TCP, TCP_CORK, [1], 4) = 0\n+0 write(4, ..., 10) = 10\n"
                      "+0 setsockopt(4, SOL_TCP, TCP_REPAIR, [1], 4) = 0\n+0 setsockopt(4, SOL_TCP, TCP_REPAIR_QUEUE, [2], 4) = 0\n");
    BOOST_TEST(c.recv(nullptr, 20, MSG_PEEK) == -EFAULT);
    BOOST_TEST(c.recv(nullptr, 0, MSG_PEEK) == 10);
    BOOST_TEST(c.readv({{c.bytes, 10}, {nullptr, 300}}) == -EPERM);
}

BOOST_AUTO_TEST_CASE(a_marked_byte_that_cannot_be_copied_is_gone) {
    open_connection c("+0 < P.U 1:2(1) ack 1 win 32792 urg 1\n+0 > . 1:1(0) ack 2\n");
    BOOST_TEST(c.recv(nullptr, 1, MSG_OOB) == -EFAULT);
    BOOST_TEST(c.recv(c.bytes, 1, MSG_OOB) == -EINVAL);
}

BOOST_AUTO_TEST_CASE(messages_whose_parts_are_nowhere) {
    open_connection c;
    packetdrill_interface& i = c.i;
    iovec one{c.bytes, 1};
    msghdr m{};
    BOOST_TEST(said(i.sendmsg(i.userdata, c.fd, nullptr, 0)) == -EFAULT);
    BOOST_TEST(said(i.sendmsg(i.userdata, c.fd, &m, 0)) == 0);
    m.msg_iovlen = 1;
    BOOST_TEST(said(i.sendmsg(i.userdata, c.fd, &m, 0)) == -EFAULT);
    BOOST_TEST(said(i.recvmsg(i.userdata, c.fd, &m, 0)) == -EFAULT);
    m.msg_iovlen = 2000;
    BOOST_TEST(said(i.sendmsg(i.userdata, c.fd, &m, 0)) == -EMSGSIZE);
    m.msg_iov = &one;
    m.msg_iovlen = 1;
    m.msg_controllen = 32;
    BOOST_TEST(said(i.sendmsg(i.userdata, c.fd, &m, 0)) == -EFAULT);
    m.msg_controllen = 0;
    m.msg_namelen = 16;
    BOOST_TEST(said(i.sendmsg(i.userdata, c.fd, &m, 0)) == 1); // nobody's name is no name
}

BOOST_AUTO_TEST_CASE(names_that_are_nowhere) {
    player p("linux settings=none");
    packetdrill_interface& i = p.table();
    const int fd = i.socket(i.userdata, AF_INET, SOCK_STREAM, 0);
    for (const auto call : {i.bind, i.connect}) {
        BOOST_TEST(said(call(i.userdata, fd, nullptr, sizeof(sockaddr_in))) == -EFAULT);
        BOOST_TEST(said(call(i.userdata, fd, nullptr, 0)) == -EINVAL);
        BOOST_TEST(said(call(i.userdata, fd, nullptr, static_cast<socklen_t>(-1))) == -EINVAL);
    }
    BOOST_TEST(said(i.poll(i.userdata, nullptr, 1, 0)) == -EFAULT);
    BOOST_TEST(i.close(i.userdata, fd) == 0);
}

BOOST_AUTO_TEST_CASE(who_asks_for_a_peers_name_and_not_for_its_size_loses_the_connection) {
    player p("linux settings=none");
    p.play("0 socket(..., SOCK_STREAM|SOCK_NONBLOCK, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n"
           "+0 < S 0:0(0) win 32792 <mss 1000>\n+0 > S. 0:0(0) ack 1 <mss 1460>\n+0 < . 1:1(0) ack 1 win 32792\n");
    packetdrill_interface& i = p.table();
    sockaddr_in6 name{};
    BOOST_TEST(said(i.accept(i.userdata, p.connection_fd(), reinterpret_cast<sockaddr*>(&name), nullptr)) == -EFAULT);
    p.play("+0 > F. 1:1(0) ack 1\n");
    BOOST_TEST(said(i.accept(i.userdata, p.connection_fd(), nullptr, nullptr)) == -EAGAIN);
}

BOOST_AUTO_TEST_CASE(what_is_to_be_read_without_a_copy_tells_of_faults_errors_and_the_end) { // tcp_zerocopy_receive()
    for (const bool resets : {false, true}) {
        open_connection c("+0 < P. 1:11(10) ack 1 win 32792\n+0 > . 1:1(0) ack 11\n");
        std::array<std::uint64_t, 9> fields{0, 0, 0, 8, 100}; // struct tcp_zerocopy_receive: copies to 8
        socklen_t size = 0;
        const auto asks = [&](socklen_t n) {
            size = n;
            return said(c.i.getsockopt(c.i.userdata, c.fd, IPPROTO_TCP, 35, fields.data(), &size));
        };
        BOOST_TEST(asks(64) == -EFAULT);
        fields = {};
        BOOST_TEST(asks(16) == 0);
        BOOST_TEST(fields[1] >> 32 == 10u); // are to be read
        fields = {0, 0, 0, 0, 0, 0, 0, 0, 1};
        BOOST_TEST(asks(72) == -EINVAL);
        fields = {};
        BOOST_TEST(asks(72) == 0);
        BOOST_TEST(size == 64u);
        BOOST_TEST(c.recv(c.bytes, 10, 0) == 10);
        c.p.play(resets ? "+0 < R. 11:11(0) ack 1 win 32792\n" : "+0 < F. 11:11(0) ack 1 win 32792\n");
        fields = {};
        BOOST_TEST(asks(20) == (resets ? 0 : -EIO));
        if (!resets) continue;
        BOOST_TEST(asks(24) == 0);
        BOOST_TEST(fields[2] >> 32 == static_cast<std::uint32_t>(-ECONNRESET)); // a shorter struct has no room for it, and lost it
    }
}

BOOST_AUTO_TEST_CASE(no_more_of_a_name_is_written_than_there_is_room_for) {
    open_connection c;
    for (const socklen_t room : {static_cast<socklen_t>(-1), socklen_t{17}, socklen_t{16}, socklen_t{8}}) {
        sockaddr_storage name{};
        socklen_t size = room;
        const int r = said(c.i.getsockopt(c.i.userdata, c.fd, SOL_SOCKET, SO_PEERNAME, &name, &size));
        BOOST_TEST(r == (room > 16 ? -EINVAL : 0));
        BOOST_TEST(size == room);
        BOOST_TEST((name.ss_family == AF_INET) == (room <= 16));
    }
    msghdr m{};
    sockaddr_storage name{};
    m.msg_name = &name;
    m.msg_namelen = static_cast<socklen_t>(-1);
    BOOST_TEST(said(c.i.recvmsg(c.i.userdata, c.fd, &m, MSG_ERRQUEUE)) == -EINVAL);
    c.p.play("+0 < R. 1:1(0) ack 1 win 32792\n");
    socklen_t size = 2;
    BOOST_TEST(said(c.i.getsockopt(c.i.userdata, c.fd, SOL_SOCKET, SO_ERROR, &name, &(size = static_cast<socklen_t>(-1)))) == -EINVAL);
    BOOST_TEST(said(c.i.getsockopt(c.i.userdata, c.fd, SOL_SOCKET, SO_PEERNAME, &name, &(size = 2))) == 0); // it had one
    BOOST_TEST(c.recv(c.bytes, 1, 0) == -ECONNRESET); // the error is still to be told
}

BOOST_AUTO_TEST_CASE(values_of_options_that_are_nowhere) {
    open_connection c;
    BOOST_TEST(c.set(SOL_SOCKET, SO_REUSEADDR, 4) == -EFAULT);
    BOOST_TEST(c.set(SOL_SOCKET, SO_REUSEADDR, 2) == -EINVAL);
    BOOST_TEST(c.set(SOL_SOCKET, SO_LINGER, 8) == -EFAULT);
    BOOST_TEST(c.set(SOL_SOCKET, SO_RCVTIMEO, 16) == -EFAULT);
    BOOST_TEST(c.set(SOL_SOCKET, SO_BINDTODEVICE, 3) == -EFAULT);
    BOOST_TEST(c.set(SOL_SOCKET, 47, 8) == -EFAULT); // SO_MAX_PACING_RATE
    BOOST_TEST(c.set(IPPROTO_TCP, TCP_NODELAY, 4) == -EFAULT);
    BOOST_TEST(c.set(IPPROTO_TCP, TCP_NODELAY, 3) == -EINVAL);
    BOOST_TEST(c.set(IPPROTO_TCP, TCP_CONGESTION, 4) == -EFAULT);
    BOOST_TEST(c.set(IPPROTO_TCP, TCP_CONGESTION, 0) == -EINVAL);
    BOOST_TEST(c.set(IPPROTO_TCP, TCP_FASTOPEN_KEY, 16) == -EFAULT);
    BOOST_TEST(c.set(IPPROTO_TCP, TCP_FASTOPEN_KEY, 5) == -EINVAL);
    BOOST_TEST(c.set(IPPROTO_IP, IP_TOS, 1) == -EFAULT);
    BOOST_TEST(c.set(IPPROTO_IPV6, IPV6_V6ONLY, 4) == -ENOPROTOOPT); // it is of IPv4
    BOOST_TEST(c.set(77, 1, 4) == -ENOPROTOOPT);
    socklen_t size = 16;
    BOOST_TEST(said(c.i.getsockopt(c.i.userdata, c.fd, SOL_SOCKET, SO_PEERNAME, nullptr, &size)) == -EFAULT);
    BOOST_TEST(said(c.i.getsockopt(c.i.userdata, c.fd, SOL_SOCKET, SO_TYPE, &size, nullptr)) == -EFAULT);
    const int six = c.i.socket(c.i.userdata, AF_INET6, SOCK_STREAM, 0);
    const auto set6 = [&](int name, socklen_t n) { return said(c.i.setsockopt(c.i.userdata, six, IPPROTO_IPV6, name, nullptr, n)); };
    BOOST_TEST(set6(IPV6_V6ONLY, 4) == 0); // the number 0
    BOOST_TEST(set6(IPV6_V6ONLY, 2) == -EINVAL);
    BOOST_TEST(c.i.close(c.i.userdata, six) == 0);
}

// ---- Fast Open (tcp_send_syn_data()) ----

BOOST_AUTO_TEST_CASE(a_syn_that_nothing_can_be_copied_into_asks_for_a_cookie_again) {
    player p("linux settings=none");
    p.play("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n"
           "+0 sendto(3, ..., 1000, MSG_FASTOPEN, ..., ...) = -1 EINPROGRESS\n"
           "+0 > S 0:0(0) <mss 1460,sackOK,TS val 100 ecr 0,nop,wscale 7,FO,nop,nop>\n"
           "+.01 < S. 0:0(0) ack 1 win 5840 <mss 1040,nop,nop,sackOK,nop,wscale 6,FO abcd1234,nop,nop>\n"
           "+0 > . 1:1(0) ack 1\n+0 close(3) = 0\n+0 > F. 1:1(0) ack 1\n+.01 < F. 1:1(0) ack 2 win 92\n+0 > . 2:2(0) ack 2\n"
           "+.1 socket(..., SOCK_STREAM, IPPROTO_TCP) = 4\n+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n"
           "+0 setsockopt(4, SOL_TCP, TCP_FASTOPEN_CONNECT, [1], 4) = 0\n+0 connect(4, ..., ...) = 0\n");
    packetdrill_interface& i = p.table();
    BOOST_TEST(said(i.write(i.userdata, p.connection_fd(), nullptr, 1000)) == -EINPROGRESS);
    p.play("+0 > S 0:0(0) <mss 1460,sackOK,TS val 200 ecr 0,nop,wscale 7,FO,nop,nop>\n"
           "+.01 < S. 0:0(0) ack 1 win 5840 <mss 1040,nop,nop,sackOK,nop,wscale 6,FO abcd1234,nop,nop>\n+0 > . 1:1(0) ack 1\n"
           "+0 write(4, ..., 500) = 500\n+0 > P. 1:501(500) ack 1\n");
}

BOOST_AUTO_TEST_CASE(a_syn_takes_along_what_can_be_copied) {
    player p("linux settings=none");
    p.play("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n"
           "+0 setsockopt(3, SOL_TCP, TCP_FASTOPEN_NO_COOKIE, [1], 4) = 0\n"
           "+0 setsockopt(3, SOL_TCP, TCP_FASTOPEN_CONNECT, [1], 4) = 0\n+0 connect(3, ..., ...) = 0\n");
    packetdrill_interface& i = p.table();
    char bytes[100] = {};
    const iovec v[] = {{bytes, sizeof bytes}, {nullptr, 100}};
    BOOST_TEST(said(i.writev(i.userdata, p.connection_fd(), v, 2)) == 100);
    p.play("+0 > S 0:100(100) <mss 1460,sackOK,TS val 100 ecr 0,nop,wscale 7>\n");
}

BOOST_AUTO_TEST_SUITE_END()
