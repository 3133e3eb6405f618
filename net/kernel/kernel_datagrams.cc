#include <corewire/net/kernel/kernel_datagrams.hh>

#include <corewire/net/kernel/kernel_provider.hh>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>

namespace corewire {

namespace {

/// The control messages of one datagram.
class control_messages {
public:
    template <typename Value>
    void add(int level, int type, const Value& value) noexcept {
        auto* const header = reinterpret_cast<cmsghdr*>(bytes_ + used_);
        header->cmsg_level = level;
        header->cmsg_type = type;
        header->cmsg_len = CMSG_LEN(sizeof value);
        std::memcpy(CMSG_DATA(header), &value, sizeof value);
        used_ += CMSG_SPACE(sizeof value);
    }
    void give_to(msghdr& message) noexcept {
        message.msg_control = bytes_;
        message.msg_controllen = used_;
    }

private:
    alignas(cmsghdr) std::byte bytes_[CMSG_SPACE(sizeof(in6_pktinfo)) + 2 * CMSG_SPACE(sizeof(int))] = {};
    std::size_t used_ = 0;
};

/// Where a datagram was sent to. IPv4's message says more than IPv6's of an IPv4 datagram: to whom a broadcast came.
net_address destination_of(io_uring_recvmsg_out& header, msghdr& layout) noexcept {
    net_address to;
    for (cmsghdr* c = io_uring_recvmsg_cmsg_firsthdr(&header, &layout); c != nullptr;
         c = io_uring_recvmsg_cmsg_nexthdr(&header, &layout, c)) {
        const auto* const value = reinterpret_cast<const std::byte*>(CMSG_DATA(c));
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
            const ipv4 as_sent = ipv4::load(value + offsetof(in_pktinfo, ipi_addr));
            return as_sent.is_multicast() ? as_sent : ipv4::load(value + offsetof(in_pktinfo, ipi_spec_dst));
        }
        if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) to = ipv6::load(value + offsetof(in6_pktinfo, ipi6_addr));
    }
    return to;
}

