// What a connection tells about itself: a snapshot for people and TCP_INFO, and counters of what should be rare.
// Plain values.
#pragma once

#include <corewire/net/tcp/connection_facts.hh>
#include <corewire/net/tcp/lifecycle.hh>
#include <corewire/net/tcp/seq.hh>
#include <corewire/reactor/base/time.hh>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace corewire::tcp {

/// One counter for each thing that is dropped, refused or repaired.
struct counters {
    std::uint64_t retransmitted_segments = 0;
    std::uint64_t retransmission_timeouts = 0;
    std::uint64_t fast_recoveries = 0;
    std::uint64_t spurious_recoveries = 0;     ///< found needless and undone (RFC 3522, 5682, 2883)
    std::uint64_t tail_loss_probes = 0;
    std::uint64_t window_probes = 0;
    std::uint64_t keepalive_probes = 0;
    std::uint64_t challenge_acks = 0;          ///< RFC 5961
    std::uint64_t challenge_acks_withheld = 0; ///< by the limiter
    std::uint64_t unacceptable_segments = 0;   ///< outside the window
    std::uint64_t paws_rejected = 0;           ///< RFC 7323 5
    std::uint64_t bad_acks = 0;                ///< for what was never sent, or far too old
    std::uint64_t resets_ignored = 0;          ///< RST that was not exactly where it must be
    std::uint64_t out_of_order = 0;            ///< segments that arrived beyond a gap
    std::uint64_t duplicates = 0;              ///< segments that brought nothing new
    std::uint64_t receive_queue_full = 0;      ///< segments dropped for want of pieces
    std::uint64_t congestion_marks = 0;        ///< CE seen (RFC 3168)
    std::uint64_t mark_reductions = 0;         ///< windows reduced because of ECE
    std::uint64_t path_probes = 0;             ///< segments larger than the path was known to carry (RFC 4821)
    std::uint64_t path_probes_lost = 0;
    std::uint64_t path_black_holes = 0;        ///< time-outs after which segments became smaller
    std::uint64_t path_reports_deferred = 0;   ///< ICMP's word on the MTU, to be proved by a time-out (RFC 5927 7.2)
    std::uint64_t data_after_orphan = 0;       ///< data that nobody will read
    std::uint64_t handshake_repeats = 0;       ///< SYN or SYN-ACK that came again
    std::uint64_t retransmitted_bytes = 0;     ///< payload of retransmitted_segments
    std::uint64_t reorderings = 0;             ///< ACKs that told of a segment which others had overtaken
    std::uint64_t duplicates_reported = 0;     ///< segments, by the peer, in D-SACKs (RFC 2883)
    std::uint64_t sack_refused = 0;            ///< SACK blocks not believed for want of room: the scoreboard is full
    std::uint64_t beyond_gap_dropped = 0;      ///< segments beyond a gap, the same of the reassembler
};

/// The same as a list: for sums over connections.
using counter_list = std::array<std::uint64_t, sizeof(counters) / sizeof(std::uint64_t)>;
inline counters& operator+=(counters& sum, const counters& more) noexcept {
    auto all = std::bit_cast<counter_list>(sum);
    const auto add = std::bit_cast<counter_list>(more);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] += add[i];
    return sum = std::bit_cast<counters>(all);
}

/// Segments, one by one, and where the time went: kept for connections that ask (parameters::counts()).
struct segment_tally {
    std::uint32_t in = 0, out = 0, data_in = 0, data_out = 0;
    std::uint64_t acked = 0;       ///< sequence numbers of data and FIN; what makes 64 bits of sequence numbers
    std::uint32_t delivered = 0;   ///< data and FIN, acknowledged
    std::uint32_t delivered_marked = 0; ///< by ACKs that said ECE
    mark_tally marks{};            ///< with Linux's habits, and without AccECN: of what came
    std::uint32_t time_out_rows = 0; ///< time-outs that were not the next of a row; kept for all
    time_point row_since{};        ///< when the row began that goes on; none: none does
    duration in_rows{0};           ///< how long the others took
    std::uint32_t answers_timed_out = 0; ///< time-outs of a SYN-ACK
    /// What the sender has been busy with, and for how long: Linux's chronographs (tcp_chrono_start()).
    enum class work : std::uint8_t { none, busy, window, buffer } now = work::none;
    bool no_space = false;         ///< a writer waits for room in the send buffer
    time_point since{};
    duration spent[4]{};           ///< by `work`; that of `now` lacks what has passed since
};

