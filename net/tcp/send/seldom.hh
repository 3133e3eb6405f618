// What few senders need: those that lose something, are paced, search for their path's MTU, or follow Linux's habits. One block on the
// heap, made when the first of it is needed (sender::need()), so that the others, of which there may be a million, pay a pointer.
// Owned by one sender.
#pragma once

#include <corewire/net/tcp/info.hh>
#include <corewire/net/tcp/ring.hh>
#include <corewire/net/tcp/send/pacer.hh>
#include <corewire/net/tcp/send/rack.hh>
#include <corewire/net/tcp/send/recovery.hh>
#include <corewire/net/tcp/send/rto.hh>

#include <array>
#include <memory>

namespace corewire::tcp {

/// Linux's habit: how much of the congestion window is used (tcp_cwnd_validate()); for info(), of counted connections too, when what
/// came.
struct window_use {
    seq_number round_end;          ///< the end of the round in which `round_flight` was the most in flight
    std::uint32_t round_flight = 0; ///< segments, as these may have another size when it is asked for
    bool limited = false;          ///< cwnd was the limit in that round
    time_point used_at{};          ///< when cwnd was last the limit, or was lowered for not being
    std::uint32_t flight = 0;      ///< the most in flight since; segments
    time_point payload_at{};       ///< when payload last came, or the handshake ended; for tcpi_last_data_recv
    time_point established_at{};   ///< when the handshake ended
};

/// RFC 7661: how much of the window was used lately, and since when that is less than half (send/validation.hh).
struct validated_window {
    struct sample {
        time_point at{};           ///< none: there is none
        std::uint32_t bytes = 0;
    };
    std::array<sample, 4> samples{}; ///< of pipeACK, the newest first
    std::uint32_t acked = 0;       ///< in the round that goes on
    seq_number round_end;          ///< of that, where it has `begun`
    time_point since{};            ///< none: the window is validated
    std::uint32_t at_loss = 0;     ///< what the recovery that goes on was begun from; 0: from a validated window
    bool begun = false;
};

/// Linux's habit: how long an ACK may wait, by how often data comes (receive/linux_delayed_acks.cc).
struct ack_habits {
    static constexpr duration least = std::chrono::milliseconds{40};
    duration time_out{0};          ///< icsk_ack.ato; 0: no data has come
    seq_number gap;                ///< SACKs were last sent for the one that begins here
    std::uint8_t gap_told = 0;     ///< the first of them, which go at once
    std::uint8_t answers = 0;      ///< data that left soon after some had come, since ACKs were last not to ride on it
    sack_block late{};             ///< what has come is told of when an ACK has left that tells of what came before
};

/// Linux's habit: what the segments that wait to be read cost, and the window that follows from it (receive/linux_window.cc).
struct receive_account;
struct forget_account {
    void operator()(receive_account* a) const noexcept;
};

/// Linux's habit, and for info(): the round trip as one sees it who receives data (tcp_rcv_rtt_measure(), receive/linux_delayed_acks.cc).
struct receive_round_trip {
    std::uint32_t eighths = 0;     ///< of a microsecond, smoothed; 0: not known
    std::uint32_t echo = 0;        ///< TSecr of the last segment
    seq_number end;                ///< of the window that was open at `since`: what comes behind it was sent a round trip later, or more
    time_point since = never;
};

/// Linux's habit: packets keep their ends and their PSH flag when they are sent again, and segments are counted one by one; counted
/// connections do the latter. The ends of packets in flight; where segments are only counted, of those that are not full.
struct sent_end {
    seq_number end;
    bool push = false;
    std::uint16_t size = 0;        ///< of the segments that the packet left as; 0: as those that leave now
};

/// Linux's habit: what is written waits in buffers, and leaves in packets of one segment or several (send/super_segments.hh).
struct waiting_buffer {
    seq_number end;
    bool push = false;             ///< its last segment carries PSH
};
struct super_segment {
    ring<waiting_buffer> waiting;  ///< in order, from SND.NXT on; what lies behind the last has been written just now
    seq_number pushed;             ///< where the last buffer ended that got PSH when it was filled
    std::uint32_t left = 0;        ///< bytes of the packet that is leaving
    std::uint32_t size = 0;        ///< payload of each of its segments, but the last
    bool begun = false;            ///< its first segment has left
    bool again = false;            ///< it is a retransmission
    seq_number next;               ///< of that: where it goes on
    bool more = false;             ///< more is to follow what was written last (MSG_MORE)
    bool fresh = false;            ///< nothing of that has been put into a buffer yet
    time_point at{};               ///< when payload last left
    std::uint64_t rate = pacer::off; ///< bytes a second, as the last ACK made it
};

/// Linux's habit: a handshake that is not ended by an ACK alone (TCP_DEFER_ACCEPT).
struct deferral {
    std::uint8_t time_outs = 0;    ///< until there were so many of the SYN-ACK
    std::uint8_t silent = 0;       ///< those at which nothing was sent, as an ACK had come
    bool heard = false;            ///< it has
};

/// The search for the path's MTU: send/path_search.hh. Sizes as sender::mss.
struct path_search {
    std::uint16_t low = 0;         ///< segments so large get through, as far as is known
    std::uint16_t high = 0;        ///< larger ones are not tried
    std::uint16_t ceiling = 0;     ///< what the handshake has agreed on
    std::uint16_t probe = 0;       ///< the one that is out; 0: none
    std::uint16_t wanted = 0;      ///< the size that plan_probe() found
    std::uint16_t report = 0;      ///< what ICMP claims; of a SYN-SENT connection, until the peer has named its size
    std::uint16_t asked = 0;       ///< Linux's habit: what our SYN has asked for when it went again, as ICMP claims; 0: parameters::mss
    std::uint8_t misses = 0;       ///< probes of this size of which nothing was learnt
    bool halving = false;          ///< the largest was tried
    bool revisits = false;         ///< a report has made segments smaller, and only what was there before is tried again
    bool report_waits = false;     ///< for a time-out to prove it (RFC 5927 7.2)
    seq_number report_seq;         ///< the byte it speaks of
    seq_number start, end;         ///< the probe's bytes
    time_point since{};            ///< when the search began
};

/// FreeBSD's habit (send/freebsd_recovery.hh).
struct freebsd_sender {
    std::uint32_t window_after = 0; ///< cwnd, when what is leaving has left; 0: as it is
    seq_number burst_from;         ///< SND.MAX before
    seq_number timed;              ///< while `timing`: the segment that begins here is
    time_point timed_at{};
    seq_number timed_to;           ///< SND.NXT when the last burst was over
    seq_number farthest;           ///< the end of the highest SACKed byte, and
    std::uint32_t holes = 0;       ///< how many holes there were below it
    time_point doubt_until{};      ///< without timestamps: an ACK before then is that of what was there before the first time-out
    std::uint8_t limited = 0;      ///< segments that duplicate ACKs have let go (RFC 3042)
    bool timing = false;
};

struct seldom_needed {
    rack losses;
    rate_reduction reduction;
    undo_state undo;
    time_point settled_at = never; ///< when what was overtaken is to be held for lost (RFC 8985 6.2 step 5)
    time_point stalled_at = never; ///< since when the user's patience counts, while there are attempts; never: from the first one on
    pacer pace;
    window_use use;
    round_trip_spread spread;
    validated_window validation;
    std::unique_ptr<path_search> path; ///< made by the first search, or report
    ack_habits acks;
    receive_round_trip receive_rtt;
    std::unique_ptr<receive_account, forget_account> account;
    segment_tally tally;
    static constexpr std::uint32_t most_ends = 1024; ///< of more the first are forgotten
    ring<sent_end> ends;           ///< in order, behind SND.UNA
    super_segment leaving;
    freebsd_sender freebsd;
    deferral handshake;
    std::uint16_t peer_mss = 0;    ///< Linux's habit: what the peer has named, though ours are smaller; 0: nothing yet
    ring<seq_number> records;      ///< MSG_EOR: the same, of writes that nothing is to be joined to; sent or not
};

} // namespace corewire::tcp
