// stream_socket's error queue (recvmsg(MSG_ERRQUEUE)): completions of MSG_ZEROCOPY (msg_zerocopy.rst), the stamps of SO_TIMESTAMPING
// (timestamping.rst) and what ICMP said of an attempt to open; and what else is looked at when the stack has done a moment's work.
#include <corewire/net/posix/stream_socket.hh>

#include <linux/net_tstamp.h>

namespace corewire::posix {

outcome stream_socket::set_timestamping(int flags) {
    const auto asked = static_cast<unsigned>(flags);
    constexpr unsigned known = (1u << 19) - 1;
    constexpr unsigned by_number = SOF_TIMESTAMPING_OPT_ID, from_here = 1u << 16; // SOF_TIMESTAMPING_OPT_ID_TCP
    constexpr unsigned with_statistics = SOF_TIMESTAMPING_OPT_STATS, without_packet = SOF_TIMESTAMPING_OPT_TSONLY;
    if ((asked & ~known) != 0 || ((asked & from_here) != 0 && (asked & by_number) == 0)) return -EINVAL;
    if ((asked & with_statistics) != 0 && (asked & without_packet) == 0) return -EINVAL;
    if ((asked & by_number) != 0 && (settings_.timestamping & by_number) == 0) {
        if (connection() == nullptr || connection()->tcb.state() == tcp::tcp_state::closed) return -EINVAL;
        stamp_base_ = (asked & from_here) != 0 ? written_ : acknowledged();
    }
    constexpr unsigned bind_clock = 1u << 15; // SOF_TIMESTAMPING_BIND_PHC: of a device, which has none
    if ((asked & bind_clock) != 0) return -EOPNOTSUPP;
    settings_.timestamping = asked;
    return 0;
}

void stream_socket::add_stamp(unsigned kind, const stamped_write& w, time_point now, std::uint32_t size) {
    notice n{.at = now, .size = (w.flags & SOF_TIMESTAMPING_OPT_TSONLY) != 0 ? 0 : size};
    if (n.size != 0) n.cost += w.size;
    // Of a packet that has been at a device, sockets of IPv6 are told from where it is (ip6_datagram_support_cmsg()).
    if (family_ == AF_INET6 && n.size != 0 && kind != SCM_TSTAMP_ACK) n.offender = connection()->name().local;
    n.what.ee_errno = ENOMSG;
    n.what.ee_origin = SO_EE_ORIGIN_TIMESTAMPING;
    n.what.ee_info = kind;
    if ((w.flags & SOF_TIMESTAMPING_OPT_ID) != 0) n.what.ee_data = static_cast<std::uint32_t>(w.end - 1 - stamp_base_);
    if (has_room_for(n)) keep(std::move(n));
}

/// What nobody reads is not kept for ever (sock_queue_err_skb()). Completions, which join each other, are kept in any case.
bool stream_socket::has_room_for(const notice& n) const {
    return notices_cost_ + n.cost < grown(settings_.receive_buffer, &tcp::connection_info::receive_buffer);
}

void stream_socket::keep(notice&& n) const {
    notices_cost_ += n.cost;
    notices_.push_back(std::move(n));
    ++notice_edges_;
}

/// The last byte has left, or left again, since this was last asked: each copy of a packet is stamped.
bool stream_socket::leaves_anew(stamped_write& w, std::uint32_t unsent) const {
    if (written_ - unsent < w.end) return false;
    if (!std::exchange(w.left, true)) return true;
    if (w.end <= acknowledged()) return false;
    const time_point again = connection()->tcb.resent_at(static_cast<std::uint32_t>(w.end - 1 - acknowledged()));
    return again > std::exchange(w.again, std::max(again, w.again));
}

void stream_socket::follow_up(time_point now) {
    tcp_connection* const c = connection();
    if (c == nullptr) return;
    if (!stamped_.empty()) {
        const std::uint32_t headers = c->tcb.packet_size() - c->tcb.segment_payload() + (c->six == nullptr ? 0 : 20);
        const tcp::connection_info i = c->tcb.info();
        for (stamped_write& w : stamped_) {
            if (!leaves_anew(w, i.unsent)) continue;
            if ((w.flags & SOF_TIMESTAMPING_TX_SCHED) != 0) add_stamp(SCM_TSTAMP_SCHED, w, now, headers + w.size);
            if ((w.flags & SOF_TIMESTAMPING_TX_SOFTWARE) != 0) add_stamp(SCM_TSTAMP_SND, w, now, headers + w.size);
        }
        const bool lives = c->tcb.state() != tcp::tcp_state::closed;
        while (lives && !stamped_.empty() && stamped_.front().end <= acknowledged()) {
            const stamped_write w = stamped_.front();
            stamped_.pop_front();
            if ((w.flags & SOF_TIMESTAMPING_TX_ACK) != 0) add_stamp(SCM_TSTAMP_ACK, w, now, w.size);
        }
    }
    if (fin_waits_ && c->tcb.state() != tcp::tcp_state::syn_received) {
        fin_waits_ = false;
        connection_->shutdown();
    }
    // What MSG_MORE held goes with the next ACK in any case; and TCP_NODELAY pushes past a cork what there was, no more.
    const bool acked = more_until_ != ~std::uint64_t{0} && acknowledged() != more_until_;
    if (uncorked_ || acked) {
        uncorked_ = false;
        more_until_ = ~std::uint64_t{0};
        held_ = settings_.cork;
        c->tcb.set_cork(settings_.cork);
        stack_.tcp().mark_dirty(*c);
    }
}

void stream_socket::settle_lent() const {
    const tcp_connection* const c = connection();
    if (c == nullptr || lent_.empty()) return;
    const bool over = c->tcb.state() == tcp::tcp_state::closed;
    while (!lent_.empty() && (over || lent_.front().end <= acknowledged())) {
        const std::uint32_t id = lent_.front().id;
        lent_.pop_front();
        const bool joins = !notices_.empty() && notices_.back().what.ee_origin == SO_EE_ORIGIN_ZEROCOPY;
        if (joins && notices_.back().what.ee_data + 1 == id) {
            notices_.back().what.ee_data = id;
            ++notice_edges_;
            continue;
        }
        notice n;
        n.what.ee_origin = SO_EE_ORIGIN_ZEROCOPY;
        n.what.ee_code = SO_EE_CODE_ZEROCOPY_COPIED;
        n.what.ee_info = n.what.ee_data = id;
        keep(std::move(n));
    }
}

namespace {

/// As the message had it on the wire.
std::uint8_t icmp_type_of(const icmp_report& r) noexcept {
    const bool four = r.local.is_v4();
    switch (r.kind) {
    case icmp_error_kind::time_exceeded: return four ? 11 : 3;
    case icmp_error_kind::parameter_problem: return four ? 12 : 4;
    case icmp_error_kind::protocol_unreachable: return four ? 3 : 4; // ICMPv6: an unknown next header
    default: return four ? 3 : 1;
    }
}

} // namespace

/// Linux's habit: whatever ICMP says of an attempt to open is queued, over IPv6 if IPV6_RECVERR asks for it (ipv6_icmp_error()).
void stream_socket::hear_report() const {
    const tcp_connection* const c = connection();
    if (c == nullptr || c->tcb.state() != tcp::tcp_state::closed) return;
    std::optional<opening_report> said = stack_.tcp().take_report(*c);
    if (!said || (c->six != nullptr && !settings_.receive_errors6)) return;
    const icmp_report& r = said->what;
    notice n;
    n.what.ee_errno = static_cast<std::uint32_t>(said->error);
    n.what.ee_origin = r.local.is_v4() ? SO_EE_ORIGIN_ICMP : SO_EE_ORIGIN_ICMP6;
    n.what.ee_type = icmp_type_of(r);
    n.what.ee_code = r.code;
    if (!r.local.is_v4()) n.what.ee_info = r.rest;
    else if (r.kind == icmp_error_kind::parameter_problem) n.what.ee_info = r.rest >> 24; // the pointer
    n.size = static_cast<std::uint32_t>(said->quoted.size());
    n.cost += n.size;
    n.packet = std::move(said->quoted);
    n.about = socket_address(r.remote, r.remote_port);
    n.offender = r.reporter;
    if (has_room_for(n)) keep(std::move(n));
}

void stream_socket::forget_reports() {
    gather_notices();
    for (const notice& n : notices_)
        if (n.icmp()) notices_cost_ -= n.cost;
    std::erase_if(notices_, [](const notice& n) { return n.icmp(); });
}

void stream_socket::gather_notices() const {
    settle_lent();
    hear_report();
}

bool stream_socket::take_notice(notice& out) {
    gather_notices();
    if (notices_.empty()) return false;
    out = std::move(notices_.front());
    notices_.pop_front();
    notices_cost_ -= out.cost;
    if (!notices_.empty()) ++notice_edges_; // there is another
    // The error of a message that was read is not SO_ERROR's any more (sock_dequeue_err_skb()).
    if (out.icmp() && (notices_.empty() || !notices_.front().icmp())) static_cast<void>(take_error());
    return true;
}

} // namespace corewire::posix
