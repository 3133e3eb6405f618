// SEGMENT ARRIVES through the whole stack, over IPv4 and over IPv6: 11 states x where the segment lies x what it acknowledges x 64
// combinations of flags x with and without text. ECE, CWR and AE take turns, so that each state meets all 512 sets; each of them in each
// cell is tests/net/tcp/arrival_matrix_test.cc's. What has to be answered, and the state afterwards: tests/support/arrival_oracle.hh.
// ctest: timeout=300
#include "ipv6_link.hh"

#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/tcp_stream.hh>
#include <corewire/net/stack/flow_steering.hh>
#include <corewire/net/stack/tcp_connection.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/reactor/task/task_group.hh>
#include <tests/support/arrival_oracle.hh>

#include <bitset>

using namespace corewire;
using namespace std::chrono_literals;
using namespace corewire::test::arrival;
using wire::ip_protocol;
using wire::tcp_flags;

namespace {

enum class family { four, six };
const std::vector<standing> rows = [] {
    std::vector<standing> all(std::begin(without_connection), std::end(without_connection));
    all.insert(all.end(), std::begin(standings), std::end(standings));
    return all;
}();

#if defined(__SANITIZE_ADDRESS__)
constexpr unsigned share_of_cells = 2; // each is ten times as slow
#else
constexpr unsigned share_of_cells = 1;
#endif

/// What came back; numbers count from the initial ones.
struct spoken {
    tcp_flags flags;
    std::uint32_t seq, ack;
    std::size_t text;
    friend bool operator==(const spoken&, const spoken&) = default;
};

std::string text_of(const std::vector<spoken>& said) {
    std::string t;
    for (const spoken& a : said) t += to_string(a.flags) + " " + std::to_string(a.seq) + " ack " + std::to_string(a.ack) + "; ";
    return t.empty() ? "nothing" : t;
}

struct two_families : ipv6_link {
    static constexpr std::uint32_t irs = 7'000'000;
    const ipv4 us4{10, 0, 0, 1}, peer4{10, 0, 0, 2};

