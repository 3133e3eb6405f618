// The options that every program has: what they set, and the sentence for each way to get them wrong.
#include <corewire/apps/runtime/choose_network.hh>
#include <corewire/apps/runtime/setup_error.hh>
#include <corewire/apps/runtime/command_line.hh>
#include <corewire/apps/runtime/network_options.hh>
#include <corewire/apps/runtime/setup_error.hh>

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

using namespace corewire;

namespace {

std::vector<std::string> words_of(const std::string& line) {
    std::istringstream text(line);
    return {std::istream_iterator<std::string>(text), {}};
}

struct parsed {
    network_options options;
    std::string refusal; ///< empty when accepted
};

parsed parse(const std::string& line, bool ports_only = false) {
    parsed out;
    command_line app("test", "");
    add_network_options(app, out.options);
    try {
        app.read(words_of(line));
        check_network_options(out.options, ports_only);
    } catch (const std::invalid_argument& e) {
        out.refusal = e.what();
    } catch (const setup_error& e) {
        out.refusal = e.what();
    }
    return out;
}

#define CHECK_REFUSED(line, why) BOOST_TEST(parse(line).refusal == (why))

std::string chosen(const std::string& line, const host_facts& facts) {
    const parsed p = parse(line);
    BOOST_TEST_REQUIRE(p.refusal == "");
    const network_choice choice = choose_network(p.options, facts);
    return std::string(name_of(choice.kind)) + ": " + choice.why;
}

} // namespace

BOOST_AUTO_TEST_SUITE(network_options)

BOOST_AUTO_TEST_CASE(nothing_given_leaves_the_defaults) {
    const parsed p = parse("");
    BOOST_TEST(p.refusal == "");
    BOOST_TEST((p.options.net == network_kind::automatic));
    BOOST_TEST(p.options.cores == "all");
    BOOST_TEST(!p.options.address);
    BOOST_TEST(!p.options.spin);
}

BOOST_AUTO_TEST_CASE(every_option_reaches_its_field) {
    const parsed p = parse("--net=xdp --interface cw0 --address=192.0.2.2/24 --gateway 192.0.2.1 --cores=core:0-1 "
                           "--xdp-mode=native --spin-us 50 --pcap=/tmp/x.pcap --trace");
    BOOST_TEST_REQUIRE(p.refusal == "");
    BOOST_TEST((p.options.net == network_kind::xdp));
    BOOST_TEST(p.options.interface == "cw0");
    BOOST_TEST(to_string(*p.options.address) == "192.0.2.2/24");
    BOOST_TEST(to_string(*p.options.gateway) == "192.0.2.1");
    BOOST_TEST(p.options.cores == "core:0-1");
    BOOST_TEST((p.options.mode == xdp_mode::native));
    BOOST_TEST((*p.options.spin == std::chrono::microseconds(50)));
    BOOST_TEST(p.options.pcap == "/tmp/x.pcap");
    BOOST_TEST(p.options.trace);
    const parsed tap = parse("--net tap --address 192.0.2.2/24 --host-address 192.0.2.1/24");
    BOOST_TEST(tap.refusal == "");
    BOOST_TEST(to_string(*tap.options.host_address) == "192.0.2.1/24");
}

BOOST_AUTO_TEST_CASE(an_address_may_come_from_a_server) {
    BOOST_TEST(!parse("").options.dhcp);
    for (const char* net : {"xdp --interface cw0", "verbs --device mlx5_0", "tap", "auto"}) {
        const parsed p = parse(std::string("--address dhcp --net ") + net);
        BOOST_TEST(p.refusal == "");
        BOOST_TEST((p.options.dhcp && !p.options.address && p.options.has_address()));
    }
    const parsed both = parse("--net tap --address dhcp --address 2001:db8::2/64 --host-address 192.0.2.1/24");
    BOOST_TEST(both.refusal == "");
    BOOST_TEST((both.options.dhcp && both.options.address6));
    CHECK_REFUSED("--net tap --address dhcp --address 192.0.2.2/24",
                  "--address: dhcp and 192.0.2.2/24: the IPv4 address is either's: leave one out");
    CHECK_REFUSED("--net tap --address dhcp --gateway 192.0.2.1",
                  "--gateway: with --address dhcp the server says the routes: leave it out");
    CHECK_REFUSED("--net xdp --interface cw0 --shared --address dhcp",
                  "--address dhcp asks for an address of our own, and --shared uses the kernel's: leave one out");
    CHECK_REFUSED("--net verbs-ud --device mlx5_0 --address dhcp",
                  "--address dhcp: not over InfiniBand's framing (RFC 4390): give --address A.B.C.D/LENGTH with --net=verbs-ud");
    CHECK_REFUSED("--net kernel --address dhcp",
                  "--address is for --net=verbs and --net=verbs-ud and --net=xdp and --net=tap: leave it out with --net=kernel");
}

