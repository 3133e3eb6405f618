// The wrappers round a simulated port: what the tracer says, the bytes of the packet file, faults by seed.
#include <corewire/net/port/sim/sim_network.hh>
#include <corewire/net/port/wrap/faulty_port.hh>
#include <corewire/net/port/wrap/packet_text.hh>
#include <corewire/net/port/wrap/pcap_port.hh>
#include <corewire/net/port/wrap/tracing_port.hh>

#include "tests/support/test_packets.hh"

#include <boost/test/unit_test.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <unistd.h>

using namespace corewire;
using namespace corewire::test;

namespace {

const mac_address mac_a(2, 0, 0, 0, 0, 1), mac_b(2, 0, 0, 0, 0, 2);

struct cable {
    cable() { net.connect(*a, *b); }
    void settle() { net.advance_to(net.now() + std::chrono::milliseconds(1)); }
    sim_network net;
    std::unique_ptr<sim_port> a = net.make_port(mac_a), b = net.make_port(mac_b);
};

struct file_name {
    std::string path = "/tmp/corewire_pcap_" + std::to_string(::getpid()) + ".pcap";
    ~file_name() { std::remove(path.c_str()); }
};

std::string contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::byte> bytes_of(std::initializer_list<unsigned> values) {
    std::vector<std::byte> out;
    for (const unsigned v : values) out.push_back(static_cast<std::byte>(v));
    return out;
}

/// What 1,000 frames look like behind a faulty port.
std::vector<std::vector<std::byte>> through_faults(std::uint64_t seed) {
    cable c;
    faulty_port faulty(std::move(c.a), {.seed = seed, .on_transmit = {.drop = .1, .corrupt = .1, .duplicate = .1, .reorder = .1}});
    std::vector<std::vector<std::byte>> all;
    for (std::uint32_t i = 0; i < 1000; ++i) {
        send(faulty, numbered_frame(faulty, mac_b, i));
        c.settle();
        for (auto& f : receive_all(*c.b)) all.push_back(std::move(f));
    }
    return all;
}

} // namespace

BOOST_AUTO_TEST_SUITE(wrap)

BOOST_AUTO_TEST_CASE(a_wrapper_answers_for_the_port_inside) {
    cable c;
    port* inside = c.a.get();
    faulty_port w(std::move(c.a), {});
    BOOST_TEST(&w.pool() == &inside->pool());
    BOOST_TEST((w.mac() == mac_a));
    BOOST_TEST(w.mtu() == inside->mtu());
    BOOST_TEST(w.name() == inside->name());
    BOOST_TEST(w.capabilities().gather == inside->capabilities().gather);
    send(w, numbered_frame(w, mac_b, 1));
    BOOST_TEST(w.statistics().transmitted_packets == 1u);
}

