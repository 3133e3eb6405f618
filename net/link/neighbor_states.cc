// The states of neighbours and what their timers do.
#include <corewire/net/link/neighbor_table.hh>

#include <algorithm>

namespace corewire {

namespace {
using enum neighbor_state;
/// The states in which time changes something. Each state's list is in order of deadlines.
constexpr neighbor_state timed[] = {incomplete, probe, delay, reachable, failed};
} // namespace

void neighbor_table::enter(time_point now, neighbor& n, neighbor_state s) noexcept {
    // Who keeps a header must look again when it may not be used any more, and when the cache wants to hear of its use.
    if (n.valid() && (s == unused || s == failed || s == stale)) ++n.generation_;
    n.state_ = s;
    switch (s) {
    case incomplete:
    case probe: n.deadline_ = now + options_.retransmit_time; break;
    case delay: n.deadline_ = now + options_.delay_time; break;
    case reachable: n.deadline_ = n.confirmed_ + options_.reachable_time; break; // RFC 4861 7.3.3: since the last confirmation
    case failed: n.deadline_ = now + options_.failed_time; break;
    case unused:
    case stale:
    case permanent: n.deadline_ = never; break;
    }
    n.unlink();
    state_list& all = list_of(s);
    // All others of a state are the same distance from when they entered it.
    neighbor* const later = s != reachable || all.empty() || all.back().deadline_ <= n.deadline_
                                ? nullptr
                                : all.find_first([&](const neighbor& other) { return other.deadline_ > n.deadline_; });
    if (later != nullptr) state_list::insert_before(*later, n);
    else all.push_back(n);
}

void neighbor_table::doubt(time_point now, const neighbor_ref& who) noexcept {
    constexpr duration lately = std::chrono::seconds{1};
    neighbor* const n = who.get();
    const bool trusted = who.current() && (n->state_ == reachable || n->state_ == delay || n->state_ == stale);
    if (!trusted || now - n->confirmed_ < lately || outbox_full()) return;
    n->requests_ = 0;
    enter(now, *n, probe);
    question(*n);
}

time_point neighbor_table::next_change() const noexcept {
    time_point first = never;
    for (neighbor_state s : timed) {
        // front() is not const; nothing is changed here.
        auto& list = const_cast<state_list&>(lists_[static_cast<std::size_t>(s)]);
        if (!list.empty()) first = std::min(first, list.front().deadline_);
    }
    return first;
}

/// All of a state by the same distance: the list stays in order.
void neighbor_table::shift_deadlines(neighbor_state s, duration by) noexcept {
    list_of(s).for_each([by](neighbor& n) { n.deadline_ += by; });
}

void neighbor_table::set_reachable_time(duration t) noexcept {
    shift_deadlines(reachable, t - options_.reachable_time);
    options_.reachable_time = t;
}

void neighbor_table::set_retransmit_time(duration t) noexcept {
    shift_deadlines(incomplete, t - options_.retransmit_time);
    shift_deadlines(probe, t - options_.retransmit_time);
    options_.retransmit_time = t;
}

void neighbor_table::age(time_point now) noexcept {
    for (neighbor_state s : timed) {
        state_list& list = list_of(s);
        while (!list.empty() && list.front().deadline_ <= now) {
            if (outbox_full()) return; // the caller takes the messages and comes back
            expire(now, list.front());
        }
    }
}

void neighbor_table::expire(time_point now, neighbor& n) noexcept {
    switch (n.state_) {
    case incomplete:
        if (n.requests_ >= options_.max_requests) return fail(now, n);
        enter(now, n, incomplete);
        return question(n);
    case probe:
        if (n.confirmed_ > n.deadline_ - options_.retransmit_time) return enter(now, n, reachable);
        if (n.requests_ >= options_.max_requests) return fail(now, n);
        enter(now, n, probe);
        return question(n);
    case delay:
        if (n.confirmed_ > n.deadline_ - options_.delay_time) return enter(now, n, reachable);
        n.requests_ = 0;
        enter(now, n, probe);
        return question(n);
    case reachable: return enter(now, n, n.confirmed_ + options_.reachable_time > now ? reachable : stale);
    case failed: return forget(n);
    case unused:
    case stale:
    case permanent: return;
    }
}

void neighbor_table::fail(time_point now, neighbor& n) noexcept {
    ++statistics_.failed;
    statistics_.unreachable_dropped += n.waiting_;
    move_waiting(n, unreachable_);
    enter(now, n, failed);
    n.given_up_ = any_given_up_ = true;
}

void neighbor_table::question(neighbor& n) noexcept {
    ++n.requests_;
    ask(n);
}

} // namespace corewire
