#include <corewire/net/tcp/congestion/controller.hh>

namespace corewire::tcp {

void congestion_controller::undo(time_point) noexcept {
    cwnd_ = std::max(cwnd_, prior_cwnd_);
    ssthresh_ = prior_ssthresh_;
}

} // namespace corewire::tcp
