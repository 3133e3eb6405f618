// tcb: one TCP connection without any I/O (RFC 9293). Read this file first.
//
//     on_segment(now, segment, payload)   a segment arrived          \.
//     on_timer(now)                       next_timeout() has passed   > each returns what happened (tcp::event bits)
//     on_path_mtu, on_icmp_error          the network said something /
//     write, append_copy, shutdown_send, read, abort, ...             commands of the application
//         then, after any of these:
//     while (wants_output() && next_segment(now, out)) ...            what to send, one segment a call, until false
//     next_timeout()                                                  when to call on_timer
//
// It calls no clock, no socket and no allocator on the data path; the same object runs on a NIC, in a script, in the
// simulator and under a fuzzer. It does not know its addresses: the stack does.
//
// Owned by the stack's connection, on one shard. Movable, so that it can be made by a function; move it only while it
// is new (buffers and counters travel, nothing else refers to it).
// Bounded: send queue (parameters::send_buffer + one write, send_chunks pieces), receive queue and reassembly
// (receive_buffer bytes, receive_pieces and reassembly_pieces pieces), scoreboard and SACK ranges (fixed numbers).
#pragma once

#include <corewire/net/tcp/control_block.hh>
#include <corewire/net/tcp/plain_segment.hh>

#include <system_error>

namespace corewire::tcp {

/// How a connection is opened. Initial sequence numbers come from open/isn.hh.
struct active_open {
    seq_number iss;
    fast_open_request fast_open{}; ///< open/fast_open.hh: what the SYN says of it
    std::uint32_t older_timestamp = 0; ///< Linux's habit: echoed as that of a connection in TIME-WAIT whose place is taken; 0: none
};
struct passive_open {
    seq_number iss;
    const segment& syn; ///< the SYN that arrived at the listener (arrives/listen.hh said `open`)
    fast_open_answer fast_open{}; ///< the SYN's data: take_syn_data(), if it is to be taken
};
/// The ACK of a SYN cookie proved good: the connection begins established. Then call on_segment() with that same ACK.
struct cookie_open {
    seq_number iss;                ///< our ISN (the cookie): SEG.ACK - 1
    seq_number irs;                ///< the peer's ISN: SEG.SEQ - 1
    std::uint16_t peer_mss;        ///< from the cookie's table
    std::uint16_t window;          ///< SEG.WND
    bool sack_permitted = false;
    bool timestamps = false;
    std::uint8_t window_scale = no_window_scale;
    std::uint32_t peer_timestamp = 0; ///< TSval of the ACK
    bool ecn = false;                ///< classic ECN was agreed to, says the timestamp
    bool accurate_ecn = false;       ///< the SYN-ACK agreed to AccECN, and the ACK says that it was asked for (RFC 9768 5.1)
};

class tcb {
public:
    tcb(time_point now, const active_open&, const parameters&);
    tcb(time_point now, const passive_open&, const parameters&);
    tcb(time_point now, const cookie_open&, const parameters&);
    tcb(tcb&&) noexcept = default;
    tcb& operator=(tcb&&) = delete;
    ~tcb() = default;

    // ---- what happens to it ----

