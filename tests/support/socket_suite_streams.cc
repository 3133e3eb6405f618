// Streams that carry bytes: echo, bulk, slow readers, many of them, scatter and gather.
#include <tests/support/socket_suite.hh>

#include <cstring>
#include <vector>

namespace corewire::socket_suite {

namespace {

using namespace std::chrono_literals;

task<> write_all(tcp_stream& to, std::string_view what) { co_await to.write(what); }

task<> hear(tcp_stream& from, std::string& heard, std::size_t size) {
    while (heard.size() < size) {
        buffer data = co_await from.read(soon(10s));
        if (!data) break;
        heard += data.text();
    }
}

constexpr std::size_t pattern_period = 1'000'003; // prime: no buffer size divides it
constexpr std::size_t block_size = 65536;

/// Byte i of every bulk stream. The period's first block is repeated behind it, so any block is one piece.
const std::vector<std::byte>& pattern() {
    static const std::vector<std::byte> bytes = [] {
        std::vector<std::byte> made(pattern_period + block_size);
        std::uint64_t x = 88172645463325252ull;
        for (std::size_t i = 0; i < pattern_period; ++i) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            made[i] = static_cast<std::byte>(x);
        }
        std::copy_n(made.begin(), block_size, made.begin() + pattern_period);
        return made;
    }();
    return bytes;
}

task<> send_pattern(tcp_stream& stream, std::uint64_t total) {
    for (std::uint64_t sent = 0; sent < total;) {
        const std::size_t n = std::min<std::uint64_t>(block_size, total - sent);
        co_await stream.write(byte_span{pattern()}.subspan(sent % pattern_period, n));
        sent += n;
    }
    stream.shutdown();
}

task<> receive_pattern(tcp_stream& stream, std::uint64_t& received, duration pause = {}) {
    for (;;) {
        buffer data = co_await stream.read();
        if (!data) break;
        while (!data.empty()) {
            const std::size_t n = std::min<std::size_t>(data.size(), block_size);
            if (std::memcmp(data.data(), pattern().data() + received % pattern_period, n) != 0) {
                BOOST_FAIL("bytes differ from what was sent, somewhere after byte " << received);
            }
            received += n;
            data.remove_prefix(static_cast<std::uint32_t>(n));
        }
        if (pause != duration{}) co_await sleep_for(pause);
    }
}

task<> echo_rounds(world& w, socket_address to, int rounds, unsigned& done) {
    tcp_stream stream = co_await dial(w, to);
    for (int i = 0; i < rounds; ++i) {
        const std::string text = "round " + std::to_string(i);
        co_await stream.write(std::string_view{text});
        std::vector<std::byte> reply(text.size());
        const std::size_t n = co_await stream.read_exactly(reply);
        BOOST_REQUIRE_EQUAL(n, text.size());
        BOOST_REQUIRE(std::memcmp(reply.data(), text.data(), n) == 0);
    }
    ++done;
}

task<> accept_and_echo(tcp_listener& listener, unsigned connections, task_group& sessions) {
    for (unsigned i = 0; i < connections; ++i) {
        tcp_stream peer = co_await listener.accept();
        sessions.spawn(echo(std::move(peer)));
    }
}

task<> echo_on(world& w, unsigned connections, int rounds) {
    tcp_listener listener = listen(w);
    task_group sessions{"echo sessions"};
    task_group clients{"echo clients"};
    sessions.spawn(accept_and_echo(listener, connections, sessions));
    unsigned done = 0;
    for (unsigned i = 0; i < connections; ++i) clients.spawn(echo_rounds(w, listener.local_address(), rounds, done));
    co_await clients.join();
    BOOST_TEST(done == connections);
    co_await sessions.join(); // each has seen its end of stream
}

} // namespace

task<> one_connection_echoes(world& w) { return echo_on(w, 1, 1000); }
task<> a_hundred_connections_echo(world& w) { return echo_on(w, 100, 20); }

