// BBR, version 3 (draft-ietf-ccwg-bbr-06): not losses but a model of the path says how fast to send and how much may be in flight.
//
//     max_bw   the most that was delivered a second, in this cycle and the last     -->  pace = gain * min(max_bw, bw_shortterm)
//     min_rtt  the shortest round trip of ten seconds                               -->  cwnd = gain * bw * min_rtt + extra_acked,
//     losses beyond 2 % lower inflight_longterm, others the two "shortterm"              at most inflight_longterm, _shortterm
//
//     startup --full--> drain --> down --> cruise --2..3 s, or 63 rounds--> refill --a round--> up --full, or 2 % lost--+
//        `---- probe_rtt, every 5 s without a shorter round trip, for 200 ms --'      ^---- down <-----------------------'
//
// One connection's. The model lies on the heap: no other connection need carry it. The steps are the draft's, in its order; bbr.cc is the
// state machine, bbr_model.cc the model. Names in capitals or with "BBR." are the draft's.
#pragma once

#include <corewire/net/tcp/congestion/controller.hh>

#include <array>
#include <memory>

namespace corewire::tcp {

/// What BBR knows, or believes, of the path (2.9 to 2.16). Rates are bytes a second, volumes bytes.
struct bbr_model {
    static constexpr std::uint64_t any_rate = std::numeric_limits<std::uint64_t>::max(); ///< no bound
    static constexpr std::uint32_t any_volume = std::numeric_limits<std::uint32_t>::max();
    static constexpr double loss_threshold = 0.02; ///< LossThresh
    static constexpr double beta = 0.7;            ///< Beta
    static constexpr unsigned rounds_of_aggregation = 10; ///< ExtraAckedFilterLen

    // ---- rates ----
    std::array<std::uint64_t, 2> best{};    ///< max_bw_filter: the last cycle's, this one's
    std::uint64_t bw = 0;                   ///< BBR.bw
    std::uint64_t bw_shortterm = any_rate;
    std::uint64_t bw_latest = 0;            ///< of one round trip
    // ---- volumes ----
    std::uint32_t inflight_longterm = any_volume;
    std::uint32_t inflight_shortterm = any_volume;
    std::uint64_t inflight_latest = 0;
    // ---- round trips ----
    duration min_rtt = duration::max();
    time_point min_rtt_at{};
    // ---- rounds ----
    std::uint64_t next_round = 0;           ///< next_round_delivered
    std::uint32_t round_count = 0;
    bool round_start = false;
    std::uint64_t loss_round = 0;           ///< loss_round_delivered
    bool loss_round_start = false;
    bool loss_in_round = false;
    std::uint32_t losses_in_round = 0;      ///< pieces
    // ---- a plateau of the rate (5.3.1.2) ----
    std::uint64_t full_bw = 0;
    std::uint8_t full_bw_count = 0;
    bool full_bw_now = false;
    bool full_bw_reached = false;
    // ---- aggregation (5.5.9) ----
    time_point aggregation_start{};
    std::uint64_t aggregated = 0;           ///< extra_acked_delivered
    std::array<std::uint32_t, rounds_of_aggregation> extra{}; ///< extra_acked_filter: the most of each round

    std::uint64_t max_bw() const noexcept { return std::max(best[0], best[1]); }
    std::uint32_t extra_acked() const noexcept;
    /// BDPMultiple() of a rate. min_rtt is known.
    std::uint32_t product(std::uint64_t rate, double gain) const noexcept;

    void start_round(std::uint64_t total) noexcept { next_round = total; }          ///< StartRound()
    void reset_full() noexcept { full_bw = 0, full_bw_count = 0, full_bw_now = false; } ///< ResetFullBW()
    void reset_shortterm() noexcept { bw_shortterm = any_rate, inflight_shortterm = any_volume; } ///< ResetShortTermModel()
    void reset_signals() noexcept { loss_in_round = false, bw_latest = 0, inflight_latest = 0; }  ///< ResetCongestionSignals()
    void bound() noexcept { bw = std::min(max_bw(), bw_shortterm); }                ///< BoundBWForModel()
    void next_cycle() noexcept;                                                     ///< AdvanceMaxBwFilter()

    void take_latest(const rate_sample& s) noexcept;               ///< UpdateLatestDeliverySignals()
    void take_rate(const rate_sample& s) noexcept;                 ///< UpdateMaxBw(), UpdateRound()
    void lower_bounds(std::uint32_t cwnd) noexcept;                ///< InitLowerBounds(), LossLowerBounds()
    void take_aggregation(const rate_sample& s, std::uint32_t cwnd) noexcept; ///< UpdateACKAggregation()
    void look_for_plateau(const rate_sample& s) noexcept;          ///< CheckFullBWReached()
    void advance_latest(const rate_sample& s) noexcept;            ///< AdvanceLatestDeliverySignals()
};

class bbr final : public congestion_controller {
public:
    enum class phase : std::uint8_t { startup, drain, down, cruise, refill, up, probe_rtt };

    explicit bbr(std::uint32_t mss);

