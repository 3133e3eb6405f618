// ICMPv6 for a host (RFC 4443): answers echo requests, sends errors within the rules and the rate, and turns the errors that
// arrive into the reports that ICMP's (icmp.hh) are, for TCP and UDP. Neighbour discovery is not here.
//
// One interface's, on one shard. Sans-I/O: what is to be sent is returned as a packet whose head starts at its IPv6
// header, with room for Ethernet before it. Bounded: errors and echo replies, each by a token bucket.
#pragma once

#include <corewire/net/ip/icmp.hh>
#include <corewire/net/wire/icmpv6.hh>
#include <corewire/net/wire/ipv6.hh>

namespace corewire {

/// RFC 4443 3: what an error says.
struct icmpv6_error {
    wire::icmpv6_type type = wire::icmpv6_type::unreachable;
    std::uint8_t code = 0;
    std::uint32_t rest = 0;
    static constexpr std::uint8_t incomplete_headers = 3; ///< code of a parameter problem: of a first fragment (RFC 7112 5)
    bool about_groups = false; ///< may be told about a packet to a group: packet too big, and an option that says so
    static icmpv6_error port_unreachable() noexcept { return {wire::icmpv6_type::unreachable, 4, 0, false}; }
    static icmpv6_error reassembly_took_too_long() noexcept { return {wire::icmpv6_type::time_exceeded, 1, 0, false}; }
    static icmpv6_error parameter_problem(std::uint8_t code, std::uint32_t at, bool about_groups = false) noexcept {
        return {wire::icmpv6_type::parameter_problem, code, at, about_groups};
    }
};

class icmpv6_layer {
public:
    explicit icmpv6_layer(frame_pool& pool, icmp_options options = {}, std::uint64_t seed = random_seed());

    /// A whole ICMPv6 message for us, `offset` bytes into p.head, of `size` bytes, which may go on in p.body; its checksum is
    /// right, and it is none of neighbour discovery's. `group`: the packet went to many. `from` is the source of a reply.
    icmp_verdict input(time_point now, const wire::ipv6_view& ip, std::uint32_t offset, std::uint32_t size, const packet& p,
                       bool group, packet& out, icmp_report& report) noexcept;
    /// Pieces together, pseudo-header and all.
    static bool checksum_ok(const wire::ipv6_view& ip, std::uint32_t offset, std::uint32_t size, const packet& p) noexcept;

    /// An error about the received packet `offending` (IPv6 header first, as many bytes as there are). `from`: an address of ours. False:
    /// the rules (RFC 4443 2.4 (e): never about an ICMPv6 error or a redirect, or what may be one, nor about a packet to a group or from no
    /// single host), the rate or the pool forbid it; counted.
    bool make_error(time_point now, const icmpv6_error& error, byte_span offending, const ipv6& from, bool group, packet& out) noexcept;

    /// Of what is sent from now on.
    void set_hop_limit(std::uint8_t hops) noexcept { options_.ttl = hops; }

    const icmp_statistics& statistics() const noexcept { return statistics_; }
    void count_malformed() noexcept { ++statistics_.malformed; }
    void count_bad_checksum() noexcept { ++statistics_.bad_checksum; }

private:
    icmp_verdict echo(time_point now, const wire::ipv6_view& ip, std::uint32_t offset, std::uint32_t size, const packet& p,
                      bool group, packet& out) noexcept;
    bool report_error(const wire::ipv6_view& ip, const wire::icmpv6_view& message, icmp_report& report) noexcept;

    frame_pool& pool_;
    icmp_options options_;
    error_limit errors_;
    token_bucket echoes_;
    icmp_statistics statistics_;
};

/// The flow that the ICMPv6 error in `message` quotes: ports and all. False: it quotes none.
bool quoted_ipv6_flow(byte_span message, icmp_report& report) noexcept;
/// The same of the packet itself (ipv4_flow_of()).
bool ipv6_flow_of(byte_span packet, icmp_report& report) noexcept;

} // namespace corewire