    /// A segment arrived, its headers verified and stripped: payload_size bytes in `head` and then `body` (either may be
    /// empty). Takes what it wants out of the two buffers; the rest is the caller's to drop. In state closed: ignored
    /// (use arrives/closed.hh for the reset). A SYN in TIME-WAIT: ask may_reuse() first.
    event on_segment(time_point now, const segment& arrived, buffer& head, buffer& body) noexcept;
    /// Header prediction: whether a segment with no flags but ACK and PSH, and no options but timestamps, is just what was
    /// expected. Then on_expected() may take it in place of on_segment(): the same, in fewer steps. Changes nothing.
    bool expects(time_point now, const plain_arrival& seg) const noexcept;
    /// Asked before on_expected(): whether its payload finds room among what waits to be read.
    bool may_queue() const noexcept { return c_.receiving.queue.has_room(); }
    /// `head` and `body` as in on_segment(); may_queue() said yes.
    event on_expected(time_point now, const plain_arrival& seg, buffer& head, buffer& body) noexcept;
    /// The same when nothing is readable() and the caller has given the payload to a reader who waits: as if the reader
    /// had called read() for it at once.
    event on_expected_and_read(time_point now, const plain_arrival& seg) noexcept;
    /// Time has passed. Harmless before next_timeout().
    event on_timer(time_point now) noexcept;
    /// When on_timer() must be called; `never` if not at all. May be earlier than needed, never later. One load.
    time_point next_timeout() const noexcept { return c_.timers.next(); }
    /// ICMP says that the path carries at most `mtu` bytes of IP packet, of a segment of ours with sequence number `seq` (RFC 1191,
    /// RFC 9293 3.7.2). Only shrinks. event::path_mtu_fell: believed. Where segments of that size have got through before, it is
    /// believed when that segment times out, and on_timer() says so (RFC 5927 7.2).
    event on_path_mtu(time_point now, std::uint32_t mtu, seq_number seq) noexcept;
    /// What is sent from now on is to fit into `mtu` bytes; what is in flight is left alone (parameters::shrinks_later).
    void fit_into_path(std::uint32_t mtu) noexcept;
    /// FreeBSD's habit (TCP_MAXSEG): from now on segments are no larger, without the IP and TCP headers.
    void limit_segments(std::uint16_t size) noexcept;
    /// The largest IP packet for which segments are made now, if its header has 20 bytes.
    std::uint32_t packet_size() const noexcept { return c_.sending.mss + 40u; }
    /// ICMP reported trouble for a segment of ours with sequence number `seq`. A hard error ends a connection attempt
    /// (SYN-SENT, SYN-RECEIVED) and is soft afterwards (RFC 5927 4.2); a soft one is remembered and becomes error() if
    /// the connection times out (RFC 9293 MUST-56).
    event on_icmp_error(std::errc what, bool hard, seq_number seq) noexcept;
    /// ICMP says that no router knew the way for the segment at SND.UNA: time-outs that came of that were no sign of congestion, so one
    /// back-off is taken back (RFC 6069).
    void on_no_route(time_point now, seq_number seq) noexcept;
    /// What ICMP said last of a segment that was in flight, and the connection lives on; {}: nothing, or it was taken.
    std::errc soft_error() const noexcept { return c_.count.get().soft_error; }
    std::errc take_soft_error() noexcept {
        const std::errc what = soft_error();
        if (what != std::errc{}) c_.count->soft_error = {};
        return what;
    }

    /// The payload of a SYN with a good Fast Open cookie (passive_open::fast_open.take_data). Call at once, also when there is none:
    /// from now on the connection sends and receives, before its handshake is done.
    event take_syn_data(buffer& head, buffer& body) noexcept;

    // ---- what it wants to send ----

    /// False: next_segment() would say false. True: it may have something. A few loads.
    bool wants_output() const noexcept { return c_.output_wanted; }
    /// The next segment to send, or false. Whatever it returned true for counts as sent at `now`.
    bool next_segment(time_point now, outgoing_segment& out) noexcept;
    /// The same when everything unsent may go now, in one segment, from one chunk, with timestamps and nothing else. False:
    /// nothing has changed, ask next_segment(). After true wants_output() is false.
    bool next_plain(time_point now, plain_output& out) noexcept;
    /// Payload of a segment whose `chunk` is null. Bytes [offset, offset + size) of the send queue.
    void copy_payload(std::uint32_t offset, std::uint32_t size, std::byte* destination) const noexcept;
    /// Whether those bytes lie in one chunk, and where. (outgoing_segment::chunk answers it for the segment at hand.)
    bool payload_contiguous(std::uint32_t offset, std::uint32_t size, const buffer*& chunk,
                            std::uint32_t& chunk_offset) const noexcept;

    // ---- what the application does ----

