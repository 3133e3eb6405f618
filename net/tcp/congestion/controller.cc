#include <corewire/net/tcp/congestion/controller.hh>

namespace corewire::tcp {

void congestion_controller::undo(time_point) noexcept {
    cwnd_ = std::max(cwnd_, prior_cwnd_);
    ssthresh_ = prior_ssthresh_;
}

void congestion_controller::on_mark(time_point now, std::uint32_t in_flight) noexcept {
    on_loss(now, in_flight);
    on_recovered(now);
}

} // namespace corewire::tcp
