// Packets that wait for a neighbour's MAC: singly linked slots of one array, so that a thousand unresolved neighbours
// share what is there. Also the cache's invariants.
#include <corewire/net/link/neighbor_table.hh>

#include <algorithm>
#include <utility>

namespace corewire {

void neighbor_table::enqueue(neighbor& n, packet&& p) noexcept {
    const std::uint32_t size = p.size();
    if (size > options_.max_waiting_bytes || options_.max_waiting_each == 0) {
        ++statistics_.queue_dropped;
        p = packet{};
        return;
    }
    // RFC 1122 2.3.2.2 (SHOULD) keeps at least the latest packet: the oldest gives way.
    while (n.waiting_ != 0 && (n.waiting_ >= options_.max_waiting_each || slots_taken(n) ||
                               n.waiting_bytes_ + size > options_.max_waiting_bytes)) {
        dequeue(n);
        ++statistics_.queue_dropped;
    }
    if (slots_taken(n)) { // they stand behind other neighbours
        ++statistics_.queue_dropped;
        p = packet{};
        return;
    }
    const std::uint16_t i = free_slot_;
    free_slot_ = slots_[i].next;
    slots_[i].next = no_slot;
    slots_[i].waiting = std::move(p);
    if (n.waiting_ == 0) {
        n.first_waiting_ = i;
    } else {
        slots_[n.last_waiting_].next = i;
    }
    n.last_waiting_ = i;
    ++n.waiting_;
    n.waiting_bytes_ += size;
    ++waiting_total_;
    if (n.for_stranger_) ++strangers_waiting_;
    ++statistics_.packets_queued;
}

/// All slots, or those that strangers may have.
bool neighbor_table::slots_taken(const neighbor& n) const noexcept {
    return free_slot_ == no_slot || (n.for_stranger_ && strangers_waiting_ >= std::max(options_.max_waiting_total / 2, 1));
}

packet neighbor_table::dequeue(neighbor& n) noexcept {
    const std::uint16_t i = n.first_waiting_;
    packet p = std::move(slots_[i].waiting);
    n.first_waiting_ = slots_[i].next;
    n.waiting_bytes_ -= p.size();
    --n.waiting_;
    --waiting_total_;
    if (n.for_stranger_) --strangers_waiting_;
    slots_[i].next = std::exchange(free_slot_, i);
    return p;
}

std::size_t neighbor_table::drop_waiting(neighbor& n) noexcept {
    const std::size_t dropped = n.waiting_;
    while (n.waiting_ != 0) dequeue(n);
    return dropped;
}

/// The neighbour has a MAC: its packets get it, and move to the list that poll_released() takes from.
void neighbor_table::release_waiting(neighbor& n) noexcept {
    if (n.waiting_ == 0) return;
    for (std::uint16_t i = n.first_waiting_; i != no_slot; i = slots_[i].next) {
        n.mac_.store(slots_[i].waiting.head.mutable_data());
    }
    move_waiting(n, released_);
}

void neighbor_table::move_waiting(neighbor& n, slot_list& to) noexcept {
    if (n.waiting_ == 0) return;
    if (to.first == no_slot) {
        to.first = n.first_waiting_;
    } else {
        slots_[to.last].next = n.first_waiting_;
    }
    to.last = n.last_waiting_;
    if (n.for_stranger_) strangers_waiting_ = static_cast<std::uint16_t>(strangers_waiting_ - n.waiting_);
    n.waiting_ = 0;
    n.waiting_bytes_ = 0;
}

bool neighbor_table::take_first(slot_list& from, packet& out) noexcept {
    if (from.first == no_slot) return false;
    const std::uint16_t i = from.first;
    out = std::move(slots_[i].waiting);
    from.first = slots_[i].next;
    slots_[i].next = std::exchange(free_slot_, i);
    --waiting_total_;
    return true;
}

bool neighbor_table::poll_released(packet& out) noexcept { return take_first(released_, out); }
bool neighbor_table::poll_unreachable(packet& out) noexcept { return take_first(unreachable_, out); }

void neighbor_table::keep_refused(packet&& p) noexcept {
    packet refused = std::move(p);
    if (free_slot_ == no_slot) return;
    const std::uint16_t i = free_slot_;
    free_slot_ = std::exchange(slots_[i].next, no_slot);
    slots_[i].waiting = std::move(refused);
    if (unreachable_.first == no_slot) {
        unreachable_.first = i;
    } else {
        slots_[unreachable_.last].next = i;
    }
    unreachable_.last = i;
    ++waiting_total_;
}

void neighbor_table::check_invariants() const {
    std::size_t known = 0, waiting = 0, strangers = 0, strangers_waiting = 0;
    for (std::size_t i = 0; i < options_.max_entries; ++i) {
        const neighbor& n = entries_[i];
        CW_ASSERT(n.linked(), "every neighbour is on its state's list");
        CW_ASSERT(n.waiting_ <= options_.max_waiting_each && n.waiting_bytes_ <= options_.max_waiting_bytes,
                  "more waits behind a neighbour than may");
        CW_ASSERT(n.waiting_ == 0 || n.state_ == neighbor_state::incomplete, "packets wait only for an answer");
        if (n.state_ == neighbor_state::unused) continue;
        ++known;
        waiting += n.waiting_;
        strangers += n.for_stranger_;
        strangers_waiting += n.for_stranger_ ? n.waiting_ : 0u;
        CW_ASSERT(!n.for_stranger_ || n.state_ == neighbor_state::incomplete || n.state_ == neighbor_state::failed,
                  "who is resolved is no stranger");
        CW_ASSERT(const_cast<neighbor_table*>(this)->find(n.address_) == &n, "a neighbour is found by its address");
        CW_ASSERT(!n.valid() || n.mac_.is_unicast(), "a valid neighbour has a MAC");
    }
    for (const std::uint16_t first : {released_.first, unreachable_.first})
        for (std::uint16_t i = first; i != no_slot; i = slots_[i].next) ++waiting;
    for (const state_list& list : lists_) {
        time_point before{};
        const_cast<state_list&>(list).for_each([&](const neighbor& n) {
            CW_ASSERT(n.deadline_ >= before, "each state's list is in order of deadlines");
            before = n.deadline_;
        });
    }
    CW_ASSERT(known == size_, "size() counts the entries in use");
    CW_ASSERT(strangers == strangers_ && strangers_waiting == strangers_waiting_, "what strangers have is counted");
    CW_ASSERT(waiting == waiting_total_ && waiting <= options_.max_waiting_total, "waiting_packets() counts them");
}

} // namespace corewire
