// Frames are scarce: writers wait, and who holds frames for nothing gives them back.
#include <corewire/net/stack/tcp_layer.hh>

namespace corewire {

bool tcp_layer::may_take_frame(const tcp_connection& c, bool is_new) const noexcept {
    constexpr std::uint32_t few = 4096; // bytes
    const bool overtakes = is_new && !starved_.empty();
    return (!frames_are_scarce() && !overtakes) || (pool_.free_count >= reserve_ / 2 && c.tcb.queued() < few && !c.tcb.is_refused());
}

/// Whether the payload may stay. Where frames are rare, and beyond gaps where a few pieces are already, what is small goes without its own:
/// 64 bytes to each of fifty connections would else take 4,096 of them. The first bytes that somebody waits for always find room; where
/// nothing waits to be read they do while the upper half of the reserve is there (Linux: sk_forced_mem_schedule()).
bool tcp_layer::make_affordable(const tcp_connection& c, const tcp::segment& s, packet& p) noexcept {
    const bool next = s.seq == c.tcb.expected();
    if (next && c.reader_ != nullptr) return true; // who takes it at once
    if (s.payload_size <= small_blocks::most && (!next || frames_are_rare()) && blocks_.take_over(p)) {
        ++statistics_.tcp_small_kept;
        return true;
    }
    if (!frames_are_scarce()) return true;
    return next && c.tcb.readable() == 0 && (c.awaits_bytes() || pool_.free_count >= reserve_ / 2);
}

void tcp_layer::wait_for_frames(tcp_connection& c) noexcept {
    ++statistics_.no_frame;
    if (!static_cast<accept_hook&>(c).linked()) starved_.push_back(c);
    egress_.leave_chores(); // frames may come home in the next turn,
    note_scarcity(); // or with nothing that would wake this shard
}

/// Asks `portion` of them at most: there may be as many as connections. Who may take nothing yet, or has taken some and wants more, comes
/// behind the others.
[[gnu::noinline]] void tcp_layer::retry_starved(unsigned portion) noexcept {
    if (starved_.empty()) return;
    const accept_hook* const last = &starved_.back();
    for (bool more = true; more && portion != 0; --portion) {
        if (pool_.free_count < reserve_ / 2) return note_scarcity();
        accept_hook& next = starved_.pop_front();
        more = &next != last && !starved_.empty();
        tcp_connection& c = static_cast<tcp_connection&>(next);
        ++statistics_.tcp_writers_retried;
        if (!may_take_frame(c, false)) {
            starved_.push_back(c);
            continue;
        }
        c.react(tcp::event::writable);
        mark_dirty(c);
    }
}

void tcp_layer::note_scarcity() noexcept {
    constexpr duration soon = std::chrono::milliseconds{10}, lately = std::chrono::seconds{10};
    if (scarcity_.armed()) return;
    scarce_looks_ = 0;
    // Who was made to give frames back lately may take them again: he has them for less time.
    const bool again = relieved_at_ != time_point{} && now() - relieved_at_ < lately;
    reactor_.timers().arm(scarcity_, now() + (again ? soon : scarcity_interval));
}

/// Where frames stay scarce, and whoever holds them does not give them back, what came beyond gaps is dropped at once (as by Linux's
/// tcp_prune_ofo_queue()), and connections end whose peers take nothing: soon if their users have gone, after a while if they have not
/// (RFC 6429 4). A portion of all at a time: such peers must not hold up everybody else.
void tcp_layer::look_at_scarcity() noexcept {
    constexpr unsigned patience = 10; // looks: a second
    constexpr duration patience_of_users = std::chrono::seconds{10};
    constexpr unsigned portion = 4096;
    constexpr std::uint32_t much_ahead = 16; // pieces
    reactor_.timers().arm(scarcity_, now() + scarcity_interval); // at first: for note_scarcity() it goes on
    retry_starved(portion); // an idle shard asks nobody else, and what it writes waits for the chores
    if (!starved_.empty() || anything_to_send()) egress_.leave_chores();
    if (!frames_are_scarce() && starved_.empty()) return scarcity_.cancel(); // it is over
    if (!frames_are_scarce()) {
        scarce_looks_ = 0;
        return;
    }
    ++scarce_looks_;
    const bool for_long = scarce_looks_ * scarcity_interval >= patience_of_users;
    relieved_ = visit_connections(relieved_, portion, [&, this](tcp_connection& c) {
        if (frames_are_rare()) statistics_.tcp_small_kept += c.tcb.leave_frames(blocks_); // what came, or was written, when there were many
        if (!frames_are_scarce()) return;
        const bool its_turn = scarce_looks_ > 1 || c.tcb.pieces_ahead() > much_ahead; // who holds most comes first
        if (its_turn && c.tcb.drop_ahead()) {
            ++statistics_.tcp_ahead_dropped;
            relieved_at_ = now();
            mark_dirty(c);
        }
        if (scarce_looks_ < patience) return;
        const bool enough = c.orphaned() || (for_long && c.tcb.stands_since() <= now() - patience_of_users);
        if (enough && c.tcb.queued() != 0 && c.tcb.is_refused()) {
            ++statistics_.tcp_refused_dropped;
            c.abort();
        }
    });
    if (frames_are_scarce()) return;
    retry_starved(portion);
    if (starved_.empty()) scarcity_.cancel(); // so that who takes them again is looked at sooner
}

} // namespace corewire
