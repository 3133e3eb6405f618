#include <corewire/apps/runtime/kernel_copies.hh>

#include <corewire/net/stack/network_stack.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <cerrno>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <string>
#include <sys/socket.h>
#include <system_error>
#include <vector>

namespace corewire {

namespace {

constexpr int receive_buffer = 64 * 1024;

[[noreturn]] void fail(const char* doing, const char* what) {
    throw std::system_error(errno, std::generic_category(), std::string(doing) + ' ' + what);
}

} // namespace

std::uint32_t kernel_copies::beside(int what) noexcept { return static_cast<std::uint32_t>(SKF_AD_OFF + what); }

unique_fd kernel_copies::open_socket(std::span<const sock_filter> filter, const char* what) {
    unique_fd fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) fail("cannot open a packet socket for", what);
    std::vector<sock_filter> whole(filter.begin(), filter.end());
    for (std::size_t i = 0; i < whole.size(); ++i)
        for (std::uint8_t* each : {&whole[i].jt, &whole[i].jf})
            if (*each == to_end) *each = static_cast<std::uint8_t>(whole.size() - i - 1);
    whole.push_back({BPF_RET | BPF_K, 0, 0, 0});
    const sock_fprog program{static_cast<unsigned short>(whole.size()), whole.data()};
    if (::setsockopt(fd.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0) fail("cannot filter", what);
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const int yes = 1;
    ::setsockopt(fd.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes);
    return fd;
}

/// What the VLAN's own interface is given passes here first (ETH_P_ALL).
void kernel_copies::begin(int fd, unsigned interface, const char* what) {
    sockaddr_ll at{};
    at.sll_family = AF_PACKET;
    at.sll_protocol = host_to_be(std::uint16_t{ETH_P_ALL});
    at.sll_ifindex = static_cast<int>(interface);
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) fail("cannot hear", what);
}

kernel_copies::kernel_copies(reactor& loop, unique_fd socket, network_stack& to)
    : loop_(loop), stack_(to), socket_(std::move(socket)) {
    news_.begin(loop, socket_.get());
}

void kernel_copies::on_news() noexcept {
    for (unsigned i = 0; i < most_at_once && take_one(); ++i) {}
}

/// False: none is left. That the interface is down is said once, and it is heard again when it is up.
bool kernel_copies::take_one() noexcept {
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
