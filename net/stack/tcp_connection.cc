#include <corewire/net/stack/tcp_connection.hh>

#include <corewire/net/socket/orderly_stop.hh>
#include <corewire/net/stack/tcp_layer.hh>
#include <corewire/net/tcp/fast_path.hh>

#include <algorithm>
#include <cstring>
#include <utility>

namespace corewire {

tcp_connection::tcp_connection(tcp_layer& layer, const flow_name& flow, tcp::tcb block)
    : timer([](timer& t) noexcept {
          auto& self = static_cast<tcp_connection&>(t);
          self.layer_.on_wake(self);
      }),
      tcb(std::move(block)), key(flow.key()), six(flow.is_v4() ? nullptr : new ipv6_flow{flow, {}}), layer_(layer) {}

// ---- socket operations ----

bool tcp_connection::start_read(read_operation& op) noexcept {
    CW_ASSERT(reader_ == nullptr, "one reader at a time: another coroutine is reading this stream");
    if (tcb.readable() != 0) {
        read_now(op);
        return true;
    }
    if (!tcb.flows() && nothing_will_come(op)) [[unlikely]] return true;
    reader_ = &op;
    return false;
}

/// Of a connection whose handshake is not done yet, or which the peer, the user or the network has ended.
[[gnu::noinline]] bool tcp_connection::nothing_will_come(read_operation& op) noexcept {
    if (tcb.at_end()) return true;
    op.error = failure();
    if (op.error != std::errc{}) return true;
    if (tcb.waits_for_data()) hurry(); // nothing is written: the SYN goes without
    return false;
}

void tcp_connection::hurry() noexcept {
    tcb.hurry_syn();
    layer_.mark_dirty(*this);
}

/// Apart from start_read(), which nearly always finds nothing and waits.
[[gnu::noinline]] void tcp_connection::read_now(read_operation& op) noexcept {
    op.data = tcb.read(op.max_size);
    if (tcb.wants_output()) layer_.mark_dirty(*this); // the window has opened enough to say so
}

[[gnu::noinline]] void tcp_connection::wait_for_room(write_operation& op) noexcept {
    writer_ = &op;
    tcb.note_no_space(true);
}

/// The writer, who waits no more: for frames neither.
write_operation& tcp_connection::take_writer() noexcept {
    static_cast<accept_hook&>(*this).unlink();
    return *std::exchange(writer_, nullptr);
}

/// Moves into the send queue what fits. True when nothing of the operation is left; else it is the writer, who waits.
[[gnu::always_inline]] inline bool tcp_connection::take_write(write_operation& op) noexcept {
    if (op.owned.empty()) return copy_write(op);
    if (room() == 0) [[unlikely]] return wait_for_room(op), false;
    tcb.write(std::move(op.owned));
    layer_.mark_dirty(*this);
    return true;
}

/// As many of the bytes as a frame holds. Returns how many.
[[gnu::always_inline]] inline std::uint32_t tcp_connection::write_into(frame& f, byte_span bytes) noexcept {
    const std::uint32_t taken = std::min(static_cast<std::uint32_t>(bytes.size()), f.capacity - frame_headroom);
    std::byte* const at = f.bytes + frame_headroom;
    std::memcpy(at, bytes.data(), taken);
    buffer copy(f, at, taken);
    tcb.write(std::move(copy));
    return taken;
}

/// What is small needs a frame while it leaves, and none while it waits for its ACK. 0: nothing was taken.
[[gnu::cold, gnu::noinline]] std::uint32_t tcp_connection::write_where_frames_are_rare(byte_span bytes) noexcept {
    if (bytes.size() <= small_blocks::most) {
        buffer copy = layer_.small_copy(bytes);
        const std::uint32_t taken = copy.size();
        if (taken != 0) return tcb.write(std::move(copy)), taken;
    }
    const bool is_new = writer_ == nullptr; // the others have waited for longer
    frame* const f = layer_.may_take_frame(*this, is_new) ? layer_.pool().allocate() : nullptr;
    return f != nullptr ? write_into(*f, bytes) : 0;
}

/// The same for borrowed bytes.
[[gnu::noinline]] bool tcp_connection::copy_write(write_operation& op) noexcept {
    while (!op.borrowed.empty()) {
        const std::uint32_t free = room();
        if (free == 0) [[unlikely]] return wait_for_room(op), false;
        const auto wanted = static_cast<std::uint32_t>(std::min<std::size_t>(op.borrowed.size(), free));
        std::uint32_t taken = tcb.append_copy(op.borrowed.first(wanted));
        if (taken == 0) {
            frame* const f = layer_.frames_are_rare() ? nullptr : layer_.pool().allocate();
            if (f != nullptr) [[likely]] taken = write_into(*f, op.borrowed.first(wanted));
            else taken = write_where_frames_are_rare(op.borrowed.first(wanted));
            if (taken == 0) [[unlikely]] {
                layer_.wait_for_frames(*this);
                writer_ = &op;
                return false;
            }
        }
        op.borrowed = op.borrowed.subspan(taken);
        layer_.mark_dirty(*this);
    }
    return true;
}

bool tcp_connection::start_write(write_operation& op) noexcept {
    CW_ASSERT(writer_ == nullptr, "one writer at a time: another coroutine is writing this stream");
    if (!tcb.flows() && nothing_will_go(op)) [[unlikely]] return true;
    return take_write(op);
}

/// The same of a write.
[[gnu::noinline]] bool tcp_connection::nothing_will_go(write_operation& op) const noexcept {
    op.error = shut_down_ ? std::errc::broken_pipe : failure();
    return op.error != std::errc{};
}

bool tcp_connection::start_connected(plain_operation& op) noexcept {
    const bool claimed = claim_ != claim::in_progress; // or another port may have to be tried
    if (connected_ || (tcb.waits_for_data() && claimed)) return true; // the first write opens it (RFC 7413)
    if (const std::errc why = failure(); why != std::errc{}) {
        op.error = why;
        return true;
    }
    wait_for(wait::connected, op);
    return false;
}

bool tcp_connection::start_drain(plain_operation& op) noexcept {
    CW_ASSERT(!waits(wait::drained), "one close at a time");
    if (const std::errc why = failure(); why != std::errc{}) {
        op.error = why;
        return true;
    }
    if (drained()) return true;
    if (tcb.state() == tcp::tcp_state::closed) { // by a reset in CLOSING or LAST-ACK, which by itself is no failure
        op.error = std::errc::connection_reset;
        return true;
    }
    wait_for(wait::drained, op);
    return false;
}

bool tcp_connection::start_wait_readable(plain_operation& op) noexcept {
    if (tcb.readable() != 0 || tcb.at_end() || failure() != std::errc{}) return true;
    CW_ASSERT(!waits(wait::readable), "one wait_readable at a time");
    if (tcb.waits_for_data()) [[unlikely]] hurry(); // as start_read() does
    wait_for(wait::readable, op);
    return false;
}

bool tcp_connection::start_wait_writable(plain_operation& op) noexcept {
    if (room() != 0 || shut_down_ || failure() != std::errc{}) return true;
    CW_ASSERT(!waits(wait::writable), "one wait_writable at a time");
    wait_for(wait::writable, op);
    return false;
}

void tcp_connection::cancel(socket_operation& op) noexcept {
    if (reader_ == &op) reader_ = nullptr;
    if (writer_ == &op) {
        take_writer();
        tcb.note_no_space(false);
        if (shut_down_) end_sending();
    }
    for (plain_operation** at = &waits_; *at != nullptr; at = &(*at)->next_waiting) {
        if (*at != &op) continue;
        *at = (*at)->next_waiting;
        return;
    }
}

bool tcp_connection::waits(wait what) const noexcept {
    for (const plain_operation* op = waits_; op != nullptr; op = op->next_waiting) {
        if (op->waits_for == static_cast<std::uint8_t>(what)) return true;
    }
    return false;
}

void tcp_connection::wait_for(wait what, plain_operation& op) noexcept {
    op.waits_for = static_cast<std::uint8_t>(what);
    op.next_waiting = std::exchange(waits_, &op);
}

std::errc tcp_connection::shutdown() noexcept {
    if (const std::errc why = failure(); why != std::errc{}) return why;
    // In SYN-RECEIVED the FIN waits for the handshake (RFC 9293 3.10.4), with FreeBSD's habits in SYN-SENT, too.
    const bool may_wait = tcb.state() == tcp::tcp_state::syn_received || tcb.options().like_freebsd();
    if (!connected_ && !early() && !may_wait) return std::errc::not_connected;
    if (shut_down_) return {};
    shut_down_ = true;
    if (writer_ == nullptr) end_sending(); // else behind what it writes
    finish(wait::writable);
    return {};
}

void tcp_connection::end_sending() noexcept {
    tcb.shutdown_send();
    layer_.mark_dirty(*this);
}

void tcp_connection::abort() noexcept {
    tcb.abort();
    layer_.mark_dirty(*this);
    fail_all(std::errc::connection_aborted);
}

void tcp_connection::confirm_neighbor() noexcept {
    const tcp::seq_number una = tcb.acknowledged();
    if (una == confirmed_at_) return;
    confirmed_at_ = una;
    (six == nullptr ? path.via : six->path.via).confirm(tcb.last_heard());
}

void tcp_connection::end_waits(time_point now, ended_waits which) noexcept {
    const bool quiet = tcb.all_acknowledged() && now - tcb.last_heard() >= orderly_stop::quiet;
    if (which == ended_waits::for_new_work && (opened_here_ || !quiet)) return;
    if (reader_ != nullptr) {
        read_operation& op = *std::exchange(reader_, nullptr);
        op.error = std::errc::operation_canceled;
        op.complete();
    }
    finish(wait::readable, std::errc::operation_canceled);
    finish(wait::connected, std::errc::operation_canceled);
}

buffer tcp_connection::allocate(std::uint32_t size) noexcept {
    frame_pool& pool = layer_.pool();
    if (size > pool.frame_size() - frame_headroom) return {};
    return pool.allocate_buffer();
}

void tcp_connection::orphan() noexcept {
    has_user_ = false;
    fail_all(std::errc::operation_canceled);
    if (erased_) return;
    // RFC 9293 3.10.4 and RFC 2525 2.17: data that nobody will ever read is lost, and the peer must hear of it.
    // FreeBSD only resets when more comes.
    const bool rests = tcb.options().like_linux() && tcb.state() == tcp::tcp_state::time_wait; // without its socket: nothing ends that
    if (!rests && ((tcb.readable() != 0 && !tcb.options().like_freebsd()) || tcb.options().reset_on_close)) {
        tcb.abort();
    } else {
        shut_down_ = true;
        tcb.shutdown_send();
    }
    tcb.orphan(layer_.now());
    layer_.mark_dirty(*this);
}

// ---- events ----

void tcp_connection::take_expected(time_point now, const tcp::plain_arrival& seg, packet& p) noexcept {
    react(tcb.on_expected(now, seg, p.head, p.body));
    p.head.clear();
    p.body.clear();
}

void tcp_connection::settle_read() noexcept {
    if (reader_ != nullptr) {
        if (tcb.readable() == 0 && !tcb.at_end()) return;
        read_operation& op = *std::exchange(reader_, nullptr);
        if (tcb.readable() != 0) op.data = tcb.read(op.max_size);
        op.complete();
    }
    if (waits_ != nullptr) finish(wait::readable);
}

[[gnu::noinline]] void tcp_connection::react_to_the_rest(tcp::event events) noexcept {
    using tcp::event;
    if (has(events, event::delivery_trouble)) layer_.doubt_next_hop(*this);
    if (has(events, event::writable)) full_ = false;
    if (has(events, event::writable) && writer_ != nullptr && take_write(*writer_)) {
        tcb.note_no_space(false);
        take_writer().complete();
        if (shut_down_) end_sending();
    }
    if (has(events, event::writable) && waits(wait::writable) && room() != 0) finish(wait::writable);
    if (has(events, event::established)) {
        connected_ = true;
        finish(wait::connected);
        if (early_listener_ != nullptr) {
            layer_.on_early_established(*this);
        } else if (listener_ != nullptr) {
            layer_.on_established(*this);
        } else if (opened_here_) {
            layer_.learn_fast_open(*this);
            if (tcb.asked_for_accurate_ecn()) layer_.learn_accurate_path(*this);
        }
    }
    if (has(events, event::all_acknowledged) && drained()) finish(wait::drained);
    if (has(events, event::reset | event::timed_out)) fail_all(failure());
    if (has(events, event::closed)) {
        fail_all(failure() != std::errc{} ? failure() : std::errc::connection_reset);
        layer_.on_closed(*this);
    }
}

void tcp_connection::finish(wait what, std::errc why) noexcept {
    for (plain_operation** at = &waits_; *at != nullptr; at = &(*at)->next_waiting) {
        plain_operation& op = **at;
        if (op.waits_for != static_cast<std::uint8_t>(what)) continue;
        *at = op.next_waiting;
        op.error = why;
        return op.complete();
    }
}

void tcp_connection::fail_all(std::errc why) noexcept {
    if (reader_ != nullptr) {
        read_operation& op = *std::exchange(reader_, nullptr);
        if (!tcb.at_end()) op.error = why;
        op.complete();
    }
    if (writer_ != nullptr) {
        write_operation& op = take_writer();
        op.error = why;
        op.complete();
    }
    finish(wait::connected, why);
    finish(wait::drained, why);
    finish(wait::readable);
    finish(wait::writable);
}

std::errc tcp_connection::failure() const noexcept { return tcb.error(); }

void tcp_connection::check_invariants() const {
    tcb.check_invariants();
    CW_ASSERT(reader_ == nullptr || tcb.readable() == 0, "a reader waits although there are bytes to read");
    const bool waits_for_frames = has_user_ && static_cast<const accept_hook&>(*this).linked();
    CW_ASSERT(!waits_for_frames || writer_ != nullptr, "frames are waited for, and nobody writes");
    CW_ASSERT(!erased_ || has_user_ || listener_ != nullptr, "a closed connection without a user must be deleted");
}

} // namespace corewire
