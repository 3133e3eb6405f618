// wire_habits: whose behaviour on the wire a script expects, by the flags that packetdrill passes on, and which of the
// host's settings (net.ipv4.tcp_*) name a behaviour that our stack has.
//
//     flags: words separated by spaces, commas or colons:
//            linux | freebsd | default, settings=none, mtu=N, seed=N, address=A.B.C.D, fast_open=N, fast_open_key=K, mtu_probing=N, ecn=N,
//            syn_cookies=N, min_tso_segs=N,
//            segments=whole | cut | single: with linux, super-segments leave in one packet; cut by the device; none are made
//
// A plain value; one drill_host's.
#pragma once

#include <corewire/net/posix/stream_settings.hh>
#include <corewire/net/stack/config.hh>
#include <corewire/net/stack/tcp_tuning.hh>
#include <corewire/net/tcp/open/fast_open.hh>

#include <cstdint>
#include <optional>
#include <string_view>

namespace corewire::packetdrill {

struct wire_habits {
    stack_config stack{};                 ///< but addresses and gateways
    ipv4 address{192, 168, 0, 1};         ///< packetdrill's default
    /// fd3d:0a0b:17d6::1, packetdrill's as well.
    ipv6 address6{ipv6::octet_array{0xfd, 0x3d, 0x0a, 0x0b, 0x17, 0xd6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
    std::uint32_t mtu = 1500;             ///< bytes, of IPv4's packets
    bool mtu_named = false;               ///< and of IPv6's; else those have 20 more, so that segments are as large in both families
    bool reads_settings = true;           ///< settings=none: as if the host had those that Linux comes with
    bool joins_segments = true;           ///< the device has TSO
    unsigned probing = ~0u;               ///< net.ipv4.tcp_mtu_probing; all ones: as the personality has it
    posix::stream_settings stream{};      ///< what sockets begin with

    /// Unknown words are ignored: they may mean something to another stack.
    static wire_habits of(std::string_view flags);
    std::optional<tcp::fast_open_keys> fast_open_keys{}; ///< net.ipv4.tcp_fastopen_key, where it could be read

    /// Reads /proc/sys/net/ipv4 again. Scripts write there, before they start and between two connections.
    void read_settings();
    void follow_freebsd();
    void choose_probing() noexcept; ///< what `probing` says
    void set_no_path_discovery(int mode) noexcept; ///< net.ipv4.ip_no_pmtu_disc
    std::uint32_t link_mtu() const noexcept { return mtu_named ? mtu : mtu + 20; }
    /// What each connection is told, as the settings are now.
    tcp_tuning connection_tuning() const;
};

} // namespace corewire::packetdrill
