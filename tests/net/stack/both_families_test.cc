// SEGMENT ARRIVES over IPv4 and over IPv6, the complete matrix: 11 states x 128 combinations of flags x where the segment lies x what it
// acknowledges. ECE, CWR and AE come together: each by itself is tests/net/tcp/arrival_matrix_test.cc's. Through the whole stack each
// state answers each segment alike in both. What the answer has to be is the other file's affair, which knows no addresses.
// ctest: timeout=300
#include "ipv6_link.hh"

#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/tcp_stream.hh>
#include <corewire/net/stack/flow_steering.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/reactor/task/task_group.hh>

using namespace corewire;
using namespace std::chrono_literals;
using wire::ip_protocol;
using wire::tcp_flags;

namespace {

enum class family { four, six };
enum class stage {
    closed, listen, syn_sent, syn_received, established, close_wait, last_ack, fin_wait_1, fin_wait_2, closing, time_wait
};
constexpr stage stages[] = {stage::closed,     stage::listen,   stage::syn_sent,   stage::syn_received, stage::established,
                            stage::close_wait, stage::last_ack, stage::fin_wait_1, stage::fin_wait_2,   stage::closing,
                            stage::time_wait};

/// What came back; numbers count from the initial ones.
struct answer {
    tcp_flags flags;
    std::uint32_t seq, ack;
    std::size_t text;
    friend bool operator==(const answer&, const answer&) = default;
};

std::string text_of(const std::vector<answer>& said) {
    std::string t;
    for (const answer& a : said) t += to_string(a.flags) + " " + std::to_string(a.seq) + " ack " + std::to_string(a.ack) + "; ";
    return t.empty() ? "nothing" : t;
}

struct two_families : ipv6_link {
    static constexpr std::uint32_t irs = 7'000'000;
    const ipv4 us4{10, 0, 0, 1}, peer4{10, 0, 0, 2};

    two_families() {
        loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(stack.get());
        stack->ip().neighbors().set_permanent(peer4, end->mac()); // nobody answers for the peer
        stack->ip().six()->neighbors().set_permanent(peer, end->mac());
        listener = tcp_listener::bind({ipv6::any(), 7});
        group.spawn(accept_all(*this));
        pass(1ms);
    }
    ~two_families() {
        calls.destroy_all();
        group.destroy_all();
    }

    static task<> accept_all(two_families& w) {
        for (;;) {
            tcp_stream accepted = co_await w.listener.accept();
            w.streams.push_back(std::move(accepted));
        }
    }

    static task<> call(two_families& w) {
        const socket_address there = w.over == family::six ? socket_address{w.peer, w.port} : socket_address{w.peer4, w.port};
        try {
            tcp_stream opened = co_await tcp_stream::connect(there);
            w.streams.push_back(std::move(opened));
        } catch (const std::system_error&) {
            // as the segment has it
        }
    }