    /// Bytes that may be written now; 0: wait for event::writable. Before the handshake is done, data is queued.
    std::uint32_t writable() const noexcept { return c_.sending.queue.room(); }
    /// Queues owned bytes without a copy. Any size, while writable() > 0. Ignored when the sending side is shut.
    void write(buffer&& data) noexcept;
    /// Copies as much of `data` as fits behind the last chunk of the queue, if nobody else sees that chunk. Returns how
    /// much (often 0: then write() a buffer of your own). The caller has checked writable().
    std::uint32_t append_copy(byte_span data) noexcept;
    std::uint32_t readable() const noexcept { return c_.receiving.queue.size(); }
    /// The next bytes in order, at most `max_size`, from one piece; empty if there are none.
    buffer read(std::uint32_t max_size = ~std::uint32_t{0}) noexcept;
    /// Copies the readable bytes from `offset` on, and leaves them there. Returns how many fitted or were there.
    std::uint32_t peek(std::uint32_t offset, mutable_byte_span into) const noexcept {
        return c_.receiving.queue.peek(offset, into);
    }
    /// Bytes that were written and are not acknowledged, sent or not.
    std::uint32_t queued() const noexcept { return c_.sending.queue.size(); }
    /// When the byte that lies so far in it was last sent again; time_point::min(): it was not.
    time_point resent_at(std::uint32_t offset) const noexcept { return c_.sending.board.resent_at(c_.sending.una + offset); }
    /// When something of it was last acknowledged.
    time_point stands_since() const noexcept { return c_.sending.progress; }
    /// The peer has closed its window over what is queued.
    bool is_refused() const noexcept { return c_.sending.waiting_for == awaited::window_probe; }
    /// The same in sequence numbers, of which a FIN has one.
    std::uint32_t queued_numbers() const noexcept {
        return queued() + (c_.sending.fin_queued && c_.state != tcp_state::closed && !c_.sending.fin_acknowledged() ? 1u : 0u);
    }
    /// The FIN is to be sent still.
    bool fin_unsent() const noexcept { return c_.sending.fin_queued && c_.state != tcp_state::closed && !c_.sending.fin_sent(); }
    /// Everything the peer sent before its FIN has been read.
    bool at_end() const noexcept { return c_.receiving.fin_received && c_.receiving.queue.size() == 0; }
    /// What has been written so far is urgent, its last byte being the mark (RFC 9293 3.8.5). The peer is told at once, even when its
    /// window is closed.
    void set_urgent() noexcept;
    /// Bytes from the next one to be read to the end of what the peer called urgent; 0: there are none, or they have been read.
    std::uint32_t urgent_ahead() const noexcept;
    /// FIN after what was written (half-close). Harmless the second time.
    void shutdown_send() noexcept;
    /// Nobody will read any more. Once the sending side is shut too, text that comes is answered with RST (RFC 9293 3.6.1 SHLD-3).
    void shutdown_receive() noexcept {
        c_.reading_shut = true;
        if (c_.options->like_freebsd()) c_.receiving.queue.clear(); // and what comes from now on is taken and forgotten
        c_.predictable = prediction::none;
    }
    /// Nobody will read or write any more (after shutdown_send()): data that still arrives is answered with RST
    /// (RFC 9293 3.6.1 SHLD-3, RFC 2525 2.17), and FIN-WAIT-2 ends after parameters::fin_wait_2. In SYN-SENT it is over, unless it
    /// holds_early_data().
    void orphan(time_point now) noexcept;
    /// Fast Open has let something be written that waits for the handshake, or is on its way in the SYN. It outlives its user, as what is
    /// written later does. Linux forgets it.
    bool holds_early_data() const noexcept;
    /// accept() hands it out: it has a user from now on.
    void accept() noexcept { c_.accepted = true; }
    /// RST (where the state has a peer to tell) and closed: next_segment() yields the RST, then delete it.
    void abort() noexcept;

    void set_thin_linear_timeouts(bool on) noexcept { c_.options.set(&parameters::thin_linear_timeouts, on); }

    /// As if there were nobody: RST in answer to a segment that acknowledged so far, and closed.
    event refuse(seq_number acknowledged) noexcept;

