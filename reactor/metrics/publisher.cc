#include <corewire/reactor/metrics/publisher.hh>

#include <corewire/reactor/task/sleep.hh>

#include <algorithm>

namespace corewire {

metric_publisher::round_timer::round_timer(metric_publisher* p) noexcept
    : timer([](timer& t) noexcept { static_cast<round_timer&>(t).owner->on_timer(); }), owner(p) {}

metric_publisher::metric_publisher(reactor& loop, metric_registry& registry, publisher_options options)
    : reactor_(loop), registry_(registry), options_(options), interval_(options.interval) {
    reactor_.timers().arm(timer_, reactor_.now());
}

void metric_publisher::begin() noexcept {
    collector_ = 0;
    collector_begins_ = true;
    next_ = 0;
    in_round_ = true;
    registry_.begin_rows();
}

/// True: there is more of this round.
bool metric_publisher::slice() noexcept {
    unsigned index = 0;
    metric_collector* turn = nullptr;
    collectors_.for_each([&](metric_collector& each) {
        if (index++ == collector_) turn = &each;
    });
    if (turn != nullptr) {
        const bool more = turn->collect(registry_, std::exchange(collector_begins_, false));
        if (more) return true;
        ++collector_;
        collector_begins_ = true;
        return true;
    }
    next_ = registry_.publish(next_, options_.slice);
    if (next_ != 0) return true;
    registry_.end_round(static_cast<std::uint64_t>(to_ns(time_point{} + interval_)));
    in_round_ = false;
    return false;
}

void metric_publisher::on_timer() noexcept {
    if (!in_round_) {
        interval_ = next_interval();
        begin();
    }
    const bool more = slice();
    reactor_.timers().arm(timer_, more ? reactor_.now() : reactor_.now() + interval_);
}

/// A shard that has hardly turned since the last round sleeps: it is left alone for longer.
duration metric_publisher::next_interval() noexcept {
    const std::uint64_t sleeps = reactor_.sleeps() - std::exchange(sleeps_before_, reactor_.sleeps());
    if (sleeps == 0 || sleeps > 8) return options_.interval;
    return std::min(options_.idle_interval, interval_ * 2);
}

task<> metric_publisher::publish_now() {
    begin(); // what the timer had begun is begun again
    while (in_round_ && slice()) co_await yield();
}

} // namespace corewire
