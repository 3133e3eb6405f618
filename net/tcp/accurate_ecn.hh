// More accurate ECN feedback (RFC 9768): the receiver counts marked packets and bytes, and each of its segments says how many.
//
//     handshake   SYN AE CWR ECE --> SYN-ACK: how the SYN's IP header arrived --> ACK: how the SYN-ACK's did
//     afterwards  AE CWR ECE = ACE, the number of CE packets modulo 8; AccECN options: bytes by codepoint, modulo 2^24
//
// The state is made when a connection enters AccECN mode (control_block::ecn.accurate), so others pay a pointer for it. Such
// connections take the general paths, not the predicted ones. Bounded by itself.
#pragma once

#include <corewire/net/tcp/seq.hh>
#include <corewire/net/wire/ecn.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/net/wire/tcp_options.hh>
#include <corewire/reactor/base/time.hh>

#include <cstdint>

namespace corewire::tcp {

struct arrival;
struct control_block;
struct delivery;
struct outgoing_segment;
struct parameters;
struct segment;

/// RFC 9768 3.2.1: what they begin with differs from what a middlebox zeroes.
struct ecn_counters {
    std::uint32_t cep = 5; ///< packets with CE
    std::uint32_t e0b = 1; ///< bytes with ECT(0)
    std::uint32_t ceb = 0; ///< bytes with CE
    std::uint32_t e1b = 1; ///< bytes with ECT(1)
    bool same_bytes(const ecn_counters& o) const noexcept { return e0b == o.e0b && ceb == o.ceb && e1b == o.e1b; }
};

/// What Linux's habits keep beside (linux_accurate_ecn.cc).
struct linux_counters {
    enum failure : std::uint8_t { ace_sent = 1, ace_came = 2, option_sent = 4, option_came = 8 };
    enum option : std::uint8_t { none, empty, counters, zeroed };
    std::uint8_t failures = 0;      ///< accecn_fail_mode
    option seen = none;             ///< saw_accecn_opt
    std::uint8_t demand = 0;        ///< so many segments more carry the option anyway
    std::uint8_t least_fields = 0;  ///< what has changed is among so many from the front
    bool hurried = false;           ///< the ACK that is due next does not wait
    bool repeats = false;           ///< the segment before carried the option
    bool out_of_place = false;      ///< TIME-WAIT answers a segment that is
    bool told_duplicate = false;    ///< the option before went with a D-SACK
    wire::ecn_codepoint before = wire::ecn_codepoint::not_ect; ///< of the latest segment
    wire::ecn_codepoint growing = wire::ecn_codepoint::not_ect; ///< what the option said last that had grown; not_ect: not sure
    time_point told_at{};           ///< the option before
    time_point clock{};             ///< of the latest segment, in or out
};

struct accurate_ecn {
    // as the receiver of data
    ecn_counters received;          ///< r.cep, r.e0b, ...
    ecn_counters told;              ///< the byte counters as our last option said them
    wire::ecn_codepoint handshake = wire::ecn_codepoint::not_ect; ///< of the latest SYN or SYN-ACK
    bool handshake_ack = false;     ///< client: the next pure ACK says `handshake`
    bool syn_ack_marked = false;    ///< counted, which it is once
    bool after_mark = false;        ///< the packet before had CE
    std::uint8_t unsaid_marks = 0;  ///< CE packets since our last segment
    std::uint8_t answers = 0;       ///< SYN-ACKs sent, up to three: with Linux's habits
    bool options_out = true;        ///< we send options: none was lost that matters
    bool on_trial = false;          ///< options went with ACKs up to `tried_up_to`, and nothing shows yet that one arrived
    std::uint8_t vanished = 0;      ///< so many times in a row none did, it seems
    seq_number tried_up_to;
    seq_number allowed;             ///< the peer's right edge when the first of them went
    std::uint32_t tried_at = 0;     ///< its TSval
    bool owes_ack = false;          ///< client: an option on the first ACK, to see whether the path lets it through
    bool owes_data = false;         ///< and on the first data

    // as the sender
    ecn_counters reported;          ///< s.cep, s.e0b, ...
    std::uint32_t stamp = 0;        ///< TSval of the latest segment whose feedback counted
    bool stamped = false;
    bool options_in = true;         ///< the peer's options are believed
    bool option_seen = false;
    bool first_feedback = true;     ///< nothing has come since the handshake
    bool silent = false;            ///< what we send is not ECN-capable: the field is mangled on the way (3.2.2.3, 3.2.2.4)
    bool deaf = false;              ///< feedback is not responded to
    bool all_marked = true;         ///< no packet of ours has been fed back without a mark
    std::uint16_t per_ack = 0;      ///< packets that an ACK covers, as a mean in 64ths
    std::uint8_t marked_rounds = 0; ///< of which each packet was
    seq_number round_end;           ///< of the one that goes on; it begins as SND.UNA

