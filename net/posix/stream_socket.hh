// stream_socket: a TCP socket as POSIX and Linux's tcp(7) know it, over our stack. Every call returns at once: what would
// block returns -EAGAIN (connect: -EINPROGRESS), and whoever calls decides how to wait.
//
//     idle --bind--> idle --listen--> listening --accept--> another, connected
//       `--connect--> connecting --established--> connected --reset, time-out--> connected, with an error to report
//
// Owned by the fd_table (while an fd refers to it), on its stack's shard. Bounded by its connection's buffers and its
// listener's backlog.
#pragma once

#include <corewire/net/posix/descriptor.hh>
#include <corewire/net/posix/stream_settings.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/net/stack/stack_sockets.hh>
#include <corewire/reactor/loop/timer.hh>

#include <memory>
#include <span>
#include <sys/socket.h>
#include <sys/uio.h>
#include <vector>

namespace corewire::posix {

class stream_socket final : public descriptor {
public:
    /// `family`: AF_INET, or AF_INET6 for a dual-stack socket (RFC 3493): its peers over IPv4 have mapped addresses.
    /// `base`: what the host decides for each connection, before the socket's own settings.
    stream_socket(network_stack& stack, int family, const stream_settings& settings, tcp_tuning base);
    ~stream_socket() override;

    outcome bind(const socket_address& at);
    outcome listen(int backlog);
    outcome connect(const socket_address& to);
    /// MSG_FASTOPEN (RFC 7413): connect() and send() in one. Bytes of `from` that went along in the SYN, or are taken for later; else
    /// -EINPROGRESS: the SYN asks for a cookie, and takes nothing.
    outcome connect_and_send(const socket_address& to, std::span<const iovec> from);
    /// A connection whose handshake is done; -EAGAIN, -EINVAL if not listening.
    outcome accept(std::unique_ptr<stream_socket>& accepted);
    outcome receive(std::span<const iovec> into, int flags);
    outcome send(std::span<const iovec> from, int flags);
    outcome shutdown(int how);
    /// SO_LINGER with time 0 makes the close a reset.
    outcome set_option(int level, int name, const void* value, socklen_t size);
    outcome get_option(int level, int name, void* value, socklen_t* size);
    /// SIOCINQ, SIOCOUTQ, SIOCOUTQNSD.
    outcome ioctl(unsigned long request, int* value);

    /// TCP_INQ: bytes to read; at the end of the stream 1.
    int inquire() const;

    unsigned events() const override;
    std::uint64_t edges() const override;

    int family() const noexcept { return family_; }
    /// How its handshake ended: 0, or why it failed, told once; -EAGAIN: it has not.
    outcome handshake_result();
    /// deferred(): the SYN goes now, and takes of `from` what it returns; or -EINPROGRESS.
    outcome send_with_syn(std::span<const iovec> from);
    /// Its SYN waits for the first write.
    bool deferred() const;
    bool connecting() const noexcept { return connection_ != nullptr && !told_connected_; }
    /// Handshake still under way.
    bool in_handshake() const;
    bool listening() const noexcept { return listener_ != nullptr; }
    /// With SO_LINGER: closing has something left to wait for.
    bool unsent_at_close() const;
    socket_address local_address() const;
    outcome peer_address(socket_address& peer) const;
    stream_settings& settings() noexcept { return settings_; }
    /// Null before connect() or when there is none.
    tcp_connection* connection() const noexcept { return connection_ != nullptr ? &connection_->connection() : nullptr; }

private:
    stream_socket(network_stack& stack, const stream_socket& listener, std::unique_ptr<stack_tcp_socket> connection);
    /// SO_ERROR: what the connection died of, told once.
    std::errc take_error();
    std::errc peek_error() const;
    tcp_tuning tuning(bool opened_here) const;
    void apply_settings();
    outcome set_socket_option(int name, const void* value, socklen_t size);
    outcome set_tcp_option(int name, const void* value, socklen_t size);
    outcome begin_to_connect(const socket_address& to, bool fast);
    outcome set_fast_open_key(const void* value, socklen_t size);
    outcome get_fast_open_key(void* value, socklen_t* size) const;
    outcome set_ip_option(int name, const void* value, socklen_t size);
    outcome set_ipv6_option(int name, const void* value, socklen_t size);
    outcome get_ip_option(int name, void* value, socklen_t* size) const;
    outcome get_ipv6_option(int name, void* value, socklen_t* size) const;
    /// The largest packet on the connection's path. Bytes.
    outcome give_path_mtu(void* value, socklen_t* size) const;
    bool may_be_local(const net_address& at) const;
    /// Where connections to `remote` come from; `::`: nothing of ours can reach it.
    net_address source_for(const net_address& remote) const;
    outcome get_tcp_option(int name, void* value, socklen_t* size);
    std::uint32_t unsent() const;
    /// MSG_PEEK: what one read would give, which ends before the mark (tcp(7)). Bytes.
    std::uint32_t look_ahead(const tcp_connection& c, std::span<const iovec> into) const;
    /// SIOCINQ: bytes to read, those before the mark alone if that is among them and out of line.
    std::uint32_t before_mark(const tcp_connection& c) const;
    /// recv(MSG_OOB): the marked byte, once.
    outcome take_urgent(tcp_connection& c, std::span<const iovec> into, bool peek);
    /// The next byte to be read is the marked one, which reads skip unless SO_OOBINLINE is set.
    bool at_mark(const tcp_connection& c) const;
    bool skips_mark(const tcp_connection& c) const { return !settings_.inline_urgent && at_mark(c); }
    /// A buffer as SO_RCVBUF and SO_SNDBUF report it: what was asked for, or what it has grown to.
    std::uint32_t grown(std::uint32_t asked, std::uint32_t tcp::connection_info::*buffer) const;

    // TCP_DEFER_ACCEPT: connections whose handshake is done and that have brought nothing yet. They are the listener's no more; as many
    // as its backlog.
    struct parked {
        std::unique_ptr<stack_tcp_socket> connection;
        time_point until;
    };
    struct alarm final : timer { ///< has who waits for a connection look again
        alarm() noexcept : timer([](timer&) noexcept {}) {}
    };
    bool may_be_accepted(const parked& p) const;
    void park_arrivals() const;
    std::size_t acceptable() const; ///< of parked_
    void stop_listening();

    network_stack& stack_;
    int family_;
    stream_settings settings_;
    tcp_tuning base_;
    socket_address bound_{};
    bool is_bound_ = false;
    bool told_connected_ = false; ///< connect() has returned 0
    bool error_told_ = false;
    bool reading_shut_ = false;
    bool writing_shut_ = false;
    bool held_ = false;           ///< the last send() said MSG_MORE, or TCP_CORK is on
    mutable bool no_space_ = false; ///< a writer was turned away: an edge when there is room again
    mutable std::uint64_t space_edges_ = 0;
    std::uint64_t urgent_taken_ = 0; ///< the mark whose byte recv(MSG_OOB) has given: how many bytes of the stream end with it
    std::errc pending_error_{};   ///< of a connection that is gone
    std::unique_ptr<tcp_listen_socket> listener_;
    mutable std::vector<parked> parked_;
    mutable alarm parking_ends_;
    std::unique_ptr<stack_tcp_socket> connection_;
};

} // namespace corewire::posix
