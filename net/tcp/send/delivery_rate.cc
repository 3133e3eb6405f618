#include <corewire/net/tcp/send/delivery_rate.hh>

namespace corewire::tcp {

void delivery_rate::on_sent(time_point now, std::uint32_t in_flight, bool from_idle) {
    if (from_idle || delivered_at_ == time_point{}) { // or the first that is counted
        first_sent_ = delivered_at_ = now;
    } else if (!records_.empty() && now <= records_.back().sent) { // one sending, in several segments
        records_.back().in_flight = in_flight;
        return;
    }
    if (full()) {
        ++forgotten_;
        records_.drop_front();
    }
    records_.push_back() = {.sent = now, .delivered_at = delivered_at_, .first_sent = first_sent_, .delivered = delivered_, .lost = lost_,
                            .in_flight = in_flight, .app_limited = limited_until_ != 0};
}

void delivery_rate::forget_before(time_point oldest) noexcept {
    while (!records_.empty() && records_.front().sent < oldest) records_.drop_front();
}

/// The last record of that time; null: none, or forgotten.
const delivery_rate::record* delivery_rate::find(time_point sent) const noexcept {
    std::uint32_t low = 0;
    std::uint32_t high = records_.size();
    while (low < high) {
        const std::uint32_t middle = (low + high) / 2;
        if (records_[middle].sent <= sent) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low != 0 && records_[low - 1].sent == sent ? &records_[low - 1] : nullptr;
}

void delivery_rate::on_delivered(time_point now, std::uint32_t bytes, const time_point* newest, duration rtt, rate_sample& s) noexcept {
    delivered_ += bytes;
    delivered_at_ = now;
    s.total = delivered_;
    s.newly_acked = bytes;
    s.rtt = rtt;
    if (rtt >= duration{0}) least_rtt_ = std::min(least_rtt_, rtt);
    const record* p = newest != nullptr ? find(*newest) : nullptr;
    if (p != nullptr) {
        const duration interval = std::max(p->sent - p->first_sent, now - p->delivered_at);
        s.known = true;
        s.prior_total = p->delivered;
        s.delivered = delivered_ - p->delivered;
        s.lost = lost_ - p->lost;
        s.flight_at_send = p->in_flight;
        s.app_limited = p->app_limited;
        // Sooner than any round trip: what arrived was an earlier copy of it, most likely.
        if (interval > duration{0} && (least_rtt_ == duration::max() || interval >= least_rtt_)) {
            constexpr std::uint64_t most = std::uint64_t{1} << 33;         // so that the product fits
            constexpr std::uint64_t most_a_second = std::uint64_t{1} << 50; // and what is made of it: no path is as fast
            const std::uint64_t rate = std::min(s.delivered, most) * 1'000'000'000u / static_cast<std::uint64_t>(interval.count());
            s.rate = std::min(rate, most_a_second);
            if (!s.app_limited || s.rate >= last_) {
                last_ = s.rate;
                last_limited_ = s.app_limited;
            }
        }
        first_sent_ = p->sent;
    }
    if (limited_until_ != 0 && delivered_ > limited_until_) limited_until_ = 0; // the bubble has left the path
}

void delivery_rate::on_lost(time_point sent, std::uint32_t size) {
    lost_ += size;
    loss_sample& l = fresh_.emplace_back();
    l.size = size;
    if (const record* p = find(sent); p != nullptr) {
        l.known = true;
        l.lost = lost_ - p->lost;
        l.flight_at_send = p->in_flight;
        l.app_limited = p->app_limited;
    }
}

} // namespace corewire::tcp
