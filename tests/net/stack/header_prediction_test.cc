// The fast ways through the stack: the frame of fixed places against the general parsers, who is spared the ARP probe, and
// two hosts that say the same with and without header prediction.
#include "stack_world.hh"

#include <corewire/net/port/wrap/wrapped_port.hh>
#include <corewire/net/stack/plain_frame.hh>
#include <corewire/net/wire/ethernet.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/ipv6.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/net/wire/tcp_options.hh>
#include <corewire/reactor/base/random.hh>

#include <tuple>
#include <vector>

using namespace corewire;
using namespace corewire::socket_suite;

namespace {

const mac_address ours(0x02'00'00'00'00'01);

/// The path of a connection of 10.0.0.2, or 2001:db8::2.
template <typename Frame>
struct sending_path : Frame::path {
    sending_path() {
        const wire::ethernet_header link{.destination = ours, .source = mac_address(0x02'00'00'00'00'02)};
        link.emit(this->headers);
        fill_in(*this);
        Frame::prepare(*this, {0, 0, 40'000, 7});
    }
    static void fill_in(output_path& path) {
        const wire::ipv4_header ip{.total_length = 0, .source = ipv4(10, 0, 0, 2), .destination = ipv4(10, 0, 0, 1)};
        std::byte* header = path.headers.data() + wire::ethernet_header::size;
        ip.emit({header, wire::ipv4_header::min_size});
        store_be16(header + wire::ipv4_header::checksum_offset, 0);
        for (std::size_t i = 0; i < wire::ipv4_header::min_size; i += 2) path.checksum_base += load_be16(header + i);
    }
    static void fill_in(ipv6_path& path) {
        store_be16(path.headers.data() + 12, 0x86dd);
        const wire::ipv6_header ip{.flow_label = 0x12345, .payload_length = 0, .next_header = wire::ip_protocol::tcp, .hop_limit = 64,
                                   .source = stack_world::six(ipv4(10, 0, 0, 2)), .destination = stack_world::six(ipv4(10, 0, 0, 1))};
        ip.emit(mutable_byte_span(path.headers).subspan(wire::ethernet_header::size));
    }
};

/// A frame as a connection's path and plain_frame write it, with `payload` bytes behind the headers.
template <typename Frame>
struct written_frame {
    explicit written_frame(std::uint32_t payload) {
        sending_path<Frame> path;
        write(payload, path);
    }
    written_frame(std::uint32_t payload, typename Frame::path& path) { write(payload, path); }
    void write(std::uint32_t payload, typename Frame::path& path) {
        tcp::plain_output s;
        s.seq = tcp::seq_number(0x01020304);
        s.ack = tcp::seq_number(0xa0b0c0d0);
        s.window = 0x1234;
        s.timestamp_value = 0x11223344;
        s.timestamp_echo = 0x55667788;
        s.payload_size = payload;
        p.head = pool.allocate_buffer();
        Frame::write(p.head.append(Frame::header_size + payload), path, s);
    }
    frame_pool pool{4};
    packet p;
};

/// What the general parsers make of it; false: they would not give it to a connection as a plain segment.
bool parsed_ip(byte_span datagram, wire::ether_type type, byte_span& tcp, flow_key& key) {
    wire::ipv4_view ip;
    if (type != wire::ether_type::ipv4 || wire::ipv4_view::parse(datagram, ip) != wire::parse_error::none || ip.is_fragment() ||
        !ip.options().empty() || ip.protocol() != wire::ip_protocol::tcp || ip.ecn() != 0) {
        return false;
    }
    tcp = ip.payload();
    key.local_address = ip.destination().value();
    key.remote_address = ip.source().value();
    return true;
}
bool parsed_ip(byte_span datagram, wire::ether_type type, byte_span& tcp, flow_name& key) {
    wire::ipv6_view ip;
    if (type != wire::ether_type::ipv6 || wire::ipv6_view::parse(datagram, ip) != wire::parse_error::none ||
        ip.next_header() != wire::ip_protocol::tcp || ip.ecn() != 0) {
        return false;
    }
    tcp = ip.payload();
    key.local = ip.destination();
    key.remote = ip.source();
    return true;
}
template <typename Key>
bool parsed(const packet& p, Key& key, tcp::plain_arrival& seg) {
    wire::ethernet_view link;
    byte_span segment;
    wire::tcp_view tcp;
    wire::tcp_options options;
    if (wire::ethernet_view::parse(p.head.bytes(), link) != wire::parse_error::none || link.destination() != ours) return false;
    if (!parsed_ip(link.payload(), link.type(), segment, key)) return false;
    if (wire::tcp_view::parse(segment, tcp) != wire::parse_error::none) return false;
    if (wire::tcp_options::parse(tcp.options(), options) != wire::parse_error::none) return false;
    if ((tcp.flags() & ~wire::tcp_flags::psh) != wire::tcp_flags::ack) return false;
    if (options.present != wire::tcp_option_set::timestamps || tcp.options().size() != 12) return false;
    key.local_port = tcp.destination_port();
    key.remote_port = tcp.source_port();
    seg = {tcp::seq_number(tcp.sequence()), tcp::seq_number(tcp.acknowledgment()), options.timestamp_value,
           static_cast<std::uint32_t>(tcp.payload().size()), tcp.window(), true};
    return true;
}

/// Whatever is recognised reads the same to the general parsers.
template <typename Frame>
bool recognised_alike(const packet& p) {
    if (!Frame::recognise(p, ours)) return false;
    typename Frame::ip::key key;
    tcp::plain_arrival general{};
    BOOST_REQUIRE(parsed(p, key, general));
    const Frame frame(p.head.data());
    const tcp::plain_arrival plain = frame.arrival(p.size() - Frame::header_size);
    BOOST_TEST((frame.key() == key));
    BOOST_TEST((plain.seq == general.seq && plain.ack == general.ack));
    BOOST_TEST(plain.timestamp_value == general.timestamp_value);
    BOOST_TEST(plain.payload_size == general.payload_size);
    BOOST_TEST(plain.window == general.window);
    return true;
}

using families = std::tuple<ipv4_frame, ipv6_frame>;

} // namespace

BOOST_AUTO_TEST_SUITE(header_prediction)

BOOST_AUTO_TEST_CASE_TEMPLATE(what_is_written_is_recognised_and_its_checksum_holds, frame, families) {
    for (const std::uint32_t payload : {0u, 1u, 64u, 1428u}) {
        written_frame<frame> f(payload);
        BOOST_TEST(recognised_alike<frame>(f.p));
        BOOST_TEST(frame::ip::header_holds(f.p.head.data()));
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(frames_of_one_path_and_changing_sizes_have_right_lengths_and_checksums, frame, families) {
    sending_path<frame> path;
    for (const std::uint32_t payload : {64u, 64u, 1428u, 0u, 0u, 64u}) {
        written_frame<frame> f(payload, path);
        BOOST_TEST(recognised_alike<frame>(f.p)); // which the length is a part of
        BOOST_TEST(frame::ip::header_holds(f.p.head.data()));
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(every_flipped_bit_is_read_as_the_general_parsers_read_it_or_left_to_them, frame, families) {
    unsigned recognised = 0;
    for (std::uint32_t bit = 0; bit < frame::header_size * 8; ++bit) {
        written_frame<frame> f(10);
        f.p.head.mutable_data()[bit / 8] ^= std::byte{1} << (bit % 8);
        recognised += recognised_alike<frame>(f.p) ? 1 : 0;
    }
    BOOST_TEST(recognised > 300u);                           // numbers, ports, addresses, timestamps
    BOOST_TEST(recognised < frame::header_size * 8 - 100); // addresses of the link, types, lengths, flags, options
}

BOOST_AUTO_TEST_CASE_TEMPLATE(frames_of_different_flows_are_told_from_each_other, frame, families) {
    written_frame<frame> first(10);
    const std::uint32_t begin = frame::tcp_at - (frame::tcp_at == link_and_ip_size ? 8 : 32); // addresses, and then ports
    for (std::uint32_t bit = begin * 8; bit < (frame::tcp_at + 4) * 8; ++bit) {
        written_frame<frame> f(10);
        BOOST_REQUIRE((frame(f.p.head.data()).flow() == frame(first.p.head.data()).flow()));
        f.p.head.mutable_data()[bit / 8] ^= std::byte{1} << (bit % 8);
        BOOST_TEST(!(frame(f.p.head.data()).flow() == frame(first.p.head.data()).flow()));
        BOOST_TEST(!(frame(f.p.head.data()).flow() == typename frame::ip::flow{}));
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(frames_that_are_too_short_or_longer_than_they_say_are_left_to_the_parsers, frame, families) {
    written_frame<frame> f(10);
    f.p.head.append(1); // Ethernet padding
    BOOST_TEST(!frame::recognise(f.p, ours));
    f.p.head.remove_suffix(2);
    BOOST_TEST(!frame::recognise(f.p, ours));
    for (std::uint32_t size = 0; size < frame::header_size; ++size) {
        f.p.head.truncate(size == 0 ? 0 : frame::header_size - size);
        BOOST_TEST(!frame::recognise(f.p, ours));
    }
}

namespace {

task<> ask_every_second(stack_world& w, int times) {
    ends both = co_await connected(w, {.no_delay = true});
    for (int i = 0; i < times; ++i) {
        co_await both.client.write(std::string_view{"question"});
        co_await both.server.read();
        co_await both.server.write(std::string_view{"answer"});
        co_await both.client.read();
        co_await sleep_for(std::chrono::seconds{1});
    }
}

std::uint64_t requests(network_stack& host) { return host.ip().neighbors().statistics().requests_sent; }

} // namespace

BOOST_FIXTURE_TEST_CASE(progress_of_a_connection_spares_its_neighbour_the_probe, stack_world) { // RFC 4861 7.3.1
    run(ask_every_second(*this, 5));
    const std::uint64_t before = requests(server()) + requests(client());
    run(ask_every_second(*this, 200));
    BOOST_TEST(requests(server()) + requests(client()) == before);
}

namespace {

task<> three_in_turn_on_one_tuple(stack_world& w) {
    tcp_listener listener = listen(w);
    for (int i = 0; i < 3; ++i) {
        w.loop().attached(reactor::attachment::network) = static_cast<socket_provider*>(&w.client());
        tcp_stream client = co_await tcp_stream::connect(listener.local_address(), {}, {}, {stack_world::second, 40'000});
        tcp_stream server = co_await listener.accept();
        for (int k = 0; k < 4; ++k) {
            co_await client.write(std::string_view{"question"});
            co_await server.read();
            co_await server.write(std::string_view{"answer"});
            const buffer answer = co_await client.read();
            BOOST_TEST(answer.text() == "answer");
        }
        server.shutdown(); // it keeps TIME-WAIT
        const buffer end = co_await client.read();
        BOOST_TEST(end.empty());
        co_await client.close();
        co_await sleep_for(std::chrono::milliseconds{10});
    }
}

} // namespace

BOOST_FIXTURE_TEST_CASE(a_connection_is_told_from_the_one_before_on_its_4_tuple, stack_world) {
    run(three_in_turn_on_one_tuple(*this));
    settle();
}

namespace {

task<> talk(stack_world& w, std::uint32_t rounds, std::string& heard) {
    ends both = co_await connected(w, {.no_delay = true});
    const std::string large(5'000, 'x');
    for (std::uint32_t i = 0; i < rounds; ++i) {
        const std::string question = i % 7 == 0 ? large : "question " + std::to_string(i);
        co_await both.client.write(std::string_view{question});
        for (std::size_t got = 0; got < question.size();) {
            buffer data = co_await both.server.read();
            got += data.size();
            co_await both.server.write(std::move(data)); // in place, where it can be
        }
        for (std::size_t got = 0; got < question.size();) {
            const buffer data = co_await both.client.read();
            heard += data.text();
            got += data.size();
        }
    }
}

stack_config with_fast_path(bool on) {
    stack_config c;
    c.tcp.fast_path = on;
    c.ipv6.emplace().duplicate_probes = 0;
    return c;
}

struct family_world : stack_world {
    family_world(const wire_options& wire, bool fast, bool v6) : stack_world(wire, with_fast_path(fast)), over_ipv6(v6) {}
    net_address server_address() override { return over_ipv6 ? net_address(six(first)) : net_address(first); }
    net_address client_address() override { return over_ipv6 ? net_address(six(second)) : net_address(second); }
    const bool over_ipv6;
};

} // namespace

BOOST_AUTO_TEST_CASE(two_hosts_exchange_the_same_frames_with_and_without_it) {
    for (const unsigned way : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u}) {
        const wire_options wire{.vouch_for_checksums = (way & 1) != 0, .hand_over = (way & 2) != 0};
        std::string heard[2];
        std::uint64_t frames[2], bytes[2], segments[2], plain_in[2], plain_out[2];
        for (const int general : {0, 1}) {
            family_world w(wire, general == 0, (way & 4) != 0);
            w.run(talk(w, 50, heard[general]));
            w.settle();
            frames[general] = w.client().device().statistics().transmitted_packets;
            bytes[general] = w.client().device().statistics().transmitted_bytes;
            const stack_statistics& s = w.server().statistics();
            segments[general] = s.tcp_segments_in();
            plain_in[general] = s.tcp_plain_in;
            plain_out[general] = s.tcp_plain_out;
            BOOST_TEST(s.bad_tcp_checksum == 0u);
            BOOST_TEST(s.bad_ip_checksum == 0u);
        }
        BOOST_TEST(heard[0] == heard[1]);
        BOOST_TEST(frames[0] == frames[1]);
        BOOST_TEST(bytes[0] == bytes[1]);
        BOOST_TEST(segments[0] == segments[1]);
        BOOST_TEST(plain_in[0] > segments[0] * 9 / 10);
        BOOST_TEST(plain_out[0] >= 40u); // of 50 rounds; the long ones are in several pieces
        BOOST_TEST(plain_in[1] + plain_out[1] == 0u);
    }
}

namespace {

/// The server hears nothing but ACKs, with `left` frames, or with something unread that fills its receive queue.
task<> hear_acks(stack_world& w, std::uint32_t left, bool unread) {
    ends both = co_await connected(w, {.no_delay = true});
    if (unread) {
        co_await both.client.write(std::string_view{"unread"});
        co_await sleep_for(std::chrono::milliseconds{100});
    }
    std::vector<buffer> taken;
    while (w.server().device().pool().free_count > left) taken.push_back(w.server().device().pool().allocate_buffer());
    const stack_statistics& s = w.server().statistics();
    const std::uint64_t plain = s.tcp_plain_in, all = s.tcp_segments_in();
    for (int i = 0; i < 20; ++i) {
        co_await both.server.write(std::string_view{"something"});
        const buffer heard = co_await both.client.read();
        BOOST_TEST(heard.size() == 9u);
        co_await sleep_for(std::chrono::milliseconds{100});
    }
    BOOST_TEST(s.tcp_segments_in() - all >= 20u);
    BOOST_TEST(s.tcp_plain_in - plain == s.tcp_segments_in() - all);
    taken.clear();
    both.client.abort();
}

} // namespace

BOOST_AUTO_TEST_CASE(an_ack_that_brings_nothing_needs_no_room) {
    stack_world rare({.frames = 256, .vouch_for_checksums = false});
    rare.run(hear_acks(rare, 100, false));
    stack_config few_pieces;
    few_pieces.tcp.receive_pieces = 2;
    stack_world full({.vouch_for_checksums = false}, few_pieces);
    full.run(hear_acks(full, ~0u, true));
}

namespace {

/// As the kernel's own segments come over AF_XDP and a tap device: their TCP checksum is a part of a sum, for which the port vouches, and
/// their IPv4 header is for the stack to check.
struct local_segments final : wrapped_port {
    using wrapped_port::wrapped_port;
    std::size_t receive(std::span<packet> out) override {
        const std::size_t n = wrapped_port::receive(out);
        for (packet& p : out.first(n)) {
            p.flags = offload::l4_checksum_good;
            std::byte* const f = p.head.mutable_data();
            if (load_be16(f + 12) == 0x0800 && f[23] == std::byte{6}) f[50] ^= std::byte{0x55}; // TCP's checksum
        }
        return n;
    }
};

struct local_world : stack_world {
    explicit local_world(wire_link::ends ends)
        : stack_world(std::make_unique<local_segments>(std::move(ends.first)), std::move(ends.second), {}) {}
};

} // namespace

BOOST_AUTO_TEST_CASE(a_checksum_that_the_port_vouches_for_is_not_asked_for_again) {
    local_world w(wire_link::make({.vouch_for_checksums = false}));
    std::string heard;
    w.run(talk(w, 50, heard));
    w.settle();
    const stack_statistics& s = w.server().statistics();
    BOOST_TEST(s.bad_tcp_checksum == 0u);
    BOOST_TEST(s.tcp_plain_in > s.tcp_segments_in() * 9 / 10);
}

BOOST_AUTO_TEST_SUITE_END()