BOOST_AUTO_TEST_CASE(a_vlan_has_a_number_and_goes_with_the_stacks_of_an_interface) {
    BOOST_TEST(parse("").options.vlan == 0);
    for (const char* net : {"xdp --interface cw0", "verbs --device mlx5_0", "tap", "auto"}) {
        const parsed p = parse(std::string("--vlan 7 --address 192.0.2.2/24 --net ") + net);
        BOOST_TEST(p.refusal == "");
        BOOST_TEST(p.options.vlan == 7);
    }
    for (const char* none : {"0", "4095", "-1", "seven"})
        BOOST_TEST(parse(std::string("--net tap --vlan ") + none).refusal.starts_with("--vlan"));
    CHECK_REFUSED("--net wire --vlan 7", "--vlan is for --net=verbs and --net=xdp and --net=tap: leave it out with --net=wire");
    BOOST_TEST(parse("--net verbs --device mlx5_0 --shared").refusal == "");
    BOOST_TEST(parse("--net verbs --device mlx5_0 --shared --vlan 7").refusal.starts_with("--vlan"));
    CHECK_REFUSED("--net xdp --interface cw0 --shared --vlan 7",
                  "--vlan: the kernel's own address is on its VLAN interface, which --shared does not reach: give --address "
                  "A.B.C.D/LENGTH instead of --shared");
    BOOST_TEST(parse("--net tap --address 192.0.2.2/24 --host-address 192.0.2.1/24 --vlan 7").refusal.starts_with("--host-address is"));
    BOOST_TEST(parse("--net xdp --interface cw0 --vlan 7", true).refusal.starts_with("--raw"));
}

BOOST_AUTO_TEST_CASE(events_are_moderated_where_a_device_can) {
    BOOST_TEST(parse("--net verbs --device mlx5_0 --address 192.0.2.2/24 --moderation-us 20").options.moderation_us == 20u);
    BOOST_TEST(parse("--net verbs --device mlx5_0 --moderation-us 5000").refusal.starts_with("--moderation-us"));
    CHECK_REFUSED("--net wire --moderation-us 20", "--moderation-us is for --net=verbs: leave it out with --net=wire");
}

BOOST_AUTO_TEST_CASE(the_mtu_is_chosen_where_the_port_is_ours_to_make) {
    BOOST_TEST(!parse("--net wire").options.mtu);
    BOOST_TEST(*parse("--net wire --mtu 9000").options.mtu == 9000u);
    BOOST_TEST(*parse("--net tap --address 192.0.2.2/24 --mtu 576").options.mtu == 576u);
    for (const char* none : {"575", "9001", "big"}) BOOST_TEST(parse(std::string("--net wire --mtu ") + none).refusal.starts_with("--mtu"));
    CHECK_REFUSED("--net kernel --mtu 9000", "--mtu is for --net=wire and --net=tap: leave it out with --net=kernel");
}

BOOST_AUTO_TEST_CASE(timers_for_paths_of_microseconds_are_for_our_own_stack) {
    BOOST_TEST(!parse("--net wire").options.low_latency);
    BOOST_TEST(parse("--net wire --low-latency").options.low_latency);
    BOOST_TEST(parse("--net kernel --low-latency").refusal.starts_with("--low-latency is for our own stack"));
}

