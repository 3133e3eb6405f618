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
#include <corewire/net/posix/linux_send_buffers.hh>
#include <corewire/net/posix/stream_settings.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/net/stack/stack_sockets.hh>
#include <corewire/reactor/loop/timer.hh>

#include <array>
#include <deque>
#include <linux/errqueue.h>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
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
    /// connect() to AF_UNSPEC: the connection is reset, or the listener closed, and the socket is as new (connect(2)).
    outcome dissolve();
    /// MSG_FASTOPEN (RFC 7413): connect() and send() in one. Bytes of `from` that went along in the SYN, or are taken for later; else
    /// -EINPROGRESS: the SYN asks for a cookie, and takes nothing.
    outcome connect_and_send(const socket_address& to, std::span<const iovec> from, int flags = 0, bool waits = false);
    /// sendto() with a name, with FreeBSD's habits: who is not connected is, and what is sent follows the handshake.
    outcome connect_by_sending(const socket_address& to, std::span<const iovec> from);
    bool connects_by_sending() const { return settings_.like_freebsd && (connection_ == nullptr || in_handshake()); }
    /// A connection whose handshake is done; -EAGAIN, -EINVAL if not listening.
    outcome accept(std::unique_ptr<stream_socket>& accepted);
    outcome receive(std::span<const iovec> into, int flags);
    /// `stamps`: which of SO_TIMESTAMPING's stamps this write asks for, as a control message has it (timestamping.rst); -1: as the socket.
    /// `waits`: who calls comes again with what was not taken, until end_write().
    outcome send(std::span<const iovec> from, int flags, int stamps = -1, bool waits = false);
    /// What is done once for a write, of which `taken` bytes were taken: MSG_ZEROCOPY, stamps. send() does it with the last byte, and for
    /// who does not wait.
    void end_write(int flags, int stamps, std::uint64_t taken);
    outcome shutdown(int how);
    /// One message of the error queue.
    struct notice {
        sock_extended_err what{};
        time_point at{};         ///< SCM_TIMESTAMPING's; none: it is no stamp
        std::uint32_t size = 0;  ///< bytes of packet that come with it
        std::uint32_t cost = linux_send_buffers::overhead; ///< of SO_RCVBUF
        std::vector<std::byte> packet; ///< those that are known, the first of them
        socket_address about{};  ///< of an ICMP error: where the packet went
        net_address offender{};  ///< and who has said so; or who has sent what was stamped; `::`: nobody
        bool icmp() const noexcept { return what.ee_origin == SO_EE_ORIGIN_ICMP || what.ee_origin == SO_EE_ORIGIN_ICMP6; }
    };
    /// recvmsg(MSG_ERRQUEUE): the next message; false: there is none.
    bool take_notice(notice& out);
    /// The stack has done what there was to do at this moment: stamps what has left or was acknowledged, and ends what lasts until then.
    void follow_up(time_point now);
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
    /// An error that the next call is told.
    bool has_error() const { return peek_error() != std::errc{}; }
    /// The urgent mark lies so many bytes ahead: who has read anything reads no further for now (tcp_recvmsg_locked()).
    bool is_before_mark(std::uint64_t ahead) const;
    /// How its handshake ended: 0, or why it failed, told once; -EAGAIN: it has not.
    outcome handshake_result();
    /// Bytes taken of the first `most` of `from`, into the connection's send buffer; the rest does not wait there.
    std::uint64_t write_at_once(std::span<const iovec> from, std::uint64_t most);
    /// deferred(): the SYN goes now, and takes of `from` what it returns; or -EINPROGRESS.
    outcome send_with_syn(std::span<const iovec> from, int flags = 0, bool waits = false);
    /// Its SYN waits for the first write.
    bool deferred() const;
    /// TCP_REPAIR: nothing opens it, and what it is given is refused.
    bool under_repair() const noexcept { return repair_.on; }
    bool connecting() const noexcept { return connection_ != nullptr && !told_connected_; }
    /// Handshake still under way.
    bool in_handshake() const;
    bool listening() const noexcept { return listener_ != nullptr; }
    /// A listener, whose host has other settings now: the connections to come are told of them.
    void follow_host(const host_settings& host, tcp_tuning base);
    /// ESTABLISHED or CLOSE-WAIT; or before, with data that a SYN's cookie has let in.
    bool may_send() const;
    /// With SO_LINGER: closing has something left to wait for.
    bool unsent_at_close() const;
    socket_address local_address() const;
    /// No other socket may have its port: a connection that has ended keeps only one that bind() has chosen.
    bool keeps_port() const noexcept;
    /// Whether a write that waits is to try again: always, or, with Linux's habits, when poll() would say so.
    bool wakes_writers() const;
    stream_settings& settings() noexcept { return settings_; }
    /// Null before connect() or when there is none.
    tcp_connection* connection() const noexcept { return connection_ != nullptr ? &connection_->connection() : nullptr; }

