// The complete matrix of SEGMENT ARRIVES: 11 states x all 512 combinations of flags x where the segment lies x what it acknowledges x
// with and without text. ECE, CWR and AE are no affair of 3.10.7: they change nothing of the answer. The expected answer is worked out
// here, from RFC 9293 3.10.7 as RFC 5961 changes it, by code that shares nothing with net/tcp/arrives. Where we deviate the line says so
// (docs/rfc/9293.md lists the same).
// ctest: timeout=600
#include <corewire/net/tcp/arrives/closed.hh>
#include <corewire/net/tcp/arrives/listen.hh>

#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <vector>

using namespace corewire;
using namespace corewire::test;
using tcp::tcp_flags;
using tcp::tcp_state;
using enum tcp::tcp_state;

namespace {

/// Where a connection stands. Our numbers count from our ISN, the peer's from theirs.
struct standing {
    tcp_state state;
    std::int64_t una, nxt; ///< ours: SND.UNA, SND.NXT
    std::int64_t rcv;      ///< the peer's: RCV.NXT
};
const standing standings[] = {
    {syn_sent, 0, 1, 0},   {syn_received, 0, 1, 1}, {established, 1, 1, 1}, {fin_wait_1, 1, 2, 1}, {fin_wait_2, 2, 2, 1},
    {close_wait, 1, 1, 2}, {closing, 1, 2, 2},      {last_ack, 1, 2, 2},    {time_wait, 2, 2, 2},
};
constexpr std::int64_t largest_send_window = 65'535; ///< MAX.SND.WND (RFC 5961 5): what tcp_script's peer offers

struct arriving {
    bool syn, fin, rst, ack;
    std::int64_t seq, ack_number, text;
};

#if defined(__SANITIZE_ADDRESS__)
constexpr unsigned ecn_sets = 2; // each cell is ten times as slow: none of ECE, CWR and AE, and all of them
#else
constexpr unsigned ecn_sets = 8;
#endif

enum class reply : std::uint8_t { nothing, ack, ack_now_or_later, syn_ack, reset };
const char* name_of(reply r) {
    const char* const names[] = {"nothing", "ACK", "ACK now or later", "SYN-ACK", "RST"};
    return names[static_cast<int>(r)];
}

struct answer {
    reply sent = reply::nothing;
    tcp_state to;
    std::int64_t taken = 0; ///< bytes given to the reader
    std::int64_t rcv = 0;   ///< RCV.NXT afterwards: what an ACK acknowledges
    std::int64_t kept = 0;  ///< bytes beyond a gap
};

bool was_closed_by_peer(tcp_state s) { return s == close_wait || s == closing || s == last_ack || s == time_wait; }

/// Text and FIN of a segment that has passed all checks: the seventh and eighth step. `edge`: RCV.NXT + RCV.WND.
answer text_and_fin(tcp_state state, std::int64_t rcv, std::int64_t edge, std::int64_t seq, std::int64_t text, bool fin, bool acknowledge) {
    answer a{.to = state, .rcv = rcv};
    const bool open = !was_closed_by_peer(state);
    const bool partly_old = seq < rcv;
    if (partly_old && text + fin > 0) acknowledge = true; // at once, with a D-SACK (RFC 2883)
    if (seq + text + fin > edge) { // what lies beyond is cut off, the FIN first; and the peer is told where the edge is
        acknowledge = true;
        fin = false;
        text = std::min(text, edge - seq);
    }
    const std::int64_t end = seq + text;
    bool later = false;
    if (open && text > 0) {
        if (seq <= rcv) {
            a.taken = end - rcv;
            a.rcv = end;
            later = true;
        } else {
            a.kept = text;
            acknowledge = true; // beyond a gap (RFC 5681 4.2)
        }
    }
    if (open && fin) { // a FIN behind the FIN is no peer's of ours: ignored
        acknowledge = true;
        if (end == a.rcv) {
            ++a.rcv;
            a.to = state == established ? close_wait : state == fin_wait_1 ? closing : time_wait;
        }
    }
    a.sent = acknowledge ? reply::ack : later ? reply::ack_now_or_later : reply::nothing;
    return a;
}

/// 3.10.7.3.
answer on_syn_sent(const standing& s, const arriving& seg, std::int64_t edge) {
    answer a{.to = syn_sent};
    const bool acceptable = s.una < seg.ack_number && seg.ack_number <= s.nxt;
    if (seg.ack && !acceptable) { // first
        if (!seg.rst) a.sent = reply::reset;
        return a;
    }
    if (seg.rst) { // second
        if (seg.ack) a.to = closed;
        return a;
    }
    if (!seg.syn) return a; // fifth
    if (!seg.ack) return {.sent = reply::syn_ack, .to = syn_received, .rcv = seg.seq + 1}; // text of a SYN: sent again by the peer
    return text_and_fin(established, seg.seq + 1, seg.seq + edge, seg.seq + 1, seg.text, seg.fin, true); // the edge counts from the SYN
}

/// 3.10.7.4.
answer on_synchronized(const standing& s, arriving seg, std::int64_t edge) {
    const answer ignored{.to = s.state, .rcv = s.rcv};
    const answer acknowledged{.sent = reply::ack, .to = s.state, .rcv = s.rcv};
    const std::int64_t number = seg.seq;
    bool acknowledge = false;
    if (s.state == syn_received && seg.syn && !seg.rst && seg.seq == 0) { // the handshake's SYN again
        if (!seg.ack) return {.sent = reply::syn_ack, .to = s.state, .rcv = s.rcv}; // deviation: not a bare ACK
        seg.syn = false; // SYN-ACK of a simultaneous open
        seg.seq = 1;
        acknowledge = true;
    }
    // First: table 6.
    const auto inside = [&](std::int64_t n) { return s.rcv <= n && n < edge; };
    const std::int64_t length = seg.text + seg.syn + seg.fin;
    const bool at_edge = length == 0 && seg.seq == edge && !seg.rst; // deviation: a peer that has filled the window stands there
    const bool reaches_in = inside(seg.seq) || (length != 0 && inside(seg.seq + length - 1));
    if (!reaches_in && !at_edge) return seg.rst ? ignored : acknowledged;
    // Second, RFC 5961 3.2.
    if (seg.rst) {
        if (number == s.rcv) return {.to = closed};
        return inside(number) ? acknowledged : ignored;
    }
    // Fourth, RFC 5961 4. Deviation: in SYN-RECEIVED as in the other states, so that a stranger can't send us back to LISTEN.
    if (seg.syn) return acknowledged;
    // Fifth.
    if (!seg.ack) return ignored;
    tcp_state state = s.state;
    if (state == syn_received) {
        if (!(s.una < seg.ack_number && seg.ack_number <= s.nxt)) return {.sent = reply::reset, .to = state};
        state = established;
    } else {
        if (seg.ack_number > s.nxt || seg.ack_number < s.una - largest_send_window) return acknowledged; // RFC 5961 5.2
        const bool fin_acknowledged = seg.ack_number == s.nxt;
        if (state == fin_wait_1 && fin_acknowledged) state = fin_wait_2;
        else if (state == closing && fin_acknowledged) state = time_wait;
        else if (state == last_ack && fin_acknowledged) return {.to = closed};
    }
    return text_and_fin(state, s.rcv, edge, seg.seq, seg.text, seg.fin, acknowledge); // sixth: URG is ignored
}

std::string text_of(unsigned flags, const arriving& seg) {
    std::string t;
    const std::pair<tcp_flags, char> letters[] = {{tcp_flags::fin, 'F'}, {tcp_flags::syn, 'S'}, {tcp_flags::rst, 'R'},
                                                  {tcp_flags::psh, 'P'}, {tcp_flags::ack, 'A'}, {tcp_flags::urg, 'U'},
                                                  {tcp_flags::ece, 'E'}, {tcp_flags::cwr, 'C'}, {tcp_flags::ae, 'N'}};
    for (const auto& [flag, letter] : letters)
        if (flags & static_cast<unsigned>(flag)) t += letter;
    if (t.empty()) t = "-";
    return t + ' ' + std::to_string(seg.seq) + ':' + std::to_string(seg.seq + seg.text) + " ack " + std::to_string(seg.ack_number);
}

bool set(unsigned flags, tcp_flags f) { return (flags & static_cast<unsigned>(f)) != 0; }

/// Where a segment begins: so far from RCV.NXT, or from the window's right edge.
struct place {
    std::int64_t offset;
    bool from_edge = false;
};

/// Plays one cell and tells what differs; nothing if all is well.
std::string play(const standing& from, unsigned flags, arriving seg, place where) {
    tcp_script s(tcp_script::plain(), 1'000'000, 5'000'000, 4);
    s.reach(from.state);
    const std::int64_t edge = s.edge();
    seg.seq = (where.from_edge ? edge : from.rcv) + where.offset;
    const answer want = from.state == syn_sent ? on_syn_sent(from, seg, edge) : on_synchronized(from, seg, edge);
    s.receive(text_of(flags, seg));
    std::string wrong;
    const auto expect = [&wrong](bool holds, const std::string& what) {
        if (!holds) wrong += (wrong.empty() ? "" : "; ") + what;
    };
    tcp::outgoing_segment out;
    reply sent = reply::nothing;
    if (s.block().next_segment(s.now(), out)) {
        const auto relative = [](tcp::seq_number n, std::uint32_t base) { return static_cast<std::int32_t>(n - tcp::seq_number(base)); };
        const bool syn = wire::has(out.flags, tcp_flags::syn), rst = wire::has(out.flags, tcp_flags::rst);
        sent = rst ? reply::reset : syn ? reply::syn_ack : reply::ack;
        if (rst) {
            expect(!wire::has(out.flags, tcp_flags::ack) && relative(out.seq, 1'000'000) == seg.ack_number, "the RST is not at SEG.ACK");
        } else {
            expect(wire::has(out.flags, tcp_flags::ack) && relative(out.ack, 5'000'000) == want.rcv, "it does not acknowledge RCV.NXT");
            expect(relative(out.seq, 1'000'000) == (syn ? 0 : from.nxt), "it does not stand at SND.NXT");
        }
        expect(out.payload_size == 0, "it carries text");
        expect(s.drain() == 0, "more than one segment is sent");
    }
    if (want.sent == reply::ack_now_or_later) {
        expect(sent == reply::nothing || sent == reply::ack, std::string("sends ") + name_of(sent) + ", not an ACK now or later");
    } else {
        expect(sent == want.sent, std::string("sends ") + name_of(sent) + ", not " + name_of(want.sent));
    }
    expect(s.block().state() == want.to,
           "goes to " + std::string(tcp::name_of(s.block().state())) + ", not " + std::string(tcp::name_of(want.to)));
    if (want.to != closed)
        expect(s.block().readable() == want.taken,
               "takes " + std::to_string(s.block().readable()) + " bytes, not " + std::to_string(want.taken));
    if (want.to != closed)
        expect(s.block().info().out_of_order == want.kept,
               "keeps " + std::to_string(s.block().info().out_of_order) + " bytes, not " + std::to_string(want.kept));
    return wrong.empty() ? wrong : text_of(flags, seg) + ": " + wrong;
}

} // namespace

