// What a stream_socket is given to send: with the SYN, and once it is connected.
#include <corewire/net/posix/parts.hh>
#include <corewire/net/posix/stream_socket.hh>

#include <algorithm>
#include <linux/net_tstamp.h>

namespace corewire::posix {

namespace {

/// Never left waiting.
struct write_now final : write_operation {};

} // namespace

std::uint64_t stream_socket::write_at_once(std::span<const iovec> from, std::uint64_t most) {
    std::uint64_t taken = 0;
    for (const iovec& v : from) {
        if (v.iov_len == 0 || taken == most) continue;
        write_now op;
        op.borrowed = {static_cast<const std::byte*>(v.iov_base), std::min<std::size_t>(v.iov_len, most - taken)};
        const std::size_t wanted = op.borrowed.size();
        if (!connection_->start_write(op)) connection_->cancel(op);
        if (op.error != std::errc{}) break;
        taken += wanted - op.borrowed.size();
    }
    written_ += taken;
    return taken;
}

outcome stream_socket::send_with_syn(std::span<const iovec> from, int flags, bool waits) {
    tcp_connection& c = *connection();
    // What does not go along is the caller's still; and if nothing can be copied, it asks for a cookie (tcp_send_syn_data()).
    const std::uint64_t most = std::min<std::uint64_t>(c.tcb.fast_open_room(), reachable_size(from));
    if (most == 0 && total_size(from) != 0) c.tcb.ask_for_cookie();
    const std::uint64_t taken = write_at_once(from, most);
    c.tcb.hurry_syn();
    if (!settings_.like_freebsd) told_connected_ = false; // connect() tells how its handshake goes from here on
    if (taken != 0 && (!waits || taken == total_size(from))) end_write(flags, 0, taken);
    stack_.tcp().mark_dirty(c);
    return taken != 0 ? static_cast<outcome>(taken) : -EINPROGRESS;
}

/// IP_PMTUDISC_DONT: what ICMP has said of the path counts from here on.
void stream_socket::fit_into_path(tcp_connection& c) {
    known_path_mtu_ = path_mtu(c);
    if (known_path_mtu_ < c.tcb.packet_size()) c.tcb.fit_into_path(known_path_mtu_);
}

void stream_socket::end_write(int flags, int stamps, std::uint64_t taken) {
    const tcp_connection* const c = connection();
    if (c == nullptr) return;
    if (settings_.zero_copy && (flags & MSG_ZEROCOPY) != 0) lent_.push_back({next_lent_++, written_});
    constexpr unsigned known_stamps = SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_TX_ACK;
    const unsigned wanted = stamps < 0 ? settings_.timestamping : (settings_.timestamping & ~known_stamps) | static_cast<unsigned>(stamps);
    if ((wanted & known_stamps) == 0 || stamped_.size() >= most_lent) return;
    const std::uint64_t buffer = c->tcb.options().like_linux() ? std::max<std::uint64_t>(written_ - last_buffer_, 1) : taken;
    stamped_.push_back({written_, wanted, static_cast<std::uint32_t>((buffer - 1) % c->tcb.segment_payload() + 1), false});
}

outcome stream_socket::send(std::span<const iovec> from, int flags, int stamps, bool waits) {
    tcp_connection* const c = connection();
    if (c == nullptr) {
        if (const std::errc why = take_error(); why != std::errc{}) return failed(why);
        return settings_.like_freebsd ? -ENOTCONN : -EPIPE;
    }
    if (deferred() && !repair_.on) return send_with_syn(from, flags, waits);
    if (in_handshake()) {
        if (waits) c->tcb.expect_writer();
        return !settings_.like_freebsd ? -EAGAIN : writing_shut_ ? -EPIPE : -ENOTCONN;
    }
    if (settings_.like_freebsd && c->tcb.state() == tcp::tcp_state::closed) return -EPIPE; // SO_ERROR and read() tell why
    if (const std::errc why = take_error(); why != std::errc{}) return failed(why);
    if (writing_shut_ || c->tcb.state() == tcp::tcp_state::closed) return -EPIPE;
    if (repair_.on) return repair_.queue == 0 ? -EINVAL : -EOPNOTSUPP;
    const bool follows_linux = c->tcb.options().like_linux();
    if (c->tcb.options().shrinks_later && c->six == nullptr) fit_into_path(*c);
    const std::uint64_t size = total_size(from), reachable = reachable_size(from);
    const auto room_now = [&](std::uint64_t taken, bool pushes) {
        if (follows_linux) return room_in_buffers(taken, pushes);
        const auto too_little = [&](std::uint32_t free) { return free < size - taken && free < settings_.send_low_water; };
        if (settings_.like_freebsd && too_little(c->tcb.writable())) return std::uint64_t{0}; // sosend_generic()
        return room_below_mark();
    };
    // What one buffer takes is copied whole or not at all (skb_copy_to_page_nocache()).
    const auto faults = [&](std::uint64_t taken, std::uint64_t room) {
        if (!follows_linux) room = std::min<std::uint64_t>(room, c->tcb.writable());
        return room != 0 && taken + std::min(room, size - taken) > reachable;
    };
    if (reachable != size && faults(0, room_now(0, false))) return -EFAULT;
    if (const bool hold = settings_.cork || (flags & MSG_MORE) != 0; hold != held_) {
        held_ = hold;
        c->tcb.set_cork(hold);
        stack_.tcp().mark_dirty(*c);
    }
    c->tcb.begin_write((flags & MSG_MORE) != 0);
    const bool lends = settings_.zero_copy && (flags & MSG_ZEROCOPY) != 0;
    if (lends && lent_.size() >= most_lent) return -ENOBUFS;
    std::uint64_t taken = 0;
    std::errc why{};
    bool full = false, filled = false, unreachable = false;
    constexpr std::size_t most_pieces = 17; // MAX_SKB_FRAGS: so many pages are one buffer of Linux's queue, and a segment ends with it
    for (std::size_t i = 0; i < from.size() && !full && !unreachable && why == std::errc{}; ++i) {
        if (lends && i != 0 && i % most_pieces == 0) c->tcb.end_record();
        const auto* at = static_cast<const std::byte*>(from[i].iov_base);
        for (std::size_t left = from[i].iov_len; left != 0 && !full && why == std::errc{};) {
            const std::uint64_t buffer = last_buffer_, room = room_now(taken, filled);
            unreachable = faults(taken, room);
            if (unreachable) {
                if (std::exchange(last_buffer_, buffer) != buffer) buffers_.pop_back(); // that was begun for it
                break;
            }
            const std::size_t step = std::min<std::uint64_t>(left, room);
            filled |= step < left && step != 0;
            write_now op;
            op.borrowed = {at, step};
            full = step == 0 || !connection_->start_write(op);
            if (full && step != 0) connection_->cancel(op);
            const std::size_t n = step - op.borrowed.size();
            why = op.error;
            at += n;
            left -= n;
            taken += n;
        }
    }
    written_ += taken;
    if (taken != 0 && (!waits || taken == size)) end_write(flags, stamps, taken);
    more_until_ = held_ && !settings_.cork ? acknowledged() : ~std::uint64_t{0};
    if (why != std::errc{}) return taken != 0 ? static_cast<outcome>(taken) : failed(why);
    if (full) {
        no_space_ = true;
        turned_away_at_ = acknowledged();
        c->tcb.note_no_space(true);
        stack_.tcp().mark_dirty(*c);
    }
    if (taken != 0 && (flags & (MSG_EOR | MSG_OOB)) != 0) {
        if ((flags & MSG_EOR) != 0 && taken == size) c->tcb.end_record();
        if ((flags & MSG_OOB) != 0) {
            c->tcb.set_urgent();
            stack_.tcp().mark_dirty(*c);
        }
    }
    if (taken != 0 || size == 0) return static_cast<outcome>(taken);
    return -EAGAIN;
}

} // namespace corewire::posix
