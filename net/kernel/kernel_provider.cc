#include <corewire/net/kernel/kernel_provider.hh>

#include <corewire/net/kernel/kernel_connection.hh>
#include <corewire/net/kernel/kernel_datagrams.hh>
#include <corewire/net/kernel/kernel_listener.hh>
#include <corewire/net/kernel/system_address.hh>
#include <corewire/reactor/log/shard_log.hh>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <netinet/tcp.h>

namespace corewire {

namespace {

/// io_uring_recvmsg_out, the sender's address, and the largest datagram.
constexpr std::uint32_t datagram_frame_size = 65536 + 128; // with what io_uring, addresses and control messages take

constexpr log_event<> too_old{"net", "kernel_sockets_by_epoll", log_level::info,
                              "the kernel's sockets go through epoll: this kernel's io_uring lends no buffers (Linux 6.0 and newer do)"};
std::atomic_flag said_too_old; ///< the one message a process

std::unique_ptr<uring> ring_instead(reactor& loop) {
    if (loop.io().lends_buffers()) return nullptr;
    auto made = std::make_unique<uring>(io_options{.allow_uring = false});
    loop.add_poller(*made);
    if (!said_too_old.test_and_set()) log_message(too_old);
    return made;
}

} // namespace

kernel_provider::kernel_provider(reactor& loop, const kernel_provider_options& options)
    : loop_(loop), options_(options), instead_(ring_instead(loop)), ring_(instead_ != nullptr ? *instead_ : loop.io()),
      stream_buffers_(ring_, stream_group, options.stream_buffer_size, options.stream_buffers,
                      options.stream_buffers_limit) {
    loop.add_poller(*this);
}

kernel_provider::~kernel_provider() {
    reactor::scope here(loop_);
    objects_.for_each([](kernel_object& object) { object.let_go(); });
    objects_.for_each([](kernel_object& object) { object.give_up(); });
    while (!objects_.empty()) ring_.wait_any();
}

void kernel_provider::enlist(kernel_connection& c) {
    c.place(connections_.size());
    connections_.push_back(&c);
}

/// The last one takes its place.
void kernel_provider::delist(kernel_connection& c) noexcept {
    connections_[c.place()] = connections_.back();
    connections_[c.place()]->place(c.place());
    connections_.pop_back();
}

bool kernel_provider::lingers() const noexcept {
    return std::ranges::any_of(connections_, [](const kernel_connection* c) { return c->unsent() != 0; });
}

void kernel_provider::queue(kernel_connection& c) noexcept { queued_.push_back(c); }

/// One sender is served soonest by send(2); several cost one system call by the ring.
bool kernel_provider::flush(time_point now) {
    if (queued_.empty()) return false;
    if (&queued_.front() == &queued_.back()) {
        static_cast<kernel_connection&>(queued_.front()).send_alone();
        return true;
    }
    while (!queued_.empty()) static_cast<kernel_connection&>(queued_.front()).send_by_ring();
    ring_.flush(now); // the ring's own turn may have passed
    return true;
}

receive_buffers& kernel_provider::datagram_buffers() {
    if (datagram_buffers_ == nullptr) {
        datagram_buffers_ = std::make_unique<receive_buffers>(ring_, datagram_group, datagram_frame_size,
                                                              options_.datagram_buffers, options_.datagram_buffers_limit);
    }
    return *datagram_buffers_;
}

buffer kernel_provider::allocate(std::uint32_t size) {
    if (size > allocated_frame_size - frame_headroom) return {};
    if (pool_ == nullptr) pool_ = std::make_unique<frame_pool>(options_.allocated_buffers, allocated_frame_size);
    return pool_->allocate_buffer();
}

buffer kernel_provider::receive_now(int fd, std::uint32_t most) noexcept {
    try {
        buffer out = allocate(1);
        const std::uint32_t room = std::min(out.tailroom(), most);
        if (room == 0) return {};
        const ssize_t n = ::recv(fd, out.append(room), room, MSG_DONTWAIT);
        if (n <= 0) return {};
        out.truncate(static_cast<std::uint32_t>(n));
        return out;
    } catch (const std::exception&) { // no memory for it
        return {};
    }
}

std::unique_ptr<listener_backend> kernel_provider::listen(const socket_address& at, const listen_options& options) {
    objects_.for_each([&](kernel_object& object) {
        // The kernel would share the port with ourselves; one shard has one accept queue.
        const auto* other = dynamic_cast<kernel_listener*>(&object);
        if (other != nullptr && at.port != 0 && other->local_address() == at && !other->closed()) {
            throw_errno(EADDRINUSE, "listen on " + at.to_string());
        }
    });
    unique_fd fd = open_socket(at, SOCK_STREAM);
    bind_shared(fd.get(), at, options.ipv6_only);
    apply_options(fd.get(), options.stream); // accepted streams inherit them
    require_congestion(fd.get(), chosen(options.stream.congestion));
    if (options.fast_open != 0) {
        const int limit = static_cast<int>(std::min<unsigned>(options.fast_open, 65535));
        ::setsockopt(fd.get(), IPPROTO_TCP, TCP_FASTOPEN, &limit, sizeof limit); // the sysctl may forbid it: then it is a plain listener
    }
    const int backlog = static_cast<int>(std::min<unsigned>(options.backlog, 65535));
    if (::listen(fd.get(), backlog) != 0) throw_errno(errno, "listen on " + at.to_string());
    const socket_address local = local_address_of(fd.get());
    return std::make_unique<kernel_listen_socket>(*new kernel_listener(*this, std::move(fd), local, options.stream));
}

std::unique_ptr<tcp_backend> kernel_provider::connect(const socket_address& to, const socket_address& local,
                                                      const tcp_options_set& options) {
    unique_fd fd = open_socket(to, SOCK_STREAM);
    apply_options(fd.get(), options);
    require_congestion(fd.get(), chosen(options.congestion));
    const bool wildcard = local.is_v4() && local.v4().is_any();
    if (!wildcard || local.port != 0) {
        // The port may be chosen when the peer is known: many more connections fit.
        const int late = 1;
        if (local.port == 0) ::setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &late, sizeof late);
        const int reuse = 1;
        ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
        const system_address from(local);
        if (::bind(fd.get(), &from.generic, from.size) != 0) throw_errno(errno, "connect from " + local.to_string());
    }
    return std::make_unique<kernel_tcp_socket>(*new kernel_connection(*this, std::move(fd), options, to));
}