private:
    struct inheritance;
    stream_socket(network_stack& stack, const stream_socket& listener, const inheritance& from,
                  std::unique_ptr<stack_tcp_socket> connection);
    /// SO_ERROR: what the connection died of, told once.
    std::errc take_error();
    std::errc peek_error() const;
    /// IP_RECVERR: what ICMP said is an error of the connection at once (ip(7)).
    bool hears_soft_errors() const;
    /// IP_RECVERR, IPV6_RECVERR.
    outcome hear_errors(bool& setting, bool on);
    void forget_reports(); ///< of ICMP, which nobody has read
    tcp_tuning tuning(bool opened_here) const;
    void apply_settings();
    outcome set_socket_option(int name, const void* value, socklen_t size);
    outcome set_tcp_option(int name, const void* value, socklen_t size);
    // With FreeBSD's habits (freebsd_socket.cc).
    unsigned freebsd_events() const;
    bool freebsd_closed() const;
    int freebsd_segment() const;
    std::optional<outcome> set_freebsd_option(int name, int n);
    /// The urgent byte was not read yet.
    bool urgent_is_untaken(const tcp::tcb& t) const;
    outcome begin_to_connect(const socket_address& to, bool fast);
    outcome set_fast_open_key(const void* value, socklen_t size);
    outcome get_fast_open_key(void* value, socklen_t* size) const;
    outcome set_ip_option(int name, const void* value, socklen_t size);
    outcome set_ipv6_option(int name, const void* value, socklen_t size);
    outcome get_ip_option(int name, void* value, socklen_t* size) const;
    outcome receive_without_copy(void* value, socklen_t* size);
    outcome give_cookie(void* value, socklen_t* size);
    outcome give_peer_name(void* value, socklen_t* size) const;
    /// TCP_REPAIR: what is known of a socket under repair (repair.cc).
    struct repair_state {
        bool on = false, microseconds = false;
        bool forces_reuse = false;               ///< SK_FORCE_REUSE, until SO_REUSEADDR says otherwise
        int queue = 0;                           ///< TCP_REPAIR_QUEUE
        std::uint32_t written = 0, received = 0; ///< TCP_QUEUE_SEQ, without a connection
        std::uint32_t timestamp_offset = 0;
        std::array<std::uint32_t, 5> window{};   ///< struct tcp_repair_window
    };
    static bool is_of_repair(int name) noexcept;
    bool is_closed() const; ///< as Linux sees a socket: also in TIME-WAIT
    /// Linux's habit: the ACK of the handshake waits for what is written (TCP_QUICKACK off, or TCP_DEFER_ACCEPT).
    bool awaits_writer() const { return settings_.interactive || settings_.defer_accept != 0; }
    outcome set_repair_option(int name, const void* value, socklen_t size);
    outcome set_repair(int how);
    void vanish();
    outcome get_repair_option(int name, void* value, socklen_t* size) const;
    std::optional<outcome> look_into_repaired(std::span<const iovec> into, int flags) const;
    void set_low_water(int bytes);
    outcome give_saved_syn(void* value, socklen_t* size);
    outcome get_ipv6_option(int name, void* value, socklen_t* size) const;
    /// The largest packet on the connection's path; with Linux's habits whatever the peer can take. Bytes.
    std::uint32_t path_mtu(const tcp_connection& c) const;
    /// TCP_INFO's: what the connection has taken notice of.
    std::uint32_t noticed_path_mtu(const tcp_connection& c) const;
    void fit_into_path(tcp_connection& c);
    outcome give_path_mtu(void* value, socklen_t* size) const;
    /// With Linux's habits: tp->mss_cache, also of a connection that has heard nothing. Bytes.
    std::uint32_t segment_of(const tcp_connection& c) const;
    std::uint32_t told_segment() const; ///< TCP_MAXSEG
    bool may_be_local(const net_address& at) const;
    /// Where connections to `remote` come from; `::`: nothing of ours can reach it.
    net_address source_for(const net_address& remote) const;
    outcome get_tcp_option(int name, void* value, socklen_t* size);
    /// What the host tells its connections of time-outs, and the largest segment that it makes.
    tcp::parameters host_times() const {
        tcp::parameters p;
        p.mss = 0xffff - 40;
        if (base_) base_(p);
        return p;
    }
    void forget_connection();
    std::uint32_t unsent() const;
    /// TCP_NOTSENT_LOWAT: how much one step of a write may take; 0: it waits. Bytes.
    std::uint64_t room_below_mark() const;
    /// With Linux's habits: the same, after `taken` bytes of this write. The last buffer is filled whatever the limits are; a new one is
    /// begun below SO_SNDBUF and TCP_NOTSENT_LOWAT. `pushes`: this write has filled one.
    std::uint64_t room_in_buffers(std::uint64_t taken, bool pushes);
    void begin_buffer(std::uint64_t at);
    /// How many buffers hold what waits, which begins at `from` and ends at `end`; the first of them has a packet of so many bytes.
    std::uint32_t waiting_buffers(std::uint64_t from, std::uint64_t end, std::uint32_t packet) const;
    std::uint32_t send_buffer() const;
    std::uint32_t send_memory() const; ///< with Linux's habits: sk_wmem_queued
    std::uint32_t send_memory(const tcp::tcb& t, const tcp::connection_info& i) const;
    linux_send_buffers buffers_of(const tcp::tcb& t, const tcp::connection_info& i) const noexcept;
    /// With Linux's habits: SO_SNDBUF as it is now. Bytes.
    std::uint32_t send_limit(const tcp::connection_info& i) const;
    /// poll(): a writer is welcome.
    bool may_write() const;
    /// Linux's habit: an option about room has been set, which is news for who waits on edges (sk_stream_write_space()).
    void tell_writers();
    /// What one read would give, which ends before the mark (tcp(7)). Bytes.
    std::uint32_t before_next_mark(const tcp_connection& c) const;
    /// MSG_PEEK: copies that. Bytes.
    std::uint32_t look_ahead(const tcp_connection& c, std::uint32_t from, std::span<const iovec> into) const;
    /// SO_PEEK_OFF follows what was looked at, and what was read from under it.
    void move_peek_offset(std::int64_t by) noexcept;
    /// SIOCINQ: bytes to read, those before the mark alone if that is among them and out of line.
    std::uint32_t before_mark(const tcp_connection& c) const;
    /// recv(MSG_OOB): the marked byte, once.
    outcome take_urgent(tcp_connection& c, std::span<const iovec> into, int flags);
    /// The next byte to be read is the marked one, which reads skip unless SO_OOBINLINE is set.
    bool at_mark(const tcp_connection& c) const;
    bool skips_mark(const tcp_connection& c) const { return !settings_.inline_urgent && at_mark(c); }
    /// A buffer as SO_RCVBUF and SO_SNDBUF report it: what was asked for, or what it has grown to.
    std::uint32_t grown(std::uint32_t asked, std::uint32_t tcp::connection_info::*buffer) const;

    using kept_options = std::map<std::pair<int, int>, int>;
    /// What a connection has of its listener, as that was when the handshake ended (sk_clone_lock()).
    struct inheritance {
        stream_settings settings;
        repair_state repair;
        kept_options kept;
    };
    /// Of those that had arrived before the listener's options changed.
    struct past_inheritance {
        std::uint64_t arrivals = 0; ///< so many had
        std::shared_ptr<const inheritance> what;
    };
    // TCP_DEFER_ACCEPT, unless it leaves handshakes open (Linux's habit): connections whose handshake is done and that have brought nothing
    // yet. They are the listener's no more; as many as its backlog.
    struct parked {
        std::unique_ptr<stack_tcp_socket> connection;
        time_point until;
        std::shared_ptr<const inheritance> from; ///< null: the listener as it is; else it may be accepted
    };
    void keep_inheritance();
    std::shared_ptr<const inheritance> inheritance_of_next() const;
    void make_accepted(std::unique_ptr<stream_socket>& accepted, const std::shared_ptr<const inheritance>& from,
                       std::unique_ptr<stack_tcp_socket> connection) const;
    struct alarm final : timer { ///< has who waits for a connection look again
        alarm() noexcept : timer([](timer&) noexcept {}) {}
    };
    bool parks() const;
    bool may_be_accepted(const parked& p) const;
    void park_arrivals() const;
    std::size_t acceptable() const; ///< of parked_
    void stop_listening();
    void set_up_listener();

    network_stack& stack_;
    int family_;
    stream_settings settings_;
    tcp_tuning base_;
    socket_address bound_{};
    bool is_bound_ = false;
    repair_state repair_;
    std::uint32_t known_path_mtu_ = 0; ///< IP_PMTUDISC_DONT: when it was last written to; 0: it has not been
    std::uint64_t cookie_ = 0; ///< SO_COOKIE; 0: nobody has asked
    kept_options kept_; ///< options that are told again and change nothing here: by level and name
    std::uint32_t asked_segment_ = 0;  ///< TCP_MAXSEG when the connection was opened from here
    std::uint32_t past_segment_ = 536; ///< segment_of() the connection before, at first TCP_MSS_DEFAULT
    bool told_connected_ = false; ///< connect() has returned 0
    bool error_told_ = false;
    bool reading_shut_ = false;
    bool writing_shut_ = false;
    bool fin_waits_ = false;      ///< Linux's habit: for the handshake of a connection that a SYN's cookie has opened
    bool held_ = false;           ///< the last send() said MSG_MORE, or TCP_CORK is on
    mutable bool no_space_ = false; ///< a writer was turned away: an edge when there is room again
    std::uint64_t turned_away_at_ = 0; ///< and so many bytes were acknowledged
    std::uint64_t last_buffer_ = 0;    ///< Linux's habit: where the last buffer of the queue begins, in bytes of the stream
    std::deque<std::uint64_t> buffers_; ///< and where those do that have not left; as many as SO_SNDBUF allows
    mutable std::uint32_t grown_send_ = 0; ///< Linux's habit: what SO_SNDBUF has grown to
    mutable std::uint64_t space_edges_ = 0;
    std::uint64_t urgent_taken_ = 0; ///< the mark whose byte recv(MSG_OOB) has given: how many bytes of the stream end with it
    std::errc pending_error_{};   ///< of a connection that is gone
    /// MSG_ZEROCOPY: sends whose bytes are not acknowledged all, and ranges of those that are, which nobody has been told of yet. What was
    /// sent is copied here as through any device that cannot do without (msg_zerocopy.rst).
    struct lent {
        std::uint32_t id = 0;
        std::uint64_t end = 0;    ///< bytes sent from the beginning
    };
    /// SO_TIMESTAMPING: a write whose last byte is to be stamped.
    struct stamped_write {
        std::uint64_t end = 0;
        unsigned flags = 0;
        std::uint32_t size = 0; ///< bytes of payload of the segment that it ends with
        bool left = false;
        time_point again = time_point::min(); ///< when its end was last sent again
    };
    static constexpr std::size_t most_lent = 4096; ///< of more the bytes are not spoken of: ENOBUFS
    void settle_lent() const;
    /// What has come for the error queue since.
    void gather_notices() const;
    void hear_report() const;
    bool has_room_for(const notice& n) const;
    void keep(notice&& n) const;
    outcome set_timestamping(int flags);
    bool leaves_anew(stamped_write& w, std::uint32_t unsent) const;
    void add_stamp(unsigned kind, const stamped_write& w, time_point now, std::uint32_t size);
    std::uint64_t acknowledged() const { return written_ - connection()->tcb.queued(); }
    mutable std::deque<lent> lent_;
    mutable std::deque<notice> notices_; ///< as many as SO_RCVBUF pays for
    mutable std::uint64_t notices_cost_ = 0; ///< bytes
    std::deque<stamped_write> stamped_;
    std::uint64_t stamp_base_ = 0; ///< SOF_TIMESTAMPING_OPT_ID counts bytes from here
    bool uncorked_ = false;       ///< for this moment, by TCP_NODELAY (tcp(7))
    /// MSG_MORE holds until an ACK: what had been acknowledged when it came; all ones: it does not.
    std::uint64_t more_until_ = ~std::uint64_t{0};
    mutable std::uint64_t notice_edges_ = 0;
    std::uint64_t past_edges_ = 0; ///< of connections and listeners that are gone: edges() says nothing again that it has said
    std::optional<tcp::fast_open_keys> own_keys_; ///< TCP_FASTOPEN_KEY, set here
    std::uint32_t next_lent_ = 0;
    std::uint64_t written_ = 0;   ///< bytes
    std::vector<std::byte> saved_syn_; ///< TCP_SAVED_SYN
    std::unique_ptr<tcp_listen_socket> listener_;
    mutable std::vector<parked> parked_;
    mutable std::deque<past_inheritance> inheritances_; ///< no more than connections wait for accept()
    mutable alarm parking_ends_;
    std::unique_ptr<stack_tcp_socket> connection_;
};

} // namespace corewire::posix
