// --net=verbs --shared: a fake NIC in front of a network interface of the kernel's, in a namespace of the test's own. The kernel keeps its
// address; what is ours of it comes by flow rules.
// ctest: root=yes resource_lock=network_namespaces timeout=60
#include <corewire/apps/runtime/icmp_error_listener.hh>
#include <corewire/apps/runtime/network_setup.hh>
#include <corewire/apps/runtime/setup_error.hh>
#include <corewire/apps/runtime/shared_host.hh>
#include <corewire/net/port/xdp/interface.hh>
#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/tcp_stream.hh>
#include <corewire/net/socket/udp_socket.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/net/stack/shard_steering.hh>
#include <corewire/net/wire/checksum.hh>
#include <corewire/rdma/fake/nic.hh>
#include <corewire/reactor/task/task_group.hh>

#include "tests/reactor/shard/some_shards.hh"
#include "tests/rdma/support.hh"
#include "tests/support/netns.hh"
#include "tests/support/virtual_clock.hh"

#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sys/socket.h>

using namespace corewire;

namespace {

constexpr ipv4 ours(10, 9, 0, 1), theirs(10, 9, 0, 2);

/// A program on the kernel's sockets that has a port of its address.
unique_fd kernels_socket(std::uint16_t port) {
    unique_fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = host_to_be(port);
    at.sin_addr.s_addr = host_to_be(ours.value());
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) fd.reset();
    return fd;
}

/// The namespace, the interface and its NIC, and `shards` shards that share its address.
struct shared_run {
    explicit shared_run(unsigned count, bool by_interface = false, fake::nic_options options = {}) : shards(count) {
        options.interface = query_interface(link.first()).index;
        options.mac = query_interface(link.first()).mac;
        nic = std::make_unique<fake::nic>(std::move(options));
        ns.check("ip neighbour add 10.9.0.9 lladdr 02:00:00:00:00:99 nud permanent dev " + link.first());
        network_options o;
        o.net = network_kind::verbs;
        o.shared = true;
        if (by_interface) o.interface = link.first();
        else o.device = "fake0";
        network_plan plan{.kind = network_kind::verbs, .shards = std::max(1u, shards)};
        plan.verbs = &fake::api();
        loops.reserve(shards);
        for (unsigned i = 0; i < shards; ++i) loops.push_back(std::make_unique<reactor>(reactor_options{.clock = &clock, .shard = i}));
        setup = std::make_unique<network_setup>(o, plan);
        for (unsigned i = 0; i < shards; ++i) {
            const reactor::scope here(*loops[i]);
            setup->set_up(i);
        }
        objects = nic->live_objects();
    }
    ~shared_run() {
        for (unsigned i = 0; i < shards; ++i) {
            const reactor::scope here(*loops[i]);
            setup->tear_down(i);
        }
        setup.reset();
        BOOST_TEST(nic->live_objects() == 0u);
        BOOST_TEST(nic->violations().empty());
    }
    tcp_listener listen(unsigned shard, std::uint16_t port) {
        const reactor::scope here(*loops[shard]);
        return tcp_listener::bind({ipv4::any(), port});
    }
    /// The error with which `call` ends on a shard, and its sentence.
    template <typename Call>
    std::pair<int, std::string> refusal(unsigned shard, Call call) {
        const reactor::scope here(*loops[shard]);
        try {
            call();
        } catch (const std::system_error& e) {
            return {e.code().value(), e.what()};
        }
        return {0, ""};
    }
    void turn() {
        clock.advance(std::chrono::milliseconds{1});
        for (auto& loop : loops) {
            const reactor::scope here(*loop);
            for (int i = 0; i < 4; ++i) loop->poll_once();
        }
    }
    std::uint64_t received(unsigned shard) const { return setup->device(shard)->statistics().received_packets; }
    /// What arrives goes to the kernel.
    bool reaches_kernel(byte_span frame) {
        const std::uint64_t before = nic->statistics().to_kernel;
        nic->deliver(frame);
        turn();
        return nic->statistics().to_kernel != before;
    }
    /// A RST to a port, which nobody answers.
    std::vector<std::byte> segment(std::uint16_t from, std::uint16_t to) const {
        auto frame = test::udp_frame(nic->options().mac, theirs, from, ours, to, 40);
        frame[23] = std::byte{6};
        frame[34 + 13] = std::byte{4};
        return frame;
    }

