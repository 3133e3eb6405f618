// A listening TCP socket of the stack: connections that finished their handshake and wait for accept(), and accepts that
// wait for connections. Bounded by its backlog, half-open and ready connections each (and those that were half-open when the
// ready ones filled up); beyond it SYNs are answered with cookies, which keep no state.
#pragma once

#include <corewire/net/socket/provider.hh>
#include <corewire/net/stack/host_share.hh>
#include <corewire/net/stack/tcp_connection.hh>
#include <corewire/net/stack/tcp_tuning.hh>
#include <corewire/net/tcp/open/fast_open.hh>
#include <corewire/net/tcp/open/syn_cookies.hh>

#include <optional>
#include <vector>

namespace corewire {

class tcp_listen_socket final : public listener_backend {
public:
    tcp_listen_socket(tcp_layer& layer, const socket_address& at, const listen_options& options);
    ~tcp_listen_socket() override;

    bool start_accept(accept_operation& op) noexcept override;
    void cancel(socket_operation& op) noexcept override { op.unlink(); }
    /// At 0.0.0.0: with the host's address, as it is now.
    socket_address local_address() const override;
    /// As it was asked for.
    const socket_address& bound_to() const noexcept { return at_; }
    /// In shared mode: what it has of the host's port.
    net_address claims() const noexcept { return host_share::claimed_by(at_.net(), options_.ipv6_only); }
    void close() noexcept override;

    const listen_options& options() const noexcept { return options_; }
    /// What connections that are accepted from now on are told beyond options().
    void set_tuning(tcp_tuning tuning) { tuning_ = std::move(tuning); }
    const tcp_tuning& tuning() const noexcept { return tuning_; }
    /// How many may wait, half-open and ready each, from now on.
    void set_backlog(unsigned backlog) noexcept { options_.backlog = backlog; }
    /// Whether SYNs are answered with cookies: by themselves it is when there is no room.
    enum class cookie_use : std::uint8_t { off, when_full, always };
    void set_cookies(cookie_use use) noexcept { cookies_ = use; }
    /// What is kept of the SYN of each connection that comes, for tcp_layer::take_saved_syn(): its headers from IP's on, or from the
    /// link's on.
    enum class syn_headers : std::uint8_t { none, from_ip, from_link };
    void save_syns(syn_headers what) noexcept { saved_headers_ = what; }
    syn_headers saved_headers() const noexcept { return saved_headers_; }
    cookie_use cookies() const noexcept { return cookies_; }
    /// The ACK of a handshake that finds no room is refused (Linux's tcp_abort_on_overflow); else the peer may find room later.
    void refuse_overflow(bool on) noexcept { refuses_overflow_ = on; }
    bool refuses_overflow() const noexcept { return refuses_overflow_; }
    /// With Linux's habits, of connections to come: tcb::defer_handshake(). 0: as soon as the peer's ACK comes.
    void defer_handshakes(std::uint8_t time_outs) noexcept { deferral_ = time_outs; }
    std::uint8_t deferral() const noexcept { return deferral_; }
    /// Connections have the type of service of their SYNs (Linux's tcp_reflect_tos).
    void reflect_service(bool on) noexcept { reflects_service_ = on; }
    bool reflects_service() const noexcept { return reflects_service_; }
    bool room_for_half_open() const noexcept {
        return half_open_ < options_.backlog && (cookies_ != cookie_use::off || half_open_ <= most_half_open_ - most_half_open_ / 4);
    }
    /// Without cookies no more than three quarters of so many are half-open (Linux's tcp_max_syn_backlog).
    void limit_half_open(unsigned most) noexcept { most_half_open_ = most; }
    /// For one in the place of a connection in TIME-WAIT, which has no cookie to fall back on: as many again.
    bool room_for_incarnation() const noexcept { return half_open_ / 2 < options_.backlog; }
    bool room_for_ready() const noexcept { return ready_count_ < options_.backlog; }
    // ---- Fast Open (RFC 7413): connections that a SYN's cookie has opened, and whose handshake is not done ----
    void set_fast_open(unsigned limit, bool without_cookie = false) noexcept {
        options_.fast_open = limit;
        without_cookie_ = without_cookie;
    }
    bool tuned_without_cookie() const noexcept { return without_cookie_; }
    /// Cookies by a key of its own (TCP_FASTOPEN_KEY), not the stack's.
    void set_fast_open_keys(const tcp::fast_open_keys& keys) { fast_open_keys_ = keys; }
    const std::optional<tcp::fast_open_keys>& fast_open_keys() const noexcept { return fast_open_keys_; }
    /// Whether one more may be opened (5.1: those that were reset count for a while longer, or the limit would be none).
    bool room_for_early(time_point now) noexcept;
    unsigned early() const noexcept { return early_; }
    void count_early(int change) noexcept { early_ += static_cast<unsigned>(change); }
    void on_early_reset(time_point now) { early_resets_.push_back(now + early_reset_counts); }
    /// For a while after a cookie the rest of a first flight may come before, or without, the segment that proves it good: to
    /// be dropped, not reset; the peer sends it again.
    void gave_cookie(time_point now) noexcept {
        cookie_until_ = now + cookie_patience;
        cookies_live_until_ = now + tcp::cookie_lifetime;
    }
    /// While one may come home. Else what claims to be one is a guess, of which one in 2^24 is right.
    bool cookies_live(time_point now) const noexcept { return now < cookies_live_until_; }
    bool cookie_is_out(time_point now) const noexcept { return now < cookie_until_; }
    void count_half_open(int change) noexcept { half_open_ += static_cast<unsigned>(change); }
    /// A connection of ours is established: hands it to a waiting accept, or queues it. False when the queue is full.
    bool on_established(tcp_connection& c) noexcept;
    /// A ready connection died before it was accepted.
    void forget(tcp_connection& c) noexcept;
    std::size_t ready() const noexcept { return ready_count_; }
    /// Connections that have come since it listens.
    std::uint64_t arrivals() const noexcept { return arrivals_; }
    unsigned half_open() const noexcept { return half_open_; }
    /// Of ready(): those that the peer has reset already, and that accept() gives all the same.
    std::size_t ready_and_over() noexcept;

private:
    void give(accept_operation& op, tcp_connection& c) noexcept;
    tcp_layer* layer_; ///< null once closed
    socket_address at_;
    listen_options options_;
    tcp_tuning tuning_;
    static constexpr duration cookie_patience = std::chrono::seconds{10}; ///< three retransmissions of the peer
    time_point cookie_until_{};
    time_point cookies_live_until_{};
    static constexpr duration early_reset_counts = std::chrono::seconds{60};
    bool without_cookie_ = false;
    std::optional<tcp::fast_open_keys> fast_open_keys_;
    cookie_use cookies_ = cookie_use::when_full;
    syn_headers saved_headers_ = syn_headers::none;
    unsigned most_half_open_ = ~0u;
    bool refuses_overflow_ = false;
    bool reflects_service_ = false;
    std::uint8_t deferral_ = 0;
    unsigned half_open_ = 0;
    unsigned early_ = 0;
    std::vector<time_point> early_resets_; ///< until when each counts; at most the limit
    std::size_t ready_count_ = 0;
    std::uint64_t arrivals_ = 0;
    intrusive_list<accept_hook> ready_;
    intrusive_list<waiter> waiting_;
};

} // namespace corewire