    void on_ack(const ack_sample&) noexcept override {} ///< on_sample() says more
    void on_sample(const rate_sample& s) noexcept override;
    void on_lost(const loss_sample& l) noexcept override;
    void on_restart(time_point now) noexcept override;
    void on_round_trip(duration srtt) noexcept override;
    void on_loss(std::uint32_t in_flight) noexcept override;
    void on_mark(time_point now, std::uint32_t in_flight) noexcept override;
    void on_recovered() noexcept override;
    void on_timeout(std::uint32_t in_flight, bool first_of_this_segment) noexcept override;
    /// 5.4.2: no slow start after a pause, but the pace that is known.
    void on_idle(time_point, duration, duration) noexcept override {}
    void remember() noexcept override;
    void undo(time_point now) noexcept override;
    std::string_view name() const noexcept override { return "bbr"; }
    path_belief belief() const noexcept override {
        const duration rtt = data_->path.min_rtt == duration::max() ? duration{0} : data_->path.min_rtt;
        return {.kept = true, .rate = data_->path.bw, .min_rtt = rtt, .pacing_gain = pacing_gain(), .window_gain = window_gain()};
    }
    congestion_controller* another() const override { return new bbr(mss_); }
    void check_invariants() const override;

    phase state() const noexcept { return data_->state; }
    const bbr_model& model() const noexcept { return data_->path; }
    std::uint32_t max_inflight() const noexcept;

private:
    enum class acks : std::uint8_t { init, refilling, probe_starting, probe_feedback, probe_stopping }; ///< BBR.ack_phase

    struct everything {
        bbr_model path;
        phase state = phase::startup;
        acks ack_phase = acks::init;
        bool rtt_seen = false;             ///< the first pace is from a measured round trip
        bool recovering = false;           ///< InLossRecovery()
        bool idle_restart = false;
        bool probe_sample = false;         ///< is_bw_probe_sample
        bool probe_too_high = false;       ///< prev_probe_too_high
        bool probe_precautionary = false;  ///< prev_probe_precautionary
        bool probe_rtt_round_done = false;
        bool probe_rtt_expired = false;
        std::uint8_t probe_up_rounds = 0;  ///< bw_probe_up_rounds
        std::uint32_t drain_start_round = 0;
        std::uint32_t rounds_since_probe = 0;
        std::uint32_t probe_up_acked = 0;  ///< bw_probe_up_acked
        std::uint32_t acked_per_step = bbr_model::any_volume; ///< probe_up_acked_per_inc
        std::uint32_t prior_cwnd = 0;
        time_point cycle_start{};          ///< cycle_stamp
        duration probe_wait{0};            ///< bw_probe_wait
        duration probe_rtt_min = duration::max();
        time_point probe_rtt_min_at{};
        time_point probe_rtt_done{};       ///< {}: inflight is not low enough yet
        // what undo() goes back to
        bool undo_to_startup = false;
        bool undo_to_up = false;
        std::uint64_t undo_bw = 0;
        std::uint32_t undo_shortterm = 0;
        std::uint32_t undo_longterm = 0;
    };

    bool probes_bandwidth() const noexcept; ///< IsInAProbeBWState()
    bool accelerates() const noexcept;      ///< IsProbingBW()
    double pacing_gain() const noexcept;
    double window_gain() const noexcept;
    std::uint32_t least_window() const noexcept { return 4 * mss_; } ///< MinPipeCwnd
    std::uint32_t with_budget(std::uint64_t volume) const noexcept;
    std::uint32_t inflight(std::uint64_t rate, double gain) const noexcept;
    std::uint32_t with_headroom() const noexcept;
    std::uint32_t target_inflight() const noexcept;
    std::uint32_t probe_rtt_window() const noexcept;
    std::uint32_t random(time_point now) const noexcept;

    void take_congestion(const rate_sample& s) noexcept;
    void check_startup(const rate_sample& s) noexcept;
    void check_drain(const rate_sample& s) noexcept;
    void advance_cycle(const rate_sample& s) noexcept;
    bool adapt_longterm(const rate_sample& s) noexcept;
    void raise_longterm(const rate_sample& s) noexcept;
    void raise_slope() noexcept;
    bool time_to_probe(const rate_sample& s) noexcept;
    bool time_to_cruise(const rate_sample& s) const noexcept;
    bool time_to_go_down(const rate_sample& s) noexcept;
    void take_round_trip(const rate_sample& s) noexcept;
    void check_probe_rtt(const rate_sample& s) noexcept;
    void end_probe_rtt(time_point now, std::uint64_t total) noexcept;

    void enter_startup() noexcept { data_->state = phase::startup; }
    void enter_drain() noexcept;
    void enter_down(time_point now, std::uint64_t total) noexcept;
    void enter_refill(std::uint64_t total) noexcept;
    void enter_up(const rate_sample& s) noexcept;

    void note_loss(std::uint64_t total) noexcept;
    void inflight_too_high(time_point now, std::uint64_t total, std::uint32_t volume, bool app_limited) noexcept;
    void save_window() noexcept;
    void restore_window() noexcept { cwnd_ = std::max(cwnd_, data_->prior_cwnd); }
    void set_pace(double gain) noexcept;
    void set_window(const rate_sample& s) noexcept;

    std::unique_ptr<everything> data_;
    std::uint64_t total_ = 0; ///< C.delivered, as last heard
};

} // namespace corewire::tcp