/// A snapshot; times in nanoseconds, sizes in bytes.
struct connection_info {
    tcp_state state = tcp_state::closed;
    duration srtt{0};
    duration rttvar{0};
    duration rto{0};
    unsigned backoff = 0;
    unsigned attempts = 0;         ///< retransmissions by time-out in a row, without an answer
    std::uint32_t cwnd = 0;
    std::uint32_t ssthresh = 0;
    std::uint32_t in_flight = 0;
    std::uint32_t send_window = 0;
    std::uint32_t largest_send_window = 0; ///< so far
    std::uint32_t receive_window = 0;
    std::uint32_t promised_window = 0; ///< the same when the last ACK left
    std::uint32_t receive_threshold = 0; ///< Linux's habit: no larger window is promised for now; else receive_window
    std::uint32_t receive_buffer = 0; ///< as it has grown
    std::uint32_t send_buffer = 0;
    std::uint32_t segment_payload = 0;
    std::uint32_t unsent = 0;
    std::uint32_t unacknowledged = 0;
    std::uint32_t unread = 0;
    std::uint32_t out_of_order = 0;
    std::uint64_t bytes_received = 0;
    std::uint8_t send_scale = 0;
    std::uint8_t receive_scale = 0;
    bool timestamps = false;
    bool sack = false;
    bool ecn = false;
    bool accurate_ecn = false;     ///< AccECN (RFC 9768)
    bool scaling = false;
    bool data_in_syn = false;      ///< a SYN took data along, ours or the peer's, and it was taken (RFC 7413)
    bool opened_early = false;     ///< by a SYN with a good cookie, with data or without (RFC 7413)
    fast_open_failure fast_open = fast_open_failure::none;
    bool recovering = false;       ///< fast recovery, or repair after a time-out
    bool timed_out = false;        ///< repair after a time-out
    bool reduced = false;          ///< the window was reduced because of marks, and what was in flight then still is (RFC 3168 6.1.2)
    bool ecn_seen = false;         ///< the peer's data has come with ECT or CE
    bool disordered = false;       ///< SACKed bytes or duplicate ACKs, and no loss found yet
    unsigned probes = 0;           ///< window probes without an answer
    std::uint32_t sacked = 0;      ///< bytes in flight that the peer has beyond a gap
    std::uint32_t lost = 0;        ///< bytes held for lost and not resent
    std::uint32_t resent = 0;      ///< bytes in flight that were sent again
    /// The same four in segments, as far as the scoreboard tells them apart: what left at one moment counts in full ones.
    std::uint32_t unacknowledged_segments = 0, sacked_segments = 0, lost_segments = 0, resent_segments = 0;
    std::uint32_t reordering = 3;  ///< segments: how far one was overtaken, at least DupThresh
    std::uint32_t packet_size = 0; ///< the largest IP packet for which segments are made, if its header has 20 bytes
    std::uint32_t peer_segment = 0; ///< with Linux's habits: the largest payload that the peer takes; 0: not known
    std::uint64_t bytes_sent = 0;  ///< payload, repetitions included; of the first transmissions modulo 2^32 unless `counted`
    time_point last_sent{};        ///< when payload was last sent; none: never
    time_point last_payload{};     ///< when payload last came, or the handshake ended; none: not known (kept if `counted`)
    std::uint32_t received_segment = 0; ///< the largest segment that has come, at least 536
    bool passive = false;          ///< opened by the peer
    duration ack_time_out{0};      ///< with Linux's habits: how long an ACK may wait; 0: no data has come
    bool counted = false;          ///< what follows is kept (of the tally, time-outs are always)
    duration receive_rtt{0};       ///< by what was received; 0: none measured
    time_point established_at{};   ///< when the handshake ended
    std::uint64_t delivery_rate = 0; ///< bytes a second, by the last good sample; 0: none, or nobody samples (BBR does, too)
    bool delivery_rate_limited = false; ///< there was too little to send meanwhile: the path may be faster
    segment_tally tally{};
    mark_tally marks{};
    std::uint32_t receive_space = 0; ///< bytes: the most that was read in a round; 0: nothing was measured
    std::uint64_t numbers_acked = 0; ///< as bytes_acked, with our FIN, and the SYN if we opened the connection
    std::uint64_t bytes_acked = 0; ///< payload, since the beginning; modulo 2^32 unless `counted`
    std::uint64_t pacing_rate = ~std::uint64_t{0}; ///< bytes a second, followed or not; all ones: not known yet
    std::uint64_t max_pacing_rate = ~std::uint64_t{0}; ///< the cap; all ones: none
    bool paced = false;            ///< it is followed
    duration min_rtt{0};           ///< the least of the last minutes; 0: none measured
    seq_number snd_una, snd_nxt, snd_max, rcv_nxt;
};

} // namespace corewire::tcp
