// The xdp and tap ports against a real kernel, in namespaces of our own.
// ctest: root=yes resource_lock=network_namespaces timeout=240 processors=2
#include <corewire/net/port/tap/tap_port.hh>
#include <corewire/net/port/xdp/xdp_port.hh>

#include "tests/support/netns.hh"
#include "tests/support/test_packets.hh"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <csignal>
#include <sched.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace corewire;
using namespace corewire::test;

namespace {

/// How long anything that must happen is waited for.
constexpr std::chrono::seconds patience{20};

/// Turns `step` until `there()`; false after `patience`.
template <typename There, typename Step>
bool until(There there, Step step) {
    const auto give_up = std::chrono::steady_clock::now() + patience;
    while (!there()) {
        if (std::chrono::steady_clock::now() > give_up) return false;
        step();
    }
    return true;
}

/// Looks for a frame that `wanted` accepts.
template <typename Wanted>
bool arrives(port& at, Wanted wanted) {
    bool there = false;
    return until([&] { return there; }, [&] {
        for (const auto& f : receive_all(at)) there |= wanted(byte_span(f));
    });
}

bool is_arp(byte_span f) { return f.size() >= 42 && load_be16(f.data() + 12) == 0x0806; }

struct veth_world {
    network_namespace ours, peer;
    veth_pair link{ours, "10.9.0.1/24", peer, "10.9.0.2/24"};
    std::shared_ptr<xdp_device> open(xdp_device_options o = {}) {
        const network_namespace::scope inside(ours);
        o.interface = link.first();
        return std::make_shared<xdp_device>(o);
    }
    std::unique_ptr<xdp_port> open_port(std::shared_ptr<xdp_device> device) {
        const network_namespace::scope inside(ours);
        return std::make_unique<xdp_port>(std::move(device));
    }
    bool attached() { return ours.check("ip link show dev " + link.first()).find("xdp") != std::string::npos; }
};

/// Asks the kernel at the other end for an ARP entry of ours, in the background.
void ask_for(const network_namespace& peer, const std::string& address) {
    peer.run("bash -c 'echo > /dev/udp/" + address + "/9' >/dev/null 2>&1 &");
}

void exchange(xdp_mode mode) {
    veth_world w;
    auto device = w.open({.mode = mode});
    device->own(ipv4(10, 9, 0, 77));
    auto p = w.open_port(device);
    BOOST_TEST(w.attached());
    ask_for(w.peer, "10.9.0.77");
    BOOST_TEST(arrives(*p, is_arp));
    // The kernel's own address is the kernel's still: it refuses a connection.
    BOOST_TEST(w.peer.run("timeout 20 bash -c 'echo > /dev/tcp/10.9.0.1/9' 2>&1 | grep -q refused") == 0);
    p.reset();
    device.reset();
    BOOST_TEST(!w.attached());
}

} // namespace

BOOST_AUTO_TEST_SUITE(kernel_ports)

BOOST_AUTO_TEST_CASE(xdp_takes_what_is_ours_and_leaves_the_kernel_the_rest_in_generic_mode) {
    if (have_root()) exchange(xdp_mode::generic);
}

BOOST_AUTO_TEST_CASE(xdp_takes_what_is_ours_and_leaves_the_kernel_the_rest_in_native_mode) {
    if (have_root()) exchange(xdp_mode::native);
}