BOOST_AUTO_TEST_SUITE(arrival_matrix)

BOOST_AUTO_TEST_CASE(every_state_answers_every_segment_as_the_rfcs_say) {
    // Old, the number of the handshake's SYN or of a keepalive probe, in order, beyond a gap; the last that fits, one that straddles the
    // window's right edge, the first number beyond it; far beyond.
    const place places[] = {{-100}, {-1}, {0}, {300}, {-10, true}, {-5, true}, {0, true}, {3'000'000}};
    unsigned cells = 0, failures = 0;
    for (const standing& from : standings) {
        // Too old to be believed, the oldest that is (RFC 5961 5.2), old, current, future.
        std::vector<std::int64_t> acks{from.una - largest_send_window - 1, from.una - largest_send_window};
        for (std::int64_t ack = from.una - 1; ack <= from.nxt + 1; ++ack) acks.push_back(ack);
        for (const place& where : places) {
            for (const std::int64_t ack : acks) {
                for (const std::int64_t text : {0, 10}) {
                    for (unsigned flags = 0; flags < 512; ++flags) {
                        if (ecn_sets == 2 && (flags & 0x1c0) != 0 && (flags & 0x1c0) != 0x1c0) continue;
                        const arriving seg{set(flags, tcp_flags::syn), set(flags, tcp_flags::fin), set(flags, tcp_flags::rst),
                                           set(flags, tcp_flags::ack), 0, ack, text};
                        ++cells;
                        const std::string wrong = play(from, flags, seg, where);
                        if (wrong.empty() || ++failures > 20) continue;
                        BOOST_ERROR(tcp::name_of(from.state) << " receives " << wrong);
                    }
                }
            }
        }
    }
    BOOST_TEST(failures == 0u);
    BOOST_TEST_MESSAGE(cells << " cells");
    BOOST_TEST(cells == 64u * ecn_sets * 2 * 8 * (2 * 9 + 4 + 4 + 3 + 4 + 3 + 3 + 4 + 4 + 3));
}

