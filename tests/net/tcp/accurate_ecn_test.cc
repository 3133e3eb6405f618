// More accurate ECN feedback (RFC 9768). ACE is written as a number: AE 4, CWR 2, ECE 1.
#include <tests/support/tcp_script.hh>

#include <corewire/net/tcp/congestion/dctcp.hh>
#include <corewire/net/tcp/open/accurate_ecn_paths.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;
using tcp::tcp_flags;

namespace {

tcp::parameters accurate() {
    auto p = tcp_script::plain();
    p.accurate_ecn = true;
    p.tail_loss_probe = false;
    return p;
}

tcp::parameters as_linux() {
    auto p = accurate();
    p.habits = tcp::personality::linux_;
    return p;
}

unsigned ace(const tcp::outgoing_segment& s) { return tcp::ace_of(s.flags); }

wire::tcp_options options(const tcp::outgoing_segment& s) {
    wire::tcp_options o;
    BOOST_REQUIRE(wire::tcp_options::parse({s.options.data(), s.option_size}, o) == wire::parse_error::none);
    return o;
}

/// The flags of `number`, as a script writes them.
std::string bits(unsigned number) {
    return std::string((number & 4) != 0 ? "N" : "") + ((number & 2) != 0 ? "C" : "") + ((number & 1) != 0 ? "E" : "");
}

/// Adds up what a controller that wants exact marks is told.
struct told final : tcp::reno {
    static inline std::uint32_t marked = 0;
    explicit told(std::uint32_t mss) noexcept : reno(mss) { wants_exact_marks_ = true; }
    void on_ack(const tcp::ack_sample& sample) noexcept override {
        marked += sample.marked;
        reno::on_ack(sample);
    }
    tcp::congestion_controller* another() const override { return new told(mss_); }
};

struct world : tcp_script {
    explicit world(const tcp::parameters& p = accurate()) : tcp_script(p) {}
    /// We open; the SYN-ACK says `answer`.
    tcp::outgoing_segment connect_by(unsigned answer, const std::string& more = "") {
        open();
        BOOST_TEST(ace(expect("S 0:0")) == 7u);
        receive("SA" + bits(answer) + " 0:0 ack 1 win 65535 mss 1000 sackok ws 0" + more);
        return expect("A 1:1 ack 1");
    }
    /// They open, as AccECN clients do; the ACK says `answer`.
    void accept_by(unsigned answer, const std::string& syn_ecn = "", const std::string& more = "") {
        listen("SNCE 0:0 win 65535 mss 1000 sackok ws 0" + syn_ecn);
        expect("SA 0:0 ack 1");
        receive("A" + bits(answer) + " 1:1 ack 1" + more);
        drain();
    }
    void ack(std::int64_t number, unsigned ace_field, const std::string& more = "") {
        receive("A" + bits(ace_field) + " 1:1 ack " + std::to_string(number) + more);
    }
    bool in_use() { return block().info().accurate_ecn; }
    std::uint64_t reductions() { return block().statistics().mark_reductions; }
};

} // namespace

BOOST_AUTO_TEST_SUITE(accurate_ecn)

BOOST_AUTO_TEST_CASE(the_syn_asks_and_the_syn_ack_says_how_it_came) { // 3.1.1, table 2
    for (const unsigned answer : {0b010u, 0b011u, 0b100u, 0b110u, 0b101u}) {
        world w;
        w.connect_by(answer);
        BOOST_TEST(w.in_use());
    }
    const std::pair<const char*, unsigned> arrivals[] = {{"", 0b010u}, {" ect1", 0b011u}, {" ect0", 0b100u}, {" ce", 0b110u}};
    for (const auto& [how, answer] : arrivals) {
        world w;
        w.listen(std::string("SNCE 0:0 win 65535 mss 1000 sackok ws 0") + how);
        BOOST_TEST(ace(w.expect("SA 0:0 ack 1")) == answer);
        BOOST_TEST(w.in_use());
    }
}

BOOST_AUTO_TEST_CASE(other_combinations_of_a_syn_ask_for_it_too) { // 3.1.3
    for (const unsigned asked : {0b001u, 0b010u, 0b100u, 0b101u, 0b110u}) {
        world w;
        w.listen("S" + bits(asked) + " 0:0 win 65535 mss 1000");
        BOOST_TEST(ace(w.expect("SA 0:0 ack 1")) == 0b010u);
    }
}

