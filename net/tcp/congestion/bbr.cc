// The state machine of BBR, and what follows for pace and window. Sections are those of draft-ietf-ccwg-bbr-06.
#include <corewire/net/tcp/congestion/bbr.hh>

#include <corewire/net/tcp/send/pacer.hh>
#include <corewire/reactor/base/assert.hh>

#include <algorithm>
#include <chrono>

namespace corewire::tcp {

namespace {

using namespace std::chrono_literals;

constexpr double startup_gain = 2.77;            // StartupPacingGain: 4 ln 2
constexpr double margin = 0.99;                  // PacingMarginPercent: a little below, so that queues drain
constexpr double headroom = 0.15;                // Headroom
constexpr std::uint32_t most_rounds = 63;        // between probes, for Reno's sake (5.3.3.8.2)
constexpr std::uint32_t startup_losses = 6;      // BBRStartupFullLossCnt
constexpr std::uint32_t rounds_of_drain = 3;
constexpr duration min_rtt_memory = 10s;         // MinRTTFilterLen
constexpr duration probe_rtt_interval = 5s;      // ProbeRTTInterval
constexpr duration probe_rtt_time = 200ms;       // ProbeRTTDuration
constexpr double probe_rtt_gain = 0.5;           // ProbeRTTCwndGain

/// IsInflightTooHigh() of 5.5.10.2.
bool too_much_lost(std::uint32_t lost, std::uint32_t flight, bool selective) noexcept {
    return lost > flight * bbr_model::loss_threshold || (lost != 0 && !selective);
}

/// InflightAtLoss() of 5.5.10.2: at what volume, somewhere within the burst that was lost, the threshold was passed.
std::uint32_t inflight_at_loss(const loss_sample& l) noexcept {
    const double before = static_cast<double>(l.flight_at_send) - l.size;
    const double lost_before = static_cast<double>(l.lost) - l.size;
    const double prefix = (bbr_model::loss_threshold * before - lost_before) / (1 - bbr_model::loss_threshold);
    return static_cast<std::uint32_t>(std::clamp(before + prefix, 0.0, static_cast<double>(largest_window)));
}

} // namespace

// ---- 5.2: what happens, and the steps that follow ----

bbr::bbr(std::uint32_t mss) : congestion_controller(mss), data_(std::make_unique<everything>()) {
    cwnd_ = initial_window(mss);
    repairs_itself_ = samples_rate_ = true;
    pacing_rate_ = static_cast<std::uint64_t>(startup_gain * cwnd_ * 1000); // as if of 1 ms, until one is known (5.6.2)
}

/// 5.6.2, InitPacingRate().
void bbr::on_round_trip(duration srtt) noexcept {
    if (data_->rtt_seen || srtt <= duration{0}) return;
    data_->rtt_seen = true;
    if (data_->path.max_bw() != 0) return;
    const double rate = startup_gain * cwnd_ / std::chrono::duration<double>(srtt).count();
    pacing_rate_ = std::max<std::uint64_t>(static_cast<std::uint64_t>(rate), 1);
}

void bbr::on_sample(const rate_sample& s) noexcept {
    bbr_model& m = data_->path;
    total_ = s.total;
    data_->recovering = s.repairing;
    if (m.min_rtt_at == time_point{}) m.min_rtt_at = data_->probe_rtt_min_at = m.aggregation_start = s.now; // OnInit()
    m.take_latest(s);
    take_congestion(s);
    m.take_aggregation(s, cwnd_);
    m.look_for_plateau(s);
    check_startup(s);
    check_drain(s);
    advance_cycle(s);
    take_round_trip(s);
    check_probe_rtt(s);
    m.advance_latest(s);
    m.bound();
    set_pace(pacing_gain());
    set_window(s);
}

/// UpdateCongestionSignals() of 5.5.10.3.
void bbr::take_congestion(const rate_sample& s) noexcept {
    bbr_model& m = data_->path;
    m.take_rate(s);
    if (m.round_start) ++data_->rounds_since_probe;
    if (!m.loss_round_start) return;
    if (m.loss_in_round && !accelerates()) m.lower_bounds(cwnd_);
    m.loss_in_round = false;
}

// ---- 5.3.1, 5.3.2: Startup and Drain ----

/// CheckStartupDone(), CheckStartupHighLoss().
void bbr::check_startup(const rate_sample& s) noexcept {
    bbr_model& m = data_->path;
    if (!m.full_bw_reached && m.losses_in_round != 0 && s.recovering) {
        const bool many = m.loss_round_start && m.losses_in_round >= startup_losses && too_much_lost(s.lost, s.flight_at_send, true);
        if (many || !s.selective) { // without SACK no more than one loss a round trip is ever seen
            data_->undo_to_startup = true;
            m.full_bw_reached = true;
            const std::uint64_t volume = std::max<std::uint64_t>(m.product(m.max_bw(), 1), m.inflight_latest);
            m.inflight_longterm = static_cast<std::uint32_t>(std::min<std::uint64_t>(volume, largest_window));
        }
    }
    if (m.loss_round_start) m.losses_in_round = 0;
    if (data_->state == phase::startup && m.full_bw_reached) enter_drain();
}

void bbr::enter_drain() noexcept {
    data_->state = phase::drain;
    data_->drain_start_round = data_->path.round_count;
}

/// CheckDrainDone().
void bbr::check_drain(const rate_sample& s) noexcept {
    const bbr_model& m = data_->path;
    if (data_->state != phase::drain) return;
    if (s.in_flight <= inflight(m.bw, 1) || m.round_count > data_->drain_start_round + rounds_of_drain) enter_down(s.now, s.total);
}

// ---- 5.3.3: ProbeBW ----

void bbr::enter_down(time_point now, std::uint64_t total) noexcept {
    data_->path.reset_signals();
    data_->acked_per_step = bbr_model::any_volume; // inflight_longterm does not grow
    data_->rounds_since_probe = random(now) & 1;   // PickProbeWait()
    data_->probe_wait = 2s + std::chrono::microseconds{(random(now) >> 1) % 1'000'000};
    data_->cycle_start = now;
    data_->ack_phase = acks::probe_stopping;
    data_->path.start_round(total);
    data_->state = phase::down;
}

void bbr::enter_refill(std::uint64_t total) noexcept {
    data_->path.reset_shortterm();
    data_->probe_up_rounds = 0;
    data_->probe_up_acked = 0;
    data_->probe_precautionary = false;
    data_->ack_phase = acks::refilling;
    data_->path.start_round(total);
    data_->state = phase::refill;
}

void bbr::enter_up(const rate_sample& s) noexcept {
    data_->ack_phase = acks::probe_starting;
    data_->path.start_round(s.total);
    data_->path.reset_full();
    data_->path.full_bw = s.rate;
    data_->state = phase::up;
    raise_slope();
}

/// UpdateProbeBWCyclePhase().
void bbr::advance_cycle(const rate_sample& s) noexcept {
    if (!data_->path.full_bw_reached || adapt_longterm(s)) return;
    switch (data_->state) {
    case phase::down:
        if (!time_to_probe(s) && time_to_cruise(s)) data_->state = phase::cruise;
        break;
    case phase::cruise: time_to_probe(s); break;
    case phase::refill:
        if (!data_->path.round_start) break;
        data_->probe_sample = true;
        enter_up(s);
        break;
    case phase::up:
        if (!time_to_go_down(s)) break;
        data_->probe_too_high = false; // not yet
        enter_down(s.now, s.total);
        break;
    case phase::startup:
    case phase::drain:
    case phase::probe_rtt: break;
    }
}

/// IsTimeToProbeBW(): after two or three seconds, or as many rounds as Reno would need to grow by as much.
bool bbr::time_to_probe(const rate_sample& s) noexcept {
    const bool waited = s.now > data_->cycle_start + data_->probe_wait;
    // Two at least: the round in which the last probe's samples come has to end, however short the path is.
    if (!waited && data_->rounds_since_probe < std::clamp(target_inflight() / mss_, 2u, most_rounds)) return false;
    enter_refill(s.total);
    return true;
}

bool bbr::time_to_cruise(const rate_sample& s) const noexcept {
    return s.in_flight <= with_headroom() && s.in_flight <= inflight(data_->path.max_bw(), 1);
}

bool bbr::time_to_go_down(const rate_sample& s) noexcept {
    bbr_model& m = data_->path;
    // 5.3.3.6: a short one after one that went too far. What this ACK delivered flew until now: less than the bound flies afterwards.
    if (data_->probe_too_high && std::uint64_t{s.in_flight} + s.newly_acked >= m.inflight_longterm) {
        data_->probe_precautionary = true;
        return true;
    }
    if (s.window_limited && cwnd_ >= m.inflight_longterm) { // that is the limit, and not the path
        m.reset_full();
        m.full_bw = s.rate;
        return false;
    }
    return m.full_bw_now;
}

/// AdaptLongTermModel(). True: it has moved to another state.
bool bbr::adapt_longterm(const rate_sample& s) noexcept {
    bbr_model& m = data_->path;
    if (data_->ack_phase == acks::probe_starting && m.round_start) data_->ack_phase = acks::probe_feedback;
    if (data_->ack_phase == acks::probe_stopping && m.round_start) { // the last sample of that probe
        data_->probe_sample = false;
        data_->ack_phase = acks::init;
        if (probes_bandwidth() && !s.app_limited) m.next_cycle();
        if (probes_bandwidth() && data_->probe_precautionary && !data_->probe_too_high) { // it did no harm: once more, and longer
            enter_refill(s.total);
            return true;
        }
    }
    if (m.inflight_longterm == bbr_model::any_volume || too_much_lost(s.lost, s.flight_at_send, s.selective)) return false;
    m.inflight_longterm = std::max(m.inflight_longterm, s.flight_at_send);
    if (data_->state == phase::up) raise_longterm(s);
    return false;
}

/// ProbeInflightLongtermUpward(): by 1, 2, 4, ... segments in successive rounds.
void bbr::raise_longterm(const rate_sample& s) noexcept {
    bbr_model& m = data_->path;
    if (!s.window_limited || cwnd_ < m.inflight_longterm) return;
    data_->probe_up_acked += s.newly_acked;
    const std::uint32_t steps = data_->probe_up_acked / data_->acked_per_step;
    data_->probe_up_acked -= steps * data_->acked_per_step;
    const std::uint64_t raised = std::uint64_t{m.inflight_longterm} + std::uint64_t{steps} * mss_;
    m.inflight_longterm = static_cast<std::uint32_t>(std::min<std::uint64_t>(raised, largest_window));
    if (m.round_start) raise_slope();
}

void bbr::raise_slope() noexcept {
    const std::uint32_t growth = 1u << data_->probe_up_rounds;
    data_->probe_up_rounds = static_cast<std::uint8_t>(std::min(data_->probe_up_rounds + 1, 30));
    data_->acked_per_step = std::max(cwnd_ / growth, mss_);
}

// ---- 5.3.4: ProbeRTT ----

/// UpdateMinRTT().
void bbr::take_round_trip(const rate_sample& s) noexcept {
    bbr_model& m = data_->path;
    data_->probe_rtt_expired = s.now > data_->probe_rtt_min_at + probe_rtt_interval;
    if (s.rtt >= duration{0} && (s.rtt < data_->probe_rtt_min || data_->probe_rtt_expired)) {
        data_->probe_rtt_min = std::max(s.rtt, duration{1});
        data_->probe_rtt_min_at = s.now;
    }
    if (data_->probe_rtt_min < m.min_rtt || s.now > m.min_rtt_at + min_rtt_memory) {
        m.min_rtt = data_->probe_rtt_min;
        m.min_rtt_at = data_->probe_rtt_min_at;
    }
}

/// CheckProbeRTT(), HandleProbeRTT().
void bbr::check_probe_rtt(const rate_sample& s) noexcept {
    bbr_model& m = data_->path;
    if (data_->state != phase::probe_rtt && data_->probe_rtt_expired && !data_->idle_restart) {
        save_window();
        data_->state = phase::probe_rtt;
        data_->probe_rtt_done = {};
        data_->ack_phase = acks::probe_stopping;
        m.start_round(s.total);
    }
    holds_back_ = data_->state == phase::probe_rtt;
    if (holds_back_) {
        if (data_->probe_rtt_done == time_point{}) {
            if (s.in_flight <= probe_rtt_window()) {
                data_->probe_rtt_done = s.now + probe_rtt_time;
                data_->probe_rtt_round_done = false;
                m.start_round(s.total);
            }
        } else {
            if (m.round_start) data_->probe_rtt_round_done = true;
            if (data_->probe_rtt_round_done) end_probe_rtt(s.now, s.total);
        }
    }
    if (s.delivered != 0) data_->idle_restart = false;
}

/// CheckProbeRTTDone(), ExitProbeRTT().
void bbr::end_probe_rtt(time_point now, std::uint64_t total) noexcept {
    if (data_->probe_rtt_done == time_point{} || now <= data_->probe_rtt_done) return;
    data_->probe_rtt_min_at = now; // the next one counts from here
    restore_window();
    data_->path.reset_shortterm();
    if (!data_->path.full_bw_reached) return enter_startup();
    enter_down(now, total);
    data_->state = phase::cruise; // what is in flight is little enough
}

/// 5.4.1, HandleRestartFromIdle().
void bbr::on_restart(time_point now) noexcept {
    data_->idle_restart = true;
    data_->path.aggregation_start = now; // and what was aggregated before goes with the interval that it came in
    data_->path.aggregated = 0;
    if (probes_bandwidth()) {
        set_pace(1);
    } else if (data_->state == phase::probe_rtt) {
        end_probe_rtt(now, total_);
    }
}

// ---- 5.5.10: losses, and marks ----

void bbr::note_loss(std::uint64_t total) noexcept {
    bbr_model& m = data_->path;
    if (m.loss_in_round) return;
    m.loss_in_round = true;
    m.loss_round = total;
}

/// HandleLostPacket().
void bbr::on_lost(const loss_sample& l) noexcept {
    note_loss(l.total);
    ++data_->path.losses_in_round;
    if (!data_->probe_sample || !l.known || !too_much_lost(l.lost, l.flight_at_send, l.selective)) return;
    inflight_too_high(l.now, l.total, inflight_at_loss(l), l.app_limited);
}

/// HandleInflightTooHigh().
void bbr::inflight_too_high(time_point now, std::uint64_t total, std::uint32_t volume, bool app_limited) noexcept {
    data_->probe_too_high = true;
    data_->probe_sample = false; // once a probe
    if (!app_limited) {
        data_->path.inflight_longterm = std::max(volume, static_cast<std::uint32_t>(bbr_model::beta * target_inflight()));
    }
    if (data_->state != phase::up) return;
    data_->undo_to_up = true;
    enter_down(now, total);
}

/// 3.7: the draft leaves it open how to answer marks, but wants one. They bound the flight as a loss bounds CUBIC's, whatever was
/// delivered, until the next probe; a probe ends, and so does Startup.
void bbr::on_mark(time_point now, std::uint32_t in_flight) noexcept {
    bbr_model& m = data_->path;
    if (data_->state == phase::startup) {
        m.full_bw_reached = true;
        m.inflight_longterm = std::max(in_flight, least_window());
        enter_drain();
    } else if (data_->probe_sample || data_->state == phase::refill) {
        inflight_too_high(now, total_, static_cast<std::uint32_t>(bbr_model::beta * in_flight), false);
    } else {
        const std::uint32_t was = std::min(m.inflight_shortterm, cwnd_);
        m.inflight_shortterm = std::max(static_cast<std::uint32_t>(bbr_model::beta * was), least_window());
        cwnd_ = std::min(cwnd_, m.inflight_shortterm);
    }
}

/// 5.6.4.4, OnEnterFastRecovery().
void bbr::on_loss(std::uint32_t) noexcept {
    save_window();
    data_->recovering = true;
}

/// The end of either recovery.
void bbr::on_recovered() noexcept {
    data_->recovering = false;
    restore_window();
}

/// OnEnterRTO(): limit() says later how much still flies. A SYN that was lost comes here, too.
void bbr::on_timeout(std::uint32_t, bool) noexcept {
    save_window();
    data_->recovering = true;
    cwnd_ = mss_;
}

// ---- 5.5.11: it was not lost ----

void bbr::save_window() noexcept {
    const bool good = !data_->recovering && data_->state != phase::probe_rtt;
    data_->prior_cwnd = good ? cwnd_ : std::max(data_->prior_cwnd, cwnd_);
}

/// SaveStateUponLoss(), once an episode: what the second loss of one would save, the first has lowered (5.5.11.2).
void bbr::remember() noexcept {
    congestion_controller::remember();
    const bbr_model& m = data_->path;
    data_->undo_to_startup = data_->undo_to_up = false;
    data_->undo_bw = m.bw_shortterm;
    data_->undo_shortterm = m.inflight_shortterm;
    data_->undo_longterm = m.inflight_longterm;
}

/// HandleSpuriousLossDetection().
void bbr::undo(time_point) noexcept {
    bbr_model& m = data_->path;
    data_->recovering = false;
    restore_window();
    m.loss_in_round = false;
    m.reset_full();
    m.bw_shortterm = std::max(m.bw_shortterm, data_->undo_bw);
    m.inflight_shortterm = std::max(m.inflight_shortterm, data_->undo_shortterm);
    m.inflight_longterm = std::max(m.inflight_longterm, data_->undo_longterm);
    if (data_->undo_to_startup && data_->state != phase::startup) {
        m.full_bw_reached = false;
        if (data_->state != phase::probe_rtt) enter_startup();
    } else if (data_->undo_to_up && data_->state != phase::up && data_->state != phase::probe_rtt) {
        enter_refill(total_);
    }
    data_->undo_to_startup = data_->undo_to_up = false;
}

// ---- 5.6: pace and window ----

bool bbr::probes_bandwidth() const noexcept {
    const phase p = data_->state;
    return p == phase::down || p == phase::cruise || p == phase::refill || p == phase::up;
}

bool bbr::accelerates() const noexcept {
    const phase p = data_->state;
    return p == phase::startup || p == phase::refill || p == phase::up;
}

/// 5.6.1, the table.
double bbr::pacing_gain() const noexcept {
    switch (data_->state) {
    case phase::startup: return startup_gain;
    case phase::drain: return 0.5;
    case phase::down: return 0.9;
    case phase::up: return 1.25;
    case phase::cruise:
    case phase::refill:
    case phase::probe_rtt: break;
    }
    return 1;
}

double bbr::window_gain() const noexcept {
    if (data_->state == phase::up) return 2.25;
    return data_->state == phase::probe_rtt ? probe_rtt_gain : 2;
}

/// QuantizationBudget(): three bursts of the pacer, so that it is never the window that holds it up.
std::uint32_t bbr::with_budget(std::uint64_t volume) const noexcept {
    const std::uint64_t quantum = pacer::burst(pacing_rate_, mss_); // SetSendQuantum()
    volume = std::max({volume, 3 * quantum, std::uint64_t{least_window()}});
    if (data_->state == phase::up) volume += 2 * mss_;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(volume, largest_window));
}

