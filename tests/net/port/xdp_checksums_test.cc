// The xdp port leaves checksums to a real kernel: what it says beside a frame, and what becomes of it at the other end of a veth pair.
// ctest: root=yes resource_lock=network_namespaces timeout=120 processors=2
#include <corewire/net/port/xdp/interface.hh>
#include <corewire/net/port/xdp/xdp_port.hh>
#include <corewire/net/port/xdp/xdp_queue.hh>
#include <corewire/net/udp/udp_output.hh>

#include "tests/support/netns.hh"
#include "tests/support/test_packets.hh"

#include <boost/test/unit_test.hpp>

#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <sys/socket.h>
#include <thread>

using namespace corewire;
using namespace corewire::test;

namespace {

/// A port of ours, and a kernel with a datagram socket at the other end.
struct world {
    explicit world(bool checksums = true, xdp_mode mode = xdp_mode::automatic) : options{.transmit_checksum = checksums} {
        {
            const network_namespace::scope inside(ours);
            device = std::make_shared<xdp_device>(xdp_device_options{.interface = link.first(), .mode = mode});
            at = std::make_unique<xdp_port>(device, options);
        }
        const network_namespace::scope inside(peer);
        socket.reset(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        sockaddr_in here{};
        here.sin_family = AF_INET;
        here.sin_port = htons(9000);
        BOOST_REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&here), sizeof here) == 0);
        const timeval patience{.tv_sec = 20, .tv_usec = 0};
        ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        headers.set_link(at->mac(), query_interface(link.second()).mac);
    }

    /// From Linux 6.11 on; else says what was left out.
    bool leaves_sums_open() const {
        if (at->capabilities().transmit_checksum) return true;
        std::puts("SKIPPED: this kernel completes no checksums over AF_XDP");
        return false;
    }

    packet datagram(std::string_view payload, udp_headers::checksum how, std::uint32_t headroom = frame_headroom) {
        buffer b = at->pool().allocate_buffer(headroom);
        std::memcpy(b.append(static_cast<std::uint32_t>(payload.size())), payload.data(), payload.size());
        packet p;
        BOOST_REQUIRE(headers.wrap(b, how, 1, at->pool(), p));
        return p;
    }
    void sends(packet p) {
        BOOST_REQUIRE(send(*at, std::move(p)));
        static_cast<void>(at->prepare_sleep()); // nothing waits for more
        at->finish_sleep();
    }
    std::string next_datagram() {
        char bytes[2048];
        const ssize_t size = ::recv(socket.get(), bytes, sizeof bytes, 0);
        return size < 0 ? "none" : std::string(bytes, static_cast<std::size_t>(size));
    }

    network_namespace ours, peer;
    veth_pair link{ours, "10.9.0.1/24", peer, "10.9.0.2/24"};
    xdp_port_options options;
    std::shared_ptr<xdp_device> device;
    std::unique_ptr<xdp_port> at;
    udp_headers headers{{ipv4(10, 9, 0, 77), 9001}, {ipv4(10, 9, 0, 2), 9000}};
    unique_fd socket;
};

} // namespace

BOOST_AUTO_TEST_SUITE(xdp_checksums)

BOOST_AUTO_TEST_CASE(a_kernel_takes_what_was_left_open_and_only_when_it_was_told) {
    if (!have_root()) return;
    using checksum = udp_headers::checksum;
    for (const xdp_mode mode : {xdp_mode::generic, xdp_mode::native}) {
        world w(true, mode);
        if (!w.leaves_sums_open()) {
            w.sends(w.datagram("computed", checksum::compute));
            BOOST_TEST(w.next_datagram() == "computed");
            return;
        }
        packet untold = w.datagram("open, and nobody said so", checksum::offload);
        untold.flags = offload::none;
        w.sends(std::move(untold));
        w.sends(w.datagram("computed", checksum::compute));
        BOOST_TEST(w.next_datagram() == "computed");
        w.sends(w.datagram("open", checksum::offload));
        BOOST_TEST(w.next_datagram() == "open");
        packet both = w.datagram("the header's too", checksum::offload);
        both.flags = both.flags | offload::ipv4_checksum_needed;
        store_be16(both.head.mutable_data() + 24, 0x1234);
        w.sends(std::move(both));
        BOOST_TEST(w.next_datagram() == "the header's too");
    }
}

