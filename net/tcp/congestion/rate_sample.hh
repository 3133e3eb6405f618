// What the delivery of data tells of the path: for controllers that ask for it (congestion_controller::samples_rate()). Plain values,
// made by send/delivery_rate.hh; the names in capitals are those of draft-ietf-ccwg-bbr.
#pragma once

#include <corewire/reactor/base/time.hh>

#include <cstdint>

namespace corewire::tcp {

/// One ACK that delivered something (draft-ietf-ccwg-bbr 2.3, 4.1.2.1.3). "The newest" is what was sent last of all that it delivered.
struct rate_sample {
    time_point now{};
    std::uint64_t total = 0;           ///< C.delivered: bytes delivered since the beginning
    std::uint32_t newly_acked = 0;     ///< RS.newly_acked: bytes that this ACK delivered, cumulatively or by SACK
    bool known = false;                ///< the newest is on record: what stands up to `app_limited` is meant
    std::uint64_t prior_total = 0;     ///< RS.prior_delivered: `total` when the newest was sent
    std::uint64_t delivered = 0;       ///< RS.delivered: bytes delivered since then
    std::uint64_t rate = 0;            ///< RS.delivery_rate, bytes a second; 0: no reliable sample
    std::uint32_t lost = 0;            ///< RS.lost: bytes found lost since the newest was sent
    std::uint32_t flight_at_send = 0;  ///< RS.tx_in_flight: bytes in flight when the newest was sent, itself included
    bool app_limited = false;          ///< RS.is_app_limited: there was nothing to send at some time since
    duration rtt{-1};                  ///< RS.rtt, of the last sent of those never resent; below 0: none
    std::uint32_t in_flight = 0;       ///< C.inflight, bytes, after this ACK
    bool window_limited = false;       ///< C.is_cwnd_limited: cwnd held data back in the last round trip
    bool selective = false;            ///< C.has_selective_acks
    bool recovering = false;           ///< fast recovery is on
    bool repairing = false;            ///< or one behind a time-out
};

/// Bytes that were sent at one time and are held for lost now (draft-ietf-ccwg-bbr 5.5.10.2).
struct loss_sample {
    time_point now{};
    std::uint64_t total = 0;           ///< C.delivered
    std::uint32_t size = 0;            ///< bytes
    bool known = false;                ///< their sending is on record: the rest is meant
    std::uint32_t lost = 0;            ///< bytes found lost since they were sent, themselves included
    std::uint32_t flight_at_send = 0;  ///< P.tx_in_flight
    bool app_limited = false;          ///< P.is_app_limited
    bool selective = false;
};

} // namespace corewire::tcp