    static stack_config few_connections() { // their tables are looked at in every cell
        stack_config config;
        config.max_connections = 256;
        return config;
    }
    two_families() : ipv6_link(0, few_connections()) {
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
    std::vector<spoken> answers() {
        std::vector<spoken> out;
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
            // A SYN of ours speaks of the peer's first byte. The peer offers no scale.
            const std::uint32_t from = has(t.flags(), tcp_flags::ack) ? t.acknowledgment() - irs : 1;
            if (!has(t.flags(), tcp_flags::rst)) edge = std::max<std::int64_t>(edge, std::int64_t{from} + t.window());
            out.push_back({t.flags() & ~tcp_flags::psh, t.sequence() - iss, t.acknowledgment() - irs, t.payload().size()});
        }
        return out;
    }
    void close_ours() {
        BOOST_REQUIRE(streams.size() == 1u);
        streams.back().shutdown();
        pass(1ms);
    }
    /// The connection to the peer's port, or null.
    const tcp_connection* connection() const {
        const tcp_connection* found = nullptr;
        stack->tcp().for_each_connection([&](const tcp_connection& c) {
            if (c.name().remote_port == port) found = &c;
        });
        return found;
    }
    tcp_state state() const {
        const tcp_connection* const c = connection();
        return c != nullptr ? c->tcb.state() : to == 7 ? tcp_state::listen : closed;
    }
    /// Brings a fresh connection there.
    void reach(tcp_state s) {
        using enum tcp_flags;
        port = port < 60'000 ? port + 1 : 10'000;
        iss = 0;
        edge = largest_send_window;
        to = s == closed ? 8 : 7;
        if (s == closed || s == tcp_state::listen) return;
        edge = 0;
        if (s == syn_sent) {
            calls.spawn(call(*this));
            pass(1ms);
            BOOST_REQUIRE(answers().size() == 1u);
            return;
        }
        segment(0, 0, syn);
        BOOST_REQUIRE_MESSAGE(answers().size() == 1u, "a SYN is not answered at port " << port << ", with " << stack->tcp().connections()
                                                                                       << " connections");
        if (s == syn_received) return;
        segment(1, 1, ack);
        const bool theirs_first = s == close_wait || s == last_ack;
        if (theirs_first) segment(1, 1, fin | ack);
        if (s == established || s == close_wait) return;
        close_ours();
        if (s == closing) segment(1, 1, fin | ack);
        if (s == fin_wait_2 || s == time_wait) segment(1, 2, ack);
        if (s == time_wait) segment(1, 2, fin | ack);
    }
    /// A listener is there: what a connection in TIME-WAIT has not seen opens the next one (RFC 9293 3.6.1, MAY-2).
    static bool is_next_incarnation(const standing& from, const arriving& seg) {
        return from.state == time_wait && seg.syn && !seg.ack && !seg.rst && !seg.fin && seg.seq > from.rcv;
    }
    /// Plays one cell and tells what differs; nothing if all is well.
    std::string play(const standing& from, const place& where, std::int64_t number, unsigned flags, std::int64_t text,
                     std::vector<spoken>& said) {
        using enum tcp_flags;
        reach(from.state);
        answers();
        BOOST_REQUIRE((state() == from.state));
        const auto is_set = [flags](tcp_flags f) { return (flags & static_cast<unsigned>(f)) != 0; };
        const arriving seg{is_set(syn), is_set(fin), is_set(rst), is_set(ack), where.of(from, edge), number, text};
        const answer want = is_next_incarnation(from, seg) ? on_listen(seg) : expected(from, seg, edge);
        segment(static_cast<std::uint32_t>(seg.seq), static_cast<std::uint32_t>(number), static_cast<tcp_flags>(flags),
                static_cast<std::size_t>(text));
        said = answers();
        const std::string wrong = compare(from, seg, want, said);
        for (tcp_stream& s : streams) s.abort();
        streams.clear();
        if (from.state == syn_sent) calls.destroy_all();
        segment(want.sent == reply::syn_ack ? static_cast<std::uint32_t>(want.rcv) : 1, 1, rst); // whatever is half open
        pass(3ms);
        answers();
        if (wrong.empty()) return wrong;
        return to_string(static_cast<tcp_flags>(flags)) + ' ' + std::to_string(seg.seq) + ':' + std::to_string(seg.seq + text) + " ack " +
               std::to_string(number) + ": " + wrong;
    }
    std::string compare(const standing& from, const arriving& seg, const answer& want, const std::vector<spoken>& said) const {
        std::string wrong;
        const auto expect = [&wrong](bool holds, const std::string& what) {
            if (!holds) wrong += (wrong.empty() ? "" : "; ") + what;
        };
        const auto is = [](std::uint32_t n, std::int64_t wanted) { return n == static_cast<std::uint32_t>(wanted); };
        expect(said.size() <= 1, "more than one segment is sent");
        reply sent = reply::nothing;
        if (!said.empty()) {
            const spoken& out = said.front();
            const bool acknowledges = has(out.flags, tcp_flags::ack);
            sent = has(out.flags, tcp_flags::rst) ? reply::reset : has(out.flags, tcp_flags::syn) ? reply::syn_ack : reply::ack;
            if (sent == reply::reset && want.reset_acknowledges) {
                expect(acknowledges && out.seq == 0 && is(out.ack, *want.reset_acknowledges), "the RST does not acknowledge all of it");
            } else if (sent == reply::reset) {
                expect(!acknowledges && is(out.seq, seg.ack_number), "the RST is not at SEG.ACK");
            } else {
                expect(acknowledges && is(out.ack, want.rcv), "it does not acknowledge RCV.NXT");
                expect(is(out.seq, sent == reply::syn_ack ? 0 : from.nxt), "it does not stand at SND.NXT");
            }
            expect(out.text == 0, "it carries text");
        }
        if (want.sent != reply::ack_now_or_later || sent != reply::nothing)
            expect(sent == (want.sent == reply::ack_now_or_later ? reply::ack : want.sent),
                   std::string("sends ") + name_of(sent) + ", not " + name_of(want.sent));
        // A listener stays; where there was none, or a connection is over, nothing is.
        const tcp_state gone = to == 7 ? tcp_state::listen : closed;
        const tcp_state wanted = want.to == closed || want.to == tcp_state::listen ? gone : want.to;
        expect(state() == wanted, "goes to " + std::string(tcp::name_of(state())) + ", not " + std::string(tcp::name_of(wanted)));
        const tcp_connection* const c = connection();
        if (c == nullptr || state() != wanted) return wrong;
        const auto taken = static_cast<std::int64_t>(c->tcb.readable()), kept = static_cast<std::int64_t>(c->tcb.info().out_of_order);
        expect(taken == want.taken, "takes " + std::to_string(taken) + " bytes, not " + std::to_string(want.taken));
        expect(kept == want.kept, "keeps " + std::to_string(kept) + " bytes, not " + std::to_string(want.kept));
        return wrong;
    }