task<> bulk_arrives_unchanged_both_ways(world& w) {
    ends both = co_await connected(w);
    std::uint64_t up = 0;
    std::uint64_t down = 0;
    task_group transfers{"transfers"};
    transfers.spawn(send_pattern(both.client, w.bulk_bytes()));
    transfers.spawn(send_pattern(both.server, w.bulk_bytes()));
    transfers.spawn(receive_pattern(both.client, down));
    transfers.spawn(receive_pattern(both.server, up));
    co_await transfers.join();
    BOOST_TEST(transfers.failed() == 0u);
    BOOST_TEST(up == w.bulk_bytes());
    BOOST_TEST(down == w.bulk_bytes());
}

task<> a_slow_reader_gets_everything(world& w) {
    ends both = co_await connected(w);
    constexpr std::uint64_t total = 8'000'000;
    std::uint64_t received = 0;
    task_group transfers{"transfers"};
    transfers.spawn(send_pattern(both.client, total));
    co_await sleep_for(std::chrono::milliseconds{20}); // everything on the way is full by now
    transfers.spawn(receive_pattern(both.server, received, std::chrono::microseconds{50}));
    co_await transfers.join();
    BOOST_TEST(transfers.failed() == 0u);
    BOOST_TEST(received == total);
}

namespace {

task<> short_connection(world& w, socket_address to, unsigned& done) {
    tcp_stream stream = co_await dial(w, to);
    co_await stream.write(std::string_view{"short"});
    stream.shutdown();
    std::vector<std::byte> reply(16);
    const std::size_t n = co_await stream.read_exactly(reply);
    BOOST_REQUIRE_EQUAL(n, 5u);
    ++done;
}

} // namespace

task<> a_thousand_short_connections_come_and_go(world& w) {
    tcp_listener listener = listen(w);
    task_group sessions{"echo sessions"};
    sessions.spawn(accept_and_echo(listener, 1000, sessions));
    unsigned done = 0;
    for (int batch = 0; batch < 20; ++batch) {
        task_group clients{"clients"};
        for (int i = 0; i < 50; ++i) clients.spawn(short_connection(w, listener.local_address(), done));
        co_await clients.join();
    }
    co_await sessions.join();
    BOOST_TEST(done == 1000u);
}

task<> both_ends_agree_on_the_addresses(world& w) {
    ends both = co_await connected(w);
    BOOST_TEST(both.client.local_address().to_string() == both.server.peer_address().to_string());
    BOOST_TEST(both.client.peer_address().to_string() == both.server.local_address().to_string());
    BOOST_TEST(both.client.local_address().port != 0);
}

task<> a_read_takes_no_more_than_was_asked_for(world& w) {
    ends both = co_await connected(w);
    co_await both.client.write(std::string_view{"0123456789"});
    std::vector<std::byte> four(4);
    for (const std::string_view expected : {"0123", "4567"}) {
        const std::size_t n = co_await both.server.read_exactly(four);
        BOOST_TEST(n == 4u);
        BOOST_TEST(std::string_view(reinterpret_cast<const char*>(four.data()), n) == expected);
    }
    BOOST_TEST(both.server.readable());
    buffer rest = co_await both.server.read();
    BOOST_TEST(rest.text() == "89");
}

task<> a_gather_write_keeps_the_order(world& w) {
    ends both = co_await connected(w);
    const std::string_view one = "one ", two = "two ", three = "three";
    std::vector<byte_span> pieces;
    for (const std::string_view text : {one, two, three}) pieces.push_back(std::as_bytes(std::span{text}));
    co_await both.client.write(std::span<const byte_span>{pieces});
    std::vector<std::byte> all(one.size() + two.size() + three.size());
    const std::size_t n = co_await both.server.read_exactly(all);
    BOOST_TEST(std::string_view(reinterpret_cast<const char*>(all.data()), n) == "one two three");
}

task<> an_allocated_buffer_is_sent(world& w) {
    ends both = co_await connected(w);
    buffer mine = both.client.allocate(1000);
    BOOST_REQUIRE(mine.tailroom() >= 1000);
    BOOST_TEST(mine.size() == 0u);
    std::memset(mine.append(1000), 'a', 1000);
    co_await both.client.write(std::move(mine));
    std::vector<std::byte> all(1000);
    const std::size_t n = co_await both.server.read_exactly(all);
    BOOST_TEST(n == 1000u);
    BOOST_TEST(static_cast<char>(all.back()) == 'a');
}

