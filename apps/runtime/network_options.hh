// What a user chooses about the network and the cores. Plain values: from the command line, a config file or a test.
#pragma once

#include <corewire/net/port/wrap/faulty_port.hh>
#include <corewire/net/port/xdp/xdp_device.hh>
#include <corewire/net/socket/congestion.hh>
#include <corewire/net/socket/path_mtu_probing.hh>
#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/time.hh>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace corewire {

class command_line;

enum class network_kind {
    automatic, ///< the best that works here: choose_network() says which and why
    verbs,     ///< raw-packet queue pairs of an RDMA NIC: --device, or the one behind --interface
    verbs_ud,  ///< IP over UD datagrams of an RDMA device (RFC 4391): likewise
    xdp,       ///< AF_XDP on --interface
    tap,       ///< a TAP device that this program makes
    wire,      ///< a cable in memory between the shards of this process
    kernel,    ///< the kernel's own sockets, through io_uring
};
std::string_view name_of(network_kind kind) noexcept;

enum class ecn_mode {
    off,
    classic,  ///< RFC 3168
    accurate, ///< RFC 9768, and RFC 3168 with who knows only that
};

/// What our TCP offers and agrees to, but for ECN.
struct tcp_features {
    bool sack = true;           ///< RFC 2018
    bool duplicate_sack = true; ///< RFC 2883
    bool timestamps = true;     ///< RFC 7323
    bool window_scaling = true; ///< RFC 7323
    bool pacing = false;        ///< data leaves evenly, at the pace of the window
    bool window_validation = false; ///< RFC 7661: a window that is not used is kept for a while
    friend bool operator==(const tcp_features&, const tcp_features&) = default;
};

struct network_options {
    network_kind net = network_kind::automatic;
    std::string device{};                      ///< verbs, verbs-ud: "mlx5_0"; or by the interface in front of it
    std::string interface{};                   ///< xdp, verbs, verbs-ud: an existing one; tap: the name of the new one
    std::optional<ip_prefix> address{};        ///< ours, with the length of the network: 192.0.2.2/24
    std::optional<ipv4> gateway{};             ///< next hop off that network
    bool dhcp = false;                         ///< IPv4 address, routes, name servers and MTU from a DHCP server
    std::optional<ipv6_prefix> address6{};     ///< the same of IPv6: 2001:db8::2/64. Either, or both
    std::optional<ipv6> gateway6{};
    std::optional<std::uint32_t> mtu{};        ///< wire, tap: bytes of IP packet; unset: 1,500
    std::uint16_t vlan = 0;                    ///< 1 to 4094: frames carry this VLAN's tag; 0: none
    std::optional<ip_prefix> host_address{};   ///< tap: the kernel's end
    std::optional<ipv6_prefix> host_address6{};
    bool slaac = false;                        ///< verbs, verbs-ud, xdp, tap: IPv6 addresses and routers as router advertisements say
    std::optional<unsigned> dad_transmits{};   ///< questions whether an IPv6 address is another's (RFC 4862 5.1), 0 to 10; unset: 1
    bool wire_ipv6 = false;                    ///< wire: its ends have IPv6 addresses, too
    bool has_ipv6() const noexcept { return address6.has_value() || slaac; }
    bool has_address() const noexcept { return address.has_value() || dhcp || has_ipv6(); }
    std::string cores = "all";                 ///< see reactor/topology/cpu_selection.hh
    std::string placement_file{};              ///< instead of `cores`: see reactor/topology/placement.hh
    std::vector<std::string> shards{};         ///< the same, one by one: "pu:33,numa:1,queue:0"
    xdp_mode mode = xdp_mode::automatic;
    xdp_pieces pieces = xdp_pieces::automatic;
    bool xdp_checksums_computed = false;       ///< of what is sent, also where the kernel could complete them
    bool shared = false;                       ///< verbs, xdp: use the kernel's own address, take only our flows
    std::uint16_t moderation_us = 0;           ///< verbs: a sleeping core is woken so long after a frame came, or by 64; 0: at once
    std::optional<duration> spin{};            ///< before an idle core sleeps; unset: the reactor's default
    congestion_algorithm congestion = congestion_algorithm::standard; ///< of connections that do not choose
    ecn_mode ecn = ecn_mode::off;              ///< our stack: offered, and agreed to
    path_mtu_probing mtu_probing = path_mtu_probing::standard; ///< our stack: of connections that do not choose
    tcp_features tcp{};                        ///< our stack: --tcp
    bool low_latency = false;                  ///< our stack: TCP's timers for paths of microseconds, at both ends
    std::optional<faulty_port::options> faults{}; ///< damage done to packets between port and stack
    std::string pcap{};                        ///< write every frame to this file
    bool trace = false;                        ///< print every frame to stderr
};

/// Adds the options that every program has. `options` must outlive `to`; its values are the defaults shown by --help.
void add_network_options(command_line& to, network_options& options);

/// What belongs together is there and nothing is that would be ignored. Throws setup_error (setup_error.hh) with one sentence.
/// `ports_only`: no stack will need an address.
void check_network_options(const network_options& options, bool ports_only = false);

} // namespace corewire