BOOST_AUTO_TEST_CASE(with_a_peer_of_old_it_is_classic_ecn_or_none) { // 3.1.2
    world classic;
    classic.connect_by(0b001);
    BOOST_TEST((classic.block().info().ecn && !classic.in_use()));
    for (const unsigned answer : {0b000u, 0b111u}) { // none; what we sent, sent back
        world none;
        BOOST_TEST(ace(none.connect_by(answer)) == 0u);
        BOOST_TEST(!none.block().info().ecn);
    }
    world asked;
    asked.listen("SCE 0:0 win 65535 mss 1000");
    BOOST_TEST(ace(asked.expect("SA 0:0 ack 1")) == 0b001u);
    BOOST_TEST((asked.block().info().ecn && !asked.in_use()));
    world not_asked;
    not_asked.listen("S 0:0 win 65535 mss 1000");
    BOOST_TEST(ace(not_asked.expect("SA 0:0 ack 1")) == 0u);
    auto p = accurate(); // and who does not speak it takes the third flag for nothing
    p.accurate_ecn = false;
    p.ecn = true;
    world old(p);
    old.listen("SNCE 0:0 win 65535 mss 1000");
    BOOST_TEST(ace(old.expect("SA 0:0 ack 1")) == 0b001u);
}

BOOST_AUTO_TEST_CASE(a_syn_is_repeated_once_with_the_flags_and_then_without) { // 3.1.4.1
    world w;
    w.open();
    BOOST_TEST(ace(w.expect("S 0:0")) == 7u);
    w.advance(1s);
    BOOST_TEST(ace(w.expect("S 0:0")) == 7u);
    w.advance(2s);
    BOOST_TEST(ace(w.expect("S 0:0")) == 0u);
    w.receive("SAC 0:0 ack 1 win 65535 mss 1000"); // an answer to an earlier one
    w.drain();
    BOOST_TEST(w.in_use());
}

BOOST_AUTO_TEST_CASE(a_syn_ack_is_repeated_without_the_option_and_then_without_the_flags) { // 3.2.3.2.2, 3.1.5
    world w;
    w.listen("SNCE 0:0 win 65535 mss 1000 sackok ws 0");
    const auto first = w.expect("SA 0:0 ack 1");
    BOOST_TEST(options(first).has_accurate_ecn());
    w.advance(1s);
    const auto second = w.expect("SA 0:0 ack 1");
    BOOST_TEST(ace(second) == 0b010u);
    BOOST_TEST(!options(second).has_accurate_ecn());
    w.advance(2s);
    BOOST_TEST(ace(w.expect("SA 0:0 ack 1")) == 0u);
    w.receive("AC 1:1 ack 1");
    w.write(1000);
    BOOST_TEST(!w.expect("A 1:1001").ecn_capable()); // the client may not be in AccECN mode
    BOOST_TEST(w.in_use());
}

BOOST_AUTO_TEST_CASE(a_repeated_syn_of_another_kind_is_judged) { // 3.1.5
    world again;
    again.listen("SNCE 0:0 win 65535 mss 1000");
    again.expect("SA 0:0");
    again.receive("SNCE 0:0 win 65535 mss 1000 ce"); // the latest counts
    BOOST_TEST(ace(again.expect("SA 0:0")) == 0b110u);
    again.receive("S 0:0 win 65535 mss 1000"); // stays in AccECN mode, and is silent
    again.expect("SA 0:0");
    again.receive("AC 1:1 ack 1");
    again.write(1000);
    BOOST_TEST(!again.expect("A 1:1001").ecn_capable());

    world other;
    other.listen("SNCE 0:0 win 65535 mss 1000");
    other.expect("SA 0:0");
    other.receive("SCE 0:0 win 65535 mss 1000");
    other.expect("RA 1:1");
    other.expect_state(tcp::tcp_state::closed);

    world classic;
    classic.listen("SCE 0:0 win 65535 mss 1000");
    classic.expect("SA 0:0");
    classic.receive("SNCE 0:0 win 65535 mss 1000");
    classic.expect("RA 1:1");
}

BOOST_AUTO_TEST_CASE(the_ack_of_the_syn_ack_says_how_that_came) { // 3.2.2.1, table 3
    const std::tuple<const char*, unsigned, unsigned> arrivals[] = {
        {"", 0b010u, 5u}, {" ect1", 0b011u, 5u}, {" ect0", 0b100u, 5u}, {" ce", 0b110u, 6u}};
    for (const auto& [how, handshake, counter] : arrivals) {
        world w;
        w.open();
        w.expect("S 0:0");
        w.write(500);
        w.receive(std::string("SAC 0:0 ack 1 win 65535 mss 1000 sackok ws 0") + how);
        BOOST_TEST(ace(w.expect("A 1:1 ack 1")) == handshake); // alone, though there is data
        BOOST_TEST(ace(w.expect("A 1:501 ack 1")) == counter);
        w.drain();
        w.receive(std::string("SAC 0:0 ack 1 win 65535 mss 1000 sackok ws 0") + how); // lost, so they say it again
        BOOST_TEST(ace(w.expect("A 501:501 ack 1")) == handshake);
        w.receive("AN 1:101 ack 501");
        w.advance(50ms);
        BOOST_TEST(ace(w.expect("A 501:501 ack 101")) == counter); // counted once
    }
}