    family over = family::four;
    std::uint16_t port = 10'000, to = 7;
    std::uint32_t iss = 0;
    std::int64_t edge = 0; ///< of our window, as it was promised so far
    tcp_listener listener;
    std::vector<tcp_stream> streams;
    task_group group{"both families"}, calls{"calls"};
};


} // namespace

BOOST_AUTO_TEST_SUITE(both_families)

BOOST_FIXTURE_TEST_CASE(every_state_answers_over_both_families_as_the_rfcs_say, two_families) { // RFC 9293 3.10.7
    unsigned cells = 0, silent = 0, resets = 0, failures = 0;
    std::uint16_t both_ports = port;
    for (const standing& from : rows) {
        std::bitset<512> sets;
        for (std::size_t where = 0; where < std::size(places); ++where) {
            const std::vector<std::int64_t> acks = acknowledgments(from);
            for (std::size_t a = 0; a < acks.size(); ++a) {
                if ((where + a) % share_of_cells != 0) continue;
                for (unsigned cell = 0; cell < 128; ++cell) { // FIN, SYN, RST, PSH, ACK, URG; with and without text
                    const unsigned ecn = static_cast<unsigned>(cell + where + 2 * a) % 8, flags = cell % 64 | ecn << 6;
                    sets.set(flags);
                    std::vector<spoken> said[2];
                    for (const family which : {family::four, family::six}) {
                        over = which;
                        port = both_ports;
                        const std::string wrong =
                            play(from, places[where], acks[a], flags, cell < 64 ? 0 : 10, said[static_cast<int>(which)]);
                        if (wrong.empty() || ++failures > 20) continue;
                        BOOST_ERROR(tcp::name_of(from.state) << " over IPv" << (which == family::six ? 6 : 4) << " receives " << wrong);
                    }
                    both_ports = port;
                    ++cells;
                    silent += said[0].empty();
                    resets += !said[0].empty() && has(said[0][0].flags, tcp_flags::rst);
                    if (said[0] == said[1] || ++failures > 20) continue;
                    BOOST_ERROR(tcp::name_of(from.state) << " receives " << to_string(static_cast<tcp_flags>(flags)) << ": over IPv4 "
                                                         << text_of(said[0]) << " over IPv6 " << text_of(said[1]));
                }
            }
        }
        BOOST_TEST(sets.count() == 512u);
    }
    BOOST_TEST(failures == 0u);
    BOOST_TEST_MESSAGE(cells << " cells, " << silent << " silent, " << resets << " resets");
    BOOST_TEST(cells == 128u * 8 * (2 * 11 + 3 + 3 + 4 + 4 + 3 + 4 + 3 + 3 + 4 + 4 + 3) / share_of_cells);
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
            reach(syn_sent);
            BOOST_TEST((to + port) % 3 == 1);
        }
    }
    calls.destroy_all();
}

BOOST_AUTO_TEST_SUITE_END()
