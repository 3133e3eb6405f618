// What one connection is told at birth. Every field has a default that is right for a data centre and legal everywhere.
// A plain value; connections that were told the same hold one copy of it together (commons.hh).
#pragma once

#include <corewire/net/tcp/congestion/controller.hh>
#include <corewire/reactor/base/time.hh>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace corewire::tcp {

class buffer_budget;
class challenge_limiter;
class commons;

/// Whose habits on the wire to follow where the RFCs leave a choice.
enum class personality : std::uint8_t {
    standard, ///< what is best
    linux_,   ///< SYN options MSS, SACK-permitted, timestamps, NOP, window scale; and what docs/rfc/9293.md lists as Linux's
    freebsd,  ///< SYN options MSS, NOP, window scale, SACK-permitted, timestamps; and what apps/packetdrill/README.md lists
};

/// Packetisation-layer path MTU discovery (RFC 4821, 8899): as Linux's net.ipv4.tcp_mtu_probing.
enum class path_probing : std::uint8_t {
    off,           ///< what ICMP says, and nothing else
    on_black_hole, ///< segments become smaller when the path swallows large ones, and then larger as it carries them
    always,        ///< begins with small ones
};

/// Linux's habit: segments leave several in one packet, which the port may cut (TSO): send/super_segments.hh.
struct super_segment_habits {
    bool on = false;                  ///< else every segment is a packet
    std::uint8_t least = 2;           ///< segments of a packet, though the pace asks for fewer (net.ipv4.tcp_min_tso_segs)
    std::uint8_t rtt_log = 9;         ///< the larger, the longer are round trips that packets grow for (tcp_tso_rtt_log)
    std::uint8_t window_divisor = 3;  ///< that share of the window is worth a packet (tcp_tso_win_divisor); 0: three segments are
    std::uint16_t slow_start_percent = 200, percent = 120; ///< the pace, of the window a round trip (tcp_pacing_ss_ratio, _ca_ratio)
    bool operator==(const super_segment_habits&) const noexcept = default;
};

/// Linux's habit: beyond a gap the first three SACKs go at once, and then one tells of all that came in a while.
struct sack_compression {
    std::uint8_t most = 44; ///< so many are left out in a row (net.ipv4.tcp_comp_sack_nr); 0: none
    duration wait = std::chrono::milliseconds{1};    ///< but a twentieth of the round trip (tcp_comp_sack_delay_ns)
    duration slack = std::chrono::microseconds{100}; ///< as the timer may be late (tcp_comp_sack_slack_ns)
    bool operator==(const sack_compression&) const noexcept = default;
};

struct parameters {
    std::uint16_t mss = 1460;                 ///< largest payload we take without options (MTU - 40): announced in the SYN
    std::uint16_t path_mss = 0xffff;          ///< the same of what is known of the path to the peer: no larger ones are sent at first
    std::uint32_t receive_buffer = 1u << 20;  ///< bytes; bounds the window
    std::uint32_t receive_buffer_limit = 0;   ///< what it may be set to later: the window scale has room for it; 0: no more
    std::uint32_t receive_growth_limit = 0;   ///< bytes; so far the receive buffer grows by itself as the path needs it; 0: not at all
    std::uint32_t send_growth_limit = 0;      ///< the same of the send buffer
    std::uint32_t receive_memory = 0;         ///< Linux's habit: what unread segments may cost (SO_RCVBUF); 0: twice receive_buffer
    std::uint32_t send_buffer = 1u << 20;     ///< bytes queued, sent or not, before writable() is 0 (one write may overshoot)
    std::uint16_t least_segment = 64;         ///< bytes: no smaller ones are made, whatever MSS the peer names
    std::uint32_t send_chunks = 4096;         ///< pieces in the send queue before writable() is 0
    std::uint32_t receive_pieces = 0;         ///< in the receive queue: more are dropped, and the window is closed; 0: as the buffer needs
    std::uint32_t reassembly_pieces = 0;      ///< that wait for a gap to close; more are dropped; 0: as the buffer needs