BOOST_AUTO_TEST_CASE(an_open_sum_outside_of_its_frame_is_dropped_and_holds_nothing_up) {
    if (!have_root()) return;
    world w;
    if (!w.leaves_sums_open()) return;
    packet wrong = w.datagram("nowhere", udp_headers::checksum::offload);
    wrong.l4_offset = static_cast<std::uint16_t>(wrong.head.size() - 7); // the field's second byte would be the first behind it
    w.sends(std::move(wrong));
    BOOST_TEST(w.at->statistics().transmit_dropped == 1u);
    w.sends(w.datagram("good", udp_headers::checksum::offload));
    BOOST_TEST(w.next_datagram() == "good");
}

BOOST_AUTO_TEST_CASE(a_port_waits_for_the_queue_that_another_leaves_and_serves_on_it) {
    if (!have_root()) return;
    world w;
    std::thread leaver([before = std::move(w.at)]() mutable {
        std::this_thread::sleep_for(std::chrono::milliseconds(50)); // the new one has met EBUSY meanwhile
        before.reset();
    });
    {
        const network_namespace::scope inside(w.ours);
        BOOST_CHECK_NO_THROW(w.at = std::make_unique<xdp_port>(w.device, w.options));
    }
    leaver.join();
    w.sends(w.datagram("again", udp_headers::checksum::compute));
    BOOST_TEST(w.next_datagram() == "again");
}

BOOST_AUTO_TEST_CASE(frames_without_room_in_front_of_them_are_copied) {
    if (!have_root()) return;
    using checksum = udp_headers::checksum;
    world w;
    const checksum how = w.at->capabilities().transmit_checksum ? checksum::offload : checksum::compute;
    const std::uint32_t free = w.at->pool().free_count;
    for (const std::uint32_t left : {0u, 8u, 23u, 24u, 25u}) { // bytes in front of the Ethernet header
        const std::string name = std::to_string(left) + " left";
        packet p = w.datagram(name, how, udp_headers::size + left);
        BOOST_TEST(p.head.headroom() == left);
        w.sends(std::move(p));
        BOOST_TEST(w.next_datagram() == name);
        w.sends(w.datagram(name + ", computed", checksum::compute, udp_headers::size + left));
        BOOST_TEST(w.next_datagram() == name + ", computed");
    }
    w.sends(w.datagram("last", how));
    BOOST_TEST(w.next_datagram() == "last");
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (w.at->pool().free_count != free && std::chrono::steady_clock::now() < give_up) {
        receive_all(*w.at);
        static_cast<void>(w.at->prepare_sleep()); // what was sent comes home: the kernel refused none of them
        w.at->finish_sleep();
    }
    BOOST_TEST(w.at->pool().free_count == free);
}

BOOST_AUTO_TEST_CASE(payload_of_other_memory_is_copied_behind_its_headers_and_its_sum_left_open) {
    if (!have_root()) return;
    world w;
    if (!w.leaves_sums_open()) return;
    frame_pool elsewhere(4);
    buffer payload = elsewhere.allocate_buffer();
    std::memset(payload.append(1000), 'x', 1000);
    packet p;
    BOOST_REQUIRE(w.headers.wrap(payload, udp_headers::checksum::offload, 1, w.at->pool(), p));
    w.sends(std::move(p));
    BOOST_TEST(w.next_datagram() == std::string(1000, 'x'));
}

BOOST_AUTO_TEST_CASE(a_port_that_leaves_none_open_sends_what_the_stack_has_computed) {
    if (!have_root()) return;
    world w(false);
    BOOST_TEST(!w.at->capabilities().transmit_checksum);
    w.sends(w.datagram("computed", udp_headers::checksum::compute, udp_headers::size)); // from a frame's first byte on
    BOOST_TEST(w.next_datagram() == "computed");
}

BOOST_AUTO_TEST_CASE(memory_that_was_refused_with_metadata_is_registered_without) {
    if (!have_root()) return;
    frame_pool frames(64);
    xdp_queue q;
    BOOST_REQUIRE(q.open() == 0);
    BOOST_TEST(q.register_memory(frames, 256) == EINVAL); // more than any kernel takes, and as one that knows none answers
    BOOST_TEST(q.register_memory(frames, 0) == 0);
    BOOST_TEST(q.register_memory(frames, 0) == EBUSY);
    BOOST_TEST(!q.zero_copy());
    xdp_queue other;
    BOOST_TEST(other.make_rings({.receive = 64, .transmit = 64, .fill = 64, .completion = 64}) == EBADF);
}

BOOST_AUTO_TEST_SUITE_END()
