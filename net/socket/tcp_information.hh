// What a connection tells about itself: what Linux's TCP_INFO gives (tcp(7)), in named fields, the same for both providers of sockets.
// A snapshot, a plain value. Sizes are bytes, times are durations. A field that its provider does not keep is empty.
//
// Of Linux's struct nothing is missing but tcpi_fackets, which it does not keep any more, tcpi_last_ack_sent, which it never did, and of
// AccECN's last word, whose layout changed between 6.18 and 7.0, the kernel's (our own stack tells it: `marks`).
//
// The kernel counts in segments what stands in bytes here: from its sockets those are multiples of `send_segment`.
#pragma once

#include <corewire/net/tcp/connection_facts.hh>
#include <corewire/net/tcp/tcp_state.hh>
#include <corewire/reactor/base/time.hh>

#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace corewire {

using tcp::fast_open_failure;
using tcp::mark_tally;
using tcp::tcp_state;

/// What the sender makes of its losses (Linux: tcpi_ca_state).
enum class tcp_repair : std::uint8_t {
    open,     ///< nothing is wrong
    disorder, ///< duplicate ACKs or SACKs, and no loss found yet
    reduced,  ///< the window is reduced because of congestion marks
    recovery, ///< fast recovery
    loss,     ///< after a retransmission time-out
};

struct tcp_information {
    tcp_state state = tcp_state::closed;
    tcp_repair repair = tcp_repair::open;
    unsigned timeouts = 0;           ///< retransmission time-outs in a row, without an answer
    unsigned window_probes = 0;      ///< probes of a closed window in a row, without an answer
    unsigned backoff = 0;            ///< times that the time-out was doubled
    bool timestamps = false;         ///< agreed on (RFC 7323)
    bool sack = false;               ///< agreed on (RFC 2018)
    bool window_scaling = false;     ///< agreed on (RFC 7323)
    bool ecn = false;                ///< agreed on (RFC 3168)
    bool accurate_ecn = false;       ///< in the form of RFC 9768 (our own stack)
    bool ecn_seen = false;           ///< the peer's data has come with ECT or CE
    bool data_in_syn = false;        ///< a SYN took data along, and it was taken (Fast Open, RFC 7413)
    bool opened_early = false;       ///< by the peer's SYN: it had a good cookie of Fast Open, or needed none
    fast_open_failure fast_open = fast_open_failure::none; ///< what became of the data for our SYN
    unsigned send_scale = 0;         ///< the peer's window is to be shifted by so many bits
    unsigned receive_scale = 0;      ///< and ours

    duration rto{0};                 ///< retransmission time-out (RFC 6298)
    duration rtt{0};                 ///< smoothed; 0: not measured yet
    duration rtt_variation{0};       ///< its mean deviation
    std::optional<duration> min_rtt; ///< the least of the last minutes
    duration delayed_ack{0};         ///< how long an ACK may wait

    std::uint32_t send_segment = 0;      ///< largest payload of a segment sent
    std::uint32_t received_segment = 0;  ///< largest seen; at least 536
    std::uint32_t announced_segment = 0; ///< the MSS in our SYN
    std::uint32_t path_mtu = 0;          ///< largest IP packet on the path, as far as known

    std::uint64_t congestion_window = 0;
    std::optional<std::uint64_t> slow_start_threshold; ///< empty until a loss or a mark has set it
    std::uint64_t unacknowledged = 0;    ///< sent, SYN and FIN included
    std::uint64_t sacked = 0;            ///< of those, what the peer has beyond a gap
    std::uint64_t lost = 0;              ///< of those, what is held for lost and not sent again yet
    std::uint64_t retransmitted = 0;     ///< of those, what is in flight for the second time
    std::uint64_t unsent = 0;            ///< written and not sent
    std::uint64_t send_window = 0;       ///< what the peer offers
    std::uint64_t receive_window = 0;    ///< room that we offer; the kernel: what it aims at (tcpi_rcv_space)

    std::uint64_t bytes_acknowledged = 0; ///< since the beginning; our own stack: modulo 2^32 without `statistics`
    std::uint64_t bytes_received = 0;     ///< since the beginning, in order
    std::uint64_t segments_retransmitted = 0;
    std::uint64_t segments_out_of_order = 0; ///< received beyond a gap
    std::optional<std::uint64_t> pacing_rate; ///< bytes a second; empty: not paced

    /// What ICMP said last of data that was in flight, the connection living on (RFC 9293 3.9.1.8, MUST-47); {}: nothing, or the kernel's.
    std::errc soft_error{};
    duration since_received{0};          ///< since the last segment came (the kernel: the last ACK), in its milliseconds

    std::optional<std::uint64_t> bytes_sent, bytes_retransmitted; ///< payload; bytes_sent with its repetitions (our own stack: as above)
    std::optional<std::uint64_t> duplicates_reported; ///< by D-SACK (RFC 2883)
    std::optional<std::uint64_t> reorderings;        ///< times that segments were seen to overtake others
    std::optional<std::uint64_t> reordering_segments; ///< how far one may be overtaken; our own stack: was, at least three
    std::optional<duration> since_data_sent;         ///< empty: none was
    std::optional<duration> since_data_received;     ///< our own stack: with `statistics` only, for it would be a store a segment
    std::optional<std::uint64_t> max_pacing_rate;    ///< bytes a second: the cap; empty: none
    std::optional<std::uint64_t> receive_buffer_room; ///< what the receiver offers at most by now (tcpi_rcv_wnd)
    std::optional<std::uint64_t> receive_threshold;  ///< up to where the window grows at once (tcpi_rcv_ssthresh; the kernel)
    std::optional<std::uint64_t> receive_space;      ///< bytes: the most that was read in a round trip (tcpi_rcv_space)
    std::optional<std::uint64_t> timeouts_total, timeout_rows; ///< retransmission time-outs; and rows of them, one behind the other
    std::optional<duration> in_timeouts;             ///< how long those rows took, in the kernel's milliseconds
    std::optional<std::uint64_t> rehashes;           ///< other ways through the network that were tried (the kernel)
    std::optional<std::uint64_t> delivery_rate;      ///< bytes a second, the last that was measured. Our own stack: of BBR, or as below
    std::optional<mark_tally> marks;                 ///< AccECN's counters; our own stack: where it is agreed on; the kernel: since 6.18
    bool delivery_rate_limited_by_application = false; ///< there was too little to send meanwhile: the path may be faster

    // ---- our own stack: only with tcp_options_set::statistics, for each of them costs something with every segment ----
    std::optional<std::uint64_t> segments_sent, segments_received, data_segments_sent, data_segments_received;
    std::optional<std::uint64_t> segments_delivered, segments_delivered_marked; ///< acknowledged, the SYN too; of those, with ECE
    std::optional<duration> busy, limited_by_receiver, limited_by_send_buffer; ///< how long data was outstanding, and held back by what
    std::optional<duration> receive_rtt;             ///< estimated by the receiver of data
};

/// From the kernel's struct tcp_info (linux/tcp.h), of which it has filled `size` bytes; the rest counts as zero.
tcp_information information_from_linux(const void* tcp_info, std::size_t size) noexcept;

} // namespace corewire
