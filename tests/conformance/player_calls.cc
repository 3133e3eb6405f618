// The calls that a script may make, from their text to the library's table.
#include "constants.hh"
#include "player.hh"

#include <arpa/inet.h>
#include <cstring>
#include <ctime>
#include <linux/errqueue.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <vector>

namespace corewire::conformance {

namespace {

/// What stands between the outer brackets.
std::string inside(const std::string& s) {
    if (s.size() < 2 || (s.front() != '[' && s.front() != '{')) return s;
    return s.substr(1, s.size() - 2);
}

/// {name=value, ...} or {name: value, ...}: the value of `name`, or `otherwise`.
std::string field(const std::string& text, const std::string& name, const std::string& otherwise = "0") {
    const std::size_t at = text.find(name);
    if (at == text.npos) return otherwise;
    const std::size_t from = text.find_first_of("=:", at) + 1;
    std::string value = text.substr(from, text.find_first_of(",}", from) - from);
    const auto first = value.find_first_not_of(' ');
    return first == value.npos ? otherwise : value.substr(first);
}

/// A sockaddr of either family.
struct any_name {
    sockaddr_storage bytes{};
    socklen_t size = 0;
    const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&bytes); }
};

/// `domain`: the socket's; AF_INET6 has IPv4's addresses in the mapped form.
any_name name_of(int domain, const net_address& address, std::uint16_t port) {
    any_name n;
    if (domain == AF_INET) {
        sockaddr_in in{};
        in.sin_family = AF_INET;
        in.sin_addr.s_addr = htonl(address.v4().value());
        in.sin_port = htons(port);
        n.size = sizeof in;
        std::memcpy(&n.bytes, &in, sizeof in);
    } else {
        sockaddr_in6 in{};
        in.sin6_family = AF_INET6;
        std::memcpy(&in.sin6_addr, address.v6().octets().data(), sizeof in.sin6_addr);
        in.sin6_port = htons(port);
        n.size = sizeof in;
        std::memcpy(&n.bytes, &in, sizeof in);
    }
    return n;
}

} // namespace

int player::live_fd(const std::string& script_fd) const {
    const auto found = fds_.find(static_cast<int>(constant(script_fd)));
    return found == fds_.end() ? -1 : found->second;
}

std::int64_t player::make_call(const call_step& c) {
    void* const u = i_.userdata;
    const auto number = [&](std::size_t n) { return constant(c.arguments.at(n)); };
    const auto as_int = [&](std::size_t n) { return static_cast<int>(number(n)); };
    const auto fd = [&] { return live_fd(c.arguments.at(0)); };
    const std::string& name = c.name;
    if (name == "socket") return i_.socket(u, domain(), as_int(1), as_int(2));
    if (name == "bind") {
        const any_name at = name_of(domain(), connection_.local, connection_.local_port);
        return i_.bind(u, fd(), at.get(), at.size);
    }
    if (name == "listen") return i_.listen(u, fd(), as_int(1));
    if (name == "accept") {
        any_name peer{.size = sizeof peer.bytes};
        const int r = i_.accept(u, fd(), reinterpret_cast<sockaddr*>(&peer.bytes), &peer.size);
        const any_name wanted = name_of(domain(), connection_.remote, connection_.remote_port);
        const bool same = peer.size == wanted.size && std::memcmp(&peer.bytes, &wanted.bytes, wanted.size) == 0;
        if (r >= 0 && !same) fail("accept() names another peer");
        return r;
    }
    if (name == "connect") {
        if (c.arguments.at(1) == "AF_UNSPEC") {
            const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
            return i_.connect(u, fd(), &nobody, sizeof nobody);
        }
        connection_.stamps_known = false;
        const any_name to = name_of(domain(), connection_.remote, 8080);
        return i_.connect(u, fd(), to.get(), to.size);
    }
    if (name == "close") {
        const int live = fd();
        fds_.erase(as_int(0));
        return i_.close(u, live);
    }
    if (name == "shutdown") return i_.shutdown(u, fd(), as_int(1));
    if (name == "setsockopt" || name == "getsockopt") return option_call(c, name == "setsockopt");
    if (name == "fcntl") return c.arguments.size() > 2 ? i_.fcntl(u, fd(), as_int(1), number(2)) : i_.fcntl(u, fd(), as_int(1));
    if (name == "ioctl") {
        int value = 0;
        const int r = i_.ioctl(u, fd(), static_cast<unsigned long>(number(1)), &value);
        if (r == 0 && value != constant(inside(c.arguments.at(2)))) fail("the value is " + std::to_string(value));
        return r;
    }
    if (name == "poll") return poll_call(c);
    if (name == "recvmsg") return c.arguments.at(1).find("inq") == std::string::npos ? error_queue_call(c) : inquiring_call(c);
    if (name.starts_with("epoll")) return epoll_call(c);
    if (name == "sendmsg") return stamping_call(c);
    const auto size = static_cast<std::size_t>(number(2));
    if (name == "splice") return i_.splice(u, fd(), nullptr, live_fd(c.arguments.at(2)), nullptr, static_cast<std::size_t>(number(4)), 0);
    std::vector<std::byte> bytes(size);
    const int flags = c.arguments.size() > 3 && name != "read" && name != "write" ? as_int(3) : 0;
    if (name == "read") return i_.read(u, fd(), bytes.data(), size);
    if (name == "write") return i_.write(u, fd(), bytes.data(), size);
    if (name == "recv") return i_.recv(u, fd(), bytes.data(), size, flags);
    if (name == "sendto") {
        const any_name to = name_of(domain(), connection_.remote, 8080);
        connection_.stamps_known = false;
        return i_.sendto(u, fd(), bytes.data(), size, flags, to.get(), to.size);
    }
    if (name == "send") return i_.send(u, fd(), bytes.data(), size, flags);
    fail("unknown call " + name);
}