    bool cork = false;           ///< nothing but full segments, until it is taken away (TCP_CORK)
    bool no_delay = false;       ///< Nagle's algorithm off (RFC 9293 3.7.4)
    bool timestamps = true;      ///< RFC 7323
    bool sack = true;            ///< RFC 2018
    bool window_scaling = true;  ///< RFC 7323
    bool shrinks_window = false; ///< Linux's habit: where memory is short the window is taken back (net.ipv4.tcp_shrink_window)
    bool fast_open_without_cookie = false; ///< a SYN takes data along though the peer never gave a cookie (RFC 7413): for closed networks
    bool ecn = false;            ///< RFC 3168: offered when we open, agreed to when the peer offers
    bool accurate_ecn = false;   ///< RFC 9768: offered when we open, agreed to (and classic ECN too) when the peer offers
    bool tail_loss_probe = true; ///< RFC 8985 7
    bool forward_rto = true;     ///< F-RTO (RFC 5682): whether a time-out was spurious is asked
    bool duplicate_sack = true;  ///< bytes that came twice are reported (RFC 2883)
    bool restart_after_idle = true; ///< cwnd falls back to the initial window after an idle time-out (RFC 5681 4.1)
    bool window_validation = false; ///< a window that is not used is kept for five minutes in place of that, and paced (RFC 7661)
    bool fast_path = true;       ///< false: every segment goes the general way, in and out; the same happens, more slowly
    bool pacing = false;         ///< data leaves at the pace of the window, not in bursts of it (send/pacer.hh)
    std::uint64_t max_pacing_rate = congestion_controller::not_paced; ///< bytes a second; a cap paces too (SO_MAX_PACING_RATE)
    bool counted = false;        ///< segments, rates and times are kept for info() (segment_tally): every segment goes the general way
    personality habits = personality::standard;
    super_segment_habits super_segments{};
    sack_compression sparse_sacks{};
    // What the IP headers say; the stack writes them. Of IPv4 and of IPv6, for a listener may serve both.
    std::uint8_t type_of_service = 0, traffic_class = 0; ///< RFC 2474; ECN's two bits are the connection's own, and 0 here
    std::uint8_t time_to_live = 0, hop_limit = 0;        ///< 0: the host's
    /// What comes must have as many hops left, or it has come from too far away (RFC 5082); the stack looks.
    std::uint8_t least_time_to_live = 0, least_hop_limit = 0;
    bool heeds_path_reports = true, heeds_path_reports6 = true; ///< ICMP's word on the path's MTU; else it is nothing to us
    /// Linux's habits, over IPv4: such a word counts for what is written later (IP_PMTUDISC_DONT); and whatever it says, it stands for so
    /// many bytes (net.ipv4.ip_no_pmtu_disc = 1), unless that is 0.
    bool shrinks_later = false;
    std::uint16_t presumed_mtu = 0;

    path_probing mtu_probing = path_probing::on_black_hole;
    std::uint16_t mtu_probing_base = 1024;     ///< payload beside timestamps: what nearly every path carries (RFC 4821 7.2)
    std::uint16_t mtu_probing_floor = 512;     ///< payload: no black hole makes segments smaller
    std::uint16_t mtu_probing_threshold = 8;   ///< bytes: the search ends when what is left to be found is less
    duration mtu_probing_interval = std::chrono::minutes{10}; ///< after which a search that has ended begins anew