    test::network_namespace ns, peer;
    test::veth_pair link{ns, "10.9.0.1/24", peer, "10.9.0.2/24"};
    test::network_namespace::scope inside{ns};
    virtual_clock clock;
    unsigned shards;
    std::unique_ptr<fake::nic> nic;
    std::vector<std::unique_ptr<reactor>> loops;
    std::unique_ptr<network_setup> setup;
    unsigned objects = 0;
};

std::string refused(const network_options& o, unsigned shards = 1, bool ports_only = false) {
    network_plan plan{.kind = network_kind::verbs, .shards = shards, .ports_only = ports_only};
    plan.verbs = &fake::api();
    try {
        network_setup(o, plan);
    } catch (const setup_error& e) {
        return e.what();
    }
    return {};
}

/// On a shard of a runtime, where there are helpers: a rule that is refused, and one that another program has, in whose place the next
/// port's is made, and destroyed.
task<> call_by_helper(fake::nic& nic, network_setup& setup) {
    const socket_address nobody{ipv4(10, 9, 0, 9), 7};
    const unsigned objects = nic.live_objects();
    nic.fail_calls("create_flow", EIO);
    std::errc why{};
    try {
        tcp_stream never = co_await tcp_stream::connect(nobody);
    } catch (const std::system_error& e) {
        why = static_cast<std::errc>(e.code().value());
    }
    BOOST_TEST((why == std::errc::no_such_device));
    BOOST_TEST(nic.statistics().frames_sent == 0u);
    BOOST_TEST(setup.share(0)->statistics().flows_refused == 1u);
    nic.fail_calls("create_flow", EBUSY);
    task_group group{"call"};
    group.spawn([](socket_address to, stop_token stop) -> task<> {
        try {
            tcp_stream never = co_await tcp_stream::connect(to, {}, {.stop = stop});
        } catch (const std::system_error&) {
        }
    }(nobody, group.token()));
    while (nic.statistics().frames_sent == 0) co_await sleep_for(std::chrono::milliseconds{1});
    BOOST_TEST(nic.live_objects() == objects + 1);
    BOOST_TEST(setup.share(0)->statistics().flows == 1u);
    BOOST_TEST(setup.share(0)->statistics().flows_refused == 2u);
    group.request_stop();
    co_await group.join();
    while (nic.live_objects() != objects) co_await sleep_for(std::chrono::milliseconds{1});
    BOOST_TEST(setup.share(0)->statistics().flows == 0u);
}

} // namespace

BOOST_AUTO_TEST_SUITE(verbs_shared)

BOOST_AUTO_TEST_CASE(a_port_of_the_kernels_address_is_ours_on_every_shard_while_one_of_them_has_it) {
    if (!test::have_root()) return;
    shared_run w(2);
    BOOST_TEST((w.setup->stack(0)->address() == ours)); // found by the device's name alone
    BOOST_TEST(w.reaches_kernel(w.segment(5000, 7)));
    tcp_listener first = w.listen(0, 7), second = w.listen(1, 7);
    BOOST_TEST(w.nic->live_objects() == w.objects + 1); // one rule, to the pair that hashes
    BOOST_TEST(!kernels_socket(7));
    const auto steering = shard_steering::make(2, 16);
    unsigned counts[2] = {};
    for (std::uint16_t port = 1; port <= 100; ++port) {
        const unsigned owner = steering[0]->owner(
            {.local_address = ours.value(), .remote_address = theirs.value(), .local_port = 7, .remote_port = port});
        const std::uint64_t before[2] = {w.received(0), w.received(1)};
        BOOST_REQUIRE(!w.reaches_kernel(w.segment(port, 7)));
        BOOST_REQUIRE(w.received(owner) == before[owner] + 1);
        BOOST_REQUIRE(w.received(1 - owner) == before[1 - owner]);
        ++counts[owner];
    }
    BOOST_TEST((counts[0] > 20u && counts[1] > 20u));
    BOOST_TEST(w.reaches_kernel(w.segment(5000, 8)));
    BOOST_TEST(w.reaches_kernel(test::udp_frame(w.nic->options().mac, theirs, 5000, ours, 7)));
    std::vector<std::byte> arp(60, std::byte{0xff});
    store_be16(arp.data() + 12, 0x0806);
    const std::uint64_t heard = w.received(0) + w.received(1);
    BOOST_TEST(w.reaches_kernel(arp)); // the kernel alone answers for its address
    BOOST_TEST(w.received(0) + w.received(1) == heard);
    BOOST_TEST(w.nic->statistics().frames_sent == 0u); // nor have we announced it
    first.close();
    BOOST_TEST(!w.reaches_kernel(w.segment(5000, 7)));
    second.close();
    BOOST_TEST(w.reaches_kernel(w.segment(5000, 7)));
    BOOST_TEST(w.nic->live_objects() == w.objects);
    BOOST_TEST(!!kernels_socket(7));
}