    /// A segment of the peer's; numbers count from the initial ones.
    void segment(std::uint32_t seq, std::uint32_t ack, tcp_flags flags, std::size_t text = 0) {
        bytes b(20 + text);
        wire::tcp_header{.source_port = port, .destination_port = to, .sequence = irs + seq, .acknowledgment = iss + ack, .flags = flags,
                         .window = 65'535}
            .emit(b);
        if (over == family::six) {
            wire::store_tcp_checksum(b, peer, us);
            return send(b, peer, us, ip_protocol::tcp);
        }
        wire::store_tcp_checksum(b, peer4, us4);
        packet p;
        p.head = end->pool().allocate_buffer();
        wire::ethernet_header{.destination = stack->device().mac(), .source = end->mac(), .type = wire::ether_type::ipv4}.emit(
            {p.head.append(14), 14});
        wire::ipv4_header{.total_length = static_cast<std::uint16_t>(20 + b.size()), .protocol = ip_protocol::tcp, .source = peer4,
                          .destination = us4}
            .emit({p.head.append(20), 20});
        std::memcpy(p.head.append(static_cast<std::uint32_t>(b.size())), b.data(), b.size());
        end->transmit({&p, 1});
        pass(1ms);
    }
    /// The TCP segments that have come since the last call.
    std::vector<answer> answers() {
        std::vector<answer> out;
        for (packet got; end->receive({&got, 1}) != 0;) {
            bytes whole(got.head.bytes().begin(), got.head.bytes().end());
            whole.insert(whole.end(), got.body.bytes().begin(), got.body.bytes().end());
            const std::size_t headers = over == family::six ? 54 : 34;
            const std::uint16_t type = over == family::six ? 0x86dd : 0x0800;
            if (whole.size() < headers + 20 || load_be16(whole.data() + 12) != type) continue;
            if (load_u8(whole.data() + (over == family::six ? 20 : 23)) != 6) continue;
            wire::tcp_view t;
            BOOST_REQUIRE((wire::tcp_view::parse(byte_span(whole).subspan(headers), t) == wire::parse_error::none));
            if (over == family::six) {
                BOOST_REQUIRE(t.checksum_ok(us, peer));
            } else {
                BOOST_REQUIRE(t.checksum_ok(us4, peer4));
            }
            if (t.destination_port() != port) continue;
            if (has(t.flags(), tcp_flags::syn)) iss = t.sequence(), to = t.source_port();
            out.push_back({t.flags() & ~tcp_flags::psh, t.sequence() - iss, t.acknowledgment() - irs, t.payload().size()});
        }
        return out;
    }
    void close_ours() {
        BOOST_REQUIRE(streams.size() == 1u);
        streams.back().shutdown();
        pass(1ms);
    }
    /// Brings a fresh connection there.
    void reach(stage s) {
        using enum tcp_flags;
        ++port;
        iss = 0;
        to = s == stage::closed ? 8 : 7;
        if (s == stage::closed || s == stage::listen) return;
        if (s == stage::syn_sent) {
            calls.spawn(call(*this));
            pass(1ms);
            BOOST_REQUIRE(answers().size() == 1u);
            return;
        }
        segment(0, 0, syn);
        BOOST_REQUIRE(answers().size() == 1u);
        if (s == stage::syn_received) return;
        segment(1, 1, ack);
        const bool theirs_first = s == stage::close_wait || s == stage::last_ack;
        if (theirs_first) segment(1, 1, fin | ack);
        if (s == stage::established || s == stage::close_wait) return;
        close_ours();
        if (s == stage::closing) segment(1, 1, fin | ack);
        if (s == stage::fin_wait_2 || s == stage::time_wait) segment(1, 2, ack);
        if (s == stage::time_wait) segment(1, 2, fin | ack);
    }
    std::vector<answer> play(stage from, std::uint32_t seq, std::uint32_t ack, tcp_flags flags, std::size_t text) {
        reach(from);
        answers();
        segment(seq, ack, flags, text);
        std::vector<answer> said = answers();
        for (tcp_stream& s : streams) s.abort();
        streams.clear();
        if (from == stage::syn_sent) calls.destroy_all();
        segment(from == stage::listen ? seq + 1 : 1, 1, tcp_flags::rst); // whatever is half open
        pass(3ms);
        answers();
        return said;
    }

    family over = family::four;
    std::uint16_t port = 10'000, to = 7;
    std::uint32_t iss = 0;
    tcp_listener listener;
    std::vector<tcp_stream> streams;
    task_group group{"both families"}, calls{"calls"};
};


} // namespace

BOOST_AUTO_TEST_SUITE(both_families)

BOOST_FIXTURE_TEST_CASE(every_state_answers_over_ipv6_as_over_ipv4, two_families) { // RFC 9293 3.10.7
    unsigned cells = 0, silent = 0, resets = 0, differ = 0;
    std::uint16_t both_ports = port;
    for (const stage from : stages) {
        const bool theirs_closed =
            from == stage::close_wait || from == stage::last_ack || from == stage::closing || from == stage::time_wait;
        const bool ours_closed = from >= stage::last_ack;
        const bool nothing_yet = from == stage::closed || from == stage::listen || from == stage::syn_sent;
        const std::uint32_t rcv = theirs_closed ? 2 : nothing_yet ? 0 : 1, nxt = ours_closed ? 2 : 1;
        for (const std::uint32_t seq : {rcv - 1, rcv, rcv + 300, rcv + 3'000'000}) { // before, at, inside, after the window
            for (const std::uint32_t ack : {nxt - 70'000, nxt - 2, nxt, nxt + 1}) {  // too old (RFC 5961 5.2), old, current, future
                for (unsigned f = 0; f < 128; ++f) {                                 // FIN, SYN, RST, PSH, ACK, URG; and all that ECN has
                    const auto flags = static_cast<tcp_flags>(f < 64 ? f : (f - 64) | 0x1c0);
                    const std::size_t text = seq == rcv && (f & 4) == 0 ? 10 : 0;
                    std::vector<answer> said[2];
                    for (const family which : {family::four, family::six}) {
                        over = which;
                        port = both_ports;
                        said[static_cast<int>(which)] = play(from, seq, ack, flags, text);
                    }
                    both_ports = port;
                    ++cells;
                    silent += said[0].empty();
                    resets += !said[0].empty() && has(said[0][0].flags, tcp_flags::rst);
                    if (said[0] == said[1] || ++differ > 10) continue;
                    BOOST_ERROR("stage " << static_cast<int>(from) << " receives " << to_string(flags) << " " << seq << " ack " << ack
                                         << ": over IPv4 " << text_of(said[0]) << " over IPv6 " << text_of(said[1]));
                }
            }
        }
    }
    BOOST_TEST(differ == 0u);
    BOOST_TEST_MESSAGE(cells << " cells, " << silent << " silent, " << resets << " resets");
    BOOST_TEST(cells == 11u * 4 * 4 * 128);
    BOOST_TEST((silent > cells / 10 && silent < cells * 2 / 3)); // the cells are not all the same
    BOOST_TEST((resets > cells / 20 && resets < cells / 2));
}

namespace {

/// Three shards share our addresses; we are the second.
struct thirds final : flow_steering {
    unsigned owner(const flow_key& key) const noexcept override { return (key.local_port + key.remote_port) % 3u; }
    unsigned owner(const flow_name& flow) const noexcept override { return (flow.local_port + flow.remote_port) % 3u; }
    unsigned self() const noexcept override { return 1; }
    bool hand_over(unsigned, packet&& frame) noexcept override { return packet(std::move(frame)).size() == 0; }
    void share_with_all(const packet&) noexcept override {}
    bool poll(time_point, network_stack&) override { return false; }
    bool prepare_sleep() noexcept override { return true; }
    void finish_sleep() noexcept override {}
    void watch(sleeper&) const override {}
};

} // namespace

BOOST_FIXTURE_TEST_CASE(a_port_is_chosen_whose_answers_come_to_this_shard, two_families) { // RFC 6056 3.3.4, the predicate
    stack->set_steering(std::make_unique<thirds>());
    for (const family which : {family::four, family::six}) {
        over = which;
        for (int i = 0; i < 20; ++i) {
            reach(stage::syn_sent);
            BOOST_TEST((to + port) % 3 == 1);
        }
    }
    calls.destroy_all();
}

BOOST_AUTO_TEST_SUITE_END()
