// udp_socket: datagrams for coroutines. Belongs to the shard that made it; move-only; closed when destroyed.
#pragma once

#include <corewire/net/socket/backend_awaiter.hh>

namespace corewire {

class udp_socket {
public:
    class receive_awaiter;
    class send_awaiter;

    udp_socket() = default;
    explicit udp_socket(std::unique_ptr<udp_backend> backend) noexcept : backend_(std::move(backend)) {}

    /// Port 0: any free one. Throws std::system_error: EADDRINUSE, EADDRNOTAVAIL, EINVAL. At `::` it is for both families
    /// (udp_options::ipv6_only: for one).
    /// Of several shards with one address: what comes to a port is for the shard that has a socket there; a port that we choose is one
    /// shard's. One that several have bound is shared between them by the flow, so that a peer's datagrams come to one of them always
    /// (over the kernel's sockets, too: SO_REUSEPORT; there a port that one shard alone has bound needs no more either).
    static udp_socket bind(socket_address at, udp_options options = {});
    /// A connected socket: only this peer's datagrams; ECONNREFUSED when it answers port-unreachable, EHOSTUNREACH when no link has it.
    /// Throws std::system_error: ENETUNREACH, EINVAL.
    static udp_socket connect(socket_address to, udp_options options = {});

    /// The next datagram, whole, who sent it, and to which of our addresses or groups (zero-copy).
    receive_awaiter receive_from(wait_limits limits = {}) noexcept;
    /// Sends one datagram; waits while the transmit queue is full. Throws EMSGSIZE, ENETUNREACH, EHOSTUNREACH,
    /// ECONNREFUSED. Borrowed bytes must live until the await returns.
    send_awaiter send_to(buffer data, const socket_address& to, wait_limits limits = {}) noexcept;
    send_awaiter send_to(byte_span data, const socket_address& to, wait_limits limits = {}) noexcept;
    /// The same with a source, a hop limit or a traffic class of its own. A server at any address answers from the one that was asked:
    /// `send_to(data, d.from, datagram_options{.from = d.to})`. Throws EADDRNOTAVAIL, if the source is none of our addresses,
    /// EAFNOSUPPORT.
    send_awaiter send_to(buffer data, const socket_address& to, const datagram_options& how, wait_limits limits = {}) noexcept;
    send_awaiter send_to(byte_span data, const socket_address& to, const datagram_options& how, wait_limits limits = {}) noexcept;
    /// To the connected peer. EDESTADDRREQ if there is none.
    send_awaiter send(buffer data, wait_limits limits = {}) noexcept;
    send_awaiter send(byte_span data, wait_limits limits = {}) noexcept;
    send_awaiter send(buffer data, const datagram_options& how, wait_limits limits = {}) noexcept;
    send_awaiter send(byte_span data, const datagram_options& how, wait_limits limits = {}) noexcept;

    /// Hears what is sent to a group and our port, whoever sends it (RFC 1112, 3810). The socket is bound to any address, or to the group.
    /// `on`: the interface that has this address. Throws EINVAL (no group), EADDRINUSE (a member already), ENOBUFS (20 groups a socket),
    /// EADDRNOTAVAIL, EAFNOSUPPORT. A socket that is closed leaves.
    void join(const net_address& group, const net_address& on = ipv4::any());
    /// Throws EADDRNOTAVAIL: no member.
    void leave(const net_address& group, const net_address& on = ipv4::any());
    /// How datagrams to groups leave from now on.
    void set_multicast(const multicast_options& how);

    /// What becomes of datagrams that are larger than the path carries, from now on. By itself they are cut.
    void set_datagram_size(datagram_size how);
    /// Bytes of IP packet, 28 (IPv4) or 48 more than the datagram's data, that the way to the connected peer is known to carry (IP_MTU):
    /// the link's MTU, or less. Throws ENOTCONN.
    std::uint32_t path_mtu() const;

    /// These two throw EBADF if there is no socket: default-made or moved from.
    buffer allocate(std::uint32_t size) { return existing(backend_, "the socket").allocate(size); }
    socket_address local_address() const { return existing(backend_, "the socket").local_address(); }
    void close() noexcept {
        if (backend_) backend_->close();
    }

private:
    std::unique_ptr<udp_backend> backend_;
};

class udp_socket::receive_awaiter final : public bounded_backend_awaiter<udp_backend, receive_operation> {
public:
    using bounded_backend_awaiter::bounded_backend_awaiter;
    bool await_ready() noexcept {
        if (backend_ != nullptr) return backend_->start_receive(*this);
        error = std::errc::bad_file_descriptor;
        return true;
    }
    bool await_suspend(std::coroutine_handle<> h) noexcept { return wait(h); }
    datagram await_resume() {
        check("receive_from");
        return std::move(received);
    }
};

inline udp_socket::receive_awaiter udp_socket::receive_from(wait_limits limits) noexcept {
    return {backend_.get(), limits};
}

class udp_socket::send_awaiter final : public bounded_backend_awaiter<udp_backend, send_operation> {
public:
    using bounded_backend_awaiter::bounded_backend_awaiter;
    bool await_ready() noexcept {
        if (backend_ != nullptr) return backend_->start_send(*this);
        error = std::errc::bad_file_descriptor;
        return true;
    }
    bool await_suspend(std::coroutine_handle<> h) noexcept { return wait(h); }
    void await_resume() { check("send_to"); }

private:
    friend class udp_socket;
    send_awaiter(udp_backend* backend, const wait_limits& limits, buffer data, byte_span bytes,
                 const socket_address* destination, const datagram_options& chosen = {}) noexcept
        : bounded_backend_awaiter(backend, limits) {
        owned = std::move(data);
        borrowed = bytes;
        to_connected_peer = destination == nullptr;
        if (destination != nullptr) to = *destination;
        how = chosen;
    }
};

inline udp_socket::send_awaiter udp_socket::send_to(buffer data, const socket_address& to, wait_limits limits) noexcept {
    return {backend_.get(), limits, std::move(data), {}, &to};
}
inline udp_socket::send_awaiter udp_socket::send_to(byte_span data, const socket_address& to,
                                                    wait_limits limits) noexcept {
    return {backend_.get(), limits, {}, data, &to};
}
inline udp_socket::send_awaiter udp_socket::send(buffer data, wait_limits limits) noexcept {
    return {backend_.get(), limits, std::move(data), {}, nullptr};
}
inline udp_socket::send_awaiter udp_socket::send(byte_span data, wait_limits limits) noexcept {
    return {backend_.get(), limits, {}, data, nullptr};
}
inline udp_socket::send_awaiter udp_socket::send_to(buffer data, const socket_address& to, const datagram_options& how,
                                                    wait_limits limits) noexcept {
    return {backend_.get(), limits, std::move(data), {}, &to, how};
}
inline udp_socket::send_awaiter udp_socket::send_to(byte_span data, const socket_address& to, const datagram_options& how,
                                                    wait_limits limits) noexcept {
    return {backend_.get(), limits, {}, data, &to, how};
}
inline udp_socket::send_awaiter udp_socket::send(buffer data, const datagram_options& how, wait_limits limits) noexcept {
    return {backend_.get(), limits, std::move(data), {}, nullptr, how};
}
inline udp_socket::send_awaiter udp_socket::send(byte_span data, const datagram_options& how, wait_limits limits) noexcept {
    return {backend_.get(), limits, {}, data, nullptr, how};
}

} // namespace corewire
