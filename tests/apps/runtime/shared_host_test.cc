// A stack on the kernel's own address, with the kernel of a namespace of the test's own: its routes, and the ports of our connections.
// ctest: root=yes resource_lock=network_namespaces timeout=60
#include <corewire/apps/runtime/shared_host.hh>
#include <corewire/net/port/loop/wire_port.hh>
#include <corewire/net/port/xdp/interface.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/metrics/page_reader.hh>
#include <corewire/reactor/metrics/registry.hh>
#include <tests/reactor/shard/some_shards.hh>
#include <tests/support/netns.hh>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <map>
#include <netinet/in.h>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <system_error>
#include <vector>

using namespace corewire;
using corewire::test::have_ipv6;
using corewire::test::have_root;
using corewire::test::network_namespace;
using corewire::test::veth_pair;

namespace {

unique_fd kernel_socket() { return unique_fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

/// It can have the port at 10.9.0.1.
bool binds(const unique_fd& socket, std::uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = host_to_be(port);
    ipv4(10, 9, 0, 1).store(reinterpret_cast<std::byte*>(&at.sin_addr));
    return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
}
bool kernel_binds(std::uint16_t port) { return binds(kernel_socket(), port); }

struct any_flows final : flow_owner {
    explicit any_flows(const network_namespace& of) : space(of) {}
    int own_flow(const steered_flow&) noexcept override { return refusal; }
    void disown_flow(const steered_flow& flow) noexcept override {
        const network_namespace::scope inside(space);
        if (kernel_binds(flow.local_port)) anybodys_too_early = true;
        ++disowned;
    }
    bool keeps_waiting() const noexcept override { return waits; }
    const network_namespace& space;
    int refusal = 0;
    bool waits = false;
    std::atomic<int> disowned = 0;
    std::atomic<bool> anybodys_too_early = false; ///< the local port of a flow that was still steered to us
};

struct world {
    static constexpr ipv4 us{10, 9, 0, 1}, them{10, 9, 0, 2}, far{198, 51, 100, 1};
    static ipv6 us6() { return *ipv6::parse("2001:db8::1"); }
    static ipv6 far6() { return *ipv6::parse("2001:db8:ffff::1"); }
    static bool has_ipv6() { return std::filesystem::exists("/proc/sys/net/ipv6"); }

    network_namespace ours, peer;
    veth_pair link{ours, "10.9.0.1/24", peer, "10.9.0.2/24"};
    network_namespace::scope inside{ours};
    std::shared_ptr<any_flows> steering = std::make_shared<any_flows>(ours);
    std::unique_ptr<owned_ports> ports = make_ports();
    std::optional<reactor> own{};
    std::optional<reactor::scope> here{};
    reactor& loop;
    shared_host host{*ports};
    wire_link::ends wire = wire_link::make();
    network_stack stack{loop, std::move(wire.first), config()};

    world() : loop(own.emplace()) {
        here.emplace(loop);
        host.follow(stack);
    }
    /// On a shard, whose helpers do what keeps its caller waiting.
    explicit world(reactor& of_shard) : loop(of_shard) {
        steering->waits = true;
        host.follow(stack);
    }
    ~world() { host.stop(); }

    std::unique_ptr<owned_ports> make_ports() {
        std::vector<net_address> addresses{us};
        if (has_ipv6()) {
            ours.check("echo 0 >/proc/sys/net/ipv6/conf/" + link.first() + "/disable_ipv6");
            ip("address add 2001:db8::1/64 dev cwa0 nodad");
            addresses.push_back(us6());
        }
        const owned_ports::interface on{query_interface(link.first()).index, link.first()};
        return std::make_unique<owned_ports>(steering, on, addresses);
    }
    stack_config config() {
        stack_config c;
        c.address = ip_prefix(us, 24);
        c.share = &host;
        if (has_ipv6()) c.ipv6.emplace().address = ipv6_prefix(us6(), 64);
        return c;
    }
    template <typename Condition>
    bool eventually(Condition condition) {
        const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (!condition() && std::chrono::steady_clock::now() < give_up) loop.poll_once();
        return condition();
    }
    void ip(const std::string& what) { ours.check("ip " + what); }
    next_hop way() { return stack.ip().routes().find(far); }
};

} // namespace

BOOST_AUTO_TEST_SUITE(shared_host)

BOOST_AUTO_TEST_CASE(a_default_route_whose_gateway_is_on_the_link_by_word_is_followed) {
    if (!have_root()) return;
    world w;
    w.ip("route add default via 172.31.1.1 dev cwa0 onlink");
    BOOST_TEST(w.eventually([&] { return w.way() == next_hop{hop_kind::unicast, ipv4(172, 31, 1, 1)}; }));
    w.ip("route del default");
    BOOST_TEST(w.eventually([&] { return w.way().kind == hop_kind::unreachable; }));
    BOOST_TEST(w.host.statistics().routes_left_out == 0u);
}

BOOST_AUTO_TEST_CASE(the_smallest_metric_counts_and_routers_that_share_it_stand_in_for_each_other) {
    if (!have_root()) return;
    world w;
    w.ip("route add default via 10.9.0.3 metric 70");
    w.ip("route add default via 10.9.0.4 metric 60");
    BOOST_TEST(w.eventually([&] { return w.way() == next_hop{hop_kind::unicast, ipv4(10, 9, 0, 4)}; }));
    if (!have_ipv6()) return;
    ipv6_routes& six = w.stack.ip().six()->routes();
    w.ip("-6 route append default via fe80::11 dev cwa0 metric 60");
    w.ip("-6 route append default via fe80::22 dev cwa0 metric 60");
    w.ip("-6 route append default via fe80::33 dev cwa0 metric 70");
    w.ip("route add 198.51.100.0/24 via 10.9.0.5");
    BOOST_TEST(w.eventually([&] { return w.way() == next_hop{hop_kind::unicast, ipv4(10, 9, 0, 5)}; })); // all is told
    const ipv6 first = *ipv6::parse("fe80::11"), second = *ipv6::parse("fe80::22");
    for (const ipv6& next : {first, second, first}) {
        BOOST_TEST((six.find(world::far6()).address == next));
        six.demote_router(next);
    }
}

BOOST_AUTO_TEST_CASE(routes_that_cannot_be_followed_are_counted) {
    if (!have_root() || !have_ipv6()) return;
    world w;
    w.ip("route add 198.51.100.0/24 via inet6 fe80::2 dev cwa0");
    BOOST_TEST(w.eventually([&] { return w.host.statistics().routes_refused == 1; }));
    BOOST_TEST((w.way().kind == hop_kind::unreachable));
}

BOOST_AUTO_TEST_CASE(the_local_port_of_a_connection_is_the_kernels_again_when_it_is_given_back) {
    if (!have_root()) return;
    world w;
    const flow_name flow(world::us, world::them, 40000, 7), another(world::us, world::them, 40000, 8);
    BOOST_TEST(w.host.claim_flow(flow) == 0);
    BOOST_TEST(w.host.claim_flow(another) == 0);
    w.steering->refusal = ENOBUFS;
    BOOST_TEST(w.host.claim_flow(flow_name(world::us, world::them, 40001, 7)) == ENOBUFS);
    BOOST_TEST(kernel_binds(40001));
    w.steering->refusal = 0;
    w.host.release_flow(flow);
    BOOST_TEST(!kernel_binds(40000));
    w.host.release_flow(another);
    BOOST_TEST(kernel_binds(40000));
    BOOST_TEST(w.host.statistics().flows == 0u);
}

BOOST_AUTO_TEST_CASE(a_flow_is_steered_to_nobody_before_its_local_port_is_the_kernels_again) {
    if (!have_root()) return;
    shard_test::run_on_first([]() -> task<> { // whose helpers talk to the device
        world w(reactor::current());
        const flow_name flow(world::us, world::them, 40000, 7);
        BOOST_TEST(w.host.claim_flow(flow) == EINPROGRESS);
        while (w.host.statistics().flows == 0) co_await sleep_for(std::chrono::milliseconds{1});
        BOOST_TEST(!kernel_binds(40000));
        w.host.release_flow(flow);
        while (w.steering->disowned == 0 || !kernel_binds(40000)) co_await sleep_for(std::chrono::milliseconds{1});
        BOOST_TEST(!w.steering->anybodys_too_early);
        w.steering->refusal = EADDRINUSE;
        BOOST_TEST(w.host.claim_flow(flow) == EINPROGRESS);
        while (!kernel_binds(40000)) co_await sleep_for(std::chrono::milliseconds{1});
    }, 1);
}

BOOST_AUTO_TEST_CASE(routes_that_refuse_keep_what_goes_there_from_the_others) {
    if (!have_root()) return;
    world w;
    const next_hop leads{hop_kind::unicast, ipv4(10, 9, 0, 4)};
    const auto refused = [&] { return w.way().kind == hop_kind::unreachable; };
    w.ip("route add default via 10.9.0.4");
    BOOST_TEST(w.eventually([&] { return w.way() == leads; }));
    w.ip("route add blackhole 198.51.100.0/24");
    BOOST_TEST(w.eventually(refused));
    w.ip("route del blackhole 198.51.100.0/24");
    BOOST_TEST(w.eventually([&] { return w.way() == leads; }));
    w.ip("route add unreachable default metric 5"); // the other one's is smaller
    w.ip("route add prohibit 198.51.100.1");
    BOOST_TEST(w.eventually(refused));
    w.ip("route del prohibit 198.51.100.1");
    BOOST_TEST(w.eventually([&] { return w.way() == leads; }));
    w.ip("route del default via 10.9.0.4");
    BOOST_TEST(w.eventually(refused));
    w.ip("route add default via 10.9.0.4 metric 6");
    w.ip("route add 203.0.113.0/24 via 10.9.0.4");
    const auto mark = [&] { return w.stack.ip().routes().find(ipv4(203, 0, 113, 1)) == leads; };
    BOOST_TEST((w.eventually(mark) && refused()));
    if (!have_ipv6()) return;
    ipv6_routes& six = w.stack.ip().six()->routes();
    w.ip("-6 route add default via fe80::11 dev cwa0");
    BOOST_TEST(w.eventually([&] { return six.find(world::far6()).kind == hop_kind::unicast; }));
    w.ip("-6 route add blackhole 2001:db8:ffff::/48");
    BOOST_TEST(w.eventually([&] { return six.find(world::far6()).kind == hop_kind::unreachable; }));
    BOOST_TEST(w.host.statistics().routes_left_out == 0u);
}

BOOST_AUTO_TEST_CASE(each_count_has_a_name) {
    if (!have_root()) return;
    world w;
    metrics_page page{"test", "xdp", 1, ""};
    metric_registry registry{page, 0, ""};
    metric_group group{&registry};
    w.host.register_metrics(group);
    const auto values = [&] {
        registry.publish(0, page::series_capacity);
        std::vector<catalog_entry> all;
        registry.catalog(0, page::series_capacity, all);
        std::map<std::string, std::uint64_t> found;
        for (std::uint32_t id = 0; id < all.size(); ++id)
            found[all[id].name.substr(std::string("corewire_shared_").size()) + " " + all[id].labels] = registry.value(id);
        return found;
    };
    const auto refused = [](const char* what) { return "refused_total " + metric_label("what", what); };
    std::map<std::string, std::uint64_t> wanted{{"ports ", 0}, {"flows ", 0}, {"routes_left_out ", 0}, {"resyncs_total ", 0}};
    for (const char* each : {"port", "flow", "route", "connection", "connection_given_up", "local_port"}) wanted[refused(each)] = 0;
    BOOST_TEST((values() == wanted));
    w.host.claim_port(wire::ip_protocol::tcp, world::us, 7);
    wanted["ports "] = 1;
    BOOST_TEST(w.host.claim_flow(flow_name(world::us, world::them, 40000, 7)) == 0);
    wanted["flows "] = 1;
    w.host.on_no_port_left(false);
    wanted[refused("connection")] = 1;
    for (int i = 0; i < 2; ++i) w.host.on_no_port_left(true);
    wanted[refused("connection_given_up")] = 2;
    const unique_fd kernels = kernel_socket();
    BOOST_TEST(binds(kernels, 40001));
    for (int i = 0; i < 3; ++i) BOOST_TEST(w.host.claim_flow(flow_name(world::us, world::them, 40001, 7)) == EADDRINUSE);
    wanted[refused("local_port")] = 3;
    for (int i = 0; i < 4; ++i) BOOST_CHECK_THROW(w.host.claim_port(wire::ip_protocol::tcp, world::us, 40001), std::system_error);
    wanted[refused("port")] = 4;
    w.steering->refusal = ENOBUFS;
    for (int i = 0; i < 5; ++i) BOOST_TEST(w.host.claim_flow(flow_name(world::us, world::them, 40002, 7)) == ENOBUFS);
    wanted[refused("flow")] = 5;
    w.ip("route add default via 10.9.0.254 dev cwa0 onlink metric 5");
    w.ip("link set cwa0 down");
    w.ip("link set cwa0 up"); // all is asked for anew
    BOOST_TEST(w.eventually([&] { return w.host.statistics().resyncs == 1; }));
    wanted["resyncs_total "] = 1;
    BOOST_TEST((values() == wanted));
    w.steering->refusal = 0;
    w.host.release_flow(flow_name(world::us, world::them, 40000, 7));
    w.host.release_port(wire::ip_protocol::tcp, world::us, 7);
    wanted["ports "] = wanted["flows "] = 0;
    BOOST_TEST((values() == wanted));
}

BOOST_AUTO_TEST_CASE(connections_have_the_local_ports_that_are_lent_and_no_others) {
    if (!have_root()) return;
    world w;
    const lent_ports& lent = w.ports->lent();
    BOOST_TEST(lent.count() < 65'536u - lent_ports::first); // by chance a port is one in two
    std::vector<tcp_connection*> opened;
    for (int i = 0; i < 64; ++i) {
        opened.push_back(&w.stack.tcp().open(world::us, 0, world::them, 7, {}));
        BOOST_TEST(lent.contains(opened.back()->key.local_port));
        BOOST_TEST(!kernel_binds(opened.back()->key.local_port));
    }
    w.steering->refusal = EADDRINUSE;
    BOOST_CHECK_EXCEPTION(w.stack.tcp().open(world::us, 0, world::them, 7, {}), std::system_error,
                          [](const auto& e) { return e.code() == std::errc::address_not_available; });
    BOOST_TEST((w.host.statistics().given_up == 1 && w.host.statistics().no_port_left == 0));
    for (tcp_connection* const each : opened) w.stack.tcp().let_go(*each);
}

BOOST_AUTO_TEST_SUITE_END()