BOOST_AUTO_TEST_CASE(the_tracer_says_when_which_way_and_what) {
    cable c;
    std::vector<std::string> lines;
    c.net.advance_to(from_ns(1'000'000'005));
    tracing_port t(std::move(c.a), c.net, [&](std::string_view l) { lines.emplace_back(l); });
    send(t, numbered_frame(t, mac_b, 1));
    send(*c.b, numbered_frame(*c.b, mac_a, 2));
    c.settle();
    receive_all(t);
    BOOST_REQUIRE(lines.size() == 2u);
    BOOST_TEST(lines[0] == "1.000000005 > 02:00:00:00:00:01 > 02:00:00:00:00:02 type 0x88b5 len 50");
    BOOST_TEST(lines[1] == "1.001000005 < 02:00:00:00:00:02 > 02:00:00:00:00:01 type 0x88b5 len 50");
}

BOOST_AUTO_TEST_CASE(tcp_is_described_by_its_flags_and_numbers) {
    auto frame = bytes_of({2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 43, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1,
                           10, 0, 0, 2, 0x1e, 0x61, 0, 80, 0, 0, 0, 17, 0, 0, 1, 0, 0x50, 0x18, 1, 0, 0, 0, 0, 0, 'a', 'b', 'c'});
    BOOST_TEST(describe_frame(frame) == "10.0.0.1:7777 > 10.0.0.2:80 tcp PSH ACK seq 17 ack 256 win 256 len 3");
    for (std::size_t size = 0; size < frame.size(); ++size) { // whatever is missing, it says so and reads no further
        const std::vector<std::byte> part(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size));
        BOOST_TEST(describe_frame(part).find("len 3") == std::string::npos);
    }
}

BOOST_AUTO_TEST_CASE(ipv6_is_described_behind_its_extension_headers) {
    const auto frame_of = [](unsigned next, std::initializer_list<unsigned> extensions, std::initializer_list<unsigned> rest) {
        auto frame = bytes_of({2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60, 0, 0, 0, 0,
                               unsigned(extensions.size() + rest.size()), next, 64,
                               0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
                               0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2});
        for (const auto& part : {bytes_of(extensions), bytes_of(rest)}) frame.insert(frame.end(), part.begin(), part.end());
        return frame;
    };
    const auto udp = frame_of(17, {}, {0x1e, 0x61, 0, 53, 0, 11, 0, 0, 'a', 'b', 'c'});
    const auto tcp = frame_of(60, {6, 0, 1, 4, 0, 0, 0, 0}, // destination options: padding
                              {0x1e, 0x61, 0, 80, 0, 0, 0, 17, 0, 0, 1, 0, 0x50, 0x18, 1, 0, 0, 0, 0, 0, 'a', 'b', 'c'});
    const auto fragment = frame_of(44, {17, 0, 0, 0x11, 0, 0, 0, 9}, {1, 2, 3, 4, 5, 6, 7, 8});
    BOOST_TEST(describe_frame(udp) == "[2001:db8::1]:7777 > [2001:db8::2]:53 udp len 3");
    BOOST_TEST(describe_frame(tcp) == "[2001:db8::1]:7777 > [2001:db8::2]:80 tcp PSH ACK seq 17 ack 256 win 256 len 3");
    BOOST_TEST(describe_frame(frame_of(58, {}, {135, 0, 0, 0})) == "2001:db8::1 > 2001:db8::2 icmp6 type 135 code 0 len 4");
    BOOST_TEST(describe_frame(fragment) == "2001:db8::1 > 2001:db8::2 fragment of protocol 17 at 16 len 8");
    BOOST_TEST(describe_frame(frame_of(60, {6, 9}, {0})) == "2001:db8::1 > 2001:db8::2 ipv6, its extension headers are no chain");
    for (const auto& frame : {udp, tcp, fragment}) {
        for (std::size_t size = 0; size < frame.size(); ++size) {
            const std::vector<std::byte> part(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size));
            BOOST_TEST(describe_frame(part) != describe_frame(frame));
        }
    }
}

