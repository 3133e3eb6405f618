// Frames are scarce: writers wait, and who holds frames for nothing gives them back.
#include <corewire/net/stack/tcp_layer.hh>

#include <algorithm>

namespace corewire {

bool tcp_layer::may_take_frame(const tcp_connection& c) const noexcept {
    constexpr std::uint32_t few = 4096; // bytes
    return !frames_are_scarce() || (pool_.free_count >= reserve_ / 2 && c.tcb.queued() < few && !c.tcb.is_refused());
}

void tcp_layer::wait_for_frames(tcp_connection& c) noexcept {
    ++statistics_.no_frame;
    if (std::find(starved_.begin(), starved_.end(), &c) == starved_.end()) starved_.push_back(&c);
    note_scarcity(); // frames may come home with nothing that would wake this shard
}

[[gnu::noinline]] void tcp_layer::retry_starved() noexcept {
    if (pool_.free_count < reserve_ / 2) return note_scarcity();
    std::vector<tcp_connection*> again;
    again.swap(starved_);
    for (tcp_connection* c : again) {
        if (!may_take_frame(*c)) {
            starved_.push_back(c);
            continue;
        }
        c->react(tcp::event::writable);
        mark_dirty(*c);
    }
    // Who has taken some and wants more comes last the next time.
    if (starved_.size() > 1 && starved_.front() == again.front()) std::rotate(starved_.begin(), starved_.begin() + 1, starved_.end());
}

void tcp_layer::note_scarcity() noexcept {
    if (scarcity_.armed()) return;
    scarce_looks_ = 0;
    reactor_.timers().arm(scarcity_, now() + scarcity_interval);
}

/// Where frames stay scarce, and whoever holds them does not give them back, what came beyond gaps is dropped, and connections end whose
/// peers take nothing: at once if their users have gone, after a while if they have not (RFC 6429 4). A portion of all at a time: such
/// peers must not hold up everybody else.
void tcp_layer::look_at_scarcity() noexcept {
    constexpr unsigned patience = 10; // looks: a second
    constexpr duration patience_of_users = std::chrono::seconds{10};
    constexpr std::size_t portion = 4096;
    if (!starved_.empty()) egress_.leave_chores();
    if (!frames_are_scarce() && starved_.empty()) return; // it is over
    if (!frames_are_scarce()) scarce_looks_ = 0;
    else if (++scarce_looks_ >= patience) {
        const bool for_long = scarce_looks_ * scarcity_interval >= patience_of_users;
        relieved_ = visit_connections(relieved_, portion, [&, this](tcp_connection& c) {
            if (!frames_are_scarce()) return;
            if (c.tcb.drop_ahead()) {
                ++statistics_.tcp_ahead_dropped;
                mark_dirty(c);
            }
            const bool enough = c.orphaned() || (for_long && c.tcb.stands_since() <= now() - patience_of_users);
            if (enough && c.tcb.queued() != 0 && c.tcb.is_refused()) {
                ++statistics_.tcp_refused_dropped;
                c.abort();
            }
        });
    }
    reactor_.timers().arm(scarcity_, now() + scarcity_interval);
}

} // namespace corewire