BOOST_AUTO_TEST_CASE(a_field_that_was_mangled_on_the_way_ends_ecn_for_what_we_send) { // 3.2.2.3, table 4
    for (const unsigned said : {0b011u, 0b100u, 0b110u, 0b000u}) {
        world server;
        server.accept_by(said);
        server.write(1000);
        BOOST_TEST(!server.expect("A 1:1001").ecn_capable());
        BOOST_TEST(server.reductions() == (said == 0b110u ? 1u : 0u));
    }
    for (const unsigned said : {0b001u, 0b010u, 0b101u, 0b111u}) {
        world server;
        server.accept_by(said);
        server.write(1000);
        BOOST_TEST(server.expect("A 1:1001").ecn_capable());
    }
    for (const unsigned said : {0b011u, 0b100u, 0b110u}) {
        world client;
        client.connect_by(said);
        client.write(500);
        BOOST_TEST(!client.expect("A 1:501").ecn_capable());
        BOOST_TEST(client.reductions() == (said == 0b110u ? 1u : 0u));
        client.receive("AN 1:501 ack 1 ce"); // feedback goes on
        BOOST_TEST(ace(client.expect("A 501:501 ack 501")) == 6u);
    }
}

BOOST_AUTO_TEST_CASE(a_counter_that_begins_at_zero_is_not_believed) { // 3.2.2.4; table 4, note 1
    world client;
    client.connect_by(0b010);
    client.write(20'000);
    client.drain();
    client.ack(1001, 0); // zeroed, and so are the next ones
    client.ack(2001, 3);
    BOOST_TEST(client.reductions() == 0u);
    client.write(1000);
    tcp::outgoing_segment out;
    BOOST_REQUIRE(client.block().next_segment(client.now(), out));
    BOOST_TEST(!out.ecn_capable());
    world server;
    server.accept_by(0);
    server.write(10'000);
    server.drain();
    server.ack(1001, 6);
    BOOST_TEST(server.reductions() == 0u);
}

BOOST_AUTO_TEST_CASE(every_segment_counts_what_came_marked) { // 3.2, 3.2.2.2
    world w;
    w.connect_by(0b010);
    w.receive("AN 1:501 ack 1 ce"); // at once: marked, and the one before was not (3.2.2.5.1)
    BOOST_TEST(ace(w.expect("A 1:1 ack 501")) == 6u);
    w.receive("AN 501:1001 ack 1 ce"); // the same again: delayed
    w.expect_nothing();
    w.receive("AN 1001:1501 ack 1 ce"); // two since the last ACK
    BOOST_TEST(ace(w.expect("A 1:1 ack 1501")) == (8u & 7));
    w.receive("AN 1501:2001 ack 1 ect0");
    w.expect_nothing();
    w.advance(50ms);
    BOOST_TEST(ace(w.expect("A 1:1 ack 2001")) == 0u);
    for (int i = 0; i < 2; ++i) w.receive("AN 2001:2001 ack 1 ce"); // ACKs count, too; but not so soon
    w.expect_nothing();
    w.receive("AN 2001:2001 ack 1 ce");
    BOOST_TEST(ace(w.expect("A 1:1 ack 2001")) == 3u);
    w.write(500);
    BOOST_TEST(ace(w.expect("A 1:501")) == 3u);
    w.advance(1s);
    const auto again = w.expect("A 1:501");
    BOOST_TEST(ace(again) == 3u); // the latest, not what it said before
    BOOST_TEST(!again.ecn_capable());
}

BOOST_AUTO_TEST_CASE(marks_shrink_the_window_once_a_round_trip_and_cwr_is_not_said) { // 3.1.5, RFC 3168 6.1.2
    world w;
    w.connect_by(0b010);
    w.write(50'000);
    BOOST_TEST(w.drain() == 10); // the first of them has 992 bytes
    w.ack(993, 5);
    BOOST_TEST(w.reductions() == 0u);
    const auto before = w.block().info().cwnd;
    w.ack(1993, 6);
    BOOST_TEST(w.reductions() == 1u);
    BOOST_TEST(w.block().info().cwnd < before);
    w.ack(2993, 7);
    BOOST_TEST(w.reductions() == 1u);
    w.drain();
    const std::int64_t end = w.block().info().snd_max - tcp::seq_number(1'000'000);
    w.ack(end, 7);
    BOOST_TEST(ace(w.expect("A " + std::to_string(end) + ":" + std::to_string(end + 1000))) == 5u); // our own counter, and nothing else
    w.drain();
    w.ack(end + 1000, 0); // the next window: one mark more
    BOOST_TEST(w.reductions() == 2u);
}

BOOST_AUTO_TEST_CASE(old_segments_say_nothing) { // A.1
    auto p = accurate();
    p.timestamps = true;
    world w(p);
    w.connect_by(0b010, " ts 1 0");
    w.write(50'000);
    w.drain();
    w.ack(989, 6, " ts 10 1000000");
    BOOST_TEST(w.reductions() == 1u);
    w.ack(989, 5, " ts 10 1000000"); // overtaken: not seven marks more
    w.ack(989, 6, " ts 11 1000000");
    w.ack(989 * 8, 6, " ts 12 1000000");
    w.ack(989 * 10, 6, " ts 13 1000000");
    w.drain();
    w.ack(989 * 11, 6, " ts 14 1000000");
    w.ack(989 * 11, 5, " ts 14 1000000"); // nothing new: sent before, for all we know
    w.ack(989 * 10, 7, " ts 14 1000000");
    BOOST_TEST(w.reductions() == 1u);
    BOOST_TEST(w.block().info().unacknowledged != 0u);
}

BOOST_AUTO_TEST_CASE(where_the_counter_may_have_wrapped_the_safe_case_counts_unless_bytes_are_known) { // 3.2.2.5.2
    const auto run = [](unsigned ace_field, const std::string& option) {
        auto p = accurate();
        p.congestion = tcp::dctcp_congestion;
        world w(p);
        w.connect_by(0b010);
        w.write(50'000);
        w.drain();
        w.ack(9993, ace_field, option); // ten packets at once
        return w.reductions();
    };
    BOOST_TEST(run(5, "") == 1u);                // no mark, or eight
    BOOST_TEST(run(5, " acc0 1 0 1") == 0u);     // none, say the bytes
    BOOST_TEST(run(5, " acc0 1 8000 1") == 1u);  // eight
    BOOST_TEST(run(6, " acc0 1 1000 1") == 1u);  // one
}

BOOST_AUTO_TEST_CASE(where_acks_are_thinned_out_the_counter_says_what_it_says) { // 3.2.2.5.2: the likely cases
    auto p = accurate();
    world w(p);
    w.connect_by(0b010);
    std::int64_t acked = 1;
    for (int i = 0; i < 30; ++i) {
        w.write(20'000);
        w.drain();
        acked = w.block().info().snd_max - tcp::seq_number(1'000'000);
        w.ack(acked, 5); // a whole window at once
    }
    BOOST_TEST(w.reductions() < 4u);
    BOOST_TEST(w.block().info().cwnd > 20'000u);
}

BOOST_AUTO_TEST_CASE(what_was_sacked_before_is_not_newly_acknowledged) { // appendix A.2
    for (const bool sacked : {true, false}) {
        world w;
        w.connect_by(0b010);
        w.block().set_no_delay(true);
        w.write(8'500);
        BOOST_TEST(w.drain() == 9);
        if (sacked) w.ack(1, 5, " sack 7001-8501"); // the last two: too few for a loss
        w.drain();
        w.ack(8'501, 5); // nine at once may be eight marks, seven none
        BOOST_TEST(w.reductions() == (sacked ? 0u : 1u));
    }
}

BOOST_AUTO_TEST_CASE(options_echo_bytes_by_codepoint) { // 3.2.3
    world w;
    const auto first = w.connect_by(0b010);
    BOOST_REQUIRE(options(first).has_accurate_ecn()); // to see whether the path lets it through (3.2.3.2.1)
    w.receive("AN 1:501 ack 1 ect0");
    w.receive("AN 501:1001 ack 1 ect0");
    w.advance(50ms);
    const auto ect_0 = options(w.expect("A 1:1 ack 1001")).accurate_ecn;
    BOOST_TEST((ect_0 == wire::accurate_ecn_option{.order_1 = false, .fields = 1, .bytes = {1001, 0, 0}}));
    w.receive("AN 1001:1501 ack 1 ce");
    const auto ce = options(w.expect("A 1:1 ack 1501")).accurate_ecn;
    BOOST_TEST((ce == wire::accurate_ecn_option{.order_1 = false, .fields = 2, .bytes = {1001, 500, 0}}));
    w.receive("AN 1501:2501 ack 1"); // nothing new: no option (the simple scheme, 3.2.3.3)
    w.advance(50ms);
    BOOST_TEST(!options(w.expect("A 1:1 ack 2501")).has_accurate_ecn());
    w.receive("AN 2501:2601 ack 1 ect1");
    w.advance(50ms);
    const auto all = options(w.expect("A 1:1 ack 2601")).accurate_ecn;
    BOOST_TEST((all == wire::accurate_ecn_option{.order_1 = false, .fields = 3, .bytes = {1001, 500, 101}}));

    world only_1;
    only_1.connect_by(0b010);
    only_1.receive("AN 1:501 ack 1 ect1");
    only_1.advance(50ms);
    const auto order_1 = options(only_1.expect("A 1:1 ack 501")).accurate_ecn;
    BOOST_TEST((order_1 == wire::accurate_ecn_option{.order_1 = true, .fields = 1, .bytes = {501, 0, 0}}));
}

BOOST_AUTO_TEST_CASE(counters_and_sack_blocks_share_the_room) { // 3.2.3.3
    auto p = accurate();
    p.timestamps = true;
    world w(p);
    w.connect_by(0b010, " ts 1 0");
    for (const int at : {1001, 3001, 5001, 7001}) {
        w.receive("AN " + std::to_string(at) + ":" + std::to_string(at + 500) + " ack 1 ce ts 2 0");
    }
    tcp::outgoing_segment out;
    BOOST_REQUIRE(w.block().next_segment(w.now(), out));
    const auto o = options(out);
    BOOST_TEST(o.sack_count == 2u);
    BOOST_REQUIRE(o.has_accurate_ecn());
    BOOST_TEST(o.accurate_ecn.ceb() == 2000u);
    w.receive("AN 9001:9501 ack 1 ts 3 0"); // nothing to be told: the room is for blocks
    BOOST_REQUIRE(w.block().next_segment(w.now(), out));
    BOOST_TEST(options(out).sack_count == 3u);
    BOOST_TEST(!options(out).has_accurate_ecn());
}

BOOST_AUTO_TEST_CASE(payload_makes_room_for_the_option) { // RFC 9293 MUST-16
    world w;
    w.connect_by(0b010);
    w.write(3000);
    const auto first = w.expect("A 1:993"); // the first data carries one (3.2.3.2.1): 8 bytes
    BOOST_TEST(options(first).has_accurate_ecn());
    const auto second = w.expect("A 993:1993");
    BOOST_TEST(!options(second).has_accurate_ecn());
}

BOOST_AUTO_TEST_CASE(options_that_may_not_get_through_are_given_up) { // 3.2.3.2.2
    world w;
    w.connect_by(0b010);
    w.write(500);
    BOOST_TEST(options(w.expect("A 1:501")).has_accurate_ecn());
    w.advance(1s);
    BOOST_TEST(!options(w.expect("A 1:501")).has_accurate_ecn());
    w.receive("AN 1:501 ack 501 ce");
    const auto answer = w.expect("A 501:501 ack 501");
    BOOST_TEST(!options(answer).has_accurate_ecn());
    BOOST_TEST(ace(answer) == 6u);
}

BOOST_AUTO_TEST_CASE(options_that_begin_at_zero_are_ignored) { // 3.2.3.2.4
    world w;
    w.connect_by(0b010, " acc0 0 0 0");
    w.write(50'000);
    w.drain();
    w.ack(9993, 5, " acc0 0 0 0");
    BOOST_TEST(w.reductions() == 1u); // the conservative reading of ACE
    world sound;
    sound.connect_by(0b010, " acc0 1 0 1");
    sound.write(50'000);
    sound.drain();
    sound.ack(9993, 5, " acc0 9993 0 1");
    BOOST_TEST(sound.reductions() == 0u);
}

/// Sends bursts of four segments to `w`, of which it asks the first again after a time-out, as if it had heard nothing.
struct deaf_sender {
    world& w;
    bool stamps;
    std::int64_t next = 1;
    std::uint32_t heard = 1'000'000; ///< our TSval that it echoes
    std::uint32_t clock = 10;
    std::string line(std::int64_t from) {
        std::string out = "AN " + std::to_string(from) + ":" + std::to_string(from + 500) + " ack 1";
        if (stamps) out += " ts " + std::to_string(clock) + " " + std::to_string(heard);
        return out;
    }
    /// Whether any of our ACKs carried the option.
    bool burst() {
        bool option = false;
        tcp::outgoing_segment out;
        for (int i = 0; i < 4; ++i) {
            w.receive(line(next + 500 * i) + " ect0");
            while (w.block().next_segment(w.now(), out)) option |= options(out).has_accurate_ecn();
        }
        w.advance(1s);
        while (w.block().next_segment(w.now(), out)) option |= options(out).has_accurate_ecn();
        ++clock;
        return option;
    }
    void time_out() {
        w.receive(line(next)); // not ECN-capable (RFC 3168 6.1.5), so it changes no counter
        BOOST_TEST(!options(w.expect("A 1:1 ack " + std::to_string(next + 2000))).has_accurate_ecn());
        next += 2000;
    }
};

BOOST_AUTO_TEST_CASE(options_whose_acks_get_lost_each_time_are_given_up) { // 3.2.3.2.2
    for (const bool stamps : {false, true}) {
        auto p = accurate();
        p.timestamps = stamps;
        world w(p);
        w.connect_by(0b010, stamps ? " ts 1 1000000" : "");
        deaf_sender peer{.w = w, .stamps = stamps};
        BOOST_TEST(peer.burst());
        peer.time_out();
        BOOST_TEST(peer.burst());
        peer.time_out();
        BOOST_TEST(!peer.burst());
    }
}

BOOST_AUTO_TEST_CASE(acks_that_arrived_between_are_no_reason) { // 3.2.3.2.2: repeatedly
    auto p = accurate();
    p.timestamps = true;
    world w(p);
    w.connect_by(0b010, " ts 1 1000000");
    deaf_sender peer{.w = w, .stamps = true};
    for (int i = 0; i < 3; ++i) {
        BOOST_TEST(peer.burst());
        peer.time_out();
        w.receive(peer.line(peer.next) + " ect0");
        w.advance(50ms);
        const auto answer = options(w.expect("A 1:1 ack " + std::to_string(peer.next + 500)));
        BOOST_TEST(answer.has_accurate_ecn());
        peer.heard = answer.timestamp_value;
        peer.next += 500;
    }
    world without; // what is sent beyond the old window shows it, too
    without.connect_by(0b010);
    deaf_sender other{.w = without, .stamps = false};
    BOOST_TEST(other.burst());
    other.time_out();
    for (const std::int64_t allowed = without.edge(); other.next <= allowed; other.next += 2000) {
        BOOST_TEST(other.burst());
        without.read_all();
        without.drain();
    }
    other.burst();
    other.time_out();
    BOOST_TEST(other.burst());
}

BOOST_AUTO_TEST_CASE(keepalives_are_no_lost_acks) {
    world w;
    w.connect_by(0b010);
    for (int i = 0; i < 3; ++i) {
        const std::int64_t from = 1 + 500 * i;
        w.receive("AN " + std::to_string(from) + ":" + std::to_string(from + 500) + " ack 1 ect0");
        w.advance(1s);
        BOOST_TEST(options(w.expect("A 1:1 ack " + std::to_string(from + 500))).has_accurate_ecn());
        w.receive("AN " + std::to_string(from + 499) + ":" + std::to_string(from + 500) + " ack 1");
        w.drain();
    }
}

BOOST_AUTO_TEST_CASE(rounds_that_are_full_of_marks_are_mangled) { // 3.2.2.3
    for (const bool one_without : {false, true}) {
        world w;
        w.connect_by(0b010);
        w.block().set_no_delay(true);
        unsigned marks = 0;
        std::int64_t acked = 1;
        for (int round = 0; round < 6; ++round) {
            w.write(2000);
            BOOST_TEST(w.drain() >= 2);
            const std::int64_t end = w.block().info().snd_max - tcp::seq_number(1'000'000);
            while (acked < end) {
                acked = std::min<std::int64_t>(acked + 1000, end);
                if (!one_without || round != 3 || acked != end) ++marks;
                w.ack(acked, (5 + marks) & 7);
            }
        }
        const std::uint64_t before = w.reductions();
        w.write(2000);
        tcp::outgoing_segment out;
        BOOST_REQUIRE(w.block().next_segment(w.now(), out));
        BOOST_TEST(out.ecn_capable() == one_without);
        w.drain();
        w.ack(w.block().info().snd_max - tcp::seq_number(1'000'000), (5 + marks + 1) & 7);
        BOOST_TEST(w.reductions() == before + (one_without ? 1 : 0));
    }
}

BOOST_AUTO_TEST_CASE(of_small_segments_bytes_say_whether_each_is_marked) { // 3.2.2.3
    for (const bool with_options : {true, false}) {
        world w;
        w.connect_by(0b010);
        w.block().set_no_delay(true);
        unsigned marks = 0;
        for (int round = 0; round < 6; ++round) { // of two segments one
            w.write(100);
            w.drain();
            w.write(100);
            w.drain();
            ++marks;
            w.ack(1 + 200 * (round + 1), (5 + marks) & 7,
                  with_options ? " acc0 " + std::to_string(1 + 100 * marks) + " " + std::to_string(100 * marks) + " 1" : "");
        }
        w.write(100);
        BOOST_TEST(w.expect("PA 1201:1301").ecn_capable());
    }
}

BOOST_AUTO_TEST_CASE(what_its_options_leave_is_a_full_segment) { // RFC 9293 3.7.4: Nagle holds small segments back, and no others
    world w;
    w.connect_by(0b010);
    w.write(1500);
    BOOST_TEST(options(w.expect("A 1:993")).has_accurate_ecn());
    w.expect("A 993:1501"); // nothing small is in flight
}

BOOST_AUTO_TEST_CASE(bytes_without_a_packet_contradict_each_other) { // 3.2.3.2.5
    world w;
    w.connect_by(0b010, " acc0 1 0 1");
    w.write(2992);
    w.drain();
    w.ack(2993, 5, " acc0 1 1000 1");
    w.write(1000);
    BOOST_TEST(!w.expect("PA 2993:3993").ecn_capable());
    world small;
    small.connect_by(0b010, " acc0 1 0 1");
    small.block().set_no_delay(true);
    for (int i = 0; i < 8; ++i) {
        small.write(100);
        small.drain();
    }
    small.ack(801, 5, " acc0 1 800 1"); // eight packets, and the field has come round
    small.write(100);
    BOOST_TEST(small.expect("PA 801:901").ecn_capable());
}

BOOST_AUTO_TEST_CASE(a_mark_that_is_told_of_amid_a_recovery_stays_answered_though_nothing_was_lost) { // it is told of once
    for (const bool marked : {false, true}) {
        world w;
        w.connect_by(0b010);
        w.write(10'000);
        w.drain();
        w.advance(100ms);
        for (const char* end : {"2001", "3001", "4001"}) w.ack(1, 5, std::string(" sack 1001-") + end);
        BOOST_TEST(w.expect("A 1:1001").retransmission);
        w.ack(1, marked ? 6 : 5, " sack 1001-5001");
        w.drain();
        w.advance(10ms);
        w.ack(5001, marked ? 6 : 5, " sack 1-1001"); // it came twice
        BOOST_TEST(w.block().statistics().spurious_recoveries == 1u);
        BOOST_TEST((w.block().info().cwnd < 10'000u) == marked);
        w.ack(7001, marked ? 7 : 6); // of the window that the recovery began in
        BOOST_TEST(w.reductions() == (marked ? 0u : 1u));
    }
}

BOOST_AUTO_TEST_CASE(dctcp_learns_the_share_of_marked_bytes) { // RFC 8257 3.3, appendix A.3
    auto p = accurate();
    p.congestion = tcp::dctcp_congestion;
    const auto window_after = [&p](bool with_options) {
        world w(p);
        w.connect_by(0b010);
        w.write(400'000);
        std::int64_t acked = 0;
        unsigned marks = 0;
        for (int i = 0; i < 40; ++i) { // one packet in ten is marked
            w.drain();
            acked += 1000;
            if (i % 10 == 9) ++marks;
            w.ack(acked + 1, (5 + marks) & 7, with_options ? " acc0 1 " + std::to_string(1000 * marks) + " 1" : "");
        }
        return w.block().info().cwnd;
    };
    auto q = p;
    q.congestion = tcp::reno_congestion;
    const auto halving = [&q, &p, &window_after] {
        const auto keep = p;
        p = q;
        const auto w = window_after(false);
        p = keep;
        return w;
    }();
    BOOST_TEST(window_after(false) > halving);
    BOOST_TEST(window_after(true) >= window_after(false));
    p.congestion = [](std::uint32_t mss) -> tcp::congestion_controller* { return new told(mss); };
    for (const bool with_options : {false, true}) {
        told::marked = 0;
        window_after(with_options);
        BOOST_TEST(told::marked == 4'000u); // of forty segments four
    }
    world w(p);
    w.connect_by(0b010);
    told::marked = 0;
    for (unsigned i = 0; i < 10; ++i) { // what SACK tells of counts as well
        w.write(1984);
        BOOST_TEST(w.drain() == 2);
        const std::int64_t una = 1 + 1984 * i;
        w.ack(una, (5 + 2 * i + 1) & 7, " sack " + std::to_string(una + 992) + "-" + std::to_string(una + 1984));
        w.ack(una + 1984, (5 + 2 * i + 2) & 7);
    }
    BOOST_TEST(told::marked == 19'840u);
}

BOOST_AUTO_TEST_CASE(a_path_that_drops_what_asks_is_remembered_for_a_while) { // 3.1.4.1
    tcp::accurate_ecn_paths paths;
    const net_address server = ipv4(192, 0, 2, 1), other = ipv4(192, 0, 2, 2);
    const time_point start = from_ns(1'000'000'000);
    paths.on_answer(start, server, true);
    BOOST_TEST(paths.lets_through(start, server)); // once is chance
    paths.on_answer(start, server, true);
    BOOST_TEST(!paths.lets_through(start, server));
    BOOST_TEST(paths.lets_through(start, other));
    BOOST_TEST(!paths.lets_through(start + 9min, server));
    const time_point later = start + 10min;
    BOOST_TEST(paths.lets_through(later, server)); // tried again,
    paths.on_answer(later, server, true);
    BOOST_TEST(!paths.lets_through(later + 19min, server)); // and less often
    paths.on_answer(later + 20min, server, false);
    BOOST_TEST(paths.size() == 0u);
    for (unsigned i = 0; i < 100; ++i) paths.on_answer(start, ipv4(198, 51, 100, static_cast<std::uint8_t>(i)), true);
    BOOST_TEST(paths.size() == tcp::accurate_ecn_paths::limit);
}

BOOST_AUTO_TEST_CASE(who_was_asked_in_vain_is_told) { // 3.1.4.1
    world w;
    w.open();
    w.expect("S 0:0");
    w.advance(1s);
    w.expect("S 0:0");
    w.receive("SA 0:0 ack 1 win 65535 mss 1000"); // the second one was answered: no AccECN there, but the path lets it through
    BOOST_TEST((w.block().asked_for_accurate_ecn() && !w.block().asked_in_vain()));
    world dropped;
    dropped.open();
    dropped.expect("S 0:0");
    dropped.advance(1s);
    dropped.expect("S 0:0");
    dropped.advance(2s);
    BOOST_TEST(ace(dropped.expect("S 0:0")) == 0u);
    dropped.receive("SA 0:0 ack 1 win 65535 mss 1000");
    BOOST_TEST(dropped.block().asked_in_vain());
}

BOOST_AUTO_TEST_CASE(a_syn_cookie_remembers_nothing_and_the_ack_tells) { // 5.1
    auto p = accurate();
    tcp::tcb block(from_ns(1'000'000'000), tcp::cookie_open{.iss = tcp::seq_number(7), .irs = tcp::seq_number(9), .peer_mss = 1000,
                                                            .window = 65'535, .accurate_ecn = true}, p);
    tcp::segment s;
    s.seq = tcp::seq_number(10);
    s.ack = tcp::seq_number(8);
    s.flags = tcp_flags::ack | tcp_flags::cwr;
    s.window = 65'535;
    buffer head, body;
    BOOST_TEST(tcp::has(block.on_segment(from_ns(1'000'000'000), s, head, body), tcp::event::established));
    BOOST_TEST(block.info().accurate_ecn);
    BOOST_TEST(tcp::cookie_tells_of_accurate(p, false, 2));
    BOOST_TEST(!tcp::cookie_tells_of_accurate(p, false, 1));
    BOOST_TEST(!tcp::cookie_tells_of_accurate(p, true, 2)); // its CWR: classic ECN was agreed to
}

BOOST_AUTO_TEST_CASE(as_linux_all_is_capable_and_the_option_always_there) { // tcp_established_options(), tcp_ecn_send()
    world w(as_linux());
    const auto first = w.connect_by(0b010, " acc1 1 0 1");
    BOOST_TEST(first.ecn_capable());
    const auto o = options(first).accurate_ecn;
    BOOST_TEST((o == wire::accurate_ecn_option{.order_1 = true, .fields = 3, .bytes = {1, 0, 1}}));
    world unseen(as_linux());
    BOOST_TEST(!options(unseen.connect_by(0b010)).has_accurate_ecn()); // the peer does not send it either
}

BOOST_AUTO_TEST_CASE(as_linux_a_minimal_option_goes_where_it_changes_and_by_the_beacon) { // tcp_ecn_option=1
    auto p = as_linux();
    p.accurate_ecn_option = 1;
    p.accurate_ecn_beacon = 0;
    world w(p);
    BOOST_TEST(options(w.connect_by(0b010, " acc1 1 0 1")).has_accurate_ecn()); // twice, for the SYN-ACK had one
    const auto answer = [&w](const std::string& data) {
        w.receive(data);
        tcp::outgoing_segment out;
        BOOST_REQUIRE(w.block().next_segment(w.now(), out));
        return options(out).has_accurate_ecn();
    };
    BOOST_TEST(answer("AN 1:501 ack 1 ect0")); // another codepoint: this one and the next
    BOOST_TEST(answer("AN 501:1001 ack 1 ect0"));
    BOOST_TEST(!answer("AN 1001:1501 ack 1 ect0"));
    BOOST_TEST(answer("AN 1501:2001 ack 1 ce"));
}

BOOST_AUTO_TEST_CASE(as_linux_a_thinned_out_ack_counts_what_it_says) { // pkts_acked_ewma
    auto p = as_linux();
    p.congestion = tcp::reno_congestion;
    world w(p);
    w.connect_by(0b010);
    w.write(50'000);
    w.drain();
    w.ack(10'001, 5); // ten packets at once, as ever: no mark, and not eight
    BOOST_TEST(w.reductions() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
