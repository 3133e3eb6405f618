// The receiving half of a connection: RCV.NXT, the window, what has arrived and when to say so.
// Owned by one control_block; bounded by its parts.
#pragma once

#include <corewire/net/tcp/parameters.hh>
#include <corewire/net/tcp/receive/ack_policy.hh>
#include <corewire/net/tcp/receive/reassembler.hh>
#include <corewire/net/tcp/receive/receive_queue.hh>
#include <corewire/net/tcp/receive/right_sizing.hh>
#include <corewire/net/tcp/receive/timestamps.hh>
#include <corewire/net/tcp/receive/window.hh>

namespace corewire::tcp {

struct receiver {
    seq_number next;             ///< RCV.NXT
    receive_window window;
    ack_policy acks;
    timestamp_echo timestamps;
    receive_queue queue;
    right_sizing sizing;
    reassembler ahead;           ///< what arrived beyond a gap
    sack_block duplicate;        ///< bytes that came twice, to be reported once (D-SACK, RFC 2883)
    bool has_duplicate = false;
    bool sack : 1 = false;       ///< SACK was agreed on: we may send blocks
    bool reports_duplicates : 1 = true; ///< and D-SACK ones among them
    bool fin_received = false;   ///< in order: RCV.NXT is behind the FIN
    bool fin_ahead = false;      ///< the FIN has arrived beyond a gap, at `fin_at`
    seq_number fin_at;
    std::uint64_t bytes = 0;     ///< received in order since the beginning

    /// Room in the window from RCV.NXT.
    std::uint32_t room() const noexcept { return window.size(next); }

    void start(seq_number first, const parameters& p) noexcept {
        next = first;
        window.start(first, p.receive_buffer, p.mss);
        reports_duplicates = p.duplicate_sack;
        acks.start(first, p.quick_acks, p.like_linux());
        if (p.receive_growth_limit > p.receive_buffer) sizing.start();
    }
    /// The pieces that a buffer of so many bytes may come in.
    void limit_pieces(std::uint32_t buffer, const parameters& p) noexcept {
        const std::uint32_t waiting = receive_queue::pieces_for(buffer, p.reassembly_pieces);
        queue.limit(receive_queue::pieces_for(buffer, p.receive_pieces), waiting);
        ahead.limit(waiting);
    }
    void set_buffer(std::uint32_t buffer, const parameters& p) noexcept {
        window.set_buffer(buffer);
        limit_pieces(buffer, p);
    }
    void note_duplicate(seq_number left, seq_number right) noexcept {
        duplicate = {left, right};
        has_duplicate = sack && reports_duplicates;
    }
    /// Linux's habit: the FIN beyond a gap, and nothing else there, is told of where a single block goes, until it is in order.
    void tell_of_fin_alone() noexcept {
        duplicate = {fin_at, fin_at + 1};
        has_duplicate = sack;
    }
    void tell_of_fin_no_more() noexcept {
        if (fin_ahead && duplicate.left == fin_at) has_duplicate = false;
    }
    void check_invariants() const;
};

} // namespace corewire::tcp
