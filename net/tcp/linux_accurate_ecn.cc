#include <corewire/net/tcp/linux_accurate_ecn.hh>

#include <corewire/net/tcp/arrives/steps.hh>
#include <corewire/net/tcp/send/header.hh>
#include <corewire/net/tcp/send/super_segments.hh>

#include <algorithm>

namespace corewire::tcp::linux_accurate {

namespace {

using wire::ecn_codepoint;

constexpr std::uint32_t counter_mask = 0xffffff;
constexpr std::uint32_t ace_mask = 7;
constexpr std::uint32_t beacon_bytes = 1u << 22;   ///< the option goes at least so often
constexpr std::uint32_t too_late = (1u << 23) - 1; ///< bytes behind which the first option may have wrapped already
constexpr unsigned most_unsaid = 6;                ///< marks: TCP_ACCECN_ACE_MAX_DELTA

/// What a SYN or SYN-ACK of ours had in its IP header.
ecn_codepoint sent_with(const control_block& c) noexcept {
    return c.sending.congestion->wants_exact_marks() ? ecn_codepoint::ect_0 : ecn_codepoint::not_ect;
}

/// How it arrived, says the peer (tcp_accecn_extract_syn_ect()).
ecn_codepoint arrived_with(unsigned ace) noexcept {
    using enum ecn_codepoint;
    constexpr ecn_codepoint by_ace[] = {ect_0, ect_1, not_ect, ect_1, ect_0, ect_1, ce, ect_1};
    return by_ace[ace & ace_mask];
}

/// tcp_accecn_validate_syn_feedback(): what is not possible is a middlebox's work.
bool believes(control_block& c, unsigned ace) noexcept {
    const ecn_codepoint sent = sent_with(c), came = arrived_with(ace);
    const bool possible = came == sent || (sent != ecn_codepoint::not_ect && came != ecn_codepoint::not_ect);
    if (possible || !c.options->ecn_fallback) return true;
    c.ecn.accurate->habit.failures |= linux_counters::ace_came;
    return false;
}

/// The first options are looked at: those of zeros are somebody else's (tcp_accecn_option_init()). True: this is one of those.
bool look_at_option(accurate_ecn& e, const wire::accurate_ecn_option& o) noexcept {
    linux_counters& h = e.habit;
    if (h.seen >= linux_counters::counters) return false;
    const bool zeroed = (o.fields > 0 && o.bytes[0] == 0) || (o.fields == 3 && o.bytes[2] == 0);
    h.seen = o.fields == 0 ? linux_counters::empty : zeroed ? linux_counters::zeroed : linux_counters::counters;
    return zeroed;
}
void judge_option(accurate_ecn& e, const wire::accurate_ecn_option& o) noexcept {
    if (look_at_option(e, o)) e.habit.failures |= linux_counters::option_came;
}

std::uint32_t& bytes_of(ecn_counters& n, ecn_codepoint p) noexcept {
    return p == ecn_codepoint::ect_0 ? n.e0b : p == ecn_codepoint::ect_1 ? n.e1b : n.ceb;
}

ecn_codepoint codepoint_of(const wire::accurate_ecn_option& o, unsigned field) noexcept {
    if (field == 1) return ecn_codepoint::ce;
    return (field == 0) == o.order_1 ? ecn_codepoint::ect_1 : ecn_codepoint::ect_0;
}

/// Forwards or backwards, modulo 2^24.
std::int32_t change(std::uint32_t field, std::uint32_t known) noexcept {
    return static_cast<std::int32_t>(((field - known) & counter_mask) << 8) >> 8;
}

/// Takes the counters over. True: what has grown is one alone, and was before (tcp_accecn_process_option()).
bool take_counters(accurate_ecn& e, const wire::accurate_ecn_option& o) noexcept {
    linux_counters& h = e.habit;
    const ecn_codepoint expected = h.growing;
    bool sure = expected != ecn_codepoint::not_ect, changed = false, unsure = false;
    for (unsigned i = 0; i < o.fields; ++i) {
        const ecn_codepoint p = codepoint_of(o, i);
        std::uint32_t& known = bytes_of(e.reported, p);
        const std::int32_t by = change(o.bytes[i], known);
        known += static_cast<std::uint32_t>(by);
        if (by < 0) unsure = true;
        if (by == 0 || p == expected) continue;
        if (changed) unsure = true;
        else h.growing = p;
        changed = true;
    }
    if (!unsure) return sure;
    h.growing = ecn_codepoint::not_ect;
    return false;
}

/// Whether the byte counters are known; without an option what grew last is taken to have grown by all that was `delivered`.
bool take_option(control_block& c, const segment& seg, std::uint32_t delivered) noexcept {
    accurate_ecn& e = *c.ecn.accurate;
    linux_counters& h = e.habit;
    if ((h.failures & linux_counters::option_came) != 0) return false;
    if (seg.options.has_accurate_ecn()) {
        judge_option(e, seg.options.accurate_ecn);
        return take_counters(e, seg.options.accurate_ecn);
    }
    if (h.seen == linux_counters::none) {
        if (c.sending.bytes_sent() < too_late) return false;
        h.seen = linux_counters::zeroed;
        h.failures |= linux_counters::option_came;
        return false;
    }
    if (h.growing == ecn_codepoint::not_ect) return false;
    bytes_of(e.reported, h.growing) += delivered;
    return true;
}

/// What this ACK delivered; in segments as they left.
std::uint32_t newly_delivered(const sender& s, seq_number ack, const delivery& d) noexcept {
    const std::uint32_t known = ack > s.una ? s.board.sacked_below(ack) : 0;
    return (ack > s.una ? std::min(ack, s.queue.end()) - s.una - known : 0) + d.bytes;
}

/// tcp_accecn_process(): how many packets were marked, if ACE has grown by `delta` modulo 8 while so many segments, and bytes, were
/// delivered.
std::uint32_t unwrapped(const control_block& c, std::uint32_t delta, std::uint32_t packets, std::uint32_t bytes, bool sure,
                        std::uint32_t marked) noexcept {
    if (packets <= ace_mask) return delta;
    const sender& s = c.sending;
    const std::uint32_t safest = packets - ((packets - delta) & ace_mask);
    if (!sure) return acks_are_thin(*c.ecn.accurate) ? delta : safest;
    if (marked == 0) return delta;
    if (packets >= 2 * (ace_mask + 1) && (s.sack || s.repair.phase == recovery_phase::open)) {
        if (bytes <= marked) return safest;
        const auto share = static_cast<std::uint32_t>((std::uint64_t{marked} * packets + bytes - 1) / bytes);
        return std::min(safest, delta + (share & ~ace_mask));
    }
    if (marked > delta * s.payload_limit) return safest;
    return marked < safest * s.payload_limit / 2 ? delta : safest;
}

/// Whether what is told is newer than what was told before.
bool has_progressed(control_block& c, const arrival& a, const delivery& d) noexcept {
    accurate_ecn& e = *c.ecn.accurate;
    const wire::tcp_options& o = a.seg.options;
    bool newer = false;
    if (c.timestamps && o.has_timestamps()) {
        newer = !e.stamped || static_cast<std::int32_t>(o.timestamp_value - e.stamp) > 0;
        if (newer) e.stamp = o.timestamp_value;
        e.stamped = true;
    }
    return a.seg.ack > c.sending.una || d.bytes != 0 || newer;
}

void count(accurate_ecn& e, ecn_codepoint came, std::uint32_t bytes) noexcept {
    linux_counters& h = e.habit;
    if (came == ecn_codepoint::ce) {
        ++e.received.cep;
        e.unsaid_marks = static_cast<std::uint8_t>(std::min(e.unsaid_marks + 1, 15));
    }
    if (came == ecn_codepoint::not_ect || bytes == 0) return;
    std::uint32_t& counter = bytes_of(e.received, came);
    const std::uint32_t before = counter;
    counter += bytes;
    const std::uint8_t field = came == ecn_codepoint::ect_1 ? 1 : came == ecn_codepoint::ce ? 2 : 3;
    h.least_fields = std::max(h.least_fields, field);
    if ((before ^ counter) >= beacon_bytes) h.demand = std::max<std::uint8_t>(h.demand, 1);
}

/// The ACK that is due does not wait; or the next one does not, if none is (ICSK_ACK_NOW).
void hurry(control_block& c, const arrival& a) noexcept {
    c.ecn.accurate->habit.hurried = true;
    ack_policy& acks = c.receiving.acks;
    if (a.seg.payload_size == 0 && !a.fin && !acks.pending()) return;
    acks.acknowledge_now();
    c.output_wanted = true;
}

bool option_is_due(const control_block& c) noexcept {
    const linux_counters& h = c.ecn.accurate->habit;
    const parameters& p = *c.options;
    if (p.accurate_ecn_option == 0 || h.seen == linux_counters::none) return false;
    if (c.state == tcp_state::time_wait) return false; // no socket any more
    if (within_packet(c.sending)) return h.repeats; // what the packet begins with stands in each segment of it
    if (p.accurate_ecn_option < 3 && (h.failures & linux_counters::option_sent) != 0) return false;
    if (p.accurate_ecn_option >= 2 || h.demand != 0) return true;
    return p.accurate_ecn_beacon != 0 && (h.clock - h.told_at) * p.accurate_ecn_beacon >= c.sending.rto.srtt();
}

} // namespace

void take_answer(control_block& c, const segment& syn_ack, unsigned ace) noexcept {
    accurate_ecn& e = *c.ecn.accurate;
    e.handshake_ack = true;
    if (syn_ack.options.has_accurate_ecn()) {
        judge_option(e, syn_ack.options.accurate_ecn);
        e.habit.demand = 2;
    }
    if (!syn_ack.congestion_seen() || (ace != 0b101 && !believes(c, ace))) return; // who asks is asked of marked ones alone
    ++e.received.cep;
    ++e.unsaid_marks;
}

void settle_server(control_block& c, const arrival& a) noexcept {
    accurate_ecn& e = *c.ecn.accurate;
    linux_counters& h = e.habit;
    const unsigned ace = ace_of(a.seg.flags);
    c.ecn.handshake_settled = true;
    if (ace == 0) h.failures |= linux_counters::ace_came | linux_counters::option_came;
    const bool says = ace != 0 && ace != 0b001 && ace != 0b101 && ace != 0b111;
    if (says && a.seg.length() == 0 && !a.seg.options.has_sack() && believes(c, ace) && arrived_with(ace) == ecn_codepoint::ce) {
        e.reported.cep = ecn_counters{}.cep + 1;
    }
    if (c.fast_open.get().early) return; // the SYN made the socket; and this ACK is no progress there
    h.before = e.handshake;
    h.demand = 1;
    if (a.seg.options.has_accurate_ecn()) look_at_option(e, a.seg.options.accurate_ecn); // and is not judged by it
    take_option(c, a.seg, 0);
}

void count_syn_data(control_block& c, std::uint32_t bytes) noexcept {
    accurate_ecn& e = *c.ecn.accurate;
    e.habit.before = e.handshake;
    e.habit.demand = 1;
    count(e, e.handshake, bytes);
}

void take_repeated_offer(accurate_ecn& e, const segment& syn) noexcept {
    e.handshake = syn.ecn;
    if (ace_of(syn.flags) == 0) e.habit.failures |= linux_counters::ace_came;
}

void note_repeated_answer(control_block& c, const segment& syn) noexcept {
    accurate_ecn& e = *c.ecn.accurate;
    e.handshake = syn.ecn;
    e.handshake_ack = true;
    if (!syn.options.has_accurate_ecn() || e.habit.seen >= linux_counters::counters) return;
    judge_option(e, syn.options.accurate_ecn);
    e.habit.demand = 2;
}

void count_arrival(control_block& c, const arrival& a) noexcept {
    accurate_ecn& e = *c.ecn.accurate;
    linux_counters& h = e.habit;
    const ecn_codepoint came = a.seg.ecn;
    h.clock = a.now;
    count(e, came, a.seg.payload_size);
    const bool edge = came != h.before;
    if (edge || came == ecn_codepoint::ce) h.demand = 2;
    h.before = came;
    if (edge || h.hurried) hurry(c, a);
}

void take_feedback(control_block& c, const arrival& a, const delivery& d) noexcept {
    sender& s = c.sending;
    accurate_ecn& e = *c.ecn.accurate;
    s.marked = 0;
    if (a.seg.ack < s.una || !has_progressed(c, a, d)) return;
    const std::uint32_t before = e.reported.ceb;
    const std::uint32_t bytes = newly_delivered(s, a.seg.ack, d);
    const bool sure = take_option(c, a.seg, bytes);
    const std::uint32_t segments = d.counted / std::max(s.payload_limit, 1u);
    e.per_ack = mean_cover(e.per_ack, segments, 64);
    if (e.unsaid_marks >= most_unsaid) hurry(c, a);
    const std::uint32_t delta = (ace_of(a.seg.flags) - e.reported.cep) & ace_mask;
    const std::uint32_t count = unwrapped(c, delta, segments, bytes, sure, e.reported.ceb - before);
    if (count == 0) return;
    e.reported.cep += count;
    s.marked = count * s.payload_limit;
    reduce_for_mark(c, a.now, a.seg.ack);
}

void finish(control_block& c, outgoing_segment& out) noexcept {
    accurate_ecn& e = *c.ecn.accurate;
    out.flags &= ~(tcp_flags::ae | tcp_flags::cwr | tcp_flags::ece);
    out.special = 0; // a TUN device does not cut such packets: each segment is one
    if (!wire::has(out.flags, tcp_flags::ack)) return; // a reset to a stranger
    constexpr unsigned silent = linux_counters::ace_sent | linux_counters::ace_came;
    const bool capable = (e.habit.failures & silent) == 0;
    if (c.state == tcp_state::time_wait) { // the counter is gone, and what answers something out of place is not ECN-capable
        if (capable && !e.habit.out_of_place) out.special = outgoing_segment::ect;
        e.habit.out_of_place = false;
        return;
    }
    const bool pure = out.flags == tcp_flags::ack && out.payload_size == 0;
    if (e.handshake_ack && pure) {
        out.flags |= handshake_flags(e.handshake);
    } else {
        out.flags |= ace_flags(e.received.cep);
        e.unsaid_marks = 0;
    }
    e.handshake_ack = e.habit.hurried = false;
    if (capable) out.special = outgoing_segment::ect; // retransmissions and pure ACKs, too
}

void suspect_lost_option(control_block& c, seq_number begin) noexcept {
    linux_counters& h = c.ecn.accurate->habit;
    if (h.told_duplicate && c.receiving.duplicate.left == begin) h.failures |= linux_counters::option_sent;
}

option_plan plan_option(const control_block& c, std::uint32_t blocks) noexcept {
    option_plan plan{.blocks = blocks};
    if (!option_is_due(c)) return plan;
    const unsigned least = c.ecn.accurate->habit.least_fields;
    const std::uint32_t stamps = c.option_bytes();
    const std::uint32_t spare = blocks != 0 ? 2 : 0; // SACK's padding
    for (std::uint32_t left = blocks;; --left) { // tcp_options_fit_accecn()
        const std::uint32_t room = static_cast<std::uint32_t>(wire::tcp_options::max_size) - stamps - (left != 0 ? 4 + 8 * left : 0);
        for (unsigned fields = 3;; --fields) {
            const auto size = static_cast<std::uint32_t>(wire::accurate_ecn_option::size_of(fields));
            const std::uint32_t grows = (size & 3) > spare ? (size + 3) & ~3u : size & ~3u;
            if (grows <= room) return {fields, grows, left};
            if (fields == least) break;
        }
        if (left <= 2 || least == 0) return plan;
    }
}

void append_option(control_block& c, outgoing_segment& out) noexcept {
    accurate_ecn& e = *c.ecn.accurate;
    linux_counters& h = e.habit;
    const std::uint32_t blocks = sack_option_size(c) == 0 ? 0 : (sack_option_size(c) - 4) / 8;
    const option_plan plan = plan_option(c, blocks);
    h.told_duplicate = plan.fields && c.receiving.has_duplicate;
    h.repeats = plan.fields.has_value();
    if (!plan.fields) return;
    const ecn_counters& n = e.received;
    const wire::accurate_ecn_option o{.order_1 = true, .fields = static_cast<std::uint8_t>(*plan.fields), .bytes = {n.e1b, n.ceb, n.e0b}};
    std::size_t size = out.option_size + o.emit(out.options.data() + out.option_size);
    while (size % 4 != (blocks != 0 ? 2 : 0)) out.options[size++] = std::byte{1}; // no-operation
    out.option_size = static_cast<std::uint8_t>(size);
    h.least_fields = 0;
    h.told_at = h.clock;
    if (h.demand != 0 && !within_packet(c.sending)) --h.demand;
}

} // namespace corewire::tcp::linux_accurate
