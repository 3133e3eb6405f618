// How fast data is delivered (draft-ietf-ccwg-bbr 4.1): every sending notes how much had been delivered by then, and its ACK how much
// more there is. Kept only for connections whose controller asks, or that are counted for info(), on the heap, beside the
// scoreboard, which owns it and tells of losses.
//
//     sent at 7 us: 3,000 delivered at 6 us  ...  ACK at 9 us: 8,000 delivered     -->  5,000 bytes in the longer of
//                                                                                       (9 - 6) us and what sending them took
//
// What is sent at one time is one record, as it is one range of the scoreboard. Bounded: record_limit; when the scoreboard needs none of
// them no more, the oldest is forgotten and counted, and its ACK gives no sample.
#pragma once

#include <corewire/net/tcp/congestion/rate_sample.hh>
#include <corewire/net/tcp/ring.hh>

#include <algorithm>
#include <vector>

namespace corewire::tcp {

class delivery_rate {
public:
    static constexpr std::uint32_t record_limit = 2048;

    /// A segment leaves (4.1.2.2). `in_flight`: bytes, itself included. `from_idle`: nothing else is.
    void on_sent(time_point now, std::uint32_t in_flight, bool from_idle);
    /// Whether on_sent() would have to forget a record: first forget_before() what is not needed.
    bool full() const noexcept { return records_.size() >= record_limit; }
    /// Nothing that is still in flight was sent before `oldest`.
    void forget_before(time_point oldest) noexcept;
    std::uint32_t records() const noexcept { return records_.size(); }
    std::uint64_t forgotten() const noexcept { return forgotten_; } ///< records that were dropped for want of room

    /// An ACK delivered `bytes` (4.1.2.3). `newest`: when the last sent of them was sent; null: nobody knows. `rtt`: below 0 if there
    /// is none. Fills in what `s` says of the newest.
    void on_delivered(time_point now, std::uint32_t bytes, const time_point* newest, duration rtt, rate_sample& s) noexcept;
    /// Bytes sent at `sent` are held for lost.
    void on_lost(time_point sent, std::uint32_t size);
    /// What on_lost() noted since the last call: the caller takes it and clears it.
    std::vector<loss_sample>& fresh_losses() noexcept { return fresh_; }
    /// There is nothing to send, though more could be in flight than these bytes (4.1.2.4): samples are too low for a round trip.
    void limit_by_application(std::uint32_t in_flight) noexcept {
        limited_until_ = std::max<std::uint64_t>(delivered_ + in_flight, 1);
    }
    bool limited_by_application() const noexcept { return limited_until_ != 0; }
    std::uint64_t delivered() const noexcept { return delivered_; } ///< C.delivered
    /// Bytes a second by the last sample, but for lower ones that were limited by the application; 0: none yet.
    std::uint64_t last() const noexcept { return last_; }
    bool last_was_limited() const noexcept { return last_limited_; }

private:
    struct record {
        time_point sent{};         ///< P.send_time
        time_point delivered_at{}; ///< P.delivered_time
        time_point first_sent{};   ///< P.first_send_time
        std::uint64_t delivered = 0;
        std::uint32_t lost = 0;
        std::uint32_t in_flight = 0;
        bool app_limited = false;
    };
    const record* find(time_point sent) const noexcept;

    std::uint64_t delivered_ = 0;
    std::uint64_t limited_until_ = 0; ///< C.app_limited
    time_point delivered_at_{};       ///< C.delivered_time
    time_point first_sent_{};         ///< C.first_send_time
    duration least_rtt_ = duration::max();
    std::uint32_t lost_ = 0;          ///< C.lost, modulo 2^32
    std::uint64_t last_ = 0;
    bool last_limited_ = false;
    std::uint64_t forgotten_ = 0;
    ring<record> records_;         ///< in the order of `sent`
    std::vector<loss_sample> fresh_;  ///< at most one for each range of the scoreboard
};

} // namespace corewire::tcp