BOOST_AUTO_TEST_CASE(a_connection_of_ours_has_a_rule_that_leads_home_and_the_kernels_neighbour) {
    if (!test::have_root()) return;
    shared_run w(2, true); // by --interface: the device in front of it is found
    std::vector<std::vector<std::byte>> sent;
    w.nic->on_sent_frame([&](byte_span frame) { sent.emplace_back(frame.begin(), frame.end()); });
    const reactor::scope here(*w.loops[1]);
    task_group group{"call"};
    group.spawn([]() -> task<> {
        const wait_limits until{.deadline = reactor::current().now() + std::chrono::milliseconds{100}};
        try {
            tcp_stream stream = co_await tcp_stream::connect({ipv4(10, 9, 0, 9), 7}, {}, until);
        } catch (const std::system_error&) {
        }
    }());
    for (int i = 0; i < 3; ++i) w.turn();
    BOOST_TEST(w.nic->live_objects() == w.objects + 1);
    BOOST_TEST(w.setup->share(1)->statistics().flows == 1u);
    BOOST_REQUIRE(sent.size() == 1u);
    BOOST_TEST((mac_address::load(sent[0].data()) == mac_address(0x02'00'00'00'00'99))); // set by hand: nobody asked
    auto answer = test::udp_frame(w.nic->options().mac, ipv4(10, 9, 0, 9), 7, ours, load_be16(sent[0].data() + 34), 40);
    answer[23] = std::byte{6};
    answer[34 + 13] = std::byte{4};
    const std::uint64_t before = w.received(1);
    BOOST_TEST(!w.reaches_kernel(answer));
    BOOST_TEST(w.received(1) == before + 1);
    store_be16(answer.data() + 34, 8); // another remote port: the kernel may have such a connection
    BOOST_TEST(w.reaches_kernel(answer));
    for (int i = 0; i < 120; ++i) w.turn();
    BOOST_TEST(group.size() == 0u);
    BOOST_TEST(w.nic->live_objects() == w.objects);
    BOOST_TEST(w.setup->share(1)->statistics().flows == 0u);
}

BOOST_AUTO_TEST_CASE(on_a_runtime_a_helper_makes_the_rules_of_connections) {
    if (!test::have_root()) return;
    shared_run w(0); // the rest of it is the runtime's
    runtime one(shard_test::shards(1));
    one.run([&w] { return call_by_helper(*w.nic, *w.setup); },
            {.set_up = [&w](unsigned shard) {
                 const test::network_namespace::scope inside(w.ns);
                 w.setup->set_up(shard);
             },
             .tear_down = [&w](unsigned shard) { w.setup->tear_down(shard); }});
}

BOOST_AUTO_TEST_CASE(icmp_errors_about_what_we_sent_are_the_kernels_and_told_to_us) {
    if (!test::have_root()) return;
    shared_run w(2);
    std::vector<std::byte> sent;
    w.nic->on_sent_frame([&](byte_span frame) { sent.assign(frame.begin(), frame.end()); });
    const reactor::scope here(*w.loops[0]);
    std::errc why{};
    task_group group{"send"};
    group.spawn([](std::errc& told) -> task<> {
        udp_socket socket = udp_socket::connect({ipv4(10, 9, 0, 9), 7});
        const std::array<std::byte, 10> text{};
        co_await socket.send(text);
        const wait_limits until{.deadline = reactor::current().now() + std::chrono::seconds{10}};
        try {
            datagram none = co_await socket.receive_from(until);
        } catch (const std::system_error& e) {
            told = static_cast<std::errc>(e.code().value());
        }
    }(why));
    w.turn();
    BOOST_REQUIRE(sent.size() >= 42u);
    // Unreachable, port: its checksum is all that is computed here.
    std::vector<std::byte> error = test::udp_frame(w.nic->options().mac, ipv4(10, 9, 0, 9), 0, ours, 0, 28);
    error[23] = std::byte{1};
    store_be16(error.data() + 16, 20 + 8 + 28);
    std::memset(error.data() + 34, 0, 8);
    error[34] = std::byte{3};
    error[35] = std::byte{3};
    std::memcpy(error.data() + 42, sent.data() + 14, 28);
    store_be16(error.data() + 24, wire::internet_checksum(byte_span(error).subspan(14, 20)));
    store_be16(error.data() + 36, wire::internet_checksum(byte_span(error).subspan(34)));
    BOOST_TEST(w.reaches_kernel(error)); // no rule takes it: on a NIC, the kernel's interface has it now
    std::vector<std::byte> question = error;
    question[34] = std::byte{8}; // an echo request is the kernel's alone
    {
        const test::network_namespace::scope there(w.peer);
        const unique_fd fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
        sockaddr_ll at{};
        at.sll_family = AF_PACKET;
        at.sll_ifindex = static_cast<int>(query_interface(w.link.second()).index);
        for (const auto& frame : {question, error})
            BOOST_REQUIRE(::sendto(fd.get(), frame.data(), frame.size(), 0, reinterpret_cast<const sockaddr*>(&at), sizeof at) > 0);
    }
    // The kernel hands the copy over in its own time, in which the test's clock stands still.
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    while (w.setup->icmp_errors(0)->statistics().heard == 0 && std::chrono::steady_clock::now() < patience) w.loops[0]->poll_once();
    for (int i = 0; i < 10'000 && group.size() != 0; ++i) w.turn();
    BOOST_TEST((why == std::errc::connection_refused));
    BOOST_TEST(w.setup->icmp_errors(0)->statistics().heard == 1u);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_ours_is_refused_with_its_reason_counted_and_left_to_the_kernel) {
    if (!test::have_root()) return;
    shared_run w(1, false, {.max_rules = 2});
    const auto bind = [&](std::uint16_t port) { return w.refusal(0, [&] { static_cast<void>(w.listen(0, port)); }); };
    {
        const unique_fd taken = kernels_socket(8080);
        const auto [error, why] = bind(8080);
        BOOST_TEST(error == EADDRINUSE);
        BOOST_TEST(test::mentions(why, "TCP port 8080 of 10.9.0.1 belongs to a program on the kernel's sockets"));
        BOOST_TEST(test::mentions(why, "TIME-WAIT")); // then there is no program to look for
    }
    BOOST_TEST(bind(8080).first == 0);
    w.nic->fail_calls("create_flow", EEXIST);
    BOOST_TEST(bind(9).first == EADDRINUSE);
    {
        tcp_listener one = w.listen(0, 7), two = w.listen(0, 8);
        const auto [error, why] = bind(9);
        BOOST_TEST(error == ENOBUFS);
        BOOST_TEST(test::mentions(why, "TCP port 9 of 10.9.0.1: no more ports and flows can be steered away from the kernel"));
        BOOST_TEST(!!kernels_socket(9)); // the place that was kept for it is free
        const auto datagrams = w.refusal(0, [] { static_cast<void>(udp_socket::bind({ipv4::any(), 9})); });
        BOOST_TEST(datagrams.first == ENOBUFS);
    }
    BOOST_TEST(w.setup->share(0)->statistics().ports_refused == 4u);
    BOOST_TEST(w.setup->share(0)->statistics().ports == 0u);
    BOOST_TEST(bind(9).first == 0);
    BOOST_TEST(w.nic->live_objects() == w.objects);
}

BOOST_AUTO_TEST_CASE(a_removed_device_refuses_ports_and_leaves_nothing) {
    if (!test::have_root()) return;
    shared_run w(1);
    tcp_listener listener = w.listen(0, 7);
    w.nic->remove();
    for (int i = 0; i < 3; ++i) w.turn();
    const auto [error, why] = w.refusal(0, [&] { static_cast<void>(w.listen(0, 8)); });
    BOOST_TEST(error == ENODEV);
    BOOST_TEST(test::mentions(why, "the device has gone"));
    BOOST_TEST(!!kernels_socket(8));
}

BOOST_AUTO_TEST_CASE(what_is_missing_is_said) {
    if (!test::have_root()) return;
    test::network_namespace ns, peer;
    test::veth_pair link(ns, "", peer, "");
    const test::network_namespace::scope inside(ns);
    network_options o;
    o.net = network_kind::verbs;
    o.device = "fake0";
    o.shared = true;
    {
        const fake::nic without;
        BOOST_TEST(test::mentions(refused(o), "fake0 has no network interface of the kernel's"));
    }
    const fake::nic nic({.interface = query_interface(link.first()).index});
    BOOST_TEST(test::mentions(refused(o), "the kernel has no address on " + link.first()));
    BOOST_TEST(test::mentions(refused(o, 1, true), "leave it out for bare frames"));
    ns.check("ip address add 10.9.0.1/24 dev " + link.first());
    o.address = ip_prefix(ipv4(10, 9, 0, 7), 24);
    BOOST_TEST(test::mentions(refused(o), "the kernel does not have 10.9.0.7 on " + link.first()));
    BOOST_TEST(nic.live_objects() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
