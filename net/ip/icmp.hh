// ICMP for a host (RFC 792, RFC 1122 3.2.2): answers echo requests, sends errors within the rules and the rate, and
// turns the errors that arrive into reports for TCP and UDP.
//
// One interface's, on one shard. Sans-I/O: what is to be sent is returned as a packet whose head starts at its IPv4
// header, with room for Ethernet before it. Bounded: errors and echo replies, each by a token bucket.
#pragma once

#include <corewire/net/frame/frame_pool.hh>
#include <corewire/net/frame/packet.hh>
#include <corewire/net/ip/error_limit.hh>
#include <corewire/net/ip/token_bucket.hh>
#include <corewire/net/wire/icmp.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/time.hh>

#include <cstdint>

namespace corewire {

enum class icmp_error_kind : std::uint8_t {
    none,
    network_unreachable,  ///< soft for TCP (RFC 1122 4.2.3.9): ENETUNREACH
    host_unreachable,     ///< soft: EHOSTUNREACH
    protocol_unreachable, ///< hard: ECONNREFUSED
    port_unreachable,     ///< hard: ECONNREFUSED
    fragmentation_needed, ///< path MTU (RFC 1191)
    prohibited,           ///< soft: EHOSTUNREACH, codes 9, 10 and 13
    time_exceeded,        ///< soft
    parameter_problem,    ///< soft: EPROTO
    redirect,             ///< another gateway is better for the destination: no error
};

/// What an ICMP or ICMPv6 error tells about one of our own datagrams. Whoever has the flow checks it (TCP: that the sequence number is
/// one it has in flight, RFC 5927 4.1) before it believes anything.
struct icmp_report {
    icmp_error_kind kind = icmp_error_kind::none;
    std::uint8_t code = 0;           ///< as it came
    std::uint16_t mtu = 0;           ///< fragmentation_needed: the next hop's, 0 if the router did not say
    std::uint16_t quoted_length = 0; ///< bytes of IP datagram that was too long, header included
    wire::ip_protocol protocol{};
    net_address local;          ///< the quoted source: one of our addresses
    net_address remote;         ///< the quoted destination
    std::uint16_t local_port = 0;
    std::uint16_t remote_port = 0;
    std::uint32_t sequence = 0; ///< TCP's sequence number of the quoted segment
    std::uint8_t hops = 0;      ///< that the quoted packet had left
    net_address reporter;       ///< who sent the error
    std::uint32_t rest = 0;     ///< the message's second word: a pointer, an MTU, a gateway
    byte_span transport{};      ///< the quoted segment, as far as it is quoted; while the message lies where it came
    ipv4 gateway;               ///< of a redirect
    bool own = false;           ///< nobody has said so: our own link finds nobody there (RFC 4861 7.2.2)
};

/// What a report says of the datagram that begins with these bytes: its flow, its length. False: it is of no flow of TCP's or UDP's, or not
/// its first fragment.
bool ipv4_flow_of(byte_span datagram, icmp_report& report) noexcept;

struct icmp_options {
    std::uint32_t errors_a_second = 1000; ///< RFC 1812 4.3.2.8
    std::uint32_t error_burst = 50;
    std::uint32_t errors_a_second_each = 50; ///< to one host
    std::uint32_t error_burst_each = 10;
    std::uint32_t echoes_a_second = 100'000;
    std::uint32_t echo_burst = 1000;
    std::uint8_t ttl = 64;
};

struct icmp_statistics {
    std::uint64_t received = 0, malformed = 0, bad_checksum = 0, ignored = 0;
    std::uint64_t echo_requests = 0, echo_replies_sent = 0, echo_replies_received = 0;
    std::uint64_t group_echoes_ignored = 0; ///< to a broadcast or group address (RFC 1122 3.2.2.6 MAY)
    std::uint64_t errors_received = 0;      ///< turned into reports
    std::uint64_t errors_foreign = 0;       ///< quoting a datagram that is not ours, or too little of it
    std::uint64_t errors_too_small = 0;     ///< IPv6: of a link that carries less than 1,280 bytes, which none does
    std::uint64_t errors_sent = 0, errors_forbidden = 0;
    std::uint64_t rate_limited = 0;         ///< errors and replies
    std::uint64_t no_frame = 0;
};

/// Facts about a received datagram that its IP header does not tell.
struct arrival {
    bool link_broadcast = false; ///< the frame went to a group MAC address
    bool ip_broadcast = false;   ///< route_table::is_broadcast(destination)
};

enum class icmp_verdict : std::uint8_t {
    nothing, ///< done with (or dropped and counted)
    reply,   ///< `out` is an echo reply to be sent
    report,  ///< `report` is for the protocol that it names
};

class icmp_layer {
public:
    icmp_layer(ipv4 own, frame_pool& pool, icmp_options options = {}, std::uint64_t seed = random_seed());
    void set_address(ipv4 own) noexcept { own_ = own; }

    /// A whole ICMP datagram for us. `p.head` holds the bytes that `ip` views, Ethernet header or not before them; the
    /// message may go on in p.body. An echo request in bytes of its own becomes its reply in place, else a copy does.
    icmp_verdict input(time_point now, const wire::ipv4_view& ip, packet& p, const arrival& how, packet& out,
                       icmp_report& report) noexcept;

    /// An error about the received datagram `offending` (header first, as many bytes as there are). False: the rules
    /// (RFC 1122 3.2.2: never about an ICMP error, a group destination or source, a fragment but the first), the rate
    /// or the pool forbid it; counted.
    bool make_error(time_point now, const wire::icmp_header& error, byte_span offending, const arrival& how,
                    packet& out) noexcept;

    const icmp_statistics& statistics() const noexcept { return statistics_; }

private:
    icmp_verdict echo(time_point now, const wire::ipv4_view& ip, packet& p, const arrival& how, packet& out) noexcept;
    bool report_error(const wire::ipv4_view& ip, const wire::icmp_view& message, icmp_report& report) noexcept;
    bool reuse(const wire::ipv4_view& ip, packet& p, packet& out) noexcept;
    bool copy_reply(const wire::ipv4_view& ip, const packet& p, packet& out) noexcept;
    bool error_allowed(const wire::ipv4_view& offending, const arrival& how) const noexcept;

    ipv4 own_;
    frame_pool& pool_;
    icmp_options options_;
    error_limit errors_;
    token_bucket echoes_;
    icmp_statistics statistics_;
};

} // namespace corewire