std::int64_t player::option_call(const call_step& c, bool set) {
    const int fd = live_fd(c.arguments.at(0));
    const int level = static_cast<int>(constant(c.arguments.at(1)));
    const int name = static_cast<int>(constant(c.arguments.at(2)));
    const std::string& text = c.arguments.at(3);
    if (name == SO_LINGER && level == SOL_SOCKET) {
        struct linger l{};
        l.l_onoff = static_cast<int>(constant(field(text, "onoff")));
        l.l_linger = static_cast<int>(constant(field(text, "linger")));
        return i_.setsockopt(i_.userdata, fd, level, name, &l, sizeof l);
    }
    if (name == SO_RCVTIMEO && level == SOL_SOCKET) {
        const timeval t{.tv_sec = constant(field(text, "sec")), .tv_usec = constant(field(text, "usec"))};
        return i_.setsockopt(i_.userdata, fd, level, name, &t, sizeof t);
    }
    if (name == TCP_SAVED_SYN && level == IPPROTO_TCP) return saved_syn_call(c, fd);
    if (!text.empty() && text.front() == '"') {
        const std::string value = text.substr(1, text.size() - 2);
        return i_.setsockopt(i_.userdata, fd, level, name, value.data(), static_cast<socklen_t>(value.size()));
    }
    int value = static_cast<int>(constant(inside(text)));
    if (set) return i_.setsockopt(i_.userdata, fd, level, name, &value, static_cast<socklen_t>(constant(c.arguments.at(4))));
    const int wanted = value;
    socklen_t size = sizeof value;
    const int r = i_.getsockopt(i_.userdata, fd, level, name, &value, &size);
    if (r == 0 && value != wanted) fail("the value is " + std::to_string(value));
    if (r == 0 && c.arguments.size() > 4 && size != constant(inside(c.arguments[4]))) fail("its size is " + std::to_string(size));
    return r;
}

