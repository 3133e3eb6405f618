// The fast ways through the stack: the frame of fixed places against the general parsers, who is spared the ARP probe, and
// two hosts that say the same with and without header prediction.
#include "stack_world.hh"

#include <corewire/net/stack/plain_frame.hh>
#include <corewire/net/wire/ethernet.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/net/wire/tcp_options.hh>
#include <corewire/reactor/base/random.hh>

using namespace corewire;
using namespace corewire::socket_suite;

namespace {

const mac_address ours(0x02'00'00'00'00'01);

/// The path of a connection of 10.0.0.2.
struct sending_path : output_path {
    sending_path() {
        const flow_key sender{ipv4(10, 0, 0, 2).value(), ipv4(10, 0, 0, 1).value(), 40'000, 7};
        output_path& path = *this;
        const wire::ethernet_header link{.destination = ours, .source = mac_address(0x02'00'00'00'00'02)};
        link.emit(path.headers);
        const wire::ipv4_header ip{.total_length = 0, .source = ipv4(sender.local_address), .destination = ipv4(sender.remote_address)};
        std::byte* header = path.headers.data() + wire::ethernet_header::size;
        ip.emit({header, wire::ipv4_header::min_size});
        store_be16(header + wire::ipv4_header::checksum_offset, 0);
        for (std::size_t i = 0; i < wire::ipv4_header::min_size; i += 2) path.checksum_base += load_be16(header + i);
        plain_frame::prepare(path, sender);
    }
};

/// A frame as a connection's path and plain_frame write it, with `payload` bytes behind the headers.
struct written_frame {
    explicit written_frame(std::uint32_t payload) {
        sending_path path;
        write(payload, path);
    }
    written_frame(std::uint32_t payload, output_path& path) { write(payload, path); }
    void write(std::uint32_t payload, output_path& path) {
        tcp::plain_output s;
        s.seq = tcp::seq_number(0x01020304);
        s.ack = tcp::seq_number(0xa0b0c0d0);
        s.window = 0x1234;
        s.timestamp_value = 0x11223344;
        s.timestamp_echo = 0x55667788;
        s.payload_size = payload;
        p.head = pool.allocate_buffer();
        plain_frame::write(p.head.append(plain_frame::header_size + payload), path, s);
    }
    frame_pool pool{4};
    packet p;
};

/// What the general parsers make of it; false: they would not give it to a connection as a plain segment.
bool parsed(const packet& p, flow_key& key, tcp::plain_arrival& seg) {
    wire::ethernet_view link;
    wire::ipv4_view ip;
    wire::tcp_view tcp;
    wire::tcp_options options;
    if (wire::ethernet_view::parse(p.head.bytes(), link) != wire::parse_error::none || link.destination() != ours ||
        link.type() != wire::ether_type::ipv4) {
        return false;
    }
    if (wire::ipv4_view::parse(link.payload(), ip) != wire::parse_error::none || ip.is_fragment() || !ip.options().empty() ||
        ip.protocol() != wire::ip_protocol::tcp) {
        return false;
    }
    if (wire::tcp_view::parse(ip.payload(), tcp) != wire::parse_error::none) return false;
    if (wire::tcp_options::parse(tcp.options(), options) != wire::parse_error::none) return false;
    if ((tcp.flags() & ~wire::tcp_flags::psh) != wire::tcp_flags::ack) return false;
    if (options.present != wire::tcp_option_set::timestamps || tcp.options().size() != 12) return false;
    key = {ip.destination().value(), ip.source().value(), tcp.destination_port(), tcp.source_port()};
    seg = {tcp::seq_number(tcp.sequence()), tcp::seq_number(tcp.acknowledgment()), options.timestamp_value,
           static_cast<std::uint32_t>(tcp.payload().size()), tcp.window(), true};
    return true;
}

/// Whatever is recognised reads the same to the general parsers.
bool recognised_alike(const packet& p) {
    if (!plain_frame::recognise(p, ours)) return false;
    flow_key key;
    tcp::plain_arrival general{};
    BOOST_REQUIRE(parsed(p, key, general));
    const plain_frame frame(p.head.data());
    const tcp::plain_arrival plain = frame.arrival(p.size() - plain_frame::header_size);
    BOOST_TEST((frame.key() == key));
    BOOST_TEST((plain.seq == general.seq && plain.ack == general.ack));
    BOOST_TEST(plain.timestamp_value == general.timestamp_value);
    BOOST_TEST(plain.payload_size == general.payload_size);
    BOOST_TEST(plain.window == general.window);
    return true;
}

} // namespace

BOOST_AUTO_TEST_SUITE(header_prediction)

BOOST_AUTO_TEST_CASE(what_is_written_is_recognised_and_its_checksum_holds) {
    for (const std::uint32_t payload : {0u, 1u, 64u, 1448u}) {
        written_frame f(payload);
        BOOST_TEST(recognised_alike(f.p));
        BOOST_TEST(wire::checksum_ok(f.p.head.bytes().subspan(wire::ethernet_header::size, wire::ipv4_header::min_size)));
    }
}

BOOST_AUTO_TEST_CASE(frames_of_one_path_and_changing_sizes_have_right_lengths_and_checksums) {
    sending_path path;
    for (const std::uint32_t payload : {64u, 64u, 1448u, 0u, 0u, 64u}) {
        written_frame f(payload, path);
        BOOST_TEST(recognised_alike(f.p)); // which the total length is a part of
        BOOST_TEST(wire::checksum_ok(f.p.head.bytes().subspan(wire::ethernet_header::size, wire::ipv4_header::min_size)));
    }
}

BOOST_AUTO_TEST_CASE(every_flipped_bit_is_read_as_the_general_parsers_read_it_or_left_to_them) {
    unsigned recognised = 0;
    for (std::uint32_t bit = 0; bit < plain_frame::header_size * 8; ++bit) {
        written_frame f(10);
        f.p.head.mutable_data()[bit / 8] ^= std::byte{1} << (bit % 8);
        recognised += recognised_alike(f.p) ? 1 : 0;
    }
    BOOST_TEST(recognised > 300u);                           // numbers, ports, addresses, timestamps
    BOOST_TEST(recognised < plain_frame::header_size * 8 - 100); // addresses of the link, types, lengths, flags, options
}

BOOST_AUTO_TEST_CASE(frames_that_are_too_short_or_longer_than_they_say_are_left_to_the_parsers) {
    written_frame f(10);
    f.p.head.append(1); // Ethernet padding
    BOOST_TEST(!plain_frame::recognise(f.p, ours));
    f.p.head.remove_suffix(2);
    BOOST_TEST(!plain_frame::recognise(f.p, ours));
    for (std::uint32_t size = 0; size < plain_frame::header_size; ++size) {
        f.p.head.truncate(size == 0 ? 0 : plain_frame::header_size - size);
        BOOST_TEST(!plain_frame::recognise(f.p, ours));
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

stack_config general_way() {
    stack_config c;
    c.tcp.fast_path = false;
    return c;
}

} // namespace

BOOST_AUTO_TEST_CASE(two_hosts_exchange_the_same_frames_with_and_without_it) {
    for (const unsigned way : {0u, 1u, 2u, 3u}) {
        const wire_options wire{.vouch_for_checksums = (way & 1) != 0, .hand_over = (way & 2) != 0};
        std::string heard[2];
        std::uint64_t frames[2], bytes[2];
        for (const int general : {0, 1}) {
            stack_world w(wire, general != 0 ? general_way() : stack_config{});
            w.run(talk(w, 50, heard[general]));
            w.settle();
            frames[general] = w.client().device().statistics().transmitted_packets;
            bytes[general] = w.client().device().statistics().transmitted_bytes;
            BOOST_TEST(w.server().statistics().bad_tcp_checksum == 0u);
            BOOST_TEST(w.server().statistics().bad_ip_checksum == 0u);
        }
        BOOST_TEST(heard[0] == heard[1]);
        BOOST_TEST(frames[0] == frames[1]);
        BOOST_TEST(bytes[0] == bytes[1]);
    }
}

BOOST_AUTO_TEST_SUITE_END()
