// The sending half of a connection: SND.UNA and its kin, what is queued, what is in flight, how fast it may go.
// Owned by one control_block; bounded by its parts. What to send next is decided in segmenter.hh and output.cc.
#pragma once

#include <corewire/net/tcp/congestion/congestion_slot.hh>
#include <corewire/net/tcp/parameters.hh>
#include <corewire/net/tcp/send/recovery.hh>
#include <corewire/net/tcp/send/rto.hh>
#include <corewire/net/tcp/send/scoreboard.hh>
#include <corewire/net/tcp/send/seldom.hh>
#include <corewire/net/tcp/send/send_queue.hh>

#include <memory>

namespace corewire::tcp {

/// What timer_slot::retransmit stands for at the moment.
enum class awaited : std::uint8_t { nothing, timeout, tail_probe, window_probe, reordering };

struct sender {
    static constexpr duration unknown = duration::max() / 2;

    seq_number iss;               ///< our initial number
    seq_number una;               ///< SND.UNA
    seq_number next;              ///< SND.NXT: below `max` only after a window probe, or as send_new() says
    seq_number max;               ///< one beyond the highest number ever sent
    std::uint32_t window = 0;     ///< SND.WND, bytes
    seq_number wl1;               ///< SND.WL1
    std::uint32_t max_window = 0; ///< the largest ever seen (RFC 9293 3.8.6.2.1, RFC 5961 5)
    seq_number wl2;               ///< SND.WL2
    std::uint32_t payload_limit = 536; ///< Eff.snd.MSS less the options of every segment
    std::uint16_t mss = 536;      ///< RFC 9293 MUST-15: the default when the peer says nothing
    std::uint16_t attempts = 0;   ///< retransmissions or probes in a row without an answer
    std::uint8_t shift = 0;       ///< Snd.Wind.Shift
    bool sack = false;            ///< SACK was agreed on: the peer may send blocks
    bool probes_tail = false;     ///< so a tail loss probe may go before a time-out (RFC 8985 7.1), and is not switched off
    bool fin_queued = false;      ///< FIN stands behind the queue's end
    bool corked = false;          ///< only full segments leave (parameters::cork, or more is about to be written)
    bool timing = false;          ///< the round trip of our SYN is being measured: it left at `progress`
    awaited waiting_for = awaited::nothing;
    bool probe_is_patient = false; ///< the tail loss probe allows for the peer's delayed ACK
    bool paced = false;           ///< somebody wants a pace, though it may not be known yet
    bool burst_open = false;      ///< something was sent that validate_window() has not seen
    bool searching = false;       ///< search()->low is the segment size, and larger ones are tried
    bool largest_acked = false;   ///< see size_acknowledged()
    std::uint32_t largest_sent = 0; ///< payload of the largest segment sent at once
    seq_number largest_end;       ///< and where the first such ended
    seq_number small_end;         ///< end of the last segment below full size (Minshall's variant of Nagle)
    seq_number limited_until;     ///< SND.NXT when cwnd last held data back: ACKs up to here may open it
    seq_number last_start;        ///< start of the last segment of new data
    time_point last_sent{};       ///< when data was last sent
    time_point progress{};        ///< when SND.UNA last moved, or the first unacknowledged byte was sent
    duration probe_after = unknown; ///< 2 * SRTT, at least min_probe; beyond any time-out before the first sample
    send_queue queue;
    rto_estimator rto;
    scoreboard board;
    least_round_trip least_rtt;
    recovery repair;
    std::uint32_t marked = 0;     ///< bytes that the ACK at hand says were marked (ECN)
    congestion_slot congestion;
    std::unique_ptr<seldom_needed> seldom; ///< null: nothing of it was needed yet