bool kernel_provider::start_connected(tcp_backend& backend, plain_operation& op) noexcept {
    return static_cast<kernel_tcp_socket&>(backend).connection().start_connected(op);
}

void kernel_provider::cancel_connected(tcp_backend& backend, socket_operation& op) noexcept {
    backend.cancel(op);
}

std::unique_ptr<udp_backend> kernel_provider::bind_udp(const socket_address& at, const udp_options& options) {
    objects_.for_each([&](kernel_object& object) {
        const auto* other = dynamic_cast<kernel_datagrams*>(&object);
        if (other != nullptr && at.port != 0 && other->local_address() == at && !other->closed()) {
            throw_errno(EADDRINUSE, "bind " + at.to_string());
        }
    });
    datagram_buffers();
    unique_fd fd = open_socket(at, SOCK_DGRAM);
    bind_shared(fd.get(), at, options.ipv6_only);
    return std::make_unique<kernel_udp_socket>(*new kernel_datagrams(*this, std::move(fd), options));
}

/// As getaddrinfo(3) asks: connecting a datagram socket sends nothing, and tells the route and the source.
std::optional<chosen_source> kernel_provider::source_for(const net_address& destination) const {
    constexpr std::uint16_t any_port = 9;
    const system_address to(socket_address(destination, any_port));
    const unique_fd fd{::socket(to.generic.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    if (!fd || ::connect(fd.get(), &to.generic, to.size) != 0) return {};
    return chosen_source{.address = local_address_of(fd.get()).net()};
}

} // namespace corewire