BOOST_AUTO_TEST_CASE(the_packet_file_has_the_bytes_that_the_format_says) {
    file_name file;
    cable c;
    c.net.advance_to(from_ns(5'000'000'007));
    {
        pcap_port p(std::move(c.a), c.net, {.path = file.path});
        packet with_body = numbered_frame(p, mac_b, 9, 60);
        with_body.body = with_body.head.share(0, 4);
        send(p, std::move(with_body));
        BOOST_TEST(p.written() == 1u);
    }
    const std::string got = contents(file.path);
    BOOST_REQUIRE(got.size() == 24u + 16 + 64);
    const auto* at = reinterpret_cast<const std::byte*>(got.data());
    BOOST_TEST(load_native<std::uint32_t>(at) == 0xa1b23c4du);
    BOOST_TEST(load_native<std::uint16_t>(at + 4) == 2);
    BOOST_TEST(load_native<std::uint16_t>(at + 6) == 4);
    BOOST_TEST(load_native<std::uint32_t>(at + 20) == 1u);
    BOOST_TEST(load_native<std::uint32_t>(at + 24) == 5u);
    BOOST_TEST(load_native<std::uint32_t>(at + 28) == 7u);
    BOOST_TEST(load_native<std::uint32_t>(at + 32) == 64u);
    BOOST_TEST(load_native<std::uint32_t>(at + 36) == 64u);
    BOOST_TEST(number_of({at + 40, 64}) == 9u);
    BOOST_TEST(std::memcmp(at + 40, at + 100, 4) == 0);
}

BOOST_AUTO_TEST_CASE(a_full_packet_file_lets_packets_pass_unwritten) {
    file_name file;
    cable c;
    pcap_port p(std::move(c.a), c.net, {.path = file.path, .max_bytes = 24 + 80});
    send(p, numbered_frame(p, mac_b, 1));
    send(p, numbered_frame(p, mac_b, 2));
    c.settle();
    BOOST_TEST(receive_numbers(*c.b).size() == 2u);
    BOOST_TEST(p.written() == 1u);
    BOOST_TEST(p.not_written() == 1u);
    BOOST_CHECK_THROW(pcap_port(c.net.make_port(mac_a), c.net, {.path = "/nowhere/x.pcap"}), std::system_error);
}

BOOST_AUTO_TEST_CASE(tshark_opens_the_packet_file) {
    if (std::system("tshark --version >/dev/null 2>&1") != 0) {
        std::puts("SKIPPED: needs tshark");
        return;
    }
    file_name file;
    cable c;
    {
        pcap_port p(std::move(c.a), c.net, {.path = file.path});
        for (std::uint32_t i = 0; i < 3; ++i) send(p, numbered_frame(p, mac_b, i));
    }
    const std::string command = "test $(tshark -r " + file.path + " 2>/dev/null | wc -l) = 3";
    BOOST_TEST(std::system(command.c_str()) == 0);
}

BOOST_AUTO_TEST_CASE(every_nth_packet_is_dropped_on_either_way) {
    cable c;
    faulty_port f(std::move(c.a), {.on_receive = {.drop_every = 2}, .on_transmit = {.drop_every = 3}});
    for (std::uint32_t i = 1; i <= 6; ++i) send(f, numbered_frame(f, mac_b, i));
    for (std::uint32_t i = 1; i <= 4; ++i) send(*c.b, numbered_frame(*c.b, mac_a, i));
    c.settle();
    BOOST_TEST((receive_numbers(*c.b) == std::vector<std::uint32_t>{1, 2, 4, 5}));
    BOOST_TEST((receive_numbers(f) == std::vector<std::uint32_t>{1, 3}));
    BOOST_TEST(f.transmitted().dropped == 2u);
    BOOST_TEST(f.received().dropped == 2u);
}

BOOST_AUTO_TEST_CASE(reordering_lets_the_next_one_go_first_and_loses_nothing) {
    cable c;
    faulty_port f(std::move(c.a), {.on_receive = {.reorder = 1}, .on_transmit = {.reorder = 1}});
    std::vector<packet> burst;
    for (std::uint32_t i = 1; i <= 4; ++i) burst.push_back(numbered_frame(f, mac_b, i));
    BOOST_TEST(f.transmit(burst) == 4u);
    for (std::uint32_t i = 1; i <= 4; ++i) send(*c.b, numbered_frame(*c.b, mac_a, i));
    c.settle();
    BOOST_TEST((receive_numbers(*c.b) == std::vector<std::uint32_t>{2, 1, 4, 3}));
    BOOST_TEST((receive_numbers(f) == std::vector<std::uint32_t>{2, 1, 4, 3}));
}

BOOST_AUTO_TEST_CASE(a_frame_is_overtaken_by_one_of_the_next_burst_and_waits_for_none) { // tracing_port and pcap_port send them one by one
    cable c;
    faulty_port f(std::move(c.a), {.on_transmit = {.reorder = 1}});
    for (std::uint32_t i = 1; i <= 5; ++i) send(f, numbered_frame(f, mac_b, i));
    c.settle();
    BOOST_TEST((receive_numbers(*c.b) == std::vector<std::uint32_t>{2, 1, 4, 3}));
    BOOST_TEST(f.transmitted().reordered == 2u);
    BOOST_TEST(receive_all(f).empty()); // nothing came, and nothing followed
    c.settle();
    BOOST_TEST((receive_numbers(*c.b) == std::vector<std::uint32_t>{5}));
}

BOOST_AUTO_TEST_CASE(corruption_spares_the_bytes_that_the_sender_keeps) {
    cable c;
    faulty_port f(std::move(c.a), {.on_transmit = {.corrupt = 1}});
    packet p = numbered_frame(f, mac_b, 77);
    const buffer kept = p.head.share();
    const std::vector<std::byte> before(kept.bytes().begin(), kept.bytes().end());
    send(f, std::move(p));
    c.settle();
    const auto got = receive_all(*c.b);
    BOOST_REQUIRE(got.size() == 1u);
    BOOST_TEST((got[0] != before));
    BOOST_TEST(std::equal(before.begin(), before.end(), kept.bytes().begin()));
}

BOOST_AUTO_TEST_CASE(what_is_damaged_on_the_way_out_has_its_checksum_already) {
    struct offloading final : wrapped_port {
        explicit offloading(std::unique_ptr<port> inner) : wrapped_port(std::move(inner)) {
            capabilities_.transmit_checksum = capabilities_.segmentation = true;
        }
    };
    const auto round = [](const faulty_port::options& o) {
        cable c;
        return faulty_port(std::make_unique<offloading>(std::move(c.a)), o).capabilities();
    };
    for (const faults& harmless : {faults{}, faults{.drop = 0.5}}) BOOST_TEST(round({.on_transmit = harmless}).transmit_checksum);
    BOOST_TEST(!round({.on_transmit = {.corrupt = 0.5}}).transmit_checksum);
    BOOST_TEST(!round({.on_transmit = {.corrupt = 0.5}}).segmentation);
    BOOST_TEST(round({.on_receive = {.corrupt = 0.5}}).transmit_checksum);
}

BOOST_AUTO_TEST_CASE(the_same_seed_makes_the_same_faults) {
    const auto once = through_faults(11);
    BOOST_TEST((once == through_faults(11)));
    BOOST_TEST((once != through_faults(12)));
    BOOST_TEST((once.size() > 900 && once.size() < 1100));
}

BOOST_AUTO_TEST_SUITE_END()
