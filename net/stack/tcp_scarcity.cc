// Frames are scarce: writers wait, and who holds frames for nothing gives them back.
#include <corewire/net/stack/tcp_layer.hh>

#include <algorithm>

namespace corewire {

void tcp_layer::wait_for_frames(tcp_connection& c) noexcept {
    ++statistics_.no_frame;
    if (std::find(starved_.begin(), starved_.end(), &c) == starved_.end()) starved_.push_back(&c);
    egress_.leave_chores();
}

[[gnu::noinline]] void tcp_layer::retry_starved() noexcept {
    if (frames_are_scarce()) return note_scarcity();
    std::vector<tcp_connection*> again;
    again.swap(starved_);
    for (tcp_connection* c : again) {
        c->react(tcp::event::writable);
        mark_dirty(*c);
    }
}

void tcp_layer::note_scarcity() noexcept {
    if (scarcity_.armed()) return;
    scarce_looks_ = 0;
    reactor_.timers().arm(scarcity_, now() + scarcity_interval);
}

/// Where frames stay scarce, and whoever holds them does not give them back, what came beyond gaps is dropped, a portion of the connections
/// at a time: peers that do not fill their gaps must not hold up everybody else.
void tcp_layer::look_at_scarcity() noexcept {
    constexpr unsigned patience = 10; // looks: a second
    constexpr std::size_t portion = 4096;
    if (!frames_are_scarce()) return; // it is over
    if (++scarce_looks_ >= patience) {
        relieved_ = visit_connections(relieved_, portion, [this](tcp_connection& c) {
            if (!frames_are_scarce() || !c.tcb.drop_ahead()) return;
            ++statistics_.tcp_ahead_dropped;
            mark_dirty(c);
        });
    }
    reactor_.timers().arm(scarcity_, now() + scarcity_interval);
}

} // namespace corewire