BOOST_AUTO_TEST_CASE(congestion_control_is_chosen_by_name) {
    BOOST_TEST((parse("").options.congestion == congestion_algorithm::standard));
    BOOST_TEST((parse("--congestion cubic").options.congestion == congestion_algorithm::cubic));
    BOOST_TEST((parse("--congestion newreno --net kernel").options.congestion == congestion_algorithm::newreno));
    BOOST_TEST((parse("--congestion reno").options.congestion == congestion_algorithm::newreno));
    const parsed p = parse("--congestion dctcp --ecn --net wire");
    BOOST_TEST(p.refusal == "");
    BOOST_TEST((p.options.congestion == congestion_algorithm::dctcp));
    BOOST_TEST((p.options.ecn == ecn_mode::classic));
    BOOST_TEST((parse("").options.ecn == ecn_mode::off));
    BOOST_TEST((parse("--ecn classic").options.ecn == ecn_mode::classic));
    BOOST_TEST((parse("--ecn accurate").options.ecn == ecn_mode::accurate));
    CHECK_REFUSED("--ecn exact", "--ecn: 'exact' is none of classic, accurate");
    BOOST_TEST((parse("--congestion bbr --net wire").options.congestion == congestion_algorithm::bbr));
    CHECK_REFUSED("--congestion vegas", "--congestion: 'vegas' is none of cubic, newreno, dctcp, bbr");
    CHECK_REFUSED("--net kernel --ecn", "--ecn is for our own stack: with --net=kernel, `sysctl net.ipv4.tcp_ecn=1`");
}

BOOST_AUTO_TEST_CASE(what_tcp_leaves_out_is_a_list_of_names) {
    BOOST_TEST((parse("").options.tcp == tcp_features{}));
    BOOST_TEST((parse("--tcp no-sack,pacing,window-validation").options.tcp ==
                tcp_features{.sack = false, .pacing = true, .window_validation = true}));
    BOOST_TEST((parse("--tcp no-timestamps,no-window-scaling,no-dsack").options.tcp ==
                tcp_features{.duplicate_sack = false, .timestamps = false, .window_scaling = false}));
    CHECK_REFUSED("--tcp no-sack,sack",
                  "--tcp: 'sack' is none of no-sack, no-dsack, no-timestamps, no-window-scaling, pacing, window-validation");
    BOOST_TEST(parse("--net kernel --tcp no-sack").refusal.starts_with("--tcp is for our own stack"));
}

BOOST_AUTO_TEST_CASE(path_mtu_probing_is_chosen_by_name) {
    BOOST_TEST((parse("").options.mtu_probing == path_mtu_probing::standard));
    BOOST_TEST((parse("--mtu-probing off").options.mtu_probing == path_mtu_probing::off));
    BOOST_TEST((parse("--mtu-probing black-hole").options.mtu_probing == path_mtu_probing::black_hole));
    BOOST_TEST((parse("--mtu-probing always --net wire").options.mtu_probing == path_mtu_probing::always));
    CHECK_REFUSED("--mtu-probing never", "--mtu-probing: 'never' is none of off, black-hole, always");
    BOOST_TEST(parse("--net kernel --mtu-probing always").refusal.starts_with("--mtu-probing is for our own stack"));
}

BOOST_AUTO_TEST_CASE(faults_are_named_with_their_chances) {
    BOOST_TEST(!parse("").options.faults);
    const parsed p = parse("--net wire --faults drop=1/1000,corrupt=0.25,seed=7,on=transmit");
    BOOST_TEST(p.refusal == "");
    BOOST_REQUIRE(p.options.faults.has_value());
    BOOST_TEST(p.options.faults->seed == 7u);
    BOOST_TEST(p.options.faults->on_transmit.drop == 0.001);
    BOOST_TEST(p.options.faults->on_transmit.corrupt == 0.25);
    BOOST_TEST(!p.options.faults->on_receive.any());
    const parsed both = parse("--faults duplicate=1/3,reorder=1/4,drop-every=50");
    BOOST_REQUIRE(both.options.faults.has_value());
    for (const faults& each : {both.options.faults->on_receive, both.options.faults->on_transmit}) {
        BOOST_TEST(each.duplicate == 1.0 / 3);
        BOOST_TEST(each.reorder == 0.25);
        BOOST_TEST(each.drop_every == 50u);
    }
    for (const char* wrong : {"drop", "drop=", "drop=2", "drop=-1", "drop=1/0", "drop=nan", "drop=0.1x", "drop-every=0", "seed=x",
                              "on=never", "explode=1", "=1"})
        BOOST_TEST(parse(std::string("--faults ") + wrong).refusal.starts_with("--faults: '"), wrong);
    CHECK_REFUSED("--net kernel --faults drop=1/2",
                  "--pcap, --trace and --faults are about frames of our own stack, which --net=kernel does not use");
}

