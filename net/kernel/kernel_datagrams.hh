// A datagram socket of the kernel's: a multishot recvmsg into provided buffers, sendto(2) at once.
// Kept by its provider. Bounds: `unread_limit` datagrams here (fewer if the user says so), then the rest waits in the
// kernel's receive buffer, which drops and counts (RcvbufErrors in /proc/net/snmp).
#pragma once

#include <corewire/net/kernel/kernel_object.hh>
#include <corewire/net/kernel/receive_buffers.hh>
#include <corewire/net/kernel/system_address.hh>
#include <corewire/net/socket/provider.hh>

namespace corewire {

class kernel_provider;

class kernel_datagrams final : public kernel_object, private starved_receiver {
public:
    static constexpr std::uint32_t unread_limit = 64;

    kernel_datagrams(kernel_provider& provider, unique_fd fd, const udp_options& options);

    bool start_receive(receive_operation& op) noexcept;
    bool start_send(send_operation& op) noexcept;
    void cancel(socket_operation& op) noexcept { op.unlink(); }
    std::errc connect(const socket_address& peer) noexcept;
    /// Fails who waits with ECANCELED; later operations fail with EBADF.
    void close() noexcept;
    socket_address local_address() const noexcept { return local_; }
    std::errc change_membership(bool join, const net_address& group, const net_address& on) noexcept;
    std::errc set_multicast(const multicast_options& how) noexcept;
    std::errc set_datagram_size(datagram_size how) noexcept;
    std::uint32_t path_mtu() const noexcept;
    bool closed() const noexcept { return closed_; }
    void end_waits(ended_waits which) noexcept override;
    kernel_provider& provider() noexcept { return provider_; }

private:
    void stop() noexcept override { close(); }
    bool in_kernel() const noexcept override { return receive_.in_kernel() || room_.in_kernel(); }
    void on_received(int result, unsigned flags) noexcept;
    void on_writable(int result, unsigned flags) noexcept;

    void receive(bool wait_first = false) noexcept;
    void receive_failed(int error) noexcept;
    bool take_datagram(receive_operation& op) noexcept;
    bool push(send_operation& op) noexcept;
    ssize_t send(const send_operation& op, byte_span bytes) noexcept;
    ssize_t send_marked(const send_operation& op, byte_span bytes) noexcept;
    void serve() noexcept;

    kernel_provider& provider_;
    socket_address local_;
    std::uint32_t limit_;
    bool ipv6_only_;
    bool closed_ = false;
    bool connected_ = false;
    bool stopping_receive_ = false;
    bool waits_first_ = false;
    std::errc pending_error_{}; ///< what the peer reported (ICMP), for the next operation
    msghdr layout_{};           ///< how the kernel lays a received datagram out in its buffer
    received_queue received_;
    intrusive_list<waiter> receiving_;
    intrusive_list<waiter> sending_;
    bound_operation<kernel_datagrams, &kernel_datagrams::on_received> receive_{*this};
    bound_operation<kernel_datagrams, &kernel_datagrams::on_writable> room_{*this};
};

/// A user's hold on a datagram socket.
class kernel_udp_socket final : public udp_backend {
public:
    explicit kernel_udp_socket(kernel_datagrams& d) noexcept : datagrams_(d) {}
    ~kernel_udp_socket() override { datagrams_.let_go(); }

    bool start_receive(receive_operation& op) noexcept override { return datagrams_.start_receive(op); }
    bool start_send(send_operation& op) noexcept override { return datagrams_.start_send(op); }
    void cancel(socket_operation& op) noexcept override { datagrams_.cancel(op); }
    std::errc connect(const socket_address& peer) override { return datagrams_.connect(peer); }
    socket_address local_address() const override { return datagrams_.local_address(); }
    std::errc join(const net_address& group, const net_address& on) override { return datagrams_.change_membership(true, group, on); }
    std::errc leave(const net_address& group, const net_address& on) override { return datagrams_.change_membership(false, group, on); }
    std::errc set_multicast(const multicast_options& how) override { return datagrams_.set_multicast(how); }
    std::errc set_datagram_size(datagram_size how) override { return datagrams_.set_datagram_size(how); }
    std::uint32_t path_mtu() const override { return datagrams_.path_mtu(); }
    buffer allocate(std::uint32_t size) override;
    void close() noexcept override { datagrams_.close(); }

private:
    kernel_datagrams& datagrams_;
};

} // namespace corewire