task<> options_are_kept(world& w) {
    tcp_options_set options;
    options.no_delay = true;
    options.keepalive = true;
    options.keepalive_idle = std::chrono::seconds{30};
    options.user_timeout = std::chrono::seconds{7};
    options.hops = 9;
    options.traffic_class = 0xbb; // ECN's bits are the connection's
    ends both = co_await connected(w, options);
    BOOST_TEST(both.client.options().no_delay);
    BOOST_TEST(both.client.options().keepalive);
    BOOST_TEST((both.client.options().user_timeout == std::chrono::seconds{7}));
    BOOST_TEST((both.client.options().hops == 9 && both.client.options().traffic_class == 0xb8));
    BOOST_TEST((both.server.options().user_timeout == duration{0}));
    BOOST_TEST(!both.server.options().no_delay);
    both.server.set_no_delay(true);
    BOOST_TEST(both.server.options().no_delay);
}

task<> what_was_chosen_before_the_handshake_is_told_back(world& w) {
    const tcp_options_set neither;
    const tcp_options_set chosen{.fast_open = true, .mtu_probing = path_mtu_probing::always};
    const auto is_told = [](const tcp_stream& of, const tcp_options_set& as) {
        return of.options().fast_open == as.fast_open && of.options().mtu_probing == as.mtu_probing;
    };
    for (const bool listens : {false, true}) {
        tcp_listener listener = listen(w, 0, {.stream = listens ? chosen : neither});
        ends both;
        both.client = co_await dial(w, listener.local_address(), {}, listens ? neither : chosen);
        both.server = co_await listener.accept();
        BOOST_TEST(is_told(both.client, listens ? neither : chosen));
        BOOST_TEST(is_told(both.server, listens ? chosen : neither));
        tcp_options_set later = neither; // too late for either of them
        later.mtu_probing = path_mtu_probing::off;
        for (tcp_stream* each : {&both.client, &both.server}) each->set_options(later);
        BOOST_TEST(is_told(both.client, listens ? neither : chosen));
        BOOST_TEST(is_told(both.server, listens ? chosen : neither));
    }
}