    /// From now on there is a `seldom`.
    seldom_needed& need();
    /// As it is, or would be.
    const seldom_needed& known() const noexcept { return seldom != nullptr ? *seldom : nothing_seldom; }
    /// When what was overtaken is to be held for lost (RFC 8985 6.2 step 5); never: nothing is.
    time_point settled_at() const noexcept { return seldom != nullptr ? seldom->settled_at : never; }
    void settle_at(time_point when) {
        if (when != never || seldom != nullptr) need().settled_at = when;
    }
    /// A pace is followed.
    bool pacing() const noexcept { return paced && seldom != nullptr && seldom->pace.on(); }
    /// RACK.fack: the highest number delivered. One that is not in flight is from long ago, and says nothing.
    seq_number farthest() const noexcept {
        if (seldom == nullptr) return una;
        const seq_number f = seldom->losses.farthest();
        return f - una <= max - una ? f : una;
    }
    /// A segment of `size` bytes ends at `end`. RFC 5927 7.2's maxsizesent.
    void note_size(std::uint32_t size, seq_number end) noexcept {
        if (size > largest_sent) [[unlikely]] {
            largest_sent = size;
            largest_end = end;
            largest_acked = false;
        } else if (!largest_acked && una >= largest_end) {
            largest_acked = true;
        }
    }
    /// The peer has had a segment as large as any (maxsizeacked is maxsizesent).
    bool size_acknowledged() const noexcept { return largest_acked || (largest_sent != 0 && una >= largest_end); }
    /// Null: there was none yet.
    path_search* search() const noexcept { return seldom != nullptr ? seldom->path.get() : nullptr; }
    bool path_probe_out() const noexcept { return searching && search()->probe != 0; }
    bool fin_sent() const noexcept { return fin_queued && max > queue.end(); }
    bool fin_acknowledged() const noexcept { return fin_queued && una > queue.end(); }
    /// The number behind everything that is queued, FIN included.
    seq_number final_end() const noexcept { return queue.end() + (fin_queued ? 1u : 0u); }
    /// Payload bytes that the peer has acknowledged since the beginning, modulo 2^32.
    std::uint32_t bytes_acked() const noexcept { return queue.first() - (iss + 1); }
    /// Payload bytes that were sent, each once, modulo 2^32.
    std::uint32_t bytes_sent() const noexcept { return max == iss ? 0 : max - (iss + 1) - (fin_sent() ? 1 : 0); }
    bool all_acknowledged() const noexcept { return una == final_end(); }
    /// There is a new SRTT.
    void set_probe_after(const parameters& p) noexcept { probe_after = std::max(2 * rto.srtt(), p.min_probe); }
    bool anything_outstanding() const noexcept { return una != max; }
    bool small_in_flight() const noexcept { return small_end > una && small_end <= max; } // else it is from long ago
    /// Losses, duplicates or probes are about.
    bool repairing() const noexcept {
        return !board.quiet() || repair.phase != recovery_phase::open || repair.tail_probe_out || repair.duplicates != 0;
    }
    /// The edge of the peer's window, from SND.NXT; negative when the peer has taken room back.
    std::int32_t usable_window() const noexcept { return static_cast<std::int32_t>((una + window) - next); }
    /// Bytes thought to be in the network: FlightSize, less what SACK or duplicate ACKs account for.
    std::uint32_t in_flight() const noexcept {
        if (board.quiet() && repair.left == 0) [[likely]] return next - una;
        if (repair.by_numbers && repair.phase != recovery_phase::timeout) return next - una;
        const std::uint32_t pipe = board.pipe();
        const std::uint32_t elsewhere = repair.left + (max > next ? max - next : 0); // a window probe's byte was refused
        return pipe > elsewhere ? pipe - elsewhere : 0;
    }

    /// in_flight(), as the congestion window counts: with Linux's habits in segments, each as a full one.
    std::uint32_t in_flight(const parameters& p) const noexcept { return p.like_linux() ? counted_flight() : in_flight(); }

    /// Whatever turns out of the last recovery, its reduction stays: others have come on top.
    void forget_undo() noexcept {
        if (seldom != nullptr) seldom->undo.possible = false;
    }