    /// When a segment last arrived; the time of its making before the first.
    time_point last_heard() const noexcept { return c_.heard; }
    bool all_acknowledged() const noexcept { return c_.sending.all_acknowledged(); }
    /// Opened by a SYN with a good cookie, and the handshake is not over: data flows nevertheless (RFC 7413 4.2.2).
    bool serving_early() const noexcept { return c_.fast_open.made() && c_.fast_open.get().serving; }
    /// Our SYN has a cookie and waits for the first data to be written; hurry_syn() sends it without.
    bool waits_for_data() const noexcept { return c_.fast_open.made() && c_.fast_open.get().waits_for_data; }
    void hurry_syn() noexcept;
    /// Before the SYN has left: it has nothing to take along, and asks for a cookie, whether it has one or not.
    void ask_for_cookie() noexcept { if (c_.fast_open.made()) c_.fast_open->cookie.size = 0; }
    /// Linux's habit: somebody waits to write, or is expected to, so the handshake's ACK waits for that.
    void expect_writer(bool on = true) noexcept {
        if (c_.options->like_linux() && c_.fast_open.get().writer_waits != on) c_.fast_open->writer_waits = on;
    }
    /// Linux's habit: no larger window is announced (TCP_WINDOW_CLAMP, or what the buffer is good for).
    std::uint32_t window_clamp() const noexcept;
    /// With Linux's habits: what waits to be read costs so much memory (sk_rmem_alloc). Bytes.
    std::uint32_t held_memory() const noexcept;
    /// How many bytes the SYN could take along.
    std::uint32_t fast_open_room() const noexcept { return c_.syn_room(); }
    /// Once the handshake of an active_open is done: what it has told of the server's Fast Open.
    const fast_open_state& fast_open() const noexcept { return c_.fast_open.get(); }
    /// RFC 9768 3.1.4.1: our SYN asked for AccECN; and it was only answered, by somebody who does not say so, when it did not any more.
    bool asked_for_accurate_ecn() const noexcept { return c_.ecn.offered_accurate; }
    bool asked_in_vain() const noexcept { return c_.ecn.fell_back && !c_.ecn.on; }
    seq_number expected() const noexcept { return c_.receiving.next; }        ///< RCV.NXT
    seq_number acknowledged() const noexcept { return c_.sending.una; } ///< SND.UNA
    // For who takes it apart (TCP_REPAIR): behind the last byte that was written; SND.WL1; copies what was written and is not
    // acknowledged, from the `offset`-th byte on, which is all there; ends it and tells nobody; asks for an ACK at once, which may tell
    // of another window.
    seq_number written() const noexcept { return c_.sending.queue.end(); }
    seq_number window_number() const noexcept { return c_.sending.wl1; }
    void peek_written(std::uint32_t offset, mutable_byte_span into) const noexcept {
        c_.sending.queue.copy(c_.sending.queue.first() + offset, static_cast<std::uint32_t>(into.size()), into.data());
    }
    void vanish() noexcept;
    void ask_for_window() noexcept;
    /// Before anything is sent, or the peer's PAWS may hear of a clock that goes back. Who takes a connection apart knows what he does.
    void set_timestamp_offset(std::uint32_t offset) noexcept { c_.timestamp_offset = offset; }
    std::uint32_t timestamp_offset() const noexcept { return c_.timestamp_offset; }
    tcp_state state() const noexcept { return c_.state; }
    /// ESTABLISHED: bytes may come and go; there is no error(), at_end() is false and nothing waits_for_data().
    bool flows() const noexcept { return c_.state == tcp_state::established; }
    /// Timestamps were agreed on (RFC 7323): every segment carries them.
    bool uses_timestamps() const noexcept { return c_.timestamps; }
    /// Why it died: connection_refused, connection_reset, connection_aborted, timed_out, host_unreachable...; {} if it
    /// lives or closed in order.
    std::errc error() const noexcept { return c_.error; }
    /// Largest payload of one segment now, options deducted (Eff.snd.MSS of RFC 9293 3.7.1).
    std::uint32_t segment_payload() const noexcept { return c_.sending.payload_limit; }