task<> a_buffer_of_no_size_carries_bytes_all_the_same(world& w) {
    const tcp_options_set nothing{.receive_buffer = 0, .send_buffer = 0};
    tcp_listener listener = listen(w, 0, {.stream = nothing});
    ends both;
    both.client = co_await dial(w, listener.local_address(), {}, nothing);
    both.server = co_await listener.accept();
    BOOST_TEST(both.server.options().send_buffer == tcp_options_set::least_send_buffer);
    const std::string text(20'000, 'n');
    for (const bool again : {false, true}) {
        if (again) {
            tcp_options_set options = both.client.options();
            options.receive_buffer = options.send_buffer = 0;
            both.client.set_options(options);
            BOOST_TEST(both.client.options().receive_buffer == tcp_options_set::least_receive_buffer);
        }
        for (const bool up : {true, false}) {
            tcp_stream& from = up ? both.client : both.server;
            tcp_stream& to = up ? both.server : both.client;
            std::optional<std::errc> written;
            task_group writing{"write"};
            writing.spawn(note_error(written, [&] { return from.write(std::string_view{text}, soon(10s)); }));
            std::string heard;
            const std::errc why = co_await error_of([&]() -> task<> { return hear(to, heard, text.size()); });
            co_await writing.join();
            BOOST_TEST((why == std::errc{} && written == std::errc{}));
            BOOST_TEST((heard == text));
        }
    }
}

task<> each_socket_chooses_its_congestion_control(world& w) {
    tcp_listener listener = listen(w, 0, {.stream = {.congestion = congestion_algorithm::newreno}});
    tcp_options_set options;
    options.congestion = congestion_algorithm::newreno;
    tcp_stream client = co_await dial(w, listener.local_address(), {}, options);
    tcp_stream server = co_await listener.accept();
    BOOST_TEST(client.congestion() == "newreno");
    BOOST_TEST(server.congestion() == "newreno");
    ends other = co_await connected(w);
    const std::string standard = other.client.congestion(); // the provider's own choice
    BOOST_TEST(!standard.empty());
    // In the middle of things: nothing is lost, and the other end does not notice.
    task_group echoing{"echo"};
    echoing.spawn(echo(std::move(server)));
    const std::string text(200'000, 'c');
    std::vector<std::byte> back(text.size());
    for (const auto how : {congestion_algorithm::cubic, congestion_algorithm::newreno, congestion_algorithm::standard}) {
        task_group writing{"write"};
        writing.spawn(write_all(client, text));
        co_await some_turns();
        client.set_congestion(how);
        BOOST_TEST(client.congestion() == (how == congestion_algorithm::standard ? standard : name_of(how)));
        BOOST_TEST(client.info().congestion_window > 0u);
        const std::size_t got = co_await client.read_exactly(back);
        BOOST_TEST(got == text.size());
        co_await writing.join();
    }
    client.shutdown();
    co_await echoing.join();
    BOOST_CHECK_THROW(tcp_stream{}.set_congestion(congestion_algorithm::cubic), std::system_error);
    BOOST_CHECK_THROW(static_cast<void>(tcp_stream{}.info()), std::system_error);
}

task<> a_connection_tells_about_itself(world& w) {
    ends both = co_await connected(w);
    const std::string text(50'000, 'i');
    std::vector<std::byte> got(text.size());
    co_await both.client.write(text);
    const std::size_t there = co_await both.server.read_exactly(got);
    BOOST_REQUIRE(there == text.size());
    co_await both.server.write(std::string_view{"thanks"}); // and with it the acknowledgement
    buffer thanks = co_await both.client.read();
    BOOST_TEST(thanks.size() == 6u);
    const tcp_information i = both.client.info();
    BOOST_TEST(name_of(i.state) == "ESTABLISHED");
    BOOST_TEST((i.repair == tcp_repair::open));
    BOOST_TEST((i.timestamps && i.sack && i.window_scaling));
    BOOST_TEST(!i.ecn);
    BOOST_TEST(i.send_scale > 0u);
    BOOST_TEST(i.rtt.count() > 0);
    BOOST_TEST(i.rtt.count() < duration(10s).count());
    BOOST_TEST(i.rto.count() >= i.rtt.count());
    BOOST_TEST((!i.min_rtt || *i.min_rtt <= i.rtt + i.rtt_variation * 8));
    BOOST_TEST(i.send_segment >= 536u);
    BOOST_TEST(i.received_segment >= 6u);
    BOOST_TEST(i.announced_segment >= i.send_segment);
    BOOST_TEST(i.path_mtu > i.send_segment);
    BOOST_TEST(i.congestion_window >= 2u * i.send_segment);
    BOOST_TEST(i.send_window > 0u);
    BOOST_TEST(i.receive_window > 0u);
    BOOST_TEST(i.bytes_acknowledged >= text.size());
    BOOST_TEST(i.bytes_acknowledged <= text.size() + 1); // the kernel counts its SYN
    BOOST_TEST(i.bytes_received == 6u);
    BOOST_TEST(i.unsent == 0u);
    BOOST_TEST(i.unacknowledged == 0u);
    BOOST_TEST(i.sacked + i.lost + i.retransmitted == 0u);
    BOOST_TEST(i.segments_retransmitted == 0u);
    BOOST_TEST(i.bytes_sent.value_or(0) >= text.size());
    BOOST_TEST(i.bytes_retransmitted.value_or(1) == 0u);
    BOOST_TEST(i.reordering_segments.value_or(0) >= 3u);
    BOOST_TEST(i.duplicates_reported.value_or(1) + i.reorderings.value_or(1) == 0u);
    BOOST_TEST(i.since_data_sent.value_or(1h).count() < duration(10s).count());
    BOOST_TEST(both.server.info().bytes_received == text.size());
    both.client.shutdown();
    buffer end = co_await both.server.read();
    BOOST_TEST(end.empty());
    BOOST_TEST(name_of(both.server.info().state) == "CLOSE-WAIT");
    co_await some_turns();
    BOOST_TEST(name_of(both.client.info().state).starts_with("FIN-WAIT"));
    co_await fill(both.server); // nobody reads
    BOOST_TEST(both.server.info().unsent + both.server.info().unacknowledged > 0u);
    both.server.abort();
}

} // namespace corewire::socket_suite
