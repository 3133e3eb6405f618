#include <corewire/net/tcp/send/path_search.hh>

#include <corewire/net/tcp/send/header.hh>
#include <corewire/net/tcp/send/loss.hh>

namespace corewire::tcp {

namespace {

constexpr std::uint32_t followers = 4;      ///< full-sized segments behind a probe: their SACKs tell that it was lost (RFC 4821 7.4)
constexpr std::uint32_t least_window = 11;  ///< segments of cwnd: a lost probe must not empty the pipe
constexpr std::uint8_t most_misses = 3;     ///< inconclusive probes of one size in a row: it counts as lost (RFC 8899 5.1.2 MAX_PROBES)

/// The base size; never more than what was agreed on.
std::uint16_t base_size(const parameters& p, bool timestamps, std::uint16_t most) noexcept {
    const std::uint32_t base = p.mtu_probing_base + wire::tcp_options::usual_size(timestamps);
    return static_cast<std::uint16_t>(std::min<std::uint32_t>(base, most));
}

/// What a black hole makes of `low`: half, at most the base, at least the floor.
std::uint16_t halved(const parameters& p, std::uint16_t low, std::uint32_t options) noexcept {
    const std::uint32_t payload = low - std::min<std::uint32_t>(low, options);
    const std::uint32_t half = std::max<std::uint32_t>(std::min<std::uint32_t>(payload / 2, p.mtu_probing_base), p.mtu_probing_floor);
    return static_cast<std::uint16_t>(std::min<std::uint32_t>(half + options, low));
}

path_search& search_of(sender& s) {
    std::unique_ptr<path_search>& path = s.need().path;
    if (path == nullptr) {
        path = std::make_unique<path_search>();
        path->low = path->high = path->ceiling = s.mss;
    }
    return *path;
}

void use_size(control_block& c, std::uint16_t size) noexcept {
    sender& s = c.sending;
    if (c.options->like_linux()) s.keep_sizes();
    s.set_mss(std::max(size, c.options->least_segment), c.timestamps);
    if (!c.options->like_linux()) return s.congestion.own().set_mss(s.mss);
    s.congestion.own().resize(s.payload_limit); // as many segments as before
    s.fit_window(c.timestamps);
}

/// Linux's habit: a probe that got through leaves the window as many bytes, and whole segments (tcp_mtup_probe_success()).
void use_probed_size(control_block& c, std::uint16_t size) noexcept {
    constexpr std::uint64_t headers = 40;
    sender& s = c.sending;
    const std::uint64_t packets = s.congestion->cwnd() / s.payload_limit * (s.mss + headers) / (size + headers);
    use_size(c, size);
    s.congestion.own().limit(static_cast<std::uint32_t>(packets) * s.payload_limit);
}

/// Of [left, right), which left in segments of `full` bytes and one of what remained, those larger than `limit` are lost; where all that
/// was one packet, it is lost as a whole.
void lose_larger_among(scoreboard& board, seq_number left, seq_number right, std::uint32_t full, std::uint32_t limit, bool whole) {
    const std::uint32_t rest = whole && full > limit && right - left > full ? 0 : (right - left) % full;
    if (full > limit && right - rest > left) board.lose_between(left, right - rest);
    if (rest > limit) board.lose_between(right - rest, right);
}

/// Linux's habit: what is small enough flies on (tcp_simple_retransmit()). False: all of it is.
bool lose_larger(sender& s, std::uint32_t full, std::uint32_t limit, bool packets) {
    const ring<sent_end>& ends = s.known().ends;
    seq_number at = s.una == s.iss ? s.iss + 1 : s.una; // a SYN-ACK is no data
    for (std::uint32_t i = 0; i < ends.size(); ++i) {
        if (ends[i].end <= at) continue;
        lose_larger_among(s.board, at, ends[i].end, ends[i].size != 0 ? ends[i].size : full, limit, packets);
        at = ends[i].end;
    }
    lose_larger_among(s.board, at, s.max, full, limit, false);
    return s.board.has_lost();
}

/// What is marked lost is resent at once; the network was not congested.
void resend_without_blame(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    s.repair = recovery{.phase = recovery_phase::timeout, .point = s.max, .resend_at_once = !c.options->like_linux(),
                        .by_numbers = c.options->like_freebsd()};
    s.need().reduction = {};
    s.need().undo = {};
    if (s.board.rate() != nullptr) s.board.rate()->fresh_losses().clear();
    s.settle_at(never);
    s.timing = false;
    c.probe_wanted = false;
    c.predictable = prediction::none;
    c.output_wanted = true;
    if (is_synchronized(c.state)) arm_retransmission(c, now); // else the SYN-ACK has the timer
}

/// RFC 1191 6.3, RFC 8201 4, RFC 8899 5.1.1: the path may become better, and in ten minutes one segment as large as before tells. FreeBSD
/// keeps what it has.
void plan_return(control_block& c, time_point now) {
    sender& s = c.sending;
    if (c.options->like_freebsd() || !is_synchronized(c.state)) return;
    path_search& p = search_of(s);
    p.since = now;
    if (s.searching) return;
    s.searching = p.revisits = true;
    p.low = p.high = p.ceiling = s.mss;
    p.misses = 0;
    p.halving = false;
}

/// RFC 1191 6.5: what was too large is sent again in smaller pieces.
event cut(control_block& c, time_point now, std::uint16_t size) noexcept {
    sender& s = c.sending;
    const std::uint32_t full = s.payload_limit;
    plan_return(c, now);
    shrink_segments(c, size);
    const bool early = c.options->like_linux() && c.fast_open.get().serving; // RFC 7413
    if ((!is_synchronized(c.state) && !early) || s.next == s.una) return event::path_mtu_fell;
    if (!c.options->like_linux()) s.board.lose_everything(s.sack);
    else if (!lose_larger(s, full, s.payload_limit, c.options->super_segments.on)) return event::path_mtu_fell;
    resend_without_blame(c, now);
    return event::path_mtu_fell;
}

/// The probe did not get through. RFC 8899 5.1.4: the next one is smaller.
void lose_probe(control_block& c, std::uint16_t most, time_point now) noexcept {
    sender& s = c.sending;
    path_search& p = *s.search();
    ++c.count->path_probes_lost;
    p.high = std::max(most, p.low);
    p.probe = 0;
    p.misses = 0;
    s.board.lose_between(p.start, p.end); // what is before it is on its way
    const bool nothing_else = s.repair.phase == recovery_phase::open; // else this window's reduction has been made
    resend_without_blame(c, now);
    s.repair.blameless = nothing_else && !c.options->like_linux();
}

/// What `size` did not prove. Where a report made segments smaller nothing between is tried: a path that is as it was takes no more.
std::uint16_t below(const path_search& p, std::uint16_t size) noexcept {
    return p.revisits ? p.low : std::max(static_cast<std::uint16_t>(size - 1), p.low);
}

/// The size to try next: the first time all of it, then by halves. Linux's habit: by halves from the beginning.
std::uint16_t next_size(const path_search& p, const parameters& o) noexcept {
    if (p.revisits || (!o.like_linux() && p.high == p.ceiling && !p.halving)) return p.high;
    return static_cast<std::uint16_t>((p.low + p.high + (o.like_linux() ? 0 : 1)) / 2);
}

} // namespace

void shrink_segments(control_block& c, std::uint16_t size) noexcept {
    if (path_search* const p = c.sending.search(); p != nullptr) {
        p->high = std::min(p->high, size);
        p->low = std::min(p->low, size);
        p->probe = 0;
        p->report_waits = false;
    }
    use_size(c, size);
}

void begin_path_search(sender& s, const parameters& p, bool timestamps, bool passive, time_point now) noexcept {
    if (p.mtu_probing != path_probing::always) return;
    path_search& search = search_of(s);
    search.low = base_size(p, timestamps, s.mss);
    search.high = search.ceiling = s.mss;
    search.since = now;
    s.searching = true;
    if (!p.like_linux()) s.set_mss(search.low, timestamps);
    else if (!passive) s.set_mss(base_size(p, p.timestamps, s.mss), timestamps); // as its SYN had them
}

void fit_to_window(control_block& c) noexcept {
    sender& s = c.sending;
    if (s.searching) s.mss = std::min(s.mss, std::max(s.search()->low, c.options->least_segment));
    s.fit_window(c.timestamps);
}

namespace {

/// Linux's habit: after ten minutes a report counts no more, and all segments are as before (ip_rt_mtu_expires, tcp_current_mss()).
void forget_report(control_block& c, time_point now) noexcept {
    path_search& p = *c.sending.search();
    if (now - p.since < std::chrono::minutes{10}) return;
    c.sending.searching = p.revisits = false;
    use_size(c, p.ceiling);
}

} // namespace

probe_plan plan_probe(control_block& c, time_point now, std::uint32_t& payload) noexcept {
    const sender& s = c.sending;
    const receiver& r = c.receiving;
    path_search& p = *s.search();
    if (p.revisits && c.options->like_linux()) {
        forget_report(c, now);
        return probe_plan::none;
    }
    const std::uint32_t segment = c.options->like_linux() ? s.payload_limit : s.mss; // as cwnd counts them
    if (p.probe != 0 || s.repairing() || r.has_duplicate || !r.ahead.empty() || s.congestion->cwnd() < least_window * segment) {
        return probe_plan::none;
    }
    if (p.high - p.low < c.options->mtu_probing_threshold) {
        if (now - p.since < c.options->mtu_probing_interval) return probe_plan::none;
        p.since = now; // RFC 8899 5.1.1: PMTU_RAISE_TIMER
        p.low = s.mss;
        p.high = p.ceiling;
        p.halving = false;
        return probe_plan::none;
    }
    const std::uint16_t size = next_size(p, *c.options);
    payload = size - c.option_bytes() - (s.payload_limit - payload_limit(c));
    p.wanted = size;
    const std::uint32_t needed = payload + followers * s.payload_limit;
    if (s.queue.end() - s.next < needed || s.fin_sent() || s.window < needed) return probe_plan::none;
    if (s.usable_window() < static_cast<std::int32_t>(needed)) return probe_plan::wait_window;
    const std::uint32_t flight = s.in_flight(*c.options);
    const std::uint32_t room = c.options->like_linux() ? 2 * segment : std::max(payload, 2 * segment); // RFC 4821 7.4
    if (flight + room > s.congestion->cwnd()) return flight == 0 ? probe_plan::none : probe_plan::wait_cwnd;
    return probe_plan::send;
}

void probe_sent(control_block& c, seq_number start, seq_number end) noexcept {
    path_search& p = *c.sending.search();
    p.start = start;
    p.end = end;
    p.probe = p.wanted;
    c.predictable = prediction::none;
    ++c.count->path_probes;
    if (!c.options->like_linux()) return;
    sender& s = c.sending; // the window makes room for what it is longer, as it counts as one segment
    s.keep_size(end, end - start);
    s.congestion.own().limit(s.congestion->cwnd() - std::min(s.congestion->cwnd(), s.payload_limit));
}

void path_search_acknowledged(control_block& c) noexcept {
    path_search& p = *c.sending.search();
    if (p.probe == 0 || c.sending.una < p.end) return;
    p.low = std::max(p.low, p.probe);
    p.probe = 0;
    p.misses = 0;
    if (c.options->like_linux()) use_probed_size(c, p.low);
    else use_size(c, p.low);
}

bool probe_was_lost(control_block& c, time_point now) noexcept {
    const sender& s = c.sending;
    path_search& p = *s.search();
    if (p.probe == 0 || s.una != p.start || s.board.lost() > p.end - p.start) return false;
    p.halving = true;
    lose_probe(c, below(p, p.probe), now);
    return true;
}

void probe_is_inconclusive(control_block& c) noexcept {
    path_search& p = *c.sending.search();
    if (p.probe == 0) return;
    if (++p.misses >= most_misses) {
        p.high = below(p, p.probe);
        p.halving = true;
        p.misses = 0;
        ++c.count->path_probes_lost;
    }
    p.probe = 0;
}

namespace {

/// FreeBSD's habit: its own SYN, which counts as the least segment that every host takes, goes again and asks for less; to its SYN cache
/// this is nothing.
void report_early(control_block& c, std::uint16_t size) noexcept {
    constexpr std::uint16_t least = 536; // net.inet.tcp.mssdflt
    if (c.state != tcp_state::syn_sent || size >= least) return;
    c.options.set(&parameters::mss, std::max(size, c.options->least_segment));
    c.sending.timing = false;
    c.syn_wanted = c.syn_resent = c.output_wanted = true;
}

} // namespace

void ask_for_less(control_block& c) noexcept {
    path_search* const p = c.sending.search();
    if (c.state == tcp_state::syn_sent && p != nullptr) p->asked = p->report;
}

std::uint16_t asked_size(const control_block& c) noexcept {
    const path_search* const p = c.sending.search();
    return p == nullptr || p->asked == 0 ? c.options->mss : std::min(p->asked, c.options->mss);
}

event take_mtu_report(control_block& c, time_point now, std::uint16_t size, seq_number seq) noexcept {
    sender& s = c.sending;
    // RFC 5927 4.1, 7.2: it must speak of something that is in flight, and of a size that was sent.
    if (c.state == tcp_state::closed || !(s.una <= seq && seq < s.max)) return event::none;
    if (c.state == tcp_state::syn_sent && c.options->like_linux() && size < c.options->mss) { // counts when the peer has named its size
        path_search& early = search_of(s);
        early.report = early.report == 0 ? size : std::min(early.report, size);
    }
    if (c.options->like_freebsd() && !is_synchronized(c.state)) {
        report_early(c, size);
        return event::none;
    }
    path_search* const probing = s.search();
    if (probing != nullptr && probing->probe > size && size >= s.mss && seq - probing->start < probing->end - probing->start) {
        probing->halving = true; // RFC 8899 4.6.2: the probe was what did not fit
        lose_probe(c, size, now);
        return event::none;
    }
    if (size >= s.mss) return event::none;
    // Segments of a larger size have got through: a router that has changed, or a lie. A time-out will tell (RFC 5927 7.2).
    const bool proven = s.size_acknowledged() && s.largest_sent + c.option_bytes() > size;
    if (c.options->habits != personality::standard || !is_synchronized(c.state) || !proven) return cut(c, now, size);
    path_search& p = search_of(s);
    ++c.count->path_reports_deferred;
    p.report = p.report_waits && p.report_seq >= s.una ? std::min(p.report, size) : size;
    p.report_seq = p.report_waits && p.report_seq >= s.una ? earlier(p.report_seq, seq) : seq;
    p.report_waits = true;
    c.predictable = prediction::none; // until what it speaks of has been acknowledged
    return event::none;
}

event suspect_path(control_block& c, time_point now, bool patience_over) noexcept {
    sender& s = c.sending;
    if (s.search() != nullptr && s.search()->report_waits) {
        s.search()->report_waits = false;
        // What it spoke of has been acknowledged since: a lie. Else the time-out bears it out.
        if (s.una <= s.search()->report_seq && s.search()->report < s.mss) return cut(c, now, s.search()->report);
    }
    if (!patience_over || c.options->mtu_probing == path_probing::off) return event::none;
    const bool fresh = !s.searching || s.search()->revisits;
    const std::uint16_t low = !fresh ? halved(*c.options, s.search()->low, c.option_bytes())
                                     : base_size(*c.options, c.timestamps, s.mss);
    // Where nothing larger is out, its size is not what keeps it from getting through.
    if (!c.options->like_linux() && std::min(s.max - s.una, s.payload_limit) + c.option_bytes() <= low) return event::none;
    path_search& p = search_of(s);
    if (fresh) {
        s.searching = true;
        p.revisits = false;
        p.high = p.ceiling;
        p.since = now;
    }
    p.low = low;
    p.probe = 0;
    p.halving = true;
    if (p.low < s.mss) {
        ++c.count->path_black_holes;
        use_size(c, p.low);
    }
    return event::none;
}

} // namespace corewire::tcp
