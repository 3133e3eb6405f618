#include <corewire/net/port/xdp/owned_ports.hh>

#include <cerrno>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <system_error>

namespace corewire {

namespace {

constexpr std::uint32_t key_of(wire::ip_protocol protocol, std::uint16_t port) noexcept {
    return static_cast<std::uint32_t>(protocol) << 16 | port;
}

/// What still comes to the socket (datagrams in fragments, which the kernel put together) is dropped there.
void take_nothing(int fd) noexcept {
    sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
    const sock_fprog program{1, &drop};
    ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

} // namespace

unique_fd owned_ports::reserve(wire::ip_protocol protocol, std::uint16_t port) const {
    const bool tcp = protocol == wire::ip_protocol::tcp;
    const std::string what = std::string(tcp ? "TCP" : "UDP") + " port " + std::to_string(port) + " of " + to_string(address_);
    unique_fd fd(::socket(AF_INET, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0));
    if (!fd) throw std::system_error(errno, std::generic_category(), "cannot reserve " + what + " in the kernel");
    take_nothing(fd.get());
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = host_to_be(address_.value());
    at.sin_port = host_to_be(port);
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) return fd;
    const int error = errno;
    throw std::system_error(error, std::generic_category(),
                            error == EADDRINUSE ? what + " belongs to a program on the kernel's sockets"
                                                : "cannot reserve " + what + " in the kernel");
}

void owned_ports::claim(wire::ip_protocol protocol, std::uint16_t port) {
    const std::lock_guard lock(mutex_);
    const auto found = ports_.find(key_of(protocol, port));
    if (found != ports_.end()) {
        ++found->second.claims;
        return;
    }
    unique_fd placeholder = reserve(protocol, port);
    if (!device_->own(flow_of(protocol, port)))
        throw std::system_error(ENOBUFS, std::generic_category(), "too many ports and flows are steered away from the kernel");
    ports_.emplace(key_of(protocol, port), held{1, std::move(placeholder)});
}

void owned_ports::release(wire::ip_protocol protocol, std::uint16_t port) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = ports_.find(key_of(protocol, port));
    if (found == ports_.end() || --found->second.claims != 0) return;
    device_->disown(flow_of(protocol, port));
    ports_.erase(found);
}

} // namespace corewire
