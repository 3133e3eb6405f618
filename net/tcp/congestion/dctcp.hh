// DCTCP (RFC 8257), for data centres whose switches mark early: the window shrinks by as much as was marked, not by half.
// One connection's. Grows, and answers losses, as NewReno does.
#pragma once

#include <corewire/net/tcp/congestion/reno.hh>

namespace corewire::tcp {

class dctcp final : public reno {
public:
    explicit dctcp(std::uint32_t mss) noexcept : reno(mss) { wants_exact_marks_ = true; }

    void on_ack(const ack_sample& sample) noexcept override;
    void on_mark(time_point now, std::uint32_t in_flight) noexcept override;
    std::string_view name() const noexcept override { return "dctcp"; }
    congestion_controller* another() const override { return new dctcp(mss_); }
    path_belief belief() const noexcept override;

    /// DCTCP.Alpha: the share of bytes that met congestion, 0 to 1.
    float alpha() const noexcept { return alpha_; }

private:
    float alpha_ = 1;
    bool begun_ = false;
    seq_number window_end_;    ///< DCTCP.WindowEnd
    std::uint64_t acked_ = 0;  ///< DCTCP.BytesAcked
    std::uint64_t marked_ = 0; ///< DCTCP.BytesMarked
};

} // namespace corewire::tcp
