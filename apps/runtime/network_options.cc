#include <corewire/apps/runtime/network_options.hh>

#include <corewire/apps/runtime/command_line.hh>
#include <corewire/apps/runtime/fault_options.hh>
#include <corewire/apps/runtime/setup_error.hh>

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace corewire {

namespace {

/// An option that is given once for each family: sets `four` or `six` from text, or refuses with `what it should look like`.
template <typename Four, typename Six>
void add_for_both(command_line& group, const char* option, std::optional<Four>& four, std::optional<Six>& six,
                  const char* looks_like, const char* help, const char* type, bool* dhcp = nullptr) {
    const auto parse = [&four, &six, looks_like, dhcp](const std::vector<std::string>& values) {
        four.reset();
        six.reset();
        if (dhcp != nullptr) *dhcp = false;
        for (const std::string& text : values) {
            if (dhcp != nullptr && text == "dhcp") {
                *dhcp = true;
                continue;
            }
            const std::optional<Four> a = Four::parse(text);
            const std::optional<Six> b = a ? std::nullopt : Six::parse(text);
            if (!a && !b) throw option_refused(fmt::format("'{}' is not {}", text, looks_like));
            if ((a && four) || (b && six))
                throw option_refused(fmt::format("'{}': there is one already; give one of IPv4 and one of IPv6", text));
            if (a) four = a;
            else six = b;
        }
    };
    group.add_list_function(option, parse, help).type_name(type).expected(1, 2).one_value_each_time();
}

/// What `find` knows by this name.
template <typename Find>
auto named(const std::string& name, Find find, const char* all) {
    const auto found = find(name);
    if (!found) throw option_refused(fmt::format("'{}' is none of {}", name, all));
    return *found;
}

void refuse_unless(bool holds, const std::string& why) {
    if (!holds) throw setup_error(why);
}

/// Options that only one kind of network reads are an error with the others, not ignored.
void check_foreign_options(const network_options& o) {
    const bool any_may_come = o.net == network_kind::automatic;
    const auto only_for = [&](bool given, const char* option, std::initializer_list<network_kind> kinds) {
        if (!given || any_may_come) return;
        std::string names;
        for (network_kind kind : kinds) {
            if (kind == o.net) return;
            names += fmt::format("{}--net={}", names.empty() ? "" : " and ", name_of(kind));
        }
        throw setup_error(fmt::format("{} is for {}: leave it out with --net={}", option, names, name_of(o.net)));
    };
    using enum network_kind;
    only_for(!o.device.empty(), "--device", {verbs, verbs_ud});
    only_for(!o.interface.empty(), "--interface", {verbs, verbs_ud, xdp, tap});
    only_for(o.has_address(), "--address", {verbs, verbs_ud, xdp, tap});
    only_for(o.gateway.has_value() || o.gateway6.has_value(), "--gateway", {verbs, verbs_ud, xdp, tap});
    only_for(o.vlan != 0, "--vlan", {verbs, xdp, tap});
    only_for(o.host_address.has_value() || o.host_address6.has_value(), "--host-address", {tap});
    only_for(o.slaac, "--slaac", {verbs, verbs_ud, xdp, tap});
    refuse_unless(!o.slaac || !o.shared, "--slaac: with --shared the addresses are the kernel's: leave one of them out");
    refuse_unless(!o.dad_transmits || (o.has_ipv6() && !o.shared),
                  "--dad-transmits is for IPv6 addresses of our own (--address or --slaac): leave it out");
    only_for(o.mtu.has_value(), "--mtu", {wire, tap});
    only_for(o.shared, "--shared", {verbs, xdp});
    only_for(o.moderation_us != 0, "--moderation-us", {verbs});
    only_for(o.mode != xdp_mode::automatic, "--xdp-mode", {xdp});
    only_for(o.pieces != xdp_pieces::automatic, "--xdp-pieces", {xdp});
    only_for(o.xdp_checksums_computed, "--xdp-compute-checksums", {xdp});
    if (o.net == kernel) {
        refuse_unless(o.pcap.empty() && !o.trace && !o.faults,
                      "--pcap, --trace and --faults are about frames of our own stack, which --net=kernel does not use");
        refuse_unless(o.tcp == tcp_features{}, "--tcp is for our own stack: with --net=kernel, `sysctl net.ipv4.tcp_sack=0` and the like");
        refuse_unless(!o.low_latency, "--low-latency is for our own stack: with --net=kernel, `ip route change ... rto_min 5ms`");
        refuse_unless(o.mtu_probing == path_mtu_probing::standard,
                      "--mtu-probing is for our own stack: with --net=kernel, `sysctl net.ipv4.tcp_mtu_probing=1`");
        refuse_unless(o.ecn == ecn_mode::off, "--ecn is for our own stack: with --net=kernel, `sysctl net.ipv4.tcp_ecn=1`");
    }
}

void check_ipv6_addresses(const network_options& o) {
    const auto of_one_host = [](const ipv6& a) { return !a.is_multicast() && !a.is_any() && !a.is_loopback() && !a.is_mapped(); };
    const std::string ours = o.address6 ? to_string(*o.address6) : "";
    if (o.address6) {
        refuse_unless(o.address6->length() >= 1 && of_one_host(o.address6->address()) && !o.address6->address().is_link_local(),
                      fmt::format("--address: {} is not the address of a host on a network", ours));
    }
    if (o.gateway6) {
        refuse_unless(!o.shared, "--gateway: with --shared the routes are the kernel's (`ip route`): leave it out");
        refuse_unless(o.address6.has_value(), "--gateway needs --address of its family beside it");
        const ipv6& to = *o.gateway6;
        refuse_unless(of_one_host(to) && to != o.address6->address() && (to.is_link_local() || o.address6->contains(to)),
                      fmt::format("--gateway: {} is not another host on the network of --address {}", to_string(to), ours));
    }
    if (o.host_address6) {
        refuse_unless(o.address6.has_value(), "--host-address needs --address of its family beside it");
        const ipv6& host = o.host_address6->address();
        refuse_unless(o.address6->contains(host) && host != o.address6->address(),
                      fmt::format("--host-address: {} is not another host on the network of --address {}",
                                  to_string(*o.host_address6), ours));
    }
}

void check_dhcp(const network_options& o) {
    if (!o.dhcp) return;
    refuse_unless(!o.address, fmt::format("--address: dhcp and {}: the IPv4 address is either's: leave one out",
                                          o.address ? to_string(*o.address) : ""));
    refuse_unless(!o.gateway, "--gateway: with --address dhcp the server says the routes: leave it out");
    refuse_unless(!o.shared, "--address dhcp asks for an address of our own, and --shared uses the kernel's: leave one out");
    refuse_unless(o.net != network_kind::verbs_ud,
                  "--address dhcp: not over InfiniBand's framing (RFC 4390): give --address A.B.C.D/LENGTH with --net=verbs-ud");
}

void check_addresses(const network_options& o) {
    check_dhcp(o);
    check_ipv6_addresses(o);
    if (o.address) {
        const ip_prefix& p = *o.address;
        const ipv4 host = p.address();
        refuse_unless(p.length() >= 1 && !host.is_multicast() && host != ipv4::any() && host != ipv4::broadcast() &&
                          (p.length() >= 31 || (host != p.network() && host != p.broadcast())),
                      fmt::format("--address: {} is not the address of a host on a network", to_string(p)));
    }
    if (o.gateway) {
        refuse_unless(!o.shared, "--gateway: with --shared the routes are the kernel's (`ip route`): leave it out");
        refuse_unless(o.address.has_value(), "--gateway needs --address A.B.C.D/LENGTH beside it");
        refuse_unless(!o.address || (o.address->contains(*o.gateway) && *o.gateway != o.address->address()),
                      fmt::format("--gateway: {} is not another host on the network of --address {}", to_string(*o.gateway),
                                  o.address ? to_string(*o.address) : ""));
    }
    if (o.vlan != 0) {
        refuse_unless(!o.shared, "--vlan: the kernel's own address is on its VLAN interface, which --shared does not reach: give "
                                 "--address A.B.C.D/LENGTH instead of --shared");
        refuse_unless(!o.host_address && !o.host_address6,
                      fmt::format("--host-address is the kernel's end without a VLAN: leave it out, and give the kernel "
                                                   "an interface in VLAN {0} (`ip link add link IFNAME name IFNAME.{0} type vlan id {0}`)",
                                                   o.vlan));
    }
    if (o.host_address) {
        refuse_unless(o.address.has_value() || o.dhcp, "--host-address needs --address A.B.C.D/LENGTH beside it");
        refuse_unless(!o.address || (o.address->contains(o.host_address->address()) && o.host_address->address() != o.address->address()),
                      fmt::format("--host-address: {} is not another host on the network of --address {}",
                                  to_string(*o.host_address), o.address ? to_string(*o.address) : ""));
    }
}

tcp_features parse_tcp_features(std::string_view list) {
    tcp_features f;
    const std::pair<std::string_view, bool*> known[] = {{"no-sack", &f.sack}, {"no-dsack", &f.duplicate_sack},
                                                        {"no-timestamps", &f.timestamps}, {"no-window-scaling", &f.window_scaling},
                                                        {"pacing", &f.pacing}, {"window-validation", &f.window_validation}};
    while (!list.empty()) {
        const std::string_view name = list.substr(0, list.find(','));
        list.remove_prefix(std::min(list.size(), name.size() + 1));
        const auto found = std::ranges::find(known, name, &std::pair<std::string_view, bool*>::first);
        if (found == std::ranges::end(known))
            throw option_refused(
                fmt::format("'{}' is none of no-sack, no-dsack, no-timestamps, no-window-scaling, pacing, window-validation", name));
        *found->second = !name.starts_with("no-");
    }
    return f;
}

} // namespace

std::string_view name_of(network_kind kind) noexcept {
    switch (kind) {
    case network_kind::automatic: return "auto";
    case network_kind::verbs: return "verbs";
    case network_kind::verbs_ud: return "verbs-ud";
    case network_kind::xdp: return "xdp";
    case network_kind::tap: return "tap";
    case network_kind::wire: return "wire";
    case network_kind::kernel: return "kernel";
    }
    return "?";
}

void add_network_options(command_line& to, network_options& o) {
    static const std::map<std::string, network_kind> kinds{{"auto", network_kind::automatic},
                                                           {"verbs", network_kind::verbs},
                                                           {"verbs-ud", network_kind::verbs_ud},
                                                           {"xdp", network_kind::xdp},
                                                           {"tap", network_kind::tap},
                                                           {"wire", network_kind::wire},
                                                           {"kernel", network_kind::kernel}};
    static const std::map<std::string, xdp_mode> modes{
        {"auto", xdp_mode::automatic}, {"native", xdp_mode::native}, {"generic", xdp_mode::generic}};
    static const std::map<std::string, xdp_pieces> pieces{
        {"auto", xdp_pieces::automatic}, {"on", xdp_pieces::on}, {"off", xdp_pieces::off}};
    command_line group = to.add_option_group("Network and cores");
    const auto choice = [&](const char* name, auto& target, const auto& names, const char* help) {
        group
            .add_option_function<std::string>(
                name,
                [&target, &names](const std::string& text) {
                    const auto found = names.find(text);
                    if (found == names.end()) {
                        std::string list;
                        for (const auto& [known, value] : names) list += (list.empty() ? "" : ", ") + known;
                        throw option_refused(fmt::format("'{}' is none of {}", text, list));
                    }
                    target = found->second;
                },
                help)
            .type_name("KIND");
    };
    choice("--net", o.net, kinds, "What carries packets: auto, verbs, verbs-ud, xdp, tap, wire or kernel (default auto)");
    group.add_option("--device", o.device, "verbs, verbs-ud: the RDMA device, like mlx5_0 (or --interface)").type_name("NAME");
    group.add_option("--interface", o.interface, "xdp, verbs, verbs-ud: the network interface; tap: a name for the new one")
        .type_name("IFNAME");
    add_for_both(group, "--address", o.address, o.address6, "an address and the length of its network, like 192.0.2.2/24",
                 "Our address and the length of its network (192.0.2.2/24, 2001:db8::2/64; once for each family); dhcp: as a server says",
                 "ADDRESS/LENGTH|dhcp", &o.dhcp);
    group.add_flag("--slaac", o.slaac,
                   "verbs, verbs-ud, xdp, tap: IPv6 addresses and routers as router advertisements say (RFC 4862; on xdp those are copies "
                   "from the kernel, which --pcap, --trace and --faults do not see)");
    group
        .add_option("--dad-transmits", o.dad_transmits,
                    "How often the network is asked, a second each, whether one of our IPv6 addresses is another's (RFC 4862 5.4; "
                    "default 1; 0: never, and it is used at once)")
        .check_range(0u, 10u)
        .type_name("N");
    add_for_both(group, "--gateway", o.gateway, o.gateway6, "an IP address, like 192.0.2.1",
                 "Next hop to other networks (once for each family)", "ADDRESS");
    group
        .add_option_function<unsigned>("--vlan", [&o](unsigned id) { o.vlan = static_cast<std::uint16_t>(id); },
                                       "The VLAN that we are in, 1 to 4094 (default: frames without a tag)")
        .check_range(1u, 4094u)
        .type_name("N");
    add_for_both(group, "--host-address", o.host_address, o.host_address6,
                 "an address and the length of its network, like 192.0.2.1/24", "tap: the kernel's end of the cable (once for each family)",
                 "ADDRESS/LENGTH");
    group
        .add_option("--cores", o.cores,
                    "A count (2), CPUs (0-3,6), or core:2-5, numa:0, package:1, pu:7, all (default: as many as the "
                    "network can feed)")
        .type_name("WHICH");
    group.add_option("--placement", o.placement_file, "Instead of --cores: a file that `cw-topo plan` has written").type_name("FILE");
    group
        .add_option("--shard", o.shards,
                    "Instead of --cores, once for each shard: its CPU and, if need be, the NUMA node of its memory and "
                    "its queues of the interface")
        .type_name("pu:N[,numa:N][,queue:N[+N...]]")
        .one_value_each_time();
    group.add_option("--mtu", o.mtu, "wire, tap: the largest IP packet, 576 to 9000 bytes (default 1500)")
        .check_range(576u, 9000u)
        .type_name("N");
    choice("--xdp-mode", o.mode, modes, "xdp: auto, native (in the driver) or generic (default auto)");
    choice("--xdp-pieces", o.pieces, pieces,
           "xdp: frames of a local kernel that are longer than the MTU: auto (when they come), on or off (default auto)");
    group.add_flag("--xdp-compute-checksums", o.xdp_checksums_computed,
                   "xdp: what is sent carries its checksums also where the kernel would complete them (for readers of raw frames)");
    group.add_flag("--shared", o.shared, "verbs, xdp: use the kernel's own address, and take only our own flows from it");
    group
        .add_option_function<unsigned>(
            "--moderation-us", [&o](unsigned us) { o.moderation_us = static_cast<std::uint16_t>(us); },
            "verbs: a sleeping core is woken so many microseconds after a frame came, or by 64 frames (default 0: at once)")
        .check_range(0u, 4095u)
        .type_name("N");
    group.add_option_function<std::uint64_t>(
             "--spin-us", [&o](std::uint64_t us) { o.spin = std::chrono::microseconds{us}; },
             "Microseconds that an idle core spins before it sleeps")
        .check_range(0, 3'600'000'000).type_name("N");
    group
        .add_option_function<std::string>(
            "--congestion",
            [&o](const std::string& name) { o.congestion = named(name, congestion_named, "cubic, newreno, dctcp, bbr"); },
            "TCP congestion control of who does not choose: cubic, newreno, dctcp or bbr (default cubic; the kernel's own choice)")
        .type_name("KIND");
    group
        .add_option_function<std::string>(
            "--ecn",
            [&o](const std::string& name) {
                const bool classic = name.empty() || name == "true" || name == "classic"; // CLI11 says "true" where nothing is said
                if (!classic && name != "accurate")
                    throw option_refused(fmt::format("'{}' is none of classic, accurate", name));
                o.ecn = classic ? ecn_mode::classic : ecn_mode::accurate;
            },
            "Our TCP offers ECN and agrees to it (dctcp does anyway): classic (default) or accurate, which is AccECN")
        .expected(0, 1)
        .type_name("[KIND]");
    group
        .add_option_function<std::string>(
            "--mtu-probing",
            [&o](const std::string& name) { o.mtu_probing = named(name, path_mtu_probing_named, "off, black-hole, always"); },
            "Our TCP looks for the path's MTU by itself: off, black-hole (when large packets vanish) or always (default black-hole)")
        .type_name("KIND");
    group
        .add_option_function<std::string>("--tcp", [&o](const std::string& list) { o.tcp = parse_tcp_features(list); },
                                          "What our TCP leaves out, or does besides: no-sack, no-dsack, no-timestamps, "
                                          "no-window-scaling, pacing, window-validation")
        .type_name("NAME,...");
    group.add_flag("--low-latency", o.low_latency,
                   "Our TCP's timers for paths of microseconds, at both ends: ACKs within 1 ms, time-outs from 5 ms, probes from 20 us");
    group
        .add_option_function<std::string>(
            "--faults", [&o](const std::string& text) { o.faults = parse_faults(text); },
            "Damage packets: drop, corrupt, duplicate, reorder (1/1000 or 0.001), drop-every=N, on=receive|transmit, seed=N")
        .type_name("NAME=VALUE,...");
    group.add_option("--pcap", o.pcap, "Write every frame to this file, for Wireshark (shard N > 0: FILE.N)").type_name("FILE");
    group.add_flag("--trace", o.trace, "Print a line for every frame, to stderr");
    to.add_config_file("--config", "Read options from a TOML file: net = \"tap\", port = 7, ...").type_name("FILE");
}

void check_network_options(const network_options& o, bool ports_only) {
    check_foreign_options(o);
    check_addresses(o);
    refuse_unless(o.vlan == 0 || !ports_only, "--raw bounces bare frames, which no stack puts a tag on: leave --vlan out");
    if (o.net == network_kind::xdp) {
        refuse_unless(!o.interface.empty(), "--net=xdp needs --interface IFNAME: the network interface to use");
        refuse_unless(o.has_address() || o.shared || ports_only,
                      "--net=xdp needs --address A.B.C.D/LENGTH: an address of its own, which the kernel does not have");
    }
    if (o.net == network_kind::verbs) {
        refuse_unless(!o.device.empty() || !o.interface.empty(),
                      "--net=verbs needs --device NAME (`ibv_devices` lists them) or --interface IFNAME");
        refuse_unless(o.has_address() || o.shared || ports_only,
                      "--net=verbs needs --address A.B.C.D/LENGTH: an address of its own, which the kernel does not have");
    }
    if (o.net == network_kind::verbs_ud) {
        refuse_unless(!o.device.empty() || !o.interface.empty(),
                      "--net=verbs-ud needs --device NAME (`ibv_devices` lists them) or --interface IFNAME");
        refuse_unless(!ports_only, "--net=verbs-ud carries IP only, no bare frames: choose --net=verbs, xdp or tap");
        refuse_unless(o.has_address(),
                      "--net=verbs-ud needs --address A.B.C.D/LENGTH: an address of its own, which the kernel does not have");
    }
    if (o.net == network_kind::tap)
        refuse_unless(o.has_address() || ports_only,
                      "--net=tap needs --address A.B.C.D/LENGTH (and --host-address for the kernel's end)");
}

} // namespace corewire
