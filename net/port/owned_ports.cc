#include <corewire/net/port/owned_ports.hh>

#include <algorithm>
#include <cerrno>
#include <linux/filter.h>
#include <netinet/in.h>
#include <new>
#include <sys/resource.h>
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

/// As many as the hard limit lets us: there is a socket for each port. False: there are no more.
bool more_descriptors() noexcept {
    rlimit most{};
    if (::getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur == most.rlim_max) return false;
    most.rlim_cur = most.rlim_max;
    return ::setrlimit(RLIMIT_NOFILE, &most) == 0;
}

/// The last few descriptors that the process may have are not for ports: it would fail in whatever else it does.
bool is_one_of_the_last(int fd) noexcept {
    rlimit most{};
    if (::getrlimit(RLIMIT_NOFILE, &most) != 0) return false;
    return static_cast<rlim_t>(fd) >= most.rlim_max - std::min<rlim_t>(most.rlim_max / 8, 256);
}

std::string name_of(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) {
    return std::string(protocol == wire::ip_protocol::tcp ? "TCP" : "UDP") + " port " + std::to_string(port) + " of " + to_string(address);
}

} // namespace

/// 0 and a socket that is bound, or an errno.
int owned_ports::bind(wire::ip_protocol protocol, const net_address& address, std::uint16_t port, unique_fd& placeholder) const noexcept {
    const bool tcp = protocol == wire::ip_protocol::tcp;
    const auto make = [&] { return ::socket(address.is_v4() ? AF_INET : AF_INET6, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0); };
    unique_fd fd(make());
    int error = fd ? 0 : errno; // that of a limit that could not be raised says nothing
    if (error == EMFILE && more_descriptors()) {
        fd = unique_fd(make());
        error = fd ? 0 : errno;
    }
    if (!fd) return error;
    if (is_one_of_the_last(fd.get())) return EMFILE;
    if (!tcp) take_nothing(fd.get());
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
    if (::bind(fd.get(), at, is_four ? sizeof four : sizeof six) != 0) return errno;
    placeholder = std::move(fd);
    return 0;
}

/// As it is when nobody is changing whom it leads to.
auto owned_ports::find_settled(std::unique_lock<std::mutex>& lock, std::uint32_t key) -> held_ports::iterator {
    for (;;) {
        const auto found = ports_.find(key);
        if (found == ports_.end() || !found->second.being_steered) return found;
        steered_.wait(lock);
    }
}

/// Without the mutex: connections from other ports go on. What nobody has afterwards is gone.
int owned_ports::steer(std::unique_lock<std::mutex>& lock, held_ports::iterator at, const steered_flow& flow, bool to_us) {
    auto& [key, port] = *at; // stays where it is whatever else comes and goes
    port.being_steered = true;
    lock.unlock();
    int error = 0;
    if (to_us) error = steering_->own_flow(flow);
    else steering_->disown_flow(flow);
    lock.lock();
    port.being_steered = false;
    steered_.notify_all();
    if (to_us && error == 0) port.claims = 1;
    else if (port.holds == 0) ports_.erase(ports_.find(key));
    return error;
}

void owned_ports::claim(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) {
    std::unique_lock lock(mutex_);
    const std::uint32_t key = key_of(protocol, address, port);
    auto found = find_settled(lock, key);
    if (found != ports_.end() && found->second.claims != 0) {
        ++found->second.claims;
        return;
    }
    unique_fd placeholder;
    if (found == ports_.end()) { // or connections of ours hold it
        const std::string what = name_of(protocol, address, port);
        const bool tcp = protocol == wire::ip_protocol::tcp;
        const char* const time_wait = tcp ? ", or to connections of one that has ended (TIME-WAIT, a minute at most: `ss -ta`)" : "";
        if (const int error = bind(protocol, address, port, placeholder); error != 0)
            throw std::system_error(error, std::generic_category(),
                                    error != EADDRINUSE ? "cannot reserve " + what + " in the kernel"
                                                        : what + " belongs to a program on the kernel's sockets" + time_wait);
        found = ports_.emplace(key, held{.placeholder = std::move(placeholder)}).first;
    }
    if (const int error = steer(lock, found, flow_of(protocol, address, port), true); error != 0)
        throw std::system_error(error, std::generic_category(), name_of(protocol, address, port) + ": " + why_not_steered(error));
}

void owned_ports::release(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) noexcept {
    std::unique_lock lock(mutex_);
    const auto found = ports_.find(key_of(protocol, address, port));
    if (found == ports_.end() || found->second.claims == 0 || --found->second.claims != 0) return;
    static_cast<void>(steer(lock, found, flow_of(protocol, address, port), false));
}

int owned_ports::hold(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) noexcept {
    const std::lock_guard lock(mutex_);
    try {
        const auto [found, first] = ports_.try_emplace(key_of(protocol, address, port));
        const int error = first ? bind(protocol, address, port, found->second.placeholder) : 0;
        if (error == 0) ++found->second.holds;
        else ports_.erase(found);
        return error;
    } catch (const std::bad_alloc&) {
        return ENOBUFS;
    }
}

void owned_ports::let_go(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = ports_.find(key_of(protocol, address, port));
    if (found == ports_.end() || found->second.holds == 0 || --found->second.holds != 0) return;
    if (found->second.claims == 0 && !found->second.being_steered) ports_.erase(found);
}

} // namespace corewire
