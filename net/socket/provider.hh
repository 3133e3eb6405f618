// What stands behind the socket API: our own stack (stack_provider) or the kernel's sockets over io_uring
// (kernel_provider), chosen at run time. Users see tcp_stream, tcp_listener and udp_socket; this file is for those who
// write a provider.
//
// An operation is a waiter inside the awaiting coroutine's frame. start_*() either finishes it at once (returns true) or
// keeps a pointer to it; later the backend sets the outcome and calls complete(). An operation that leaves early
// (deadline, stop token, destroyed frame) calls cancel(), after which the backend must not touch it again; memory that
// the kernel still writes to therefore belongs to the backend, never to the operation.
#pragma once

#include <corewire/net/frame/buffer.hh>
#include <corewire/net/socket/address.hh>
#include <corewire/net/socket/congestion.hh>
#include <corewire/net/socket/path_mtu_probing.hh>
#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/task/waiter.hh>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

namespace corewire {

/// What bounds one waiting operation (backend_awaiter.hh). It stands beside the operation as a waiter of its own, which is
/// made ready in the operation's place when the wait ends early.
class operation_limits : public bounded_waiter {
public:
    using bounded_waiter::bounded_waiter;
    /// False: exhausted already, so don't suspend.
    bool arm(std::coroutine_handle<> h) noexcept {
        handle = h;
        return arm_limits();
    }
    void lift() noexcept { disarm_limits(); }

protected:
    ~operation_limits() = default;
};

/// An awaited socket operation.
class socket_operation : public waiter {
public:
    /// Why it failed; std::errc{} when it did not.
    std::errc error{};