    duration delayed_ack = std::chrono::milliseconds{40}; ///< must be below 500 ms (RFC 9293 MUST-40); 0: every segment
    duration peer_delayed_ack = std::chrono::milliseconds{40}; ///< what a tail loss probe allows for the peer's (RFC 8985 7.2)
    std::uint8_t quick_acks = 16;                         ///< immediate ACKs at the start, until data flows back
    std::uint8_t interactive_after = 1; ///< Linux's habit: so many answers, and ACKs wait for one (net.ipv4.tcp_pingpong_thresh)
    duration min_rto = std::chrono::milliseconds{200};
    duration initial_rto = std::chrono::seconds{1};       ///< RFC 6298 2.1
    duration max_rto = std::chrono::seconds{60};          ///< RFC 6298 2.5
    duration rto_slop{0};  ///< on top of every time-out that was measured or has backed off, and not doubled: FreeBSD's habit
    duration min_probe = std::chrono::microseconds{1000}; ///< least time before a tail loss probe
    duration min_reordering = std::chrono::microseconds{10}; ///< least patience with a segment that was overtaken (RFC 8985)
    std::uint16_t duplicate_threshold = 3; ///< DupThresh: so many segments overtake a lost one, while none came late (RFC 6675 2)
    std::uint16_t reordering_limit = 300;  ///< segments: info() tells of no worse reordering
    std::uint8_t syn_linear_timeouts = 0; ///< so many SYNs are repeated after initial_rto before the time-out backs off
    std::uint8_t syn_retries = 7;      ///< 183 s with the defaults: RFC 9293 MUST-23 asks for 3 minutes
    duration open_timeout{0};          ///< no attempt to open takes longer, whatever syn_retries says; 0: it may
    bool ecn_fallback = true;          ///< a SYN that is repeated does not ask for ECN any more (RFC 3168 6.1.1.1, RFC 9768 3.1.4.1)
    std::uint8_t accurate_ecn_option = 2; ///< AccECN's with Linux's habits: 0 never, 1 as changes ask, 2 always, 3 even if it may get lost
    std::uint8_t accurate_ecn_beacon = 3; ///< where it is 1: so many a round trip at least
    bool thin_linear_timeouts = false; ///< with less than four segments in flight the first six time-outs do not back off: Linux's habit
    std::uint8_t syn_ack_retries = 5;  ///< 63 s: half-open connections are kept for strangers
    std::uint8_t retries = 15;         ///< R2 of RFC 9293 3.8.3, about 13 minutes
    std::uint8_t trouble_after = 3;    ///< R1
    std::uint8_t orphan_retries = 8;   ///< R2 when nobody waits for the answer any more: 102 s, where RFC 9293 3.8.3 asks for 100
    duration user_timeout{0};          ///< RFC 9293 3.8.3, RFC 5482; 0: R2 alone decides
    /// What we tell the peer of our patience, so that it may have as much (RFC 5482: ADV_UTO). 0: nothing is told, and what the
    /// peer tells is not heeded.
    duration advertised_user_timeout{0};
    duration least_user_timeout = std::chrono::seconds{100};  ///< of what is agreed on (RFC 5482 3.1: L_LIMIT)
    duration largest_user_timeout = std::chrono::hours{1};    ///< (U_LIMIT)
    bool keepalive = false;            ///< RFC 9293 3.8.4: off unless asked for (MUST-25)
    duration keepalive_idle = std::chrono::hours{2};
    duration keepalive_interval = std::chrono::seconds{75};
    std::uint8_t keepalive_probes = 9;
    duration time_wait = std::chrono::seconds{60};  ///< 2 MSL
    bool keeps_time_wait = false;      ///< no reset ends it before its time (RFC 1337)
    duration fin_wait_2 = std::chrono::seconds{60}; ///< an orphan's patience with a peer that does not close; below 0: none, a reset
    /// Pure segments that are out of place are answered no more often (RFC 5961 7 of one connection; net.ipv4.tcp_invalid_ratelimit).
    duration answer_pause = std::chrono::milliseconds{500};
    bool reset_on_close = false;       ///< letting go of the connection resets it (SO_LINGER with no time)

    congestion_factory congestion = cubic_congestion;
    /// Shared by the stack's connections: bounds challenge ACKs (RFC 5961 7). Null: unbounded.
    challenge_limiter* challenges = nullptr;
    /// Shared as well: what buffers may grow by, all together. Null: only the two limits bound it.
    buffer_budget* budget = nullptr;
    /// Shared as well: where equal parameters and unused controllers are found. Null: each connection has its own.
    commons* common = nullptr;

    /// For paths of microseconds, where both ends wait as little: a lost end of a flight costs tens of microseconds, and a lost probe for
    /// it milliseconds. Across other networks, or to a peer that delays its ACKs by 40 ms, it would send much twice.
    void suit_low_latency() noexcept {
        delayed_ack = peer_delayed_ack = std::chrono::milliseconds{1};
        min_rto = std::chrono::milliseconds{5};
        min_probe = std::chrono::microseconds{20};
    }

    bool operator==(const parameters&) const noexcept = default;
    bool like_linux() const noexcept { return habits == personality::linux_; }
    /// What `congestion` stands for: with Linux's habits CUBIC counts as it does there, with FreeBSD's NewReno, too.
    congestion_factory controller() const noexcept {
        if (like_freebsd() && congestion == cubic_congestion) return freebsd_cubic_congestion;
        if (like_freebsd() && congestion == reno_congestion) return freebsd_newreno_congestion;
        return like_linux() && congestion == cubic_congestion ? linux_cubic_congestion : congestion;
    }
    bool like_freebsd() const noexcept { return habits == personality::freebsd; }
    /// segment_tally is kept. Linux's TCP_INFO always has it.
    bool counts() const noexcept { return counted || like_linux(); }
    /// The largest window that will ever be announced (RFC 7323 2.3 has the bound).
    std::uint32_t largest_window() const noexcept { return std::max({receive_buffer, receive_buffer_limit, receive_growth_limit}); }
};

} // namespace corewire::tcp
