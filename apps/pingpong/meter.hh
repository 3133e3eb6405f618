// One client shard's accounts: when measuring begins and ends, how many messages may still be sent, and what came back.
// Owned by the shard's run; every client coroutine of that shard refers to it. Its only unbounded part is time.
//
//     begin() -- warm-up --> measuring -- the count is used up, or the time is --> finished: nothing more is sent
#pragma once

#include <corewire/apps/pingpong/workload.hh>
#include <corewire/reactor/metrics/histogram.hh>

#include <cstdint>
#include <limits>

namespace corewire::pingpong {

/// What a shard (or all of them) has to tell in the end.
struct outcome {
    std::uint64_t round_trips = 0; ///< bulk: messages that arrived
    std::uint64_t bytes = 0;       ///< bulk: payload that arrived
    std::uint64_t errors = 0;
    double seconds = 0;            ///< the longest of the shards'
    histogram rtt_ns{};

    void merge(const outcome& other) {
        round_trips += other.round_trips;
        bytes += other.bytes;
        errors += other.errors;
        if (other.seconds > seconds) seconds = other.seconds;
        rtt_ns.merge(other.rtt_ns);
    }
};

class meter {
public:
    explicit meter(const workload& load) noexcept : load_(load) {}

    void begin(time_point now) noexcept {
        start_ = now + load_.warmup;
        end_ = load_.count ? never : start_ + load_.length;
        next_phase_ = start_;
        unsent_ = std::numeric_limits<std::uint64_t>::max();
        look_at(now);
    }

    /// True if one more message may be sent.
    bool take_turn() noexcept {
        if (unsent_ == 0) return false;
        --unsent_;
        return true;
    }
    /// A message sent at `sent` has come back, whole, at `now`.
    void record(time_point sent, time_point now) noexcept {
        if (sent < start_) return;
        outcome_.rtt_ns.record(static_cast<std::uint64_t>((now - sent).count()));
        last_ = now;
    }
    /// Bulk: the whole of `messages`, `bytes` long, has arrived by `now`, since measuring began.
    void record_bulk(std::uint64_t messages, std::uint64_t bytes, time_point now) noexcept {
        outcome_.round_trips += messages;
        outcome_.bytes += bytes;
        last_ = now;
    }
    void error(std::uint64_t n = 1) noexcept { outcome_.errors += n; }
    /// Call once for each batch of replies, before take_turn().
    void look_at(time_point now) noexcept {
        if (now >= next_phase_) change_phase(now);
    }
    /// Nothing more may be sent: for good, and from any shard's point of view at once.
    void stop() noexcept { unsent_ = 0; }

    bool measuring(time_point now) const noexcept { return now >= start_; }
    time_point start() const noexcept { return start_; }
    time_point end() const noexcept { return end_; }
    std::uint64_t errors() const noexcept { return outcome_.errors; }
    const workload& load() const noexcept { return load_; }

    /// The accounts, when all is over.
    outcome close() {
        if (!load_.bulk) outcome_.round_trips = outcome_.rtt_ns.count();
        outcome_.seconds = last_ > start_ ? std::chrono::duration<double>(last_ - start_).count() : 0;
        return outcome_;
    }
    /// For a progress line.
    std::uint64_t round_trips_so_far() const noexcept {
        return load_.bulk ? outcome_.round_trips : outcome_.rtt_ns.count();
    }

private:
    void change_phase(time_point now) noexcept {
        if (now >= end_) {
            unsent_ = 0;
            next_phase_ = never;
            return;
        }
        if (load_.count) unsent_ = *load_.count;
        next_phase_ = end_;
    }

    workload load_;
    outcome outcome_;
    time_point start_{}, end_{}, next_phase_{}, last_{};
    std::uint64_t unsent_ = 0;
};

} // namespace corewire::pingpong