/// getsockopt(fd, SOL_TCP, TCP_SAVED_SYN, {room: N}, [M]): M bytes of headers, of a SYN.
std::int64_t player::saved_syn_call(const call_step& c, int fd) {
    std::vector<std::byte> headers(static_cast<std::size_t>(constant(field(c.arguments.at(3), "room"))));
    auto size = static_cast<socklen_t>(headers.size());
    const int r = i_.getsockopt(i_.userdata, fd, IPPROTO_TCP, TCP_SAVED_SYN, headers.data(), &size);
    if (size != constant(inside(c.arguments.at(4)))) fail("there are " + std::to_string(size));
    if (r != 0 || size == 0) return r;
    const bool four = connection_.remote.is_v4();
    const std::size_t tcp = four ? 20 : 40;
    const auto at = [&](std::size_t n) { return std::to_integer<unsigned>(headers.at(n)); };
    const bool right = at(0) >> 4 == (four ? 4u : 6u) && at(tcp + 13) == 2 && tcp + (at(tcp + 12) >> 4) * 4 == size;
    if (!right) fail("these are no headers of a SYN");
    return r;
}

/// sendmsg(fd, {size: N, stamps: M}, FLAGS): a write with a control message of SO_TIMESTAMPING.
std::int64_t player::stamping_call(const call_step& c) {
    const std::string& what = c.arguments.at(1);
    std::vector<std::byte> bytes(static_cast<std::size_t>(constant(field(what, "size"))));
    iovec from{bytes.data(), bytes.size()};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(std::uint32_t))] = {};
    msghdr m{};
    m.msg_iov = &from;
    m.msg_iovlen = 1;
    m.msg_control = room;
    m.msg_controllen = sizeof room;
    cmsghdr* const head = CMSG_FIRSTHDR(&m);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SO_TIMESTAMPING;
    head->cmsg_len = CMSG_LEN(sizeof(std::uint32_t));
    const auto stamps = static_cast<std::uint32_t>(constant(field(what, "stamps")));
    std::memcpy(CMSG_DATA(head), &stamps, sizeof stamps);
    return i_.sendmsg(i_.userdata, live_fd(c.arguments.at(0)), &m, static_cast<int>(constant(c.arguments.at(2))));
}

/// recvmsg(fd, {size: N, inq: M}, FLAGS): a read, and what TCP_INQ says is left.
std::int64_t player::inquiring_call(const call_step& c) {
    const std::string& wanted = c.arguments.at(1);
    std::vector<std::byte> bytes(static_cast<std::size_t>(constant(field(wanted, "size"))));
    iovec into{bytes.data(), bytes.size()};
    alignas(cmsghdr) char room[64] = {};
    msghdr m{};
    m.msg_iov = &into;
    m.msg_iovlen = 1;
    m.msg_control = room;
    m.msg_controllen = sizeof room;
    const auto r = i_.recvmsg(i_.userdata, live_fd(c.arguments.at(0)), &m, static_cast<int>(constant(c.arguments.at(2))));
    if (r < 0) return r;
    const cmsghdr* head = CMSG_FIRSTHDR(&m);
    if (head == nullptr || head->cmsg_level != IPPROTO_TCP || head->cmsg_type != TCP_INQ) fail("TCP_INQ says nothing");
    int left = 0;
    std::memcpy(&left, CMSG_DATA(head), sizeof left);
    if (left != constant(field(wanted, "inq"))) fail("TCP_INQ says " + std::to_string(left));
    return r;
}

