#include <corewire/net/port/owned_ports.hh>

#include <cerrno>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <system_error>

namespace corewire {

namespace {

/// What still comes to the socket (datagrams in fragments, which the kernel put together) is dropped there.
void take_nothing(int fd) noexcept {
    sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
    const sock_fprog program{1, &drop};
    ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

std::string name_of(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) {
    return std::string(protocol == wire::ip_protocol::tcp ? "TCP" : "UDP") + " port " + std::to_string(port) + " of " + to_string(address);
}

} // namespace

unique_fd owned_ports::reserve(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) const {
    const bool tcp = protocol == wire::ip_protocol::tcp;
    const std::string what = name_of(protocol, address, port);
    unique_fd fd(::socket(address.is_v4() ? AF_INET : AF_INET6, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0));
    if (!fd) throw std::system_error(errno, std::generic_category(), "cannot reserve " + what + " in the kernel");
    take_nothing(fd.get());
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = host_to_be(port);
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = host_to_be(port);
    six.sin6_scope_id = interface_.index; // of a link-local address
    const bool is_four = address.is_v4();
    if (is_four) address.v4().store(reinterpret_cast<std::byte*>(&four.sin_addr));
    else address.v6().store(reinterpret_cast<std::byte*>(&six.sin6_addr));
    const auto* at = is_four ? reinterpret_cast<const sockaddr*>(&four) : reinterpret_cast<const sockaddr*>(&six);
    if (::bind(fd.get(), at, is_four ? sizeof four : sizeof six) == 0) return fd;
    const int error = errno;
    throw std::system_error(error, std::generic_category(),
                            error == EADDRINUSE ? what + " belongs to a program on the kernel's sockets"
                                                : "cannot reserve " + what + " in the kernel");
}

void owned_ports::claim(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) {
    const std::lock_guard lock(mutex_);
    const auto found = ports_.find(key_of(protocol, address, port));
    if (found != ports_.end()) {
        ++found->second.claims;
        return;
    }
    unique_fd placeholder = reserve(protocol, address, port);
    if (const int error = steering_->own_flow(flow_of(protocol, address, port)); error != 0)
        throw std::system_error(error, std::generic_category(), name_of(protocol, address, port) + ": " + why_not_steered(error));
    ports_.emplace(key_of(protocol, address, port), held{1, std::move(placeholder)});
}

void owned_ports::release(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = ports_.find(key_of(protocol, address, port));
    if (found == ports_.end() || --found->second.claims != 0) return;
    steering_->disown_flow(flow_of(protocol, address, port));
    ports_.erase(found);
}

} // namespace corewire
