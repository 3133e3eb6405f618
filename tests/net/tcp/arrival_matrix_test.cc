// The complete matrix of SEGMENT ARRIVES: 11 states x all 512 combinations of flags x where the segment lies x what it acknowledges x
// with and without text. ECE, CWR and AE are no affair of 3.10.7: they change nothing of the answer. What is expected:
// tests/support/arrival_oracle.hh.
// ctest: timeout=600
#include <corewire/net/tcp/arrives/closed.hh>
#include <corewire/net/tcp/arrives/listen.hh>

#include <tests/support/arrival_oracle.hh>
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <vector>

using namespace corewire;
using namespace corewire::test;
using namespace corewire::test::arrival;
using tcp::tcp_flags;

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr unsigned ecn_sets = 2; // each cell is ten times as slow: none of ECE, CWR and AE, and all of them
#else
constexpr unsigned ecn_sets = 8;
#endif

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

/// Plays one cell and tells what differs; nothing if all is well.
std::string play(const standing& from, unsigned flags, arriving seg, place where) {
    tcp_script s(tcp_script::plain(), 1'000'000, 5'000'000, 4);
    s.reach(from.state);
    const std::int64_t edge = s.edge();
    seg.seq = where.of(from, edge);
    const answer want = expected(from, seg, edge);
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
    unsigned cells = 0, failures = 0;
    for (const standing& from : standings) {
        for (const place& where : places) {
            for (const std::int64_t ack : acknowledgments(from)) {
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

namespace {

/// Plays one cell of CLOSED or LISTEN, which are pure functions: both_families_test.cc has them in a stack.
std::string play_without_connection(const standing& from, unsigned flags, const arriving& seg) {
    constexpr std::uint32_t theirs = 0xffff'ff00, ours = 77; // theirs wraps
    tcp::segment s;
    s.seq = tcp::seq_number(theirs + static_cast<std::uint32_t>(seg.seq));
    s.ack = tcp::seq_number(ours + static_cast<std::uint32_t>(seg.ack_number));
    s.flags = static_cast<tcp_flags>(flags);
    s.payload_size = static_cast<std::uint32_t>(seg.text);
    const answer want = expected(from, seg, largest_send_window);
    if (from.state == tcp_state::listen) {
        const auto verdict = tcp::on_listen(s);
        const auto wanted = want.sent == reply::reset     ? tcp::listen_verdict::reset
                            : want.sent == reply::syn_ack ? tcp::listen_verdict::open
                                                          : tcp::listen_verdict::ignore;
        if (verdict != wanted) return text_of(flags, seg) + ": another verdict";
        if (verdict != tcp::listen_verdict::reset) return {};
    }
    tcp::outgoing_segment out;
    if (tcp::reset_for(s, out) != (want.sent == reply::reset)) return text_of(flags, seg) + ": a reset, or none";
    if (want.sent != reply::reset) return {};
    const bool right = want.reset_acknowledges
                           ? out.flags == (tcp_flags::rst | tcp_flags::ack) && out.seq == tcp::seq_number(0) &&
                                 out.ack == tcp::seq_number(theirs + static_cast<std::uint32_t>(*want.reset_acknowledges))
                           : out.flags == tcp_flags::rst && out.seq == s.ack;
    return right && out.payload_size == 0 ? std::string() : text_of(flags, seg) + ": a reset with other numbers";
}

} // namespace

BOOST_AUTO_TEST_CASE(without_a_connection_every_segment_is_answered_as_the_rfc_says) { // 3.10.7.1 and .2
    unsigned cells = 0, failures = 0;
    for (const standing& from : without_connection) {
        for (const place& where : places) {
            for (const std::int64_t ack : acknowledgments(from)) {
                for (const std::int64_t text : {0, 10}) {
                    for (unsigned flags = 0; flags < 512; ++flags) {
                        const arriving seg{set(flags, tcp_flags::syn), set(flags, tcp_flags::fin), set(flags, tcp_flags::rst),
                                           set(flags, tcp_flags::ack), where.of(from, largest_send_window), ack, text};
                        ++cells;
                        const std::string wrong = play_without_connection(from, flags, seg);
                        if (wrong.empty() || ++failures > 20) continue;
                        BOOST_ERROR(tcp::name_of(from.state) << " receives " << wrong);
                    }
                }
            }
        }
    }
    BOOST_TEST(failures == 0u);
    BOOST_TEST(cells == 2u * 8 * 5 * 2 * 512);
}

BOOST_AUTO_TEST_SUITE_END()