    linux_counters habit;
};

// ---- the handshake ----

/// The three flags as a number: AE is 4, CWR 2, ECE 1.
constexpr unsigned ace_of(wire::tcp_flags f) noexcept {
    return (has(f, wire::tcp_flags::ae) ? 4u : 0u) | (has(f, wire::tcp_flags::cwr) ? 2u : 0u) | (has(f, wire::tcp_flags::ece) ? 1u : 0u);
}
constexpr wire::tcp_flags ace_flags(std::uint32_t number) noexcept {
    using enum wire::tcp_flags;
    return ((number & 4) != 0 ? ae : none) | ((number & 2) != 0 ? cwr : none) | ((number & 1) != 0 ? ece : none);
}
/// Tables 2 and 3: how a SYN or SYN-ACK arrived.
constexpr wire::tcp_flags handshake_flags(wire::ecn_codepoint c) noexcept {
    constexpr unsigned encoding[] = {0b010, 0b011, 0b100, 0b110};
    return ace_flags(encoding[static_cast<unsigned>(c)]);
}
/// A SYN that asks for AccECN: all combinations but those of classic ECN and of none (3.1.3).
constexpr bool asks_for_accurate(unsigned ace) noexcept { return ace != 0 && ace != 0b011; }

/// A peer that offers classic ECN gets it; with AccECN allowed, too (RFC 9768 3.1.2).
bool agrees_to_ecn(const parameters& p) noexcept;
/// Whether a SYN that offers classic ECN is agreed to. Linux: not where its own IP header says ECT, which RFC 3168 6.1.1 forbids.
bool accepts_classic_offer(const parameters& p, const segment& syn) noexcept;
/// RFC 9768 5.1: the mode of a connection that a SYN cookie remembers nothing of, by the ACE field of its ACK. `noted`: the cookie's
/// timestamp tells of classic ECN; Linux's of either.
bool cookie_tells_of_accurate(const parameters& p, bool noted, unsigned ace) noexcept;
/// Flags of the SYN-ACK with the cookie, for SYNs of both kinds. `remembers`: there is a timestamp.
wire::tcp_flags cookie_flags(const parameters& p, const segment& syn, bool remembers) noexcept;

/// Flags of our SYN, or of our SYN-ACK.
wire::tcp_flags ecn_setup_flags(control_block& c) noexcept;
/// The option of a SYN-ACK (3.2.3.2.1).
void offer_counters(const parameters& p, wire::tcp_options& o) noexcept;
/// The peer's SYN: which mode we enter (table 2).
void answer_ecn_offer(control_block& c, const segment& syn) noexcept;
/// The SYN-ACK: the same for who opened.
void take_ecn_answer(control_block& c, const segment& syn_ack) noexcept;
/// A SYN's data was taken: it is in no counter (3.2). Linux counts it, and the SYN.
void count_syn_data(control_block& c, std::uint32_t bytes) noexcept;
/// The connection is established: the handshake's own marks are responded to. `ack`: what the server got.
void settle_ecn_handshake(control_block& c, const arrival& a, bool server) noexcept;
/// A SYN of the same handshake again. False: it contradicts the first one, and the connection is to be reset (3.1.5).
bool accept_repeated_offer(control_block& c, const segment& syn) noexcept;
/// The SYN-ACK again, in a synchronized state; or any other SYN.
void note_repeated_answer(control_block& c, const arrival& a) noexcept;

// ---- afterwards; only in AccECN mode ----

/// An acceptable packet arrived: counts it, and asks for an ACK where the sender should know soon (3.2.2.5.1).
void count_arrival(control_block& c, const arrival& a) noexcept;
/// What an ACK says of our packets; `d`: what its SACK blocks delivered.
void take_feedback(control_block& c, const arrival& a, const delivery& d) noexcept;
/// A segment is complete but for its ACE field and ECT.
void finish_accurate(control_block& c, outgoing_segment& out) noexcept;
/// A time-out: options may be what the path does not let through (3.2.3.2.2).
void suspect_options(control_block& c) noexcept;
/// Text from `begin` on came twice: our ACK with its option may have got lost (3.2.3.2.2).
void suspect_ack(control_block& c, const arrival& a, seq_number begin) noexcept;
/// Of ACKs the latest of which covers `packets`: their running mean, in 64ths of a packet, of which it is one part in `weight`.
std::uint16_t mean_cover(std::uint16_t before, std::uint32_t packets, std::uint32_t weight) noexcept;
/// ACKs are thinned out as a rule, so that ACE says what it says: eight packets in one are no reason to take it for wrapped.
constexpr bool acks_are_thin(const accurate_ecn& e) noexcept { return e.per_ack > 4 * 64; }
/// Bytes of AccECN option, padding included, that the next segment carries. `with_data`: it has payload.
std::uint32_t accurate_option_size(const control_block& c, bool with_data) noexcept;
void append_accurate(control_block& c, outgoing_segment& out, bool with_data) noexcept;

} // namespace corewire::tcp