/// Inflight().
std::uint32_t bbr::inflight(std::uint64_t rate, double gain) const noexcept {
    const bbr_model& m = data_->path;
    return with_budget(m.min_rtt == duration::max() ? initial_window(mss_) : m.product(rate, gain));
}

std::uint32_t bbr::max_inflight() const noexcept {
    const bbr_model& m = data_->path;
    const std::uint32_t product = m.min_rtt == duration::max() ? initial_window(mss_) : m.product(m.bw, window_gain());
    return with_budget(std::uint64_t{product} + m.extra_acked());
}

/// InflightWithHeadroom().
std::uint32_t bbr::with_headroom() const noexcept {
    const std::uint32_t most = data_->path.inflight_longterm;
    if (most == bbr_model::any_volume) return most;
    const std::uint32_t room = std::max(mss_, static_cast<std::uint32_t>(headroom * most));
    return std::max(most - std::min(room, most), least_window());
}

/// TargetInflight().
std::uint32_t bbr::target_inflight() const noexcept {
    const bbr_model& m = data_->path;
    return m.min_rtt == duration::max() ? cwnd_ : std::min(m.product(m.bw, 1), cwnd_);
}

std::uint32_t bbr::probe_rtt_window() const noexcept {
    const bbr_model& m = data_->path;
    return m.min_rtt == duration::max() ? initial_window(mss_) : std::max(m.product(m.bw, probe_rtt_gain), least_window());
}

