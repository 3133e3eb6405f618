// The states of neighbours and what their timers do; the messages that come of it.
#include <corewire/net/link/neighbors.hh>

#include <algorithm>

namespace corewire {

namespace {
using enum neighbor_state;
/// The states in which time changes something. Each state's list is in order of deadlines, since all of them are the
/// same distance from the moment of entering.
constexpr neighbor_state timed[] = {incomplete, probe, delay, reachable, failed};
} // namespace

void neighbor_cache::enter(time_point now, neighbor& n, neighbor_state s) noexcept {
    // Who keeps a header must look again when it may not be used any more, and when the cache wants to hear of its use.
    if (n.valid() && (s == unused || s == failed || s == stale)) ++n.generation_;
    n.state_ = s;
    switch (s) {
    case incomplete:
    case probe: n.deadline_ = now + options_.retransmit_time; break;
    case delay: n.deadline_ = now + options_.delay_time; break;
    case reachable: n.deadline_ = now + options_.reachable_time; break;
    case failed: n.deadline_ = now + options_.failed_time; break;
    case unused:
    case stale:
    case permanent: n.deadline_ = never; break;
    }
    n.unlink();
    list_of(s).push_back(n);
}

time_point neighbor_cache::next_timeout() const noexcept {
    time_point first = claim_.next_timeout();
    for (neighbor_state s : timed) {
        // front() is not const; nothing is changed here.
        auto& list = const_cast<state_list&>(lists_[static_cast<std::size_t>(s)]);
        if (!list.empty()) first = std::min(first, list.front().deadline_);
    }
    return first;
}

void neighbor_cache::on_timer(time_point now) noexcept {
    run_claim(now);
    for (neighbor_state s : timed) {
        state_list& list = list_of(s);
        while (!list.empty() && list.front().deadline_ <= now) {
            if (outbox_count_ == outbox_size) return; // the caller takes the messages and comes back
            expire(now, list.front());
        }
    }
}

void neighbor_cache::run_claim(time_point now) noexcept {
    if (now < claim_.next_timeout() || outbox_count_ == outbox_size) return;
    if (const auto message = claim_.on_timer(now, random_)) say(mac_address::broadcast(), *message);
}

void neighbor_cache::expire(time_point now, neighbor& n) noexcept {
    switch (n.state_) {
    case incomplete:
        if (n.requests_ >= options_.max_requests) return fail(now, n);
        enter(now, n, incomplete);
        return request(n);
    case probe:
        if (n.confirmed_ > n.deadline_ - options_.retransmit_time) return enter(now, n, reachable);
        if (n.requests_ >= options_.max_requests) return fail(now, n);
        enter(now, n, probe);
        return request(n);
    case delay:
        if (n.confirmed_ > n.deadline_ - options_.delay_time) return enter(now, n, reachable);
        n.requests_ = 0;
        enter(now, n, probe);
        return request(n);
    case reachable: return enter(now, n, now - n.confirmed_ < options_.reachable_time ? reachable : stale);
    case failed: return forget(n);
    case unused:
    case stale:
    case permanent: return;
    }
}

void neighbor_cache::fail(time_point now, neighbor& n) noexcept {
    ++statistics_.failed;
    statistics_.unreachable_dropped += drop_waiting(n);
    enter(now, n, failed);
}

/// A question to everybody; to a neighbour that was known once, a question to it alone (RFC 1122 2.3.2.1 (2)).
void neighbor_cache::request(neighbor& n) noexcept {
    ++n.requests_;
    const mac_address to = n.state_ == probe ? n.mac_ : mac_address::broadcast();
    if (say(to, wire::arp_packet::request(mac_, own_.address(), n.address_))) ++statistics_.requests_sent;
}

bool neighbor_cache::say(mac_address destination, const wire::arp_packet& arp) noexcept {
    if (outbox_count_ == outbox_size) {
        ++statistics_.outbox_full;
        return false;
    }
    outbox_[(outbox_first_ + outbox_count_++) % outbox_size] = {destination, arp};
    return true;
}

bool neighbor_cache::poll_transmit(arp_message& out) noexcept {
    if (outbox_count_ == 0) return false;
    out = outbox_[outbox_first_];
    outbox_first_ = (outbox_first_ + 1) % outbox_size;
    --outbox_count_;
    return true;
}

} // namespace corewire