    void set_no_delay(bool on) noexcept;
    /// Only full segments leave while it is on (TCP_CORK, MSG_MORE); a FIN always does.
    void set_cork(bool on) noexcept;
    void set_keepalive(time_point now, bool on, duration idle, duration interval, unsigned probes) noexcept;
    /// TCP_QUICKACK: acknowledge what comes at once for a while, or go back to delaying.
    /// `once`: what waits for its ACK alone (Linux's even numbers).
    void set_quick_acks(bool on, bool once = false) noexcept;
    bool quick_acks() const noexcept { return c_.receiving.acks.quick(); }
    /// Linux's habit: the reader has taken something, so that an ACK need not wait, or the window opens by much (tcp_cleanup_rbuf()).
    /// What was read in a round trip is known, too, from which the buffer grows (tcp_rcv_space_adjust()).
    void acknowledge_read(time_point now) noexcept;
    /// parameters::receive_memory.
    void set_receive_memory(std::uint32_t bytes) noexcept {
        if (c_.options->like_linux()) c_.options.set(&parameters::receive_memory, bytes);
    }
    /// Whether what comes and goes is counted for info() from now on (parameters::counted).
    void set_counted(bool on) noexcept;
    /// A writer waits for room in the send buffer, or does no more. For info().
    void note_no_space(bool waits) {
        if (c_.options->counts()) c_.sending.need().tally.no_space = waits;
    }
    /// With Linux's habits: something is about to be written, and more is to follow (MSG_MORE), so that its end carries no PSH; or not.
    void begin_write(bool more) noexcept;
    /// With Linux's habits: nothing that is written later goes into one segment with what has been written (MSG_EOR).
    void end_record() {
        ring<seq_number>& records = c_.sending.need().records;
        if (!c_.options->like_linux() || records.size() >= seldom_needed::most_ends || c_.sending.queue.size() == 0) return;
        if (records.empty() || records.back() != c_.sending.queue.end()) records.push_back() = c_.sending.queue.end();
    }
    /// With Linux's habits, while it is half open: before so many time-outs of its SYN-ACK only data ends the handshake, or a FIN
    /// (TCP_DEFER_ACCEPT).
    void defer_handshake(std::uint8_t time_outs) { c_.sending.need().handshake.time_outs = time_outs; }
    bool defers_handshake() const noexcept { return c_.sending.known().handshake.time_outs != 0; }
    /// What our SYN asks the peer for.
    std::uint16_t asked_segment() const noexcept;
    /// From now on; the windows stay as they are.
    void set_congestion(congestion_factory how) noexcept;
    std::string_view congestion() const noexcept { return c_.sending.congestion->name(); }
    /// DCTCP: marks are told of one by one, and the last segment has come with one.
    bool tells_each_mark() const noexcept { return c_.ecn.exact; }
    bool last_was_marked() const noexcept { return c_.ecn.exact && c_.ecn.echo; }
    path_belief believed_path() const noexcept { return c_.sending.congestion->belief(); }
    /// Nothing has been told to its controller yet: it has none of its own.
    bool shares_controller() const noexcept { return c_.sending.congestion.untouched(); }
    /// 0: R2 alone decides. Another ends what a peer's user timeout option may change.
    void set_user_timeout(duration timeout) noexcept {
        if (timeout == c_.options->user_timeout || (timeout <= duration{0} && !c_.user_timeout_chosen)) return; // what was agreed stays
        c_.options.set(&parameters::user_timeout, timeout);
        c_.user_timeout_chosen = timeout > duration{0};
    }
    /// RFC 5482: what the peer is told from now on; 0: nothing any more, nor is it heeded.
    void advertise_user_timeout(duration timeout) noexcept;
    /// TCP_LINGER2: an orphan's patience in FIN-WAIT-2; below 0: none.
    void set_fin_wait_2(duration patience) noexcept { c_.options.set(&parameters::fin_wait_2, patience); }
    /// TCP_RTO_MIN_US, TCP_RTO_MAX_MS, TCP_DELACK_MAX_US: of what is measured and delayed from now on.
    void set_times(const parameters& p) noexcept {
        c_.options.set(&parameters::min_rto, p.min_rto);
        c_.options.set(&parameters::max_rto, p.max_rto);
        c_.options.set(&parameters::delayed_ack, p.delayed_ack);
        c_.options.set(&parameters::peer_delayed_ack, p.peer_delayed_ack);
    }
    /// SO_LINGER with no time: whoever lets go of the connection resets it.
    void set_reset_on_close(bool on) noexcept { c_.options.set(&parameters::reset_on_close, on); }
    /// Bytes a second; pacer::off: no cap (SO_MAX_PACING_RATE). A cap paces the connection whatever its controller.
    /// What waits for a cap that is raised waits for the new one.
    void set_max_pacing_rate(time_point now, std::uint64_t rate) noexcept;
    /// Bytes. A buffer whose size changes is fixed: it grows no more by itself. The receive window never shrinks below what was promised.
    void set_buffers(std::uint32_t receive, std::uint32_t send) noexcept;
    /// The buffers keep (or go back to) the size that they were given.
    void fix_buffers(bool receive, bool send) noexcept;
    /// parameters::type_of_service and its neighbours. Who writes the headers is to be told.
    void set_marking(std::uint8_t type_of_service, std::uint8_t traffic_class, std::uint8_t time_to_live, std::uint8_t hop_limit) noexcept {
        c_.options.set(&parameters::type_of_service, type_of_service);
        c_.options.set(&parameters::traffic_class, traffic_class);
        c_.options.set(&parameters::time_to_live, time_to_live);
        c_.options.set(&parameters::hop_limit, hop_limit);
    }
    /// parameters::least_time_to_live and its neighbour. The stack is to be told: tcp_layer::judge_hops().
    void set_least_hops(std::uint8_t time_to_live, std::uint8_t hop_limit) noexcept {
        c_.options.set(&parameters::least_time_to_live, time_to_live);
        c_.options.set(&parameters::least_hop_limit, hop_limit);
        if (time_to_live == 0 && hop_limit == 0) return;
        c_.options.set(&parameters::fast_path, false); // nobody looks there
        c_.predictable = prediction::none;
    }
    void heed_path_reports(bool over_ipv4, bool over_ipv6, bool later) noexcept {
        c_.options.set(&parameters::heeds_path_reports, over_ipv4);
        c_.options.set(&parameters::shrinks_later, later && c_.options->like_linux());
        c_.options.set(&parameters::heeds_path_reports6, over_ipv6);
    }
    const parameters& options() const noexcept { return *c_.options; }