/// recvmsg(fd, {lo: N, hi: N}, MSG_ERRQUEUE): the ids of the sends with MSG_ZEROCOPY that are over. {stamp: KIND, id: N, when: T}: of
/// SO_TIMESTAMPING, microseconds since the script began. {errno: E, type: N, code: N}: of an ICMP message. {size: N, ...}: with
/// room for so much of the packet.
std::int64_t player::error_queue_call(const call_step& c) {
    alignas(cmsghdr) char room[256] = {};
    std::vector<std::byte> bytes(static_cast<std::size_t>(constant(field(c.arguments.at(1), "size"))));
    iovec into{bytes.data(), bytes.size()};
    msghdr m{};
    m.msg_iov = &into;
    m.msg_iovlen = bytes.empty() ? 0 : 1;
    m.msg_control = room;
    m.msg_controllen = sizeof room;
    const auto r = i_.recvmsg(i_.userdata, live_fd(c.arguments.at(0)), &m, static_cast<int>(constant(c.arguments.at(2))));
    if (r < 0) return r;
    const cmsghdr* head = CMSG_FIRSTHDR(&m);
    const std::string& wanted = c.arguments.at(1);
    const bool stamped = wanted.find("stamp") != wanted.npos;
    if (stamped) {
        if (head == nullptr || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_TIMESTAMPING) fail("no stamp");
        scm_timestamping when;
        std::memcpy(&when, CMSG_DATA(head), sizeof when);
        const std::int64_t at = when.ts[0].tv_sec * std::int64_t{1'000'000} + when.ts[0].tv_nsec / 1000 - start_;
        if (at != constant(field(wanted, "when"))) fail("the stamp says " + std::to_string(at));
        head = CMSG_NXTHDR(&m, const_cast<cmsghdr*>(head));
    }
    const bool six = domain() == AF_INET6;
    if (head == nullptr || head->cmsg_level != (six ? SOL_IPV6 : SOL_IP) || head->cmsg_type != (six ? IPV6_RECVERR : IP_RECVERR)) {
        fail("no extended error");
    }
    if ((m.msg_flags & MSG_ERRQUEUE) == 0) fail("no MSG_ERRQUEUE in msg_flags");
    sock_extended_err e;
    std::memcpy(&e, CMSG_DATA(head), sizeof e);
    if (stamped) {
        const bool right = e.ee_errno == ENOMSG && e.ee_origin == SO_EE_ORIGIN_TIMESTAMPING &&
                           e.ee_info == constant(field(wanted, "stamp")) && e.ee_data == constant(field(wanted, "id"));
        if (!right) fail("the stamp is " + std::to_string(e.ee_info) + " of " + std::to_string(e.ee_data));
        return r;
    }
    if (wanted.find("errno") != wanted.npos) {
        const bool right = e.ee_errno == constant(field(wanted, "errno")) && e.ee_origin == (connection_.local.is_v4() ? 2 : 3) &&
                           e.ee_type == constant(field(wanted, "type")) && e.ee_code == constant(field(wanted, "code"));
        if (!right) fail("the error is " + std::to_string(e.ee_errno) + ", of type " + std::to_string(e.ee_type));
        return r;
    }
    const bool same = e.ee_errno == 0 && e.ee_origin == SO_EE_ORIGIN_ZEROCOPY && e.ee_info == constant(field(wanted, "lo")) &&
                      e.ee_data == constant(field(wanted, "hi"));
    if (!same) fail("the sends are " + std::to_string(e.ee_info) + " to " + std::to_string(e.ee_data));
    return r;
}

std::int64_t player::poll_call(const call_step& c) {
    const std::string wanted = inside(c.arguments.at(0));
    pollfd p{.fd = live_fd(field(wanted, "fd")), .events = static_cast<short>(constant(field(wanted, "events"))), .revents = 0};
    const int r = i_.poll(i_.userdata, &p, 1, static_cast<int>(constant(c.arguments.at(2))));
    if (wanted.find("revents") != wanted.npos && p.revents != constant(field(wanted, "revents"))) {
        fail("revents is " + std::to_string(p.revents));
    }
    return r;
}

std::int64_t player::epoll_call(const call_step& c) {
    if (c.name == "epoll_create") return i_.epoll_create(i_.userdata, static_cast<int>(constant(c.arguments.at(0))));
    const int set = live_fd(c.arguments.at(0));
    if (c.name == "epoll_ctl") {
        epoll_event e{};
        e.events = static_cast<std::uint32_t>(constant(field(c.arguments.at(3), "events")));
        return i_.epoll_ctl(i_.userdata, set, static_cast<int>(constant(c.arguments.at(1))), live_fd(c.arguments.at(2)), &e);
    }
    epoll_event e{};
    const int r = i_.epoll_wait(i_.userdata, set, &e, 1, static_cast<int>(constant(c.arguments.at(3))));
    const auto wanted = constant(field(c.arguments.at(1), "events"));
    if (r == 1 && e.events != static_cast<std::uint32_t>(wanted)) fail("the events are " + std::to_string(e.events));
    return r;
}

} // namespace corewire::conformance