    /// The backend is done with this operation: wake its coroutine.
    [[gnu::always_inline]] void complete() noexcept {
        pending_ = false;
        if (limits_ != nullptr) [[unlikely]] limits_->lift();
        reactor::make_ready_unlinked(*this); // backends keep pointers, not lists
    }

protected:
    [[gnu::always_inline]] ~socket_operation() {} // as are those of reads and writes: once a wait is often
    bool pending_ = false;
    operation_limits* limits_ = nullptr; ///< armed ones
};

class tcp_backend;
class listener_backend;
class udp_backend;

struct read_operation : socket_operation {
    buffer data; ///< empty with no error: end of stream
    /// At most this many bytes; the rest of a longer piece stays with the connection for the next read.
    std::uint32_t max_size = UINT32_MAX;

protected:
    [[gnu::always_inline]] ~read_operation() {}
};

struct write_operation : socket_operation {
    buffer owned;          ///< moved out by the backend as it takes it (may be left partly)
    byte_span borrowed{};  ///< or bytes to copy from; shrinks from the front as they are taken

protected:
    [[gnu::always_inline]] ~write_operation() {}
};

struct accept_operation : socket_operation {
    std::unique_ptr<tcp_backend> accepted;

protected:
    ~accept_operation() = default;
};

struct datagram {
    buffer data;
    socket_address from;
    /// Which of our addresses it was sent to, or which group; what was broadcast: an address of ours (RFC 1122 3.2.1.3).
    net_address to{};
};

/// How one datagram leaves (RFC 1122 4.1.4). What is not said is the provider's choice, or the socket's (multicast_options).
struct datagram_options {
    net_address from{};             ///< one of our addresses; any, or a group: the provider's choice. Another's: EADDRNOTAVAIL
    std::uint8_t hops = 0;          ///< TTL, hop limit; 0: the provider's choice
    std::uint8_t traffic_class = 0; ///< the whole octet: DSCP and ECN (RFC 2474, 3168)
    friend bool operator==(const datagram_options&, const datagram_options&) = default;
};

/// One datagram to send: owned or borrowed bytes, and where to (nothing: the connected peer).
struct send_operation : socket_operation {
    buffer owned;
    byte_span borrowed{};
    socket_address to{};
    bool to_connected_peer = false;
    datagram_options how{};
    udp_backend* keeper = nullptr; ///< set by a backend that keeps it

protected:
    ~send_operation() = default;
};

struct receive_operation : socket_operation {
    datagram received;

protected:
    ~receive_operation() = default;
};

/// Waits for something that has no value: a connect to end, a send to fit, all written bytes to be acknowledged.
struct plain_operation : socket_operation {
    plain_operation* next_waiting = nullptr; ///< of a backend that keeps it, as the next one
    std::uint8_t waits_for = 0;

protected:
    ~plain_operation() = default;
};

struct tcp_options_set {
    bool no_delay = false;                      ///< TCP_NODELAY: do not wait to fill a segment (RFC 9293 3.7.4)
    /// Bytes; bounds the advertised window. As it stands here it grows as the path needs it, within the shard's limits
    /// (stack_config::largest_receive_buffer, net.ipv4.tcp_rmem); any other size stays.
    /// A smaller one than least_receive_buffer is that much.
    std::uint32_t receive_buffer = 1u << 20;
    std::uint32_t send_buffer = 1u << 20;       ///< bytes queued before write() waits; grows likewise. At least least_send_buffer
    bool keepalive = false;                     ///< RFC 9293 3.8.4
    duration keepalive_idle = std::chrono::hours{2};
    duration keepalive_interval = std::chrono::seconds{75};
    unsigned keepalive_probes = 9;
    /// How long what was sent may stay unacknowledged, or unsent for want of a window, before the connection fails with ETIMEDOUT
    /// (RFC 9293 3.8.3, TCP_USER_TIMEOUT); 0: as long as the provider tries.
    duration user_timeout{0};
    /// RFC 5482: the peer is told of this one, so that it may be as patient, and what it tells is heeded. 0: neither. Our own stack
    /// only; the kernel does not have it.
    duration advertised_user_timeout{0};
    /// For how long a closed connection waits for its peer's FIN (TCP_LINGER2); 0: as the provider has it; below 0: not at all.
    duration fin_wait_2{0};
    /// connect(): Fast Open (RFC 7413, TCP_FASTOPEN_CONNECT). To a server that has given a cookie before, connect() returns at once, and
    /// what is written first travels in the SYN; it may arrive twice, so it must be a question that does no harm then. Who reads, or waits
    /// until there is something to read, before anything is written sends the SYN without data.
    bool fast_open = false;
    bool reset_on_close = false;                ///< destroying the stream resets the connection (SO_LINGER with no time)
    /// Bytes a second that are sent at most; data then leaves evenly (SO_MAX_PACING_RATE). All ones: no cap.
    std::uint64_t max_pacing_rate = ~std::uint64_t{0};
    /// Chosen before the handshake, so that DCTCP can ask for ECN. Later: tcp_stream::set_congestion(). Where the provider has no such
    /// algorithm, listen() and connect() throw ENOENT (the kernel: its module is not there) or EPERM (it is for root alone).
    congestion_algorithm congestion = congestion_algorithm::standard;
    /// Chosen before the handshake. Our own stack only: the kernel has it for all (net.ipv4.tcp_mtu_probing).
    path_mtu_probing mtu_probing = path_mtu_probing::standard;
    /// tcp_stream::info() is to tell everything that the kernel would: segments are counted, the rate of delivery is sampled. The
    /// connection then takes the general way through our stack, which costs instructions; the kernel always counts.
    bool statistics = false;
    std::uint8_t hops = 0;          ///< TTL, hop limit; 0: the provider's choice
    /// The DSCP, where IP has it: the octet's upper six bits; ECN's two are the connection's own (RFC 2474, 3168; IP_TOS, IPV6_TCLASS).
    std::uint8_t traffic_class = 0;