BOOST_AUTO_TEST_CASE(a_config_file_has_the_same_keys_and_the_command_line_wins) {
    const std::string path = "network_options_test." + std::to_string(::getpid()) + ".toml";
    std::ofstream(path) << "net = \"tap\"\naddress = \"192.0.2.2/24\"\ncores = \"2\"\n";
    const parsed p = parse("--config " + path + " --cores 1");
    std::remove(path.c_str());
    BOOST_TEST(p.refusal == "");
    BOOST_TEST((p.options.net == network_kind::tap));
    BOOST_TEST(to_string(*p.options.address) == "192.0.2.2/24");
    BOOST_TEST(p.options.cores == "1");
}

BOOST_AUTO_TEST_CASE(a_config_file_that_is_not_there_is_refused) {
    BOOST_TEST(parse("--config /nonexistent.toml").refusal.find("/nonexistent.toml") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(words_that_mean_nothing_are_refused_with_those_that_do) {
    CHECK_REFUSED("--net=dpdk", "--net: 'dpdk' is none of auto, kernel, tap, verbs, verbs-ud, wire, xdp");
    CHECK_REFUSED("--xdp-mode=fast --net=xdp", "--xdp-mode: 'fast' is none of auto, generic, native");
    CHECK_REFUSED("--address=192.0.2.2", "--address: '192.0.2.2' is not an address and the length of its network, like 192.0.2.2/24");
    CHECK_REFUSED("--address=192.0.2.300/24",
                  "--address: '192.0.2.300/24' is not an address and the length of its network, like 192.0.2.2/24");
    CHECK_REFUSED("--gateway=router", "--gateway: 'router' is not an IP address, like 192.0.2.1");
    BOOST_TEST(parse("--spin-us=-1").refusal != "");
    BOOST_TEST(parse("--no-such-option").refusal.find("--no-such-option") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_a_network_needs_is_asked_for) {
    CHECK_REFUSED("--net=xdp --address=192.0.2.2/24", "--net=xdp needs --interface IFNAME: the network interface to use");
    CHECK_REFUSED("--net=xdp --interface=cw0",
                  "--net=xdp needs --address A.B.C.D/LENGTH: an address of its own, which the kernel does not have");
    CHECK_REFUSED("--net=tap", "--net=tap needs --address A.B.C.D/LENGTH (and --host-address for the kernel's end)");
    BOOST_TEST(parse("--net=xdp --interface=cw0", true).refusal == ""); // bare frames need no address
}

BOOST_AUTO_TEST_CASE(what_a_network_would_ignore_is_refused) {
    CHECK_REFUSED("--net=xdp --interface=cw0 --address=192.0.2.2/24 --device=mlx5_0",
                  "--device is for --net=verbs and --net=verbs-ud: leave it out with --net=xdp");
    CHECK_REFUSED("--net=verbs --address=192.0.2.2/24",
                  "--net=verbs needs --device NAME (`ibv_devices` lists them) or --interface IFNAME");
    CHECK_REFUSED("--net=wire --interface=cw0",
                  "--interface is for --net=verbs and --net=verbs-ud and --net=xdp and --net=tap: leave it out with --net=wire");
    CHECK_REFUSED("--net=kernel --address=192.0.2.2/24",
                  "--address is for --net=verbs and --net=verbs-ud and --net=xdp and --net=tap: leave it out with --net=kernel");
    CHECK_REFUSED("--net=xdp --interface=cw0 --address=192.0.2.2/24 --host-address=192.0.2.1/24",
                  "--host-address is for --net=tap: leave it out with --net=xdp");
    CHECK_REFUSED("--net=tap --address=192.0.2.2/24 --xdp-mode=native", "--xdp-mode is for --net=xdp: leave it out with --net=tap");
    CHECK_REFUSED("--net=tap --address=192.0.2.2/24 --xdp-compute-checksums",
                  "--xdp-compute-checksums is for --net=xdp: leave it out with --net=tap");
    CHECK_REFUSED("--net=tap --address=192.0.2.2/24 --shared", "--shared is for --net=verbs and --net=xdp: leave it out with --net=tap");
    BOOST_TEST(parse("--net=kernel --trace").refusal != "");
}

BOOST_AUTO_TEST_CASE(addresses_must_fit_together) {
    CHECK_REFUSED("--address=192.0.2.0/24", "--address: 192.0.2.0/24 is not the address of a host on a network");
    CHECK_REFUSED("--address=192.0.2.255/24", "--address: 192.0.2.255/24 is not the address of a host on a network");
    CHECK_REFUSED("--address=224.0.0.1/24", "--address: 224.0.0.1/24 is not the address of a host on a network");
    CHECK_REFUSED("--address=192.0.2.2/24 --gateway=198.51.100.1",
                  "--gateway: 198.51.100.1 is not another host on the network of --address 192.0.2.2/24");
    CHECK_REFUSED("--address=192.0.2.2/24 --gateway=192.0.2.2",
                  "--gateway: 192.0.2.2 is not another host on the network of --address 192.0.2.2/24");
    CHECK_REFUSED("--gateway=192.0.2.1", "--gateway needs --address A.B.C.D/LENGTH beside it");
    CHECK_REFUSED("--net=tap --address=192.0.2.2/24 --host-address=192.0.2.2/24",
                  "--host-address: 192.0.2.2/24 is not another host on the network of --address 192.0.2.2/24");
    BOOST_TEST(parse("--net=tap --address=192.0.2.0/31 --host-address=192.0.2.1/31").refusal == ""); // RFC 3021
}

BOOST_AUTO_TEST_CASE(ipv6_stands_alone_or_beside_ipv4) {
    const parsed both = parse("--net tap --address 2001:db8::2/64 --address 192.0.2.2/24 --gateway fe80::1 --gateway 192.0.2.1 "
                              "--host-address 2001:db8::1/64");
    BOOST_TEST(both.refusal == "");
    BOOST_TEST(to_string(*both.options.address6) == "2001:db8::2/64");
    BOOST_TEST(to_string(*both.options.address) == "192.0.2.2/24");
    BOOST_TEST(to_string(*both.options.gateway6) == "fe80::1");
    BOOST_TEST(to_string(*both.options.gateway) == "192.0.2.1");
    BOOST_TEST(to_string(*both.options.host_address6) == "2001:db8::1/64");
    BOOST_TEST(parse("--net=xdp --interface cw0 --address=2001:db8::2/64").refusal == "");
    const parsed automatic = parse("--net=tap --slaac");
    BOOST_TEST((automatic.refusal == "" && automatic.options.slaac && !automatic.options.address));
    for (const char* over : {"--net=xdp --interface cw0", "--net=verbs --device=mlx5_0", "--net=verbs-ud --device=mlx5_0"}) {
        const parsed routed = parse(std::string(over) + " --slaac");
        BOOST_TEST((routed.refusal == "" && routed.options.slaac));
    }
    BOOST_TEST(!automatic.options.dad_transmits);
    for (const unsigned n : {0u, 10u}) {
        const parsed asked = parse("--net=tap --address=2001:db8::2/64 --dad-transmits=" + std::to_string(n));
        BOOST_TEST((asked.refusal == "" && asked.options.dad_transmits == n));
    }
    BOOST_TEST(parse("--net=tap --slaac --dad-transmits=11").refusal != "");
    BOOST_TEST(parse("--net=tap --slaac --dad-transmits=-1").refusal != "");
    for (const char* none : {"--net=tap --address=192.0.2.2/24 --dad-transmits=0", "--net=xdp --interface cw0 --shared --dad-transmits=0"})
        CHECK_REFUSED(none, "--dad-transmits is for IPv6 addresses of our own (--address or --slaac): leave it out");
    CHECK_REFUSED("--net=wire --slaac",
                  "--address is for --net=verbs and --net=verbs-ud and --net=xdp and --net=tap: leave it out with --net=wire");
    CHECK_REFUSED("--net=xdp --interface cw0 --shared --slaac",
                  "--slaac: with --shared the addresses are the kernel's: leave one of them out");
    CHECK_REFUSED("--net=tap --address=2001:db8::2/64 --address=2001:db8::3/64",
                  "--address: '2001:db8::3/64': there is one already; give one of IPv4 and one of IPv6");
    for (const char* bad : {"fe80::2/64", "ff02::1/64", "::1/128", "::ffff:10.0.0.1/96"})
        CHECK_REFUSED(std::string("--net=tap --address=") + bad,
                      std::string("--address: ") + bad + " is not the address of a host on a network");
    CHECK_REFUSED("--net=tap --address=2001:db8::2/64 --gateway=2001:db8:1::1",
                  "--gateway: 2001:db8:1::1 is not another host on the network of --address 2001:db8::2/64");
    CHECK_REFUSED("--net=tap --address=192.0.2.2/24 --gateway=fe80::1", "--gateway needs --address of its family beside it");
    CHECK_REFUSED("--net=tap --address=2001:db8::2/64 --host-address=2001:db8:1::1/64",
                  "--host-address: 2001:db8:1::1/64 is not another host on the network of --address 2001:db8::2/64");
    BOOST_TEST(parse("--net=xdp --interface cw0 --shared --address=2001:db8::2/64").refusal == "");
    BOOST_TEST(parse("--net=verbs --device mlx5_0 --address=2001:db8::2/64").refusal == "");
}

BOOST_AUTO_TEST_CASE(auto_takes_the_best_that_works_and_says_why) {
    const host_facts nothing{};
    const host_facts root{.may_administer = true, .may_make_taps = true};
    const host_facts root_and_interface{.may_administer = true, .may_make_taps = true, .interface_exists = true};
    const host_facts interface_only{.interface_exists = true};
    BOOST_TEST(chosen("", root) == "kernel: there is no --interface and no --address");
    BOOST_TEST(chosen("--interface=cw0 --address=192.0.2.2/24", root_and_interface) ==
               "xdp: cw0 is a network interface, and this process may attach to it");
    BOOST_TEST(chosen("--interface=cw0 --address=192.0.2.2/24", interface_only) ==
               "kernel: attaching to cw0 needs root (CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF)");
    BOOST_TEST(chosen("--interface=cw0", root_and_interface) ==
               "kernel: using cw0 needs --address A.B.C.D/LENGTH (or --shared) as well");
    BOOST_TEST(chosen("--interface=cw0 --address=192.0.2.2/24", root) == "tap: there is no interface cw0 yet");
    BOOST_TEST(chosen("--address=192.0.2.2/24", root) == "tap: there is an --address and no --interface");
    BOOST_TEST(chosen("--address=192.0.2.2/24", nothing) ==
               "kernel: making a tap interface needs root (CAP_NET_ADMIN) and /dev/net/tun");
    BOOST_TEST(chosen("--net=wire", root_and_interface) == "wire: ");
    BOOST_TEST(chosen("--shared --address=192.0.2.2/24", root) == "kernel: --shared needs an --interface of the kernel's as well");
    const std::string refusal = "--interface et0: there is none of that name, and --shared needs one of the kernel's (`ip link`)";
    for (const char* line : {"--shared --interface=et0", "--shared --interface=et0 --address=192.0.2.2/24"}) // no new device is made
        BOOST_CHECK_EXCEPTION(chosen(line, root), setup_error, [&](const setup_error& e) { return e.what() == refusal; });
}

BOOST_AUTO_TEST_SUITE_END()
