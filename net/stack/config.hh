// What a stack is told when it is made: who it is on the network, and how much it may hold.
#pragma once

#include <corewire/net/dhcp/dhcp6_client.hh>
#include <corewire/net/dhcp/dhcp_client.hh>
#include <corewire/net/ip/icmp.hh>
#include <corewire/net/ip/reassembly.hh>
#include <corewire/net/link/neighbors.hh>
#include <corewire/net/tcp/parameters.hh>
#include <corewire/net/udp/udp_demux.hh>
#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/base/time.hh>

#include <cstdint>
#include <optional>

namespace corewire {

class dhcp_follower;
class group_follower;
class host_share;

/// What is said about IPv6. The link-local address comes by itself.
struct ipv6_config {
    std::optional<ipv6_prefix> address{}; ///< and the prefix that is on the link
    std::optional<std::uint64_t> identifier{}; ///< of the link-local address; nothing: the MAC's (RFC 4862 5.3)
    std::optional<ipv6> gateway{};        ///< on the link: next hop for everything else
    bool autoconfigure = false;           ///< addresses, prefixes and routers from router advertisements (RFC 4861 6.3, RFC 4862 5.5)
    std::optional<siphash_key> secret{};  ///< of autoconfigured addresses (RFC 7217): the same one, the same addresses. Nothing: new ones
    /// Of several shards the one that announces asks DHCPv6 servers, as router advertisements say; the others are told
    /// (stack_config::leases).
    dhcp6_options dhcp{};
    unsigned duplicate_probes = 1;        ///< RFC 4862 5.1, DupAddrDetectTransmits. 0: nobody else can be there
    std::uint8_t hop_limit = 64;
};

/// The IPv4 address comes from a DHCP server (net/dhcp), and the routes, name servers and MTU with it.
struct dhcp_config {
    dhcp_options client{};
    dhcp_follower* follower = nullptr; ///< dhcp_link.hh; outlives the stack
};

struct stack_config {
    /// Not null: the addresses are the kernel's too (host_share.hh), and the stack says nothing by ARP or neighbour
    /// discovery. Outlives the stack.
    host_share* share = nullptr;
    ip_prefix address;               ///< our own, and the network that is directly reachable; the stack answers ARP for it
    /// 1 to 4094: frames carry this VLAN's tag, and those without it are dropped (vlan_port.hh). 0: frames without tags;
    /// received ones whose tag carries a priority only count as such.
    std::uint16_t vlan = 0;
    std::optional<ipv4> gateway;     ///< next hop for everything else; without one, everything else is unreachable
    /// `address` is none then, and follows the lease; `announce`: this shard asks, the others are told (network_stack::follow_lease()).
    std::optional<dhcp_config> dhcp{};
    dhcp_follower* leases = nullptr;  ///< told of DHCPv6 leases (dhcp_link.hh); outlives the stack
    group_follower* groups = nullptr; ///< told which groups' and IPv6 addresses' frames are wanted (group_reports.hh); outlives the stack
    std::optional<ipv6_config> ipv6{}; ///< nothing: IPv6 packets are unknown to us. In shared mode the address is the kernel's
    tcp::parameters tcp{};           ///< what connections start with
    /// What Fast Open's keys of each day are made from (RFC 7413 4.1.2); without one, it is drawn. Shards behind one address need the same;
    /// days are counted from the machine's start: machines behind one address need tcp_layer::set_fast_open_keys().
    std::optional<siphash_key> fast_open_key{};
    /// What the offsets of our timestamps' clocks are drawn with (RFC 7323 5.4); without one, it is drawn. Shards behind one address need
    /// the same, or a peer would hear of several clocks of one host.
    std::optional<siphash_key> timestamp_key{};
    bool fast_open_without_cookie = false; ///< data in a SYN is taken from anybody: for closed networks only
    /// Buffers that nobody has chosen a size for grow by themselves, so far each, as the path needs them (0: not at all), and by so much
    /// all together (0: a quarter of the pool's memory).
    std::uint32_t largest_receive_buffer = 8u << 20;
    std::uint32_t largest_send_buffer = 8u << 20;
    std::uint64_t buffer_growth = 0;
    std::size_t max_connections = 65'536; ///< in any state, TIME-WAIT included; those in it make room when the table is full
    udp_demux_options udp{};
    icmp_options icmp{};
    /// Room for the SYNs of many connections that are opened before the first ARP reply.
    neighbor_options neighbors{.max_waiting_each = 256, .max_waiting_bytes = 256 * 1024, .max_waiting_total = 1024};
    reassembly_options reassembly{};
    std::uint32_t reassembly_frames = 16; ///< of 64 KiB: datagrams in pieces, and whole ones that a reader still holds
    duration orphan_timeout = std::chrono::seconds{60}; ///< a closed connection without an owner in FIN-WAIT-2
    bool announce = true;            ///< gratuitous ARP when the stack starts
    bool ask_for_address = false;    ///< and a probe before it: who has the address already is found out, logged and counted
    /// Null: from the kernel's generator. Tests and the simulator give one.
    std::optional<std::uint64_t> seed{};
};

/// What happened to packets that went no further, by reason. One shard's: plain integers.
struct stack_statistics {
    std::uint64_t received = 0;               ///< frames taken from the port
    std::uint64_t not_for_us = 0;             ///< another host's MAC or IP address
    std::uint64_t other_vlan = 0;             ///< a VLAN's tag, and we speak none (or one within ours)
    std::uint64_t unknown_protocol = 0;       ///< EtherType or IP protocol
    std::uint64_t malformed_ethernet = 0, malformed_ip = 0, malformed_tcp = 0, malformed_udp = 0;
    std::uint64_t tcp_too_far = 0;            ///< segments with fewer hops left than their connection asks for (IP_MINTTL)
    std::uint64_t tcp_signed = 0;             ///< signatures that we have no key for (RFC 2385): Linux's habit
    std::uint64_t bad_ip_checksum = 0, bad_tcp_checksum = 0, bad_udp_checksum = 0;
    std::uint64_t martian = 0;                ///< a source address that no host can have
    std::uint64_t source_routed = 0;          ///< RFC 7126: dropped
    std::uint64_t no_route = 0;               ///< nothing known leads there
    std::uint64_t no_frame = 0;               ///< the pool was empty when a packet had to be built
    std::uint64_t egress_full = 0;            ///< the transmit queue was full
    std::uint64_t ipv6_source_tentative = 0;  ///< packets from an address that duplicate address detection has not cleared
    std::uint64_t ipv6_extensions = 0;        ///< extension headers beyond the bounds, malformed, or that say so themselves
    std::uint64_t ipv6_fragments_refused = 0; ///< fragments of a wrong length, in fragments, or of neighbour discovery
    std::uint64_t ipv6_discovery_invalid = 0; ///< neighbour discovery that RFC 4861 wants ignored
    std::uint64_t ipv6_not_steered = 0;       ///< times that the port could not bring what is sent to an address of ours, or to its group
    std::uint64_t redirects_taken = 0;        ///< routers that told a better first hop (RFC 4861 8, RFC 1122 3.2.2.2)
    std::uint64_t redirects_refused = 0;      ///< those who say so without being the first hop, or name what can be none; and floods
    std::uint64_t advertisements_refused = 0; ///< of routers: more than 100 a second
    std::uint64_t handed_over = 0;            ///< packets that another shard's flow owns, passed on
    std::uint64_t tcp_resets_sent = 0, tcp_no_connection = 0, tcp_backlog_full = 0, tcp_cookies_sent = 0;
    std::uint64_t tcp_cookies_accepted = 0, tcp_cookies_rejected = 0, tcp_connection_limit = 0;
    std::uint64_t tcp_ahead_dropped = 0;      ///< connections of which was dropped what came beyond a gap, since frames were scarce
    std::uint64_t tcp_small_kept = 0;         ///< small segments and writes that were copied out of frames, which were few
    std::uint64_t tcp_writers_retried = 0;    ///< times that a writer who waited for frames was asked whether there are some for it now
    std::uint64_t tcp_refused_dropped = 0;    ///< connections whose peers took nothing, reset since frames were scarce (RFC 6429)
    std::uint64_t tcp_time_wait_ended = 0;    ///< connections in TIME-WAIT that made room for others before their time
    std::uint64_t tcp_general_in = 0, tcp_general_out = 0; ///< segments that went through all layers
    std::uint64_t tcp_plain_in = 0, tcp_plain_out = 0;     ///< segments that took the shorter way (plain_frame.hh)
    std::uint64_t tcp_segments_in() const noexcept { return tcp_general_in + tcp_plain_in; }
    std::uint64_t tcp_segments_out() const noexcept { return tcp_general_out + tcp_plain_out; }
    std::uint64_t tcp_fast_open_accepted = 0, tcp_fast_open_bad_cookie = 0, tcp_fast_open_full = 0, tcp_fast_open_asked = 0;
};

} // namespace corewire
