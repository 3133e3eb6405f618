#include <corewire/net/tcp/accurate_ecn.hh>

#include <corewire/net/tcp/arrives/steps.hh>
#include <corewire/net/tcp/linux_accurate_ecn.hh>
#include <corewire/net/tcp/send/header.hh>

#include <optional>

namespace corewire::tcp {

namespace {

using wire::ecn_codepoint;

constexpr std::uint32_t counter_mask = 0xffffff; ///< of an option's fields
constexpr unsigned ace_mask = 7;
constexpr unsigned options_enough = 2;     ///< that got lost with their ACKs: not by chance
constexpr std::uint16_t usual_cover = 2 * 64; ///< of an ACK: two packets
constexpr unsigned rounds_of_mangling = 4; ///< in which every packet was marked, from the first one on: no queue does that

void enter(control_block& c, ecn_codepoint handshake) {
    c.ecn.accurate = std::make_unique<accurate_ecn>();
    c.ecn.accurate->handshake = handshake;
    c.ecn.on = true;
    c.ecn.exact = c.sending.congestion->wants_exact_marks();
    c.ecn.reduced_until = c.sending.una - 1;
    c.ecn.accurate->round_end = c.sending.una;
}

/// RFC 3168 18: a field that we sent as Not-ECT arrived as something else. What is ECN-capable would not be safe on this path.
void judge_transition(accurate_ecn& e, unsigned ace) noexcept {
    if (ace == 0b011 || ace == 0b100 || ace == 0b110) e.silent = true;
}

void ask_for_ack(control_block& c) noexcept {
    c.receiving.acks.acknowledge_now();
    c.output_wanted = true;
}

/// By how much a field of an option has grown; nothing if it went back: an older segment.
std::uint32_t growth(std::uint32_t field, std::uint32_t known) noexcept {
    const std::uint32_t d = (field - known) & counter_mask;
    return d > counter_mask / 2 ? 0 : d;
}

/// 3.2.3.2.4: the first option's counters are not zero, unless somebody has zeroed them.
bool was_zeroed(const wire::accurate_ecn_option& o) noexcept {
    return (o.has_e0b() && o.e0b() == 0) || (o.has_e1b() && o.e1b() == 0);
}

/// The byte counters of an option, if it is there and believed. True: `marked` bytes are newly reported with CE, and that is sure.
bool take_option(accurate_ecn& e, const segment& seg, std::uint32_t& marked) noexcept {
    if (!seg.options.has_accurate_ecn() || !e.options_in) return false;
    const wire::accurate_ecn_option& o = seg.options.accurate_ecn;
    if (!e.option_seen && was_zeroed(o)) {
        e.options_in = false;
        return false;
    }
    e.option_seen = true;
    if (o.has_e0b()) e.reported.e0b += growth(o.e0b(), e.reported.e0b);
    if (o.has_e1b()) e.reported.e1b += growth(o.e1b(), e.reported.e1b);
    marked = o.has_ceb() ? growth(o.ceb(), e.reported.ceb) : 0; // what has changed may not be left out (3.2.3.3)
    e.reported.ceb += marked;
    return true;
}

/// 3.2.2.5.2, appendix A.2: ACE has grown by `delta` modulo 8 while about `packets` were acknowledged.
std::uint32_t unwrapped(const accurate_ecn& e, std::uint32_t delta, std::uint32_t packets, bool bytes_known, std::uint32_t marked,
                        std::uint32_t segment) noexcept {
    if (packets <= ace_mask) return delta;
    const std::uint32_t safest = packets - ((packets - delta) & ace_mask);
    if (!bytes_known) return acks_are_thin(e) ? delta : safest; // 3.2.2.5.2: unless it is likely that it has not wrapped
    const std::uint32_t by_bytes = (marked + segment - 1) / segment;
    return by_bytes <= delta ? delta : std::min(safest, by_bytes - ((by_bytes - delta) & ace_mask));
}

/// Whether another segment has superseded what this one says (A.1): it brings nothing forward and is no newer.
bool is_superseded(const control_block& c, const arrival& a, const delivery& d) noexcept {
    const accurate_ecn& e = *c.ecn.accurate;
    if (a.seg.ack < c.sending.una) return true;
    if (a.seg.ack > c.sending.una || d.bytes != 0) return false;
    if (a.size != 0 && a.seq == c.receiving.next) return false;
    if (!c.timestamps || !a.seg.options.has_timestamps()) return true;
    return e.stamped && static_cast<std::int32_t>(a.seg.options.timestamp_value - e.stamp) <= 0;
}

/// 3.2.2.3: everything that we send is fed back with CE, from the first packet on. That is no congestion but a middlebox: ECN ends for what
/// we send, and what is fed back is not responded to. `news`: bytes acknowledged, of which `marks` were marked.
void look_for_continuous_marks(control_block& c, seq_number ack, std::uint32_t news, std::uint32_t marks) noexcept {
    accurate_ecn& e = *c.ecn.accurate;
    if (!e.all_marked || news == 0) return;
    if (marks < news) {
        e.all_marked = false;
        return;
    }
    if (ack <= e.round_end) return;
    e.round_end = c.sending.next;
    if (++e.marked_rounds > rounds_of_mangling) e.silent = e.deaf = true; // the first ends with the first ACK
}

/// That the peer goes on proves nothing: it may have been under way. But it echoes what we sent no earlier than an option, or
/// sends what it was not allowed to before.
bool shows_arrival(const control_block& c, const arrival& a) noexcept {
    const accurate_ecn& e = *c.ecn.accurate;
    if (!c.timestamps) return a.seg.payload_size != 0 && a.seg.seq + a.seg.payload_size > e.allowed;
    return a.seg.options.has_timestamps() && static_cast<std::int32_t>(a.seg.options.timestamp_echo - e.tried_at) >= 0;
}

/// How many fields the next option has, or nothing for none. `room`: bytes.
std::optional<unsigned> option_fields(const control_block& c, bool with_data, std::uint32_t room) noexcept {
    const accurate_ecn& e = *c.ecn.accurate;
    const ecn_counters& now = e.received;
    const bool changed = !now.same_bytes(e.told);
    const bool due = changed || (with_data ? e.owes_data : e.owes_ack); // the simple scheme: when there is news (3.2.3.3)
    if (!due || !e.options_out) return std::nullopt;
    const auto fits = [room](unsigned fields) { return (wire::accurate_ecn_option::size_of(fields) + 3) / 4 * 4 <= room; };
    const ecn_counters fresh;
    const bool first_only = now.e0b == fresh.e0b && now.e1b != fresh.e1b; // order 1 leads with what has changed
    const unsigned wanted = now.e0b != fresh.e0b && now.e1b != fresh.e1b ? 3u : now.ceb != fresh.ceb ? 2u : 1u;
    const bool last_changed = first_only ? now.e0b != e.told.e0b : now.e1b != e.told.e1b;
    const bool front_changed = first_only ? now.e1b != e.told.e1b : now.e0b != e.told.e0b;
    const unsigned least = last_changed ? 3 : now.ceb != e.told.ceb ? 2 : front_changed ? 1 : 0;
    unsigned fields = wanted;
    while (fields > least && !fits(fields)) --fields;
    if (!fits(fields)) return std::nullopt; // a counter that has changed may not be left out: no option, then
    return fields;
}

std::uint32_t room_for_option(const control_block& c) noexcept {
    const std::uint32_t used = c.option_bytes() + sack_option_size(c);
    return static_cast<std::uint32_t>(wire::tcp_options::max_size) - used;
}

} // namespace

// ---- the handshake ----

bool agrees_to_ecn(const parameters& p) noexcept { return p.ecn || p.accurate_ecn; }

bool accepts_classic_offer(const parameters& p, const segment& syn) noexcept {
    if (!agrees_to_ecn(p) || !syn.has(tcp_flags::ece) || !syn.has(tcp_flags::cwr)) return false;
    return !p.like_linux() || syn.ecn == ecn_codepoint::not_ect || syn.has(tcp_flags::ae);
}

bool cookie_tells_of_accurate(const parameters& p, bool noted, unsigned ace) noexcept {
    return p.accurate_ecn && ace >= 2 && noted == p.like_linux();
}

wire::tcp_flags cookie_flags(const parameters& p, const segment& syn, bool remembers) noexcept {
    if (p.accurate_ecn && asks_for_accurate(ace_of(syn.flags))) return handshake_flags(syn.ecn);
    return remembers && accepts_classic_offer(p, syn) ? tcp_flags::ece : tcp_flags::none;
}

wire::tcp_flags ecn_setup_flags(control_block& c) noexcept {
    using enum wire::tcp_flags;
    const bool answer = c.state == tcp_state::syn_received;
    const parameters& p = *c.options;
    if (answer) {
        const bool left_over = p.like_linux() && c.ecn.offered_accurate; // both open: AE of our SYN stays (tcp_ecn_send_synack())
        if (c.ecn.accurate == nullptr && p.like_freebsd() && c.sending.attempts > 1) c.ecn.on = false; // ecn.maxretries
        if (c.ecn.accurate == nullptr) return (c.ecn.on ? ece : none) | (left_over ? ae : none);
        // 3.2.3.2.2: unanswered, it is repeated without the option, and then without the flags, which the peer may take at its word.
        accurate_ecn& e = *c.ecn.accurate;
        if (p.like_linux() && e.answers < 3 && ++e.answers == 3) e.habit.failures |= linux_counters::ace_sent; // whoever asked for it
        if (c.sending.attempts < 2) return handshake_flags(e.handshake);
        e.silent = true;
        return none;
    }
    if (p.accurate_ecn) { // 3.1.4.1: once more with them, and then without. Never classic ECN's in the same handshake (3.1.5)
        if (c.sending.attempts > 1 && p.ecn_fallback) {
            c.ecn.fell_back = true;
            return none;
        }
        c.ecn.offered_accurate = true;
        return ae | cwr | ece;
    }
    // RFC 3168 6.1.1; a SYN that goes unanswered is repeated without, since some middleboxes drop it (6.1.1.1).
    const bool again = p.like_freebsd() ? c.sending.attempts > 1 : c.syn_resent && p.ecn_fallback;
    c.ecn.offered = p.ecn && !again;
    return c.ecn.offered ? ece | cwr : none;
}

void offer_counters(const parameters& p, wire::tcp_options& o) noexcept {
    if (p.like_linux() && p.accurate_ecn_option == 0) return;
    o.set_accurate_ecn({.order_1 = p.like_linux(), .fields = 3, .bytes = {1, 0, 1}});
}

void answer_ecn_offer(control_block& c, const segment& syn) noexcept {
    const unsigned ace = ace_of(syn.flags);
    if (c.options->accurate_ecn && asks_for_accurate(ace)) return enter(c, syn.ecn);
    const bool wanted_anyway = c.sending.congestion->wants_exact_marks(); // DCTCP's SYN is ECN-capable
    // There every offer of classic ECN is agreed to: Linux's, if ours was of some kind.
    const bool both_open = c.options->habits != personality::standard && !c.passive;
    const unsigned mask = c.options->like_freebsd() ? 0b011 : 0b111;
    if (both_open && c.options->like_linux() && !c.ecn.offered && !c.ecn.offered_accurate) return;
    if (accepts_classic_offer(*c.options, syn) || ((wanted_anyway || both_open) && (ace & mask) == 0b011)) begin_ecn(c);
}

void take_ecn_answer(control_block& c, const segment& syn_ack) noexcept {
    const unsigned ace = ace_of(syn_ack.flags);
    if (!c.ecn.offered_accurate) {
        const bool asked = c.ecn.offered || c.options->like_freebsd(); // which takes what it has not asked for
        if (asked && (ace & 0b011) == 0b001) return begin_ecn(c); // RFC 3168 6.1.1
        if (!c.ecn.offered || !c.options->like_linux() || ace == 0 || ace == 0b111) return; // there who answers so is believed (6.18)
        enter(c, syn_ack.ecn);
        return linux_accurate::take_answer(c, syn_ack, ace);
    }
    if (ace == 0b001) return begin_ecn(c);
    if (ace == 0 || ace == 0b111) return; // does not speak ECN, or sends back what it got
    enter(c, syn_ack.ecn);
    if (c.options->like_linux()) return linux_accurate::take_answer(c, syn_ack, ace);
    accurate_ecn& e = *c.ecn.accurate;
    judge_transition(e, ace);
    e.handshake_ack = e.owes_ack = e.owes_data = true;
    if (syn_ack.congestion_seen()) {
        ++e.received.cep;
        e.syn_ack_marked = true;
    }
    std::uint32_t none = 0;
    take_option(e, syn_ack, none);
    c.ack_first = true; // 3.2.2.1: how the SYN-ACK came, before any data
}

void count_syn_data(control_block& c, std::uint32_t bytes) noexcept {
    if (c.options->like_linux()) linux_accurate::count_syn_data(c, bytes);
}

void settle_ecn_handshake(control_block& c, const arrival& a, bool server) noexcept {
    if (c.options->like_linux()) {
        if (server) linux_accurate::settle_server(c, a);
        return;
    }
    accurate_ecn& e = *c.ecn.accurate;
    const unsigned ace = ace_of(a.seg.flags);
    if (server) {
        if (a.seg.length() != 0 || a.seg.options.has_sack()) return; // the counter, as on other segments
        e.first_feedback = false;
        c.ecn.handshake_settled = true;
        std::uint32_t none = 0;
        take_option(e, a.seg, none);
        if (ace == 0) e.silent = e.deaf = true; // table 4, note 1
        judge_transition(e, ace);
        if (ace == 0b110) ++e.reported.cep;
    }
    // Of packets that were not ECN-capable: somebody mangled the field, or there is congestion, and both ask for care.
    if (ace == 0b110 && !e.deaf) reduce_for_mark(c, a.now);
}

bool accept_repeated_offer(control_block& c, const segment& syn) noexcept {
    if (!c.options->accurate_ecn) return true;
    const unsigned ace = ace_of(syn.flags);
    if (c.options->like_linux()) { // whatever comes, the mode stays
        if (c.ecn.accurate != nullptr) linux_accurate::take_repeated_offer(*c.ecn.accurate, syn);
        return true;
    }
    if (c.ecn.accurate == nullptr) return !(c.ecn.on && asks_for_accurate(ace));
    if (ace == 0b011) return false;
    c.ecn.accurate->handshake = syn.ecn; // the latest counts
    if (ace == 0) c.ecn.accurate->silent = true;
    return true;
}

void note_repeated_answer(control_block& c, const arrival& a) noexcept {
    if (c.options->like_linux()) return linux_accurate::note_repeated_answer(c, a.seg);
    if (c.passive || !a.seg.has(tcp_flags::ack) || a.seg.seq != c.irs) return;
    accurate_ecn& e = *c.ecn.accurate;
    e.handshake = a.seg.ecn;
    e.handshake_ack = true;
    if (a.seg.congestion_seen() && !e.syn_ack_marked) ++e.received.cep;
    if (a.seg.congestion_seen()) e.syn_ack_marked = true;
}

// ---- afterwards ----

std::uint16_t mean_cover(std::uint16_t before, std::uint32_t packets, std::uint32_t weight) noexcept {
    if (packets == 0) return before;
    const std::uint32_t mean = before == 0 ? packets * 64 : (before * (weight - 1) + packets * 64) / weight;
    return static_cast<std::uint16_t>(std::min(mean, 0xffffu));
}

void count_arrival(control_block& c, const arrival& a) noexcept {
    accurate_ecn& e = *c.ecn.accurate;
    const std::uint32_t bytes = a.seg.payload_size;
    if (a.seg.ecn != ecn_codepoint::not_ect) c.ecn.seen = true;
    if (c.options->like_linux()) return linux_accurate::count_arrival(c, a);
    if (e.on_trial && shows_arrival(c, a)) {
        e.on_trial = false;
        e.vanished = 0;
    }
    switch (a.seg.ecn) {
    case ecn_codepoint::not_ect: break;
    case ecn_codepoint::ect_0: e.received.e0b += bytes; break;
    case ecn_codepoint::ect_1: e.received.e1b += bytes; break;
    case ecn_codepoint::ce:
        ++e.received.cep;
        e.received.ceb += bytes;
        ++e.unsaid_marks;
        break;
    }
    const bool mark = a.seg.congestion_seen();
    const unsigned enough = bytes != 0 || c.receiving.acks.pending() ? 2 : 3;
    if (mark && ((bytes != 0 && !e.after_mark) || e.unsaid_marks >= enough)) ask_for_ack(c);
    e.after_mark = mark;
}

void take_feedback(control_block& c, const arrival& a, const delivery& d) noexcept {
    sender& s = c.sending;
    accurate_ecn& e = *c.ecn.accurate;
    if (c.options->like_linux()) return linux_accurate::take_feedback(c, a, d);
    if (!c.ecn.exact) s.marked = 0; // DCTCP: what SACKs tell of counts with the ACK that follows
    if (is_superseded(c, a, d)) return;
    if (c.timestamps && a.seg.options.has_timestamps()) {
        e.stamp = a.seg.options.timestamp_value;
        e.stamped = true;
    }
    const unsigned ace = ace_of(a.seg.flags);
    if (e.first_feedback && ace == 0) e.silent = e.deaf = true; // 3.2.2.4: zeroed, or the peer knows nothing of it
    e.first_feedback = false;
    std::uint32_t marked = 0;
    const bool bytes_known = take_option(e, a.seg, marked);
    // What SACK told of before is no news; what it tells of now counts once (appendix A.2: newlyAckedPkt).
    const std::uint32_t news = (a.seg.ack > s.una ? a.seg.ack - s.una - s.board.sacked_below(a.seg.ack) : 0) + d.bytes;
    const std::uint32_t packets = (news + s.payload_limit - 1) / s.payload_limit;
    const std::uint32_t delta = (ace - e.reported.cep) & ace_mask;
    e.per_ack = mean_cover(e.per_ack == 0 ? usual_cover : e.per_ack, packets, 8);
    const std::uint32_t count = unwrapped(e, delta, packets, bytes_known, marked, s.payload_limit);
    e.reported.cep += count;
    const bool small = s.small_in_flight(); // more packets than that may have been acknowledged
    if (bytes_known && marked != 0 && count == 0 && !small) e.silent = true; // 3.2.3.2.5: they contradict each other
    if (!bytes_known) marked = std::min(news, count * s.payload_limit); // appendix A.3
    if (bytes_known || !small || count == 0) look_for_continuous_marks(c, a.seg.ack, news, marked);
    if (e.deaf || (marked == 0 && (bytes_known || count == 0))) return;
    s.marked += marked;
    reduce_for_mark(c, a.now, a.seg.ack);
}

void finish_accurate(control_block& c, outgoing_segment& out) noexcept {
    if (wire::has(out.flags, tcp_flags::syn)) return;
    if (c.options->like_linux()) return linux_accurate::finish(c, out);
    accurate_ecn& e = *c.ecn.accurate;
    out.flags &= ~(tcp_flags::ae | tcp_flags::cwr | tcp_flags::ece);
    const bool pure = out.flags == tcp_flags::ack && out.payload_size == 0 && c.receiving.ahead.empty();
    if (e.handshake_ack && pure) {
        out.flags |= handshake_flags(e.handshake);
        e.handshake_ack = false;
    } else {
        out.flags |= ace_flags(e.received.cep);
    }
    e.unsaid_marks = 0;
    if (e.silent) out.special &= outgoing_segment::joined; // else RFC 3168 6.1.4 to 6.1.6 still hold: new data alone
}

void suspect_options(control_block& c) noexcept {
    if (c.options->like_linux()) return;
    accurate_ecn& e = *c.ecn.accurate;
    if (c.sending.bytes_acked() == 0 && !e.owes_data) e.options_out = false; // the first data carried one, and nothing was heard
}

void suspect_ack(control_block& c, const arrival& a, seq_number begin) noexcept {
    accurate_ecn& e = *c.ecn.accurate;
    if (c.options->like_linux()) return linux_accurate::suspect_lost_option(c, begin);
    const bool keepalive = a.seg.payload_size <= 1;
    if (!e.on_trial || keepalive || begin >= e.tried_up_to || (c.timestamps && shows_arrival(c, a))) return;
    e.on_trial = false;
    if (++e.vanished >= options_enough) e.options_out = false;
}

std::uint32_t accurate_option_size(const control_block& c, bool with_data) noexcept {
    if (c.options->like_linux()) return linux_accurate::plan_option(c, sack_blocks(c)).size;
    const auto fields = option_fields(c, with_data, room_for_option(c));
    return fields ? static_cast<std::uint32_t>((wire::accurate_ecn_option::size_of(*fields) + 3) / 4 * 4) : 0;
}

void append_accurate(control_block& c, outgoing_segment& out, bool with_data) noexcept {
    if (c.options->like_linux()) return linux_accurate::append_option(c, out);
    const auto fields = option_fields(c, with_data, room_for_option(c));
    accurate_ecn& e = *c.ecn.accurate;
    if (!fields) return;
    if (!e.on_trial) {
        e.allowed = c.receiving.next + c.receiving.room();
        if (c.timestamps) e.tried_at = load_be32(out.options.data() + 4);
    }
    e.on_trial = true;
    e.tried_up_to = c.receiving.next;
    const ecn_counters& n = e.received;
    const ecn_counters fresh;
    wire::accurate_ecn_option o{.order_1 = n.e0b == fresh.e0b && n.e1b != fresh.e1b, .fields = static_cast<std::uint8_t>(*fields)};
    o.bytes = {o.order_1 ? n.e1b : n.e0b, n.ceb, o.order_1 ? n.e0b : n.e1b};
    std::size_t size = o.emit(out.options.data() + out.option_size);
    while (size % 4 != 0) out.options[out.option_size + size++] = std::byte{1}; // no-operation
    out.option_size = static_cast<std::uint8_t>(out.option_size + size);
    e.told = n;
    (with_data ? e.owes_data : e.owes_ack) = false;
}

} // namespace corewire::tcp