    /// Of what came beyond gaps.
    std::uint32_t pieces_ahead() const noexcept { return c_.receiving.ahead.pieces(); }
    /// What came beyond a gap is forgotten, though the peer was told of it: it will come again (RFC 2018 8). False: there was nothing.
    bool drop_ahead() noexcept;
    /// Whatever is small of what was written or has come, and holds a frame that nobody else sees, moves into `blocks`. Returns how many
    /// frames are given back.
    std::uint32_t leave_frames(small_blocks& blocks) noexcept;
    /// In TIME-WAIT: whether this SYN may open a new connection on the same 4-tuple (RFC 9293 3.6.1, RFC 6191). If so,
    /// delete this tcb and give the SYN to the listener, with an ISN beyond time_wait_floor().
    bool may_reuse(const segment& syn) const noexcept;
    /// In TIME-WAIT: whether we may open a connection on the same 4-tuple, with an ISN beyond time_wait_floor(): timestamps keep old
    /// segments out of it, as a second has gone since the last, the slowest clock's tick (RFC 6191 2, RFC 7323 5.4). Linux: tcp_tw_reuse.
    bool may_be_succeeded(time_point now) const noexcept;
    std::uint32_t last_timestamp() const noexcept { return c_.receiving.timestamps.recent(); }
    /// In TIME-WAIT: its segments have timestamps, which tell them from the next connection's.
    bool is_told_apart() const noexcept;
    /// In TIME-WAIT: it is over, before its time.
    event end_time_wait() noexcept;
    seq_number time_wait_floor() const noexcept { return c_.sending.max; }

    connection_info info() const noexcept;
    const counters& statistics() const noexcept { return c_.count.get(); }
    void check_invariants() const;

private:
    bool takes_more() const noexcept;
    void pace() noexcept;
    void pass_urgent() noexcept;
    void has_read() noexcept;
    void hurry_ack_of_read() noexcept;
    void update_window() noexcept;
    control_block c_;
};

// ---- once a message: inline ----

/// False: the sending side is shut. A FIN that is queued has moved ESTABLISHED on.
inline bool tcb::takes_more() const noexcept { return flows() || (!c_.sending.fin_queued && c_.state != tcp_state::closed); }

inline void tcb::write(buffer&& data) noexcept {
    if (data.empty() || !takes_more()) return;
    c_.sending.queue.push(std::move(data));
    c_.output_wanted = true;
}

inline std::uint32_t tcb::append_copy(byte_span data) noexcept {
    if (c_.sending.queue.chunks() == 0 || data.empty() || !takes_more()) return 0;
    const std::uint32_t taken = c_.sending.queue.append_copy(data);
    if (taken != 0) c_.output_wanted = true;
    return taken;
}

inline buffer tcb::read(std::uint32_t max_size) noexcept {
    buffer data = c_.receiving.queue.pop(max_size);
    if (c_.urgent.known) [[unlikely]] pass_urgent();
    has_read();
    return data;
}

inline void tcb::has_read() noexcept {
    if (may_receive(c_.state)) update_window();
}

/// RFC 9293 3.8.6.2.2.
inline void tcb::update_window() noexcept {
    receiver& r = c_.receiving;
    if (r.window.worth_an_update(r.next, r.queue.size())) [[unlikely]] {
        if (c_.options->like_linux()) return hurry_ack_of_read();
        c_.output_wanted = true;
        if (c_.options->like_freebsd()) return; // which looks at it when all was read that is read at once: emit_ack()
        if (r.window.withheld()) {
            if (!r.queue.has_much_room()) return;
            r.window.grant();
        }
        r.acks.acknowledge_now();
    }
}

} // namespace corewire::tcp