    /// The pace from now on: what the controller says, or the window's if somebody wants that, and never above the cap.
    void set_pace(const parameters& p) noexcept;
    void start(seq_number first, const parameters& p) noexcept;
    /// The handshake is over, which the peer has begun if `passive`: segments of at most `peer_mss`, timestamps or not.
    void agree(std::uint16_t peer_mss, bool timestamps, bool passive, const parameters& p, time_point now) noexcept;
    void set_mss(std::uint16_t size, bool timestamps) noexcept;
    void take_window(std::uint32_t bytes, seq_number seq, seq_number ack) noexcept {
        window = bytes;
        if (bytes > max_window) max_window = bytes;
        wl1 = seq;
        wl2 = ack;
    }
    /// The row of time-outs is over, if there was one: something was acknowledged.
    void end_time_outs(time_point now) noexcept;
    /// Linux's habit: cwnd opens where it was the limit in the last round, in slow start where half of it was used, too (RFC 7661 has a
    /// like rule; tcp_is_cwnd_limited()).
    bool window_was_used() const noexcept {
        const window_use& use = known().use;
        return use.limited || (congestion->in_slow_start() && congestion->cwnd() < 2 * use.round_flight * payload_limit);
    }
    /// Linux's habit: data has left, and no more can go now; `limited` because of cwnd. A window that was not used for a time-out shrinks.
    void validate_window(time_point now, bool limited, const parameters& p);
    /// The same: from now on.
    void begin_window_use(time_point now) {
        need().use.used_at = now;
        seldom->use.flight = 0;
    }
    // ---- Linux's habits: segments keep their ends (seldom.hh, habits.cc) ----
    /// The segment [seq, end) of new data, or FIN, was sent; one that is full and without PSH needs no note where they are only counted.
    void note_end(seq_number seq, seq_number end, bool push);
    /// A packet ended, or was cut, at `end`. `size` of its segments; 0: payload_limit.
    void note_packet(seq_number end, bool push, std::uint32_t size = 0);
    /// What is in flight counts as the segments that it left as, whatever payload_limit becomes.
    void keep_sizes() noexcept;
    /// But the packet that `end` lies in, or ends, of which something is sent again, counts as what leaves now.
    void forget_size(seq_number end) noexcept;
    /// The packet that ends there left as segments of this size.
    void keep_size(seq_number end, std::uint32_t size) noexcept;
    /// Where the packet ended that the byte `at` went out in.
    seq_number packet_end(seq_number at) const noexcept;
    /// Of the lost [left, right) what goes in one segment of at most `limit` bytes: whole segments as they were sent, if the first fits.
    sack_block whole_segments(sack_block lost, std::uint32_t limit) const noexcept;
    /// Linux's habit: of what a SACK block tells only whole segments count (tcp_match_skb_to_sack()). Empty, or turned round: none.
    sack_block whole_sacked(sack_block told) const noexcept;
    /// A segment of [seq, end) that went out with PSH.
    bool pushed(seq_number seq, seq_number end) const noexcept;
    /// The first segment in flight as it was sent: where it ends.
    seq_number first_end() const noexcept { return earlier(una + payload_limit, earlier(packet_end(una), max)); }
    /// How many segments [SND.UNA, end) went out in; a last one that is not whole counts if `part`.
    std::uint32_t segments_to(seq_number end, bool part) const noexcept;
    /// Where the last of them ends that is whole.
    seq_number whole_up_to(seq_number end) const noexcept;
    // Linux's congestion window counts segments, small ones, too: bytes as if each were full. Each O(ranges + ends).
    /// What is out with that fate.
    std::uint32_t counted(fate what) const noexcept;
    /// What was sent again for that reason, and flies.
    std::uint32_t counted(copy why) const noexcept;
    /// What neither the cumulative ACK `from` nor SACK has told of.
    std::uint32_t counted_undelivered(seq_number from) const noexcept;
    /// in_flight(); a SYN is none.
    std::uint32_t counted_flight() const noexcept;
    /// The segments within [seq, end), which are sent again as one, are one from now on.
    void join_ends(seq_number seq, seq_number end) noexcept;
    /// SND.UNA moves to `ack`: what was noted of segments before it is forgotten.
    void forget_ends(seq_number ack) noexcept;
    bool ends_record(seq_number end) const noexcept;
    /// `size` bytes from SND.NXT, but not beyond the end of a record (MSG_EOR).
    std::uint32_t within_record(std::uint32_t size) noexcept;
    /// For info(): what holds the sender back from now on, if anything is under way: the peer's window, or a send buffer that is too small
    /// for more.
    void account(time_point now, bool window_held, const parameters& p);
    /// Linux makes no segments larger than half the largest window that the peer has offered (tcp_bound_to_half_wnd()).
    void fit_window(bool timestamps) noexcept;
    void check_invariants(bool linux_habits) const;

private:
    static const seldom_needed nothing_seldom;
};

} // namespace corewire::tcp
