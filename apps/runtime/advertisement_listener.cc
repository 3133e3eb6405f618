#include <corewire/apps/runtime/advertisement_listener.hh>

#include <corewire/net/stack/network_stack.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/metrics/registry.hh>

#include <array>
#include <cerrno>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <sys/socket.h>
#include <system_error>

namespace corewire {

namespace {

constexpr int receive_buffer = 64 * 1024;

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

/// The tag is not in the frame any more: the kernel keeps it beside.
constexpr std::uint32_t beside(int what) { return static_cast<std::uint32_t>(SKF_AD_OFF + what); }

/// Lets advertisements of routers through that are of `vlan` (0: of none, or with a priority only), and nothing else.
void let_through_advertisements(int fd, std::uint16_t vlan) {
    constexpr std::uint8_t to_end = 99;
    std::array<sock_filter, 12> code{{
        {BPF_LD | BPF_H | BPF_ABS, 0, 0, 12},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, to_end, ETH_P_IPV6},
        {BPF_LD | BPF_B | BPF_ABS, 0, 0, 14 + 6},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, to_end, 58},
        {BPF_LD | BPF_B | BPF_ABS, 0, 0, 14 + 7},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, to_end, 255}, // RFC 4861 6.1.2: no router has passed it on
        {BPF_LD | BPF_B | BPF_ABS, 0, 0, 14 + 40},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, to_end, 134},
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, beside(SKF_AD_VLAN_TAG)}, // 0 where there is none
        {BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xfff},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, vlan},
        {BPF_RET | BPF_K, 0, 0, 0xffff},
    }};
    std::array<sock_filter, 13> whole;
    for (std::size_t i = 0; i < code.size(); ++i) {
        whole[i] = code[i];
        if (whole[i].jf == to_end) whole[i].jf = static_cast<std::uint8_t>(code.size() - i - 1);
    }
    whole.back() = {BPF_RET | BPF_K, 0, 0, 0};
    const sock_fprog program{static_cast<unsigned short>(whole.size()), whole.data()};
    if (::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0) fail("cannot filter router advertisements");
}

/// Hears nothing until the filter stands. What the VLAN's own interface is given passes here first (ETH_P_ALL).
unique_fd open_socket(unsigned interface, std::uint16_t vlan) {
    unique_fd fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) fail("cannot open a packet socket for router advertisements");
    let_through_advertisements(fd.get(), vlan);
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const int yes = 1;
    ::setsockopt(fd.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes);
    packet_mreq all_nodes{}; // the kernel may have no IPv6, and the card would not let them in
    all_nodes.mr_ifindex = static_cast<int>(interface);
    all_nodes.mr_type = PACKET_MR_MULTICAST;
    all_nodes.mr_alen = mac_address::size;
    wire::multicast_mac(ipv6::all_nodes()).store(reinterpret_cast<std::byte*>(all_nodes.mr_address));
    if (::setsockopt(fd.get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all_nodes, sizeof all_nodes) != 0)
        fail("cannot hear router advertisements");
    sockaddr_ll at{};
    at.sll_family = AF_PACKET;
    at.sll_protocol = host_to_be(std::uint16_t{ETH_P_ALL});
    at.sll_ifindex = static_cast<int>(interface);
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) fail("cannot hear router advertisements");
    return fd;
}

} // namespace

advertisement_listener::advertisement_listener(reactor& loop, unsigned interface, std::uint16_t vlan, network_stack& to)
    : loop_(loop), ring_(loop.io()), stack_(to), socket_(open_socket(interface, vlan)) {
    wait_for_news();
}

advertisement_listener::~advertisement_listener() {
    ending_ = true;
    ring_.cancel(news_);
    ring_.wait(news_);
}

void advertisement_listener::wait_for_news() noexcept {
    ring_.start(news_, [&](io_uring_sqe& entry) { io_uring_prep_poll_add(&entry, socket_.get(), POLLIN); });
}

void advertisement_listener::on_news(int result, unsigned) noexcept {
    if (ending_ || result == -ECANCELED) return; // it may have completed before it was cancelled
    for (unsigned i = 0; i < most_at_once && take_one(); ++i) {}
    wait_for_news();
}

void advertisement_listener::register_metrics(metric_group& group) const {
    group.counter("corewire_router_advertisements_heard_total", "Router advertisements that the kernel handed over copies of (xdp).",
                  statistics_.heard);
    group.counter("corewire_router_advertisements_dropped_total", "Such copies that found no frame, or none long enough.",
                  statistics_.dropped);
}

/// False: none is left. That the interface is down is said once, and it is heard again when it is up.
bool advertisement_listener::take_one() noexcept {
    packet p;
    p.head = stack_.device().pool().allocate_buffer();
    const std::uint32_t room = p.head.underlying_frame() == nullptr ? 0 : p.head.tailroom();
    std::byte nothing{};
    const ssize_t n = ::recv(socket_.get(), room == 0 ? &nothing : p.head.append(room), std::max(room, 1u), MSG_TRUNC);
    if (n < 0) return errno == EINTR;
    if (n > static_cast<ssize_t>(room)) {
        ++statistics_.dropped;
        return true;
    }
    p.head.truncate(static_cast<std::uint32_t>(n));
    ++statistics_.heard;
    stack_.take_over(loop_.now(), p); // as if another shard had received it: those hear it by themselves
    return true;
}

} // namespace corewire