BOOST_AUTO_TEST_CASE(over_an_interface_that_is_down_nothing_is_tried_again_and_again) {
    if (!have_root()) return;
    veth_world w;
    auto device = w.open({.mode = xdp_mode::generic});
    auto p = w.open_port(device);
    const mac_address to(0x02'00'00'00'00'88);
    w.ours.check("ip link set dev " + w.link.first() + " down");
    BOOST_TEST(send(*p, numbered_frame(*p, to, 1)));
    BOOST_TEST(p->prepare_sleep());
    p->finish_sleep();
    const std::uint64_t calls = p->statistics().system_calls;
    for (int i = 0; i < 100'000; ++i) receive_all(*p); // longer than the port's patience
    BOOST_TEST(p->statistics().system_calls == calls);
    // More than the ring holds: nothing is left to who sends, who would try again at once.
    for (std::uint32_t i = 0; i < 10'000; ++i) BOOST_REQUIRE(send(*p, numbered_frame(*p, to, i)));
    BOOST_TEST(p->statistics().transmit_dropped > 1'000u);
    BOOST_TEST(p->prepare_sleep());
    p->finish_sleep();
    const std::uint32_t left = p->pool().free_count;
    w.ours.check("ip link set dev " + w.link.first() + " up");
    BOOST_TEST(until([&] { return p->pool().free_count > left + 500; }, [&] { // what was in the ring goes
        send(*p, numbered_frame(*p, to, 2));
        static_cast<void>(p->prepare_sleep());
        p->finish_sleep();
    }));
}

BOOST_AUTO_TEST_CASE(frames_behind_one_that_is_lost_on_the_way_do_not_stay_in_the_ring) {
    if (!have_root()) return;
    veth_world w;
    auto p = w.open_port(w.open({.mode = xdp_mode::generic}));
    w.peer.check("ip link set dev " + w.link.second() + " down"); // ours has no carrier now: each call loses one frame, and ends
    const std::uint32_t before = p->pool().free_count;
    std::vector<packet> burst;
    for (std::uint32_t i = 0; i < 30; ++i) burst.push_back(numbered_frame(*p, mac_address(0x02'00'00'00'00'88), i));
    BOOST_TEST(p->transmit(burst) == 30u);
    BOOST_TEST(until([&] { return p->prepare_sleep(); }, [&] { receive_all(*p); }));
    p->finish_sleep();
    BOOST_TEST(p->pool().free_count == before);
}

BOOST_AUTO_TEST_CASE(frames_that_were_sent_come_home_to_a_pool_that_is_short_of_them) {
    if (!have_root()) return;
    veth_world w;
    auto p = w.open_port(w.open({.mode = xdp_mode::generic}));
    receive_all(*p);
    std::vector<packet> burst;
    for (std::uint32_t i = 0; i < 20; ++i) burst.push_back(numbered_frame(*p, mac_address(0x02'00'00'00'00'88), i));
    std::vector<buffer> held;
    while (p->pool().free_count != 0) held.push_back(p->pool().allocate_buffer());
    BOOST_TEST(p->transmit(burst) == 20u);
    BOOST_TEST(until([&] { return p->pool().free_count == 20u; }, [&] { receive_all(*p); }));
}

/// Has the kernel at the other end send one frame longer than any of ours: ten datagrams that its device is to cut.
void send_long_frame(veth_world& w) {
    w.peer.check("ip neighbour replace 10.9.0.77 lladdr 02:00:00:00:00:77 dev " + w.link.second());
    w.peer.check("python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
                 "s.setsockopt(17, 103, 1400); s.sendto(bytes(14000), (\"10.9.0.77\", 9))'"); // SOL_UDP, UDP_SEGMENT
}

BOOST_AUTO_TEST_CASE(the_program_for_frames_in_pieces_goes_in_when_the_first_one_has_come) {
    if (!have_root()) return;
    for (const xdp_pieces how : {xdp_pieces::automatic, xdp_pieces::on, xdp_pieces::off}) {
        veth_world w;
        auto device = w.open({.mode = xdp_mode::generic, .pieces = how});
        device->own(ipv4(10, 9, 0, 77));
        auto p = w.open_port(device);
        BOOST_TEST(device->pieces_program() == (how == xdp_pieces::on));
        ask_for(w.peer, "10.9.0.77");
        BOOST_TEST(arrives(*p, is_arp));
        BOOST_TEST(device->pieces_program() == (how == xdp_pieces::on)); // a short frame changes nothing
        send_long_frame(w);
        const auto seen = [&] { return p->statistics().receive_malformed != 0 || p->kernel_drops() != 0; };
        BOOST_TEST(until(seen, [&] { static_cast<void>(receive_all(*p)); }));
        BOOST_TEST(device->pieces_program() == (how != xdp_pieces::off));
        w.peer.check("ip neighbour del 10.9.0.77 dev " + w.link.second());
        ask_for(w.peer, "10.9.0.77"); // and short ones come in as before
        BOOST_TEST(arrives(*p, is_arp));
        BOOST_TEST(w.attached());
    }
}

/// A port at each end of the cable.
struct two_ports : veth_world {
    std::unique_ptr<xdp_port> a = open_port(open()), b = open_peer();
    std::unique_ptr<xdp_port> open_peer() {
        const network_namespace::scope inside(peer);
        return std::make_unique<xdp_port>(std::make_shared<xdp_device>(xdp_device_options{.interface = link.second()}));
    }
};

/// On one CPU: of frames that were sent from several, the kernel promises no order.
class on_one_cpu {
public:
    on_one_cpu() {
        ::sched_getaffinity(0, sizeof before_, &before_);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
        ::sched_setaffinity(0, sizeof one, &one);
    }
    ~on_one_cpu() { ::sched_setaffinity(0, sizeof before_, &before_); }
    on_one_cpu(const on_one_cpu&) = delete;
    on_one_cpu& operator=(const on_one_cpu&) = delete;

private:
    cpu_set_t before_{};
};

BOOST_AUTO_TEST_CASE(two_xdp_ports_exchange_numbered_frames_in_order) {
    if (!have_root()) return;
    const on_one_cpu here;
    two_ports w;
    constexpr std::uint32_t count = 5000, under_way = 64; // the cable holds 256 that the kernel has not come to deliver
    std::vector<std::uint32_t> got;
    std::uint32_t sent = 0;
    const auto turn = [&] {
        if (sent < count && sent - got.size() < under_way) {
            ++sent;
            BOOST_REQUIRE(send(*w.a, numbered_frame(*w.a, w.b->mac(), sent, 60 + sent % 1400)));
        }
        static_cast<void>(receive_all(*w.a));
        for (const auto n : receive_numbers(*w.b)) got.push_back(n);
    };
    BOOST_REQUIRE(until([&] { return got.size() >= count; }, turn));
    for (std::uint32_t i = 0; i < count; ++i) BOOST_REQUIRE(got[i] == i + 1);
}

BOOST_AUTO_TEST_CASE(an_xdp_port_that_goes_sends_what_waits_for_a_system_call_to_share) {
    if (!have_root()) return;
    two_ports w;
    std::uint32_t sent = 0, got = 0;
    const auto send_one = [&] { BOOST_REQUIRE(send(*w.a, numbered_frame(*w.a, w.b->mac(), ++sent))); };
    const auto take = [&] { got += static_cast<std::uint32_t>(receive_numbers(*w.b).size()); };
    std::uint64_t calls = 0;
    do { // after some frames the port tries to send two by one call
        calls = w.a->statistics().system_calls;
        send_one();
        take();
        BOOST_REQUIRE(sent < 1000);
    } while (w.a->statistics().system_calls != calls);
    w.a.reset();
    BOOST_TEST(until([&] { return got == sent; }, take));
}

BOOST_AUTO_TEST_CASE(a_killed_process_leaves_no_xdp_program_attached) {
    if (!have_root()) return;
    veth_world w;
    int ready[2];
    BOOST_REQUIRE(::pipe(ready) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
        auto p = w.open_port(w.open());
        if (::write(ready[1], "x", 1) != 1) ::_exit(1);
        for (;;) ::pause();
    }
    char byte = 0;
    BOOST_TEST(::read(ready[0], &byte, 1) == 1);
    BOOST_TEST(w.attached());
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    BOOST_TEST(until([&] { return !w.attached(); }, [] { std::this_thread::yield(); }));
    BOOST_CHECK_NO_THROW(w.open_port(w.open())); // and its queue is free again
    ::close(ready[0]);
    ::close(ready[1]);
}

BOOST_AUTO_TEST_CASE(xdp_says_what_is_missing) {
    if (!have_root()) return;
    network_namespace ns;
    const network_namespace::scope inside(ns);
    BOOST_CHECK_EXCEPTION(xdp_device({.interface = "nothere0"}), std::system_error, [](const std::system_error& e) {
        return std::string(e.what()).find("no network interface 'nothere0'") != std::string::npos;
    });
}

BOOST_AUTO_TEST_CASE(tap_is_a_cable_to_the_kernel_and_goes_with_its_port) {
    if (!have_root()) return;
    network_namespace ns;
    const network_namespace::scope inside(ns);
    auto ports = tap_port::open({.host_address = ip_prefix(ipv4(10, 9, 1, 1), 24)});
    BOOST_REQUIRE(ports.size() == 1u);
    tap_port& p = *ports.front();
    BOOST_TEST((p.mac() != p.host_mac()));
    ask_for(ns, "10.9.1.77");
    BOOST_TEST(arrives(p, is_arp));
    const auto before = ns.check("cat /proc/net/dev | grep " + p.interface());
    BOOST_TEST(send(p, numbered_frame(p, p.host_mac(), 1)));
    BOOST_TEST(ns.check("cat /proc/net/dev | grep " + p.interface()) != before);
    const std::string name = p.interface();
    ports.clear();
    BOOST_TEST(ns.run("ip link show dev " + name + " >/dev/null 2>&1") != 0);
}

BOOST_AUTO_TEST_CASE(a_tap_whose_interface_was_deleted_wakes_nobody) {
    if (!have_root()) return;
    network_namespace ns;
    const network_namespace::scope inside(ns);
    auto ports = tap_port::open({.host_address = ip_prefix(ipv4(10, 9, 1, 1), 24)});
    tap_port& p = *ports.front();
    BOOST_TEST(p.wake_fd() >= 0);
    ns.check("ip link delete dev " + p.interface());
    BOOST_TEST(receive_all(p).empty());
    BOOST_TEST(p.wake_fd() == -1);
    BOOST_TEST(send(p, numbered_frame(p, p.host_mac(), 1))); // lost, and counted
    BOOST_TEST(p.statistics().transmit_dropped == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