    static constexpr std::uint32_t least_receive_buffer = 2304, least_send_buffer = 4608; ///< bytes, as Linux's: less would carry nothing
    /// As streams and listeners hand them to their provider.
    tcp_options_set with_least_buffers() const noexcept {
        tcp_options_set out = *this;
        if (out.receive_buffer < least_receive_buffer) out.receive_buffer = least_receive_buffer;
        if (out.send_buffer < least_send_buffer) out.send_buffer = least_send_buffer;
        return out;
    }
};

struct tcp_information;

/// One TCP connection of a provider. Destroying it closes it gracefully in the background (bounded by the stack's linger).
class tcp_backend {
public:
    virtual ~tcp_backend() = default;
    /// One reader and one writer at a time; a second is a programmer's error (asserts).
    virtual bool start_read(read_operation&) noexcept = 0;
    virtual bool start_write(write_operation&) noexcept = 0;
    virtual void cancel(socket_operation&) noexcept = 0;
    /// Sends FIN after what was written (half-close); reading goes on. error: ENOTCONN if not connected.
    virtual std::errc shutdown() noexcept = 0;
    /// Waits until everything written, FIN included, has been acknowledged, or the connection failed.
    virtual bool start_drain(plain_operation&) noexcept = 0;
    /// Sends RST and forgets everything. Pending operations fail with ECONNABORTED.
    virtual void abort() noexcept = 0;
    virtual socket_address local_address() const = 0;
    virtual socket_address peer_address() const = 0;
    /// All but the congestion control, and what counts before the handshake alone: fast_open, mtu_probing.
    virtual void set_options(const tcp_options_set&) = 0;
    virtual tcp_options_set options() const = 0; ///< those two as they were set
    /// From now on; the window stays as it is. ENOENT, EPERM: as above.
    virtual std::errc set_congestion(congestion_algorithm) = 0;
    /// What is in force: name_of() one of ours, or what the kernel calls another.
    virtual std::string congestion() const = 0;
    virtual tcp_information info() const = 0;
    /// Readable: read() would not wait. Writable: a byte fits.
    virtual bool readable() const noexcept = 0;
    virtual bool writable() const noexcept = 0;
    virtual bool start_wait_readable(plain_operation&) noexcept = 0;
    virtual bool start_wait_writable(plain_operation&) noexcept = 0;
    /// A buffer of this connection's port to write into and then write(std::move(buffer)); empty if none is free.
    virtual buffer allocate(std::uint32_t size) = 0;
};

/// On its provider's list of listeners while it lives (tcp_listener::bind), so that all can be closed at shutdown.
class listener_backend : public list_hook {
public:
    virtual ~listener_backend() = default;
    virtual bool start_accept(accept_operation&) noexcept = 0;
    virtual void cancel(socket_operation&) noexcept = 0;
    virtual socket_address local_address() const = 0;
    /// Stops listening; pending accepts fail with ECANCELED. Accepted streams live on.
    virtual void close() noexcept = 0;
};

/// How datagrams to groups leave a socket.
struct multicast_options {
    std::uint8_t hops = 1;      ///< TTL or hop limit: 1 stays on the link; 0 reaches members on this host alone
    bool loopback = true;       ///< members on this host (on this shard) get them as well
    net_address on = ipv4::any(); ///< the interface with this address; any: the provider's choice
};

/// What becomes of a datagram that is larger than the path to its destination is known to carry, as Linux's IP_MTU_DISCOVER has it. What
/// leaves whole is cut by nobody on the way.
enum class datagram_size : std::uint8_t {
    cut,    ///< it leaves in fragments (IP_PMTUDISC_WANT)
    refuse, ///< EMSGSIZE; path_mtu() says what fits (IP_PMTUDISC_DO)
    probe,  ///< it leaves whole, if the link takes it, whatever routers have said: for who looks for the path's MTU (RFC 8899 4.1) by
            ///< datagrams that are answered (IP_PMTUDISC_PROBE). Else EMSGSIZE
};

class udp_backend {
public:
    virtual ~udp_backend() = default;
    virtual bool start_receive(receive_operation&) noexcept = 0;
    /// Sends one datagram; waits only while the transmit queue is full. Errors: EMSGSIZE, ENETUNREACH, EHOSTUNREACH,
    /// ECONNREFUSED (reported by the connected peer), EDESTADDRREQ, EADDRNOTAVAIL (`how.from` is none of ours), EAFNOSUPPORT.
    virtual bool start_send(send_operation&) noexcept = 0;
    virtual void cancel(socket_operation&) noexcept = 0;
    /// Fixes the peer: only its datagrams are received, and ICMP errors are reported (ECONNREFUSED).
    virtual std::errc connect(const socket_address& peer) = 0;
    virtual socket_address local_address() const = 0;
    virtual buffer allocate(std::uint32_t size) = 0;
    /// Datagrams to the group are heard, whoever sends them, on the interface that has the address `on` (any: the provider's choice).
    /// Errors: EINVAL (no group), EADDRINUSE (a member already), ENOBUFS (20 groups of one socket, or the provider's limit),
    /// EADDRNOTAVAIL (`on` is none of ours), EAFNOSUPPORT.
    virtual std::errc join(const net_address& group, const net_address& on) = 0;
    /// EADDRNOTAVAIL: no member.
    virtual std::errc leave(const net_address& group, const net_address& on) = 0;
    virtual std::errc set_multicast(const multicast_options&) = 0;
    virtual std::errc set_datagram_size(datagram_size) = 0; ///< of what is sent from now on
    /// Bytes of IP packet that the way to the connected peer is known to carry. 0: there is no peer.
    virtual std::uint32_t path_mtu() const = 0;
    virtual void close() noexcept = 0;
};

struct listen_options {
    unsigned backlog = 1024;      ///< connections waiting for accept(), and half-open ones, each; 0 is 1
    tcp_options_set stream{};     ///< what accepted streams start with
    unsigned fast_open = 0;       ///< Fast Open (RFC 7413): connections accepted before their handshake is done, at most; 0: none
    bool ipv6_only = false;       ///< at `::`: IPv4's peers are another listener's (RFC 3493 5.3). EINVAL at an address of IPv4
};

struct udp_options {
    std::uint32_t receive_queue = 4096; ///< datagrams kept until received; more are dropped and counted
    bool ipv6_only = false; ///< at `::`: nothing comes from or goes to IPv4 (RFC 3493 5.3). EINVAL at an address of IPv4
};

/// Which waits socket_provider::end_waits() ends (orderly_stop.hh has the reasons).
enum class ended_waits : std::uint8_t {
    for_new_work, ///< reads of accepted connections that are quiet, receives of unconnected datagram sockets
    for_any_peer, ///< all reads and receives, and handshakes
};

/// Where names are asked for, as the network has told us (DHCP, RFC 2132 3.8, 3.17; IPv6 routers, RFC 8106).
struct learned_names {
    std::vector<socket_address> servers{};
    std::vector<std::string> search{};
};

/// What a packet to some destination leaves from (RFC 6724 5).
struct chosen_source {
    net_address address;
    unsigned prefix_length = 0; ///< bits of it that are its network's; 0: not known
    bool deprecated = false;    ///< RFC 4862 5.5.4
};

/// A maker of sockets; one per shard. The current one is reactor::current().attached(attachment::network).
class socket_provider {
public:
    virtual ~socket_provider() = default;
    /// Throws std::system_error: EADDRINUSE, EADDRNOTAVAIL, EACCES.
    virtual std::unique_ptr<listener_backend> listen(const socket_address& at, const listen_options&) = 0;
    /// Begins to connect; the backend's operations wait for it. start_connect-style waiting is by `done`.
    /// local may be any:0. Returns a backend at once; `start_connected` tells when the handshake ended.
    virtual std::unique_ptr<tcp_backend> connect(const socket_address& to, const socket_address& local,
                                                 const tcp_options_set&) = 0;
    /// Waits for the handshake of a backend made by connect(): error ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH...
    virtual bool start_connected(tcp_backend&, plain_operation&) noexcept = 0;
    virtual void cancel_connected(tcp_backend&, socket_operation&) noexcept = 0;
    virtual std::unique_ptr<udp_backend> bind_udp(const socket_address& at, const udp_options&) = 0;
    /// Nothing: no route, or no address of ours, leads to this unicast address. Nothing is sent.
    virtual std::optional<chosen_source> source_for(const net_address& destination) const = 0;
    virtual std::string describe() const = 0;

    void remember(listener_backend& listener) noexcept { listeners_.push_back(listener); }
    /// At shutdown: every listener stops, and its accepts fail with ECANCELED.
    void close_listeners() noexcept {
        listeners_.for_each([](listener_backend& listener) { listener.close(); });
    }

    /// A stop was asked for: the waits that are there now fail with ECANCELED. What comes later may wait again.
    virtual void end_waits(ended_waits which) noexcept = 0;

    /// What the network says now: it may say something else later. Empty: it has said nothing.
    const learned_names& names() const noexcept { return names_; }

    /// The provider of the running reactor. Throws std::logic_error if there is none.
    static socket_provider& current();

protected:
    void learn(learned_names names) noexcept { names_ = std::move(names); }

private:
    intrusive_list<listener_backend> listeners_;
    learned_names names_;
};

/// The backend behind a handle; throws EBADF where there is none.
template <typename Backend>
Backend& existing(const std::unique_ptr<Backend>& backend, const char* what) {
    if (backend == nullptr) {
        throw std::system_error(std::make_error_code(std::errc::bad_file_descriptor), std::string(what) + " is closed");
    }
    return *backend;
}

} // namespace corewire