/// For mixing flows that share a path (5.3.3.8.2), which needs no secrecy: the same run draws the same.
std::uint32_t bbr::random(time_point now) const noexcept {
    std::uint64_t x = static_cast<std::uint64_t>(to_ns(now)) + 0x9e37'79b9'7f4a'7c15u * (total_ + 1);
    x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9u;
    x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11ebu;
    return static_cast<std::uint32_t>((x ^ (x >> 31)) >> 16);
}

/// SetPacingRateWithGain(): until the path is known to be full, it only becomes faster.
void bbr::set_pace(double gain) noexcept {
    const auto rate = static_cast<std::uint64_t>(gain * margin * static_cast<double>(data_->path.bw));
    if (rate != 0 && (data_->path.full_bw_reached || rate > pacing_rate_)) pacing_rate_ = rate;
}

/// SetCwnd(), BoundCwndForProbeRTT(), BoundCwndForModel().
void bbr::set_window(const rate_sample& s) noexcept {
    const bbr_model& m = data_->path;
    const std::uint32_t most = max_inflight();
    const std::uint32_t grown = cwnd_ + std::min(s.newly_acked, largest_window - std::min(cwnd_, largest_window));
    if (m.full_bw_reached) {
        cwnd_ = std::min(grown, most);
    } else if (cwnd_ < most || s.total < initial_window(mss_)) {
        cwnd_ = grown;
    }
    cwnd_ = std::max(cwnd_, least_window());
    if (data_->state == phase::probe_rtt) cwnd_ = std::min(cwnd_, probe_rtt_window());
    std::uint32_t cap = bbr_model::any_volume;
    if (data_->state == phase::cruise || data_->state == phase::probe_rtt) {
        cap = with_headroom();
    } else if (probes_bandwidth()) {
        cap = m.inflight_longterm;
    }
    cwnd_ = std::min(cwnd_, std::max(std::min(cap, m.inflight_shortterm), least_window()));
}

void bbr::check_invariants() const {
    CW_ASSERT(cwnd_ >= mss_, "cwnd is below one segment");
    CW_ASSERT(pacing_rate_ != 0 && pacing_rate_ != not_paced, "BBR without a pace");
    CW_ASSERT(data_->path.bw <= data_->path.max_bw() || data_->path.bw <= data_->path.bw_shortterm, "a rate beyond the model's");
}

congestion_controller* bbr_congestion(std::uint32_t mss) { return new bbr(mss); }

} // namespace corewire::tcp