/// Of a source that is none of ours the kernel says that there is no way from there (IPv4), or that it is no valid argument (IPv6).
int error_with_source(const net_address& source, int error) noexcept {
    if (error != ENETUNREACH && error != EINVAL) return error;
    const unique_fd tries(::socket(source.is_v4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const system_address at({source, 0});
    const bool none_of_ours = tries && ::bind(tries.get(), &at.generic, at.size) != 0 && errno == EADDRNOTAVAIL;
    return none_of_ours ? EADDRNOTAVAIL : error;
}

/// What one small datagram costs the kernel's receive buffer (sk_buff and its head).
constexpr std::uint32_t bytes_a_datagram = 768;

} // namespace

kernel_datagrams::kernel_datagrams(kernel_provider& provider, unique_fd fd, const udp_options& options)
    : kernel_object(std::move(fd)), starved_receiver([](starved_receiver& self) noexcept {
          auto& socket = static_cast<kernel_datagrams&>(self);
          if (socket.receiving_.empty()) return false;
          socket.receive();
          return true;
      }),
      provider_(provider), local_(local_address_of(fd_.get())),
      limit_(std::clamp<std::uint32_t>(options.receive_queue, 1, unread_limit)), ipv6_only_(options.ipv6_only) {
    provider.keep(*this);
    layout_.msg_namelen = CMSG_ALIGN(sizeof(sockaddr_in6)); // what is behind it is aligned
    layout_.msg_controllen = CMSG_SPACE(sizeof(in_pktinfo)) + CMSG_SPACE(sizeof(in6_pktinfo));
    const int yes = 1;
    ::setsockopt(fd_.get(), IPPROTO_IP, IP_PKTINFO, &yes, sizeof yes);
    if (!local_.is_v4()) ::setsockopt(fd_.get(), IPPROTO_IPV6, IPV6_RECVPKTINFO, &yes, sizeof yes);
    // Only the groups that this socket has joined: by itself Linux delivers those of every program.
    const int no = 0;
    ::setsockopt(fd_.get(), IPPROTO_IP, IP_MULTICAST_ALL, &no, sizeof no);
    if (!local_.is_v4()) ::setsockopt(fd_.get(), IPPROTO_IPV6, IPV6_MULTICAST_ALL, &no, sizeof no);
    // Bounded by net.core.rmem_max.
    const int room = static_cast<int>(std::min<std::uint64_t>(std::uint64_t{options.receive_queue} * bytes_a_datagram, 1u << 30));
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
}

// ---- receiving ----

bool kernel_datagrams::start_receive(receive_operation& op) noexcept {
    if (closed_) {
        op.error = std::errc::bad_file_descriptor;
        return true;
    }
    if (receiving_.empty() && take_datagram(op)) return true;
    if (pending_error_ != std::errc{}) {
        op.error = std::exchange(pending_error_, {});
        return true;
    }
    receiving_.push_back(op);
    receive();
    return false;
}

/// As kernel_connection::receive().
void kernel_datagrams::receive(bool wait_first) noexcept {
    if (receive_.in_kernel()) return;
    starved_receiver::unlink();
    waits_first_ = wait_first;
    provider_.ring().start(receive_, [&](io_uring_sqe& entry) {
        io_uring_prep_recvmsg_multishot(&entry, fd_.get(), &layout_, 0);
        if (wait_first) entry.ioprio |= IORING_RECVSEND_POLL_FIRST;
        entry.flags |= IOSQE_BUFFER_SELECT;
        entry.buf_group = provider_.datagram_buffers().group();
    });
}

void kernel_datagrams::on_received(int result, unsigned flags) noexcept {
    if ((flags & IORING_CQE_F_BUFFER) != 0) {
        frame& f = provider_.datagram_buffers().take(flags);
        if (result > 0 && !closed_) {
            ++provider_.statistics().udp.receives;
            received_.push(f, static_cast<std::uint32_t>(result));
        } else {
            release(f);
        }
    }
    const bool goes_on = (flags & IORING_CQE_F_MORE) != 0;
    if (!goes_on) stopping_receive_ = false;
    if (closed_) {
        if (!in_kernel()) fd_.reset();
        settle();
        return;
    }
    if (result < 0) receive_failed(-result);
    serve();
    if (goes_on && received_.count() >= limit_ && !stopping_receive_) {
        stopping_receive_ = true;
        provider_.ring().cancel(receive_);
    } else if (!receive_.in_kernel() && result != -ENOBUFS && !receiving_.empty()) {
        receive();
    }
}

void kernel_datagrams::receive_failed(int error) noexcept {
    switch (error) {
    case ECANCELED:
    case EINTR:
    case EAGAIN:
        return;
    case ENOBUFS:
        if (receiving_.empty()) return;
        if (provider_.datagram_buffers().replenish()) {
            receive();
        } else if (!waits_first_) {
            receive(true);
        } else {
            provider_.datagram_buffers().starve(*this);
        }
        return;
    default:
        ++provider_.statistics().datagram_errors;
        pending_error_ = static_cast<std::errc>(error);
    }
}

/// Datagrams and errors to those who wait, in order.
void kernel_datagrams::serve() noexcept {
    while (!receiving_.empty()) {
        auto& op = static_cast<receive_operation&>(receiving_.front());
        if (!take_datagram(op)) {
            if (pending_error_ == std::errc{}) return;
            op.error = std::exchange(pending_error_, {});
        }
        op.unlink();
        op.complete();
    }
}

/// The buffer holds io_uring_recvmsg_out, room for the sender's address and control messages, and the datagram
/// (io_uring_prep_recvmsg(3)).
bool kernel_datagrams::take_datagram(receive_operation& op) noexcept {
    while (!received_.empty()) {
        buffer data = received_.pop();
        auto* header = io_uring_recvmsg_validate(data.mutable_data(), static_cast<int>(data.size()), &layout_);
        if (header == nullptr) continue;
        const auto* sender = static_cast<const sockaddr*>(io_uring_recvmsg_name(header));
        system_address from;
        std::memcpy(&from.generic, sender, std::min<std::size_t>(header->namelen, sizeof(sockaddr_in6)));
        op.received.from = from.decoded();
        op.received.to = destination_of(*header, layout_);
        data.remove_prefix(static_cast<std::uint32_t>(sizeof *header + layout_.msg_namelen + layout_.msg_controllen));
        provider_.statistics().udp.received_bytes += data.size();
        op.received.data = std::move(data);
        return true;
    }
    return false;
}

// ---- sending ----

bool kernel_datagrams::start_send(send_operation& op) noexcept {
    if (closed_) {
        op.error = std::errc::bad_file_descriptor;
        return true;
    }
    if (pending_error_ != std::errc{}) {
        op.error = std::exchange(pending_error_, {});
        return true;
    }
    if (op.to_connected_peer && !connected_) {
        op.error = std::errc::destination_address_required;
        return true;
    }
    if (ipv6_only_ && !op.to_connected_peer && op.to.is_v4()) {
        op.error = std::errc::address_family_not_supported; // the kernel calls it ENETUNREACH
        return true;
    }
    if (sending_.empty() && push(op)) return true;
    sending_.push_back(op);
    if (!room_.in_kernel()) {
        provider_.ring().start(room_, [&](io_uring_sqe& entry) { io_uring_prep_poll_add(&entry, fd_.get(), POLLOUT); });
    }
    return false;
}

ssize_t kernel_datagrams::send(const send_operation& op, byte_span bytes) noexcept {
    if (op.to_connected_peer) return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    const system_address to(op.to);
    return ::sendto(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT, &to.generic, to.size);
}

/// With a source, a hop limit or a traffic class of its own: ip(7), ipv6(7).
ssize_t kernel_datagrams::send_marked(const send_operation& op, byte_span bytes) noexcept {
    const socket_address destination = op.to_connected_peer ? peer_address_of(fd_.get()) : op.to;
    const bool four = destination.net().is_v4(), has_source = op.how.from.is_unicast();
    if (has_source && op.how.from.is_v4() != four) return errno = EAFNOSUPPORT, -1;
    system_address to(op.to);
    iovec data{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
    msghdr message{};
    if (!op.to_connected_peer) {
        message.msg_name = &to.generic;
        message.msg_namelen = to.size;
    }
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    control_messages control;
    if (has_source && four) {
        in_pktinfo source{};
        op.how.from.v4().store(reinterpret_cast<std::byte*>(&source.ipi_spec_dst));
        control.add(IPPROTO_IP, IP_PKTINFO, source);
    } else if (has_source) {
        in6_pktinfo source{};
        op.how.from.v6().store(reinterpret_cast<std::byte*>(&source.ipi6_addr));
        control.add(IPPROTO_IPV6, IPV6_PKTINFO, source);
    }
    if (op.how.hops != 0) control.add(four ? IPPROTO_IP : IPPROTO_IPV6, four ? IP_TTL : IPV6_HOPLIMIT, int{op.how.hops});
    if (op.how.traffic_class != 0)
        control.add(four ? IPPROTO_IP : IPPROTO_IPV6, four ? IP_TOS : IPV6_TCLASS, int{op.how.traffic_class});
    control.give_to(message);
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && has_source) errno = error_with_source(op.how.from, errno);
    return sent;
}

/// True when the operation has ended, well or badly; false when the kernel's transmit queue is full.
bool kernel_datagrams::push(send_operation& op) noexcept {
    const byte_span bytes = op.owned.underlying_frame() != nullptr ? op.owned.bytes() : op.borrowed;
    ssize_t sent;
    do sent = op.how == datagram_options{} ? send(op, bytes) : send_marked(op, bytes);
    while (sent < 0 && errno == EINTR);
    kernel_statistics& count = provider_.statistics();
    if (sent < 0 && errno == EAGAIN) {
        ++count.udp.send_waits;
        return false;
    }
    if (sent < 0) {
        ++count.datagrams_refused;
        op.error = static_cast<std::errc>(errno);
    } else {
        ++count.udp.sends;
        count.udp.sent_bytes += static_cast<std::uint64_t>(sent);
    }
    op.owned = {};
    return true;
}

void kernel_datagrams::on_writable(int result, unsigned) noexcept {
    if (closed_) {
        if (!in_kernel()) fd_.reset();
        settle();
        return;
    }
    while (!sending_.empty()) {
        auto& op = static_cast<send_operation&>(sending_.front());
        if (result < 0) op.error = static_cast<std::errc>(-result); // nobody watches for room
        else if (!push(op)) {
            provider_.ring().start(room_, [&](io_uring_sqe& entry) { io_uring_prep_poll_add(&entry, fd_.get(), POLLOUT); });
            return;
        }
        op.unlink();
        op.complete();
    }
}

std::errc kernel_datagrams::connect(const socket_address& peer) noexcept {
    if (closed_) return std::errc::bad_file_descriptor;
    if (peer.port == 0) return std::errc::invalid_argument; // Linux would do it, and refuse to send
    const system_address to(peer);
    if (::connect(fd_.get(), &to.generic, to.size) != 0) return static_cast<std::errc>(errno);
    connected_ = true;
    local_ = local_address_of(fd_.get());
    return {};
}

/// ip(7), ipv6(7): IP_MTU_DISCOVER, IPV6_MTU_DISCOVER. A socket of both families has both.
std::errc kernel_datagrams::set_datagram_size(datagram_size how) noexcept {
    if (closed_) return std::errc::bad_file_descriptor;
    static_assert(IP_PMTUDISC_WANT == IPV6_PMTUDISC_WANT && IP_PMTUDISC_DO == IPV6_PMTUDISC_DO && IP_PMTUDISC_PROBE == IPV6_PMTUDISC_PROBE);
    const int value = how == datagram_size::cut      ? IP_PMTUDISC_WANT
                      : how == datagram_size::refuse ? IP_PMTUDISC_DO
                                                     : IP_PMTUDISC_PROBE;
    bool done = ::setsockopt(fd_.get(), IPPROTO_IP, IP_MTU_DISCOVER, &value, sizeof value) == 0;
    if (!local_.is_v4()) done &= ::setsockopt(fd_.get(), IPPROTO_IPV6, IPV6_MTU_DISCOVER, &value, sizeof value) == 0;
    return done ? std::errc{} : static_cast<std::errc>(errno);
}

std::uint32_t kernel_datagrams::path_mtu() const noexcept {
    if (closed_ || !connected_) return 0;
    const bool four = peer_address_of(fd_.get()).net().is_v4();
    int bytes = 0;
    socklen_t size = sizeof bytes;
    const bool known = ::getsockopt(fd_.get(), four ? IPPROTO_IP : IPPROTO_IPV6, four ? IP_MTU : IPV6_MTU, &bytes, &size) == 0;
    return known ? static_cast<std::uint32_t>(std::max(bytes, 0)) : 0;
}

namespace {

void cancel_all(intrusive_list<waiter>& waiting) noexcept {
    while (!waiting.empty()) {
        auto& op = static_cast<socket_operation&>(waiting.pop_front());
        op.error = std::errc::operation_canceled;
        op.complete();
    }
}

} // namespace

void kernel_datagrams::end_waits(ended_waits which) noexcept {
    if (which == ended_waits::for_any_peer || !connected_) cancel_all(receiving_);
}

void kernel_datagrams::close() noexcept {
    if (closed_) return;
    closed_ = true;
    received_.clear();
    starved_receiver::unlink();
    cancel_all(receiving_);
    cancel_all(sending_);
    provider_.ring().cancel(receive_);
    provider_.ring().cancel(room_);
    if (!in_kernel()) fd_.reset();
}

buffer kernel_udp_socket::allocate(std::uint32_t size) { return datagrams_.provider().allocate(size); }

} // namespace corewire