BOOST_AUTO_TEST_CASE(what_reaches_over_both_edges_of_the_window_is_cut_to_it) { // RFC 9293 3.4, table 6; 3.10.7.4
    for (const bool fin : {false, true}) {
        for (const std::int64_t before : {0, 1, 7}) {
            for (const std::int64_t beyond : {-1, 0, 1, 7}) {
                tcp::parameters p = tcp_script::plain();
                p.receive_buffer = 100;
                p.window_scaling = false;
                tcp_script s(p);
                s.connect();
                const std::int64_t edge = s.edge();
                BOOST_TEST(edge == 101);
                s.receive((fin ? "FA " : "A ") + std::to_string(1 - before) + ":" + std::to_string(edge + beyond) + " ack 1");
                const std::int64_t taken = 99 + std::min<std::int64_t>(beyond + 1, 1);
                const bool ended = fin && beyond < 0;
                BOOST_TEST(s.block().readable() == taken);
                BOOST_TEST((s.block().state() == (ended ? close_wait : established)));
                if (before > 0 || fin || beyond > 0) s.expect("A 1:1 ack " + std::to_string(1 + taken + ended));
                else s.drain();
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(without_a_connection_every_segment_is_answered_as_the_rfc_says) { // 3.10.7.1 and .2
    for (unsigned flags = 0; flags < 512; ++flags) {
        for (const std::uint32_t text : {0u, 10u}) {
            BOOST_TEST_CONTEXT("flags " << flags << ", " << text << " bytes") {
                tcp::segment seg;
                seg.seq = tcp::seq_number(0xffff'fff8); // wraps
                seg.ack = tcp::seq_number(77);
                seg.flags = static_cast<tcp_flags>(flags);
                seg.payload_size = text;
                const bool syn = set(flags, tcp_flags::syn), fin = set(flags, tcp_flags::fin), rst = set(flags, tcp_flags::rst),
                           ack = set(flags, tcp_flags::ack);
                // CLOSED: all but a reset is answered with a reset, which the sender will find acceptable.
                tcp::outgoing_segment out;
                BOOST_TEST(tcp::reset_for(seg, out) == !rst);
                if (!rst && ack) {
                    BOOST_TEST((out.flags == tcp_flags::rst && out.seq == seg.ack));
                } else if (!rst) {
                    BOOST_TEST((out.flags == (tcp_flags::rst | tcp_flags::ack) && out.seq == tcp::seq_number(0)));
                    BOOST_TEST((out.ack == seg.seq + (text + syn + fin)));
                }
                // LISTEN. Deviation: SYN and FIN together open nothing.
                const auto want = rst          ? tcp::listen_verdict::ignore
                                  : ack        ? tcp::listen_verdict::reset
                                  : syn && fin ? tcp::listen_verdict::ignore
                                  : syn        ? tcp::listen_verdict::open
                                               : tcp::listen_verdict::ignore;
                BOOST_TEST((tcp::on_listen(seg) == want));
            }
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
