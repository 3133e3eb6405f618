// stream_socket's error queue (recvmsg(MSG_ERRQUEUE)): completions of MSG_ZEROCOPY (msg_zerocopy.rst) and the stamps of SO_TIMESTAMPING
// (timestamping.rst); and what else is looked at when the stack has done a moment's work.
#include <corewire/net/posix/stream_socket.hh>

#include <linux/net_tstamp.h>

namespace corewire::posix {

outcome stream_socket::set_timestamping(int flags) {
    const auto asked = static_cast<unsigned>(flags);
    constexpr unsigned known = (1u << 18) - 1;
    constexpr unsigned by_number = SOF_TIMESTAMPING_OPT_ID, from_here = 1u << 16; // SOF_TIMESTAMPING_OPT_ID_TCP
    if ((asked & ~known) != 0 || ((asked & from_here) != 0 && (asked & by_number) == 0)) return -EINVAL;
    if ((asked & by_number) != 0 && (settings_.timestamping & by_number) == 0) {
        if (connection() == nullptr || connection()->tcb.state() == tcp::tcp_state::closed) return -EINVAL;
        stamp_base_ = (asked & from_here) != 0 ? written_ : acknowledged();
    }
    settings_.timestamping = asked;
    return 0;
}

void stream_socket::add_stamp(unsigned kind, const stamped_write& w, time_point now, std::uint32_t size) {
    notice n{.at = now, .size = (w.flags & SOF_TIMESTAMPING_OPT_TSONLY) != 0 ? 0 : size};
    n.what.ee_errno = ENOMSG;
    n.what.ee_origin = SO_EE_ORIGIN_TIMESTAMPING;
    n.what.ee_info = kind;
    if ((w.flags & SOF_TIMESTAMPING_OPT_ID) != 0) n.what.ee_data = static_cast<std::uint32_t>(w.end - 1 - stamp_base_);
    notices_.push_back(n);
    ++notice_edges_;
}

void stream_socket::follow_up(time_point now) {
    tcp_connection* const c = connection();
    if (c == nullptr) return;
    if (!stamped_.empty()) {
        constexpr std::uint32_t headers = 40;
        const tcp::connection_info i = c->tcb.info();
        for (stamped_write& w : stamped_) {
            if (w.left || written_ - i.unsent < w.end) continue;
            w.left = true;
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
    if (fin_waits_ && !c->tcb.serving_early()) {
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
        ++notice_edges_;
        const bool joins = !notices_.empty() && notices_.back().what.ee_origin == SO_EE_ORIGIN_ZEROCOPY;
        if (joins && notices_.back().what.ee_data + 1 == id) {
            notices_.back().what.ee_data = id;
            continue;
        }
        notice n;
        n.what.ee_origin = SO_EE_ORIGIN_ZEROCOPY;
        n.what.ee_code = SO_EE_CODE_ZEROCOPY_COPIED;
        n.what.ee_info = n.what.ee_data = id;
        notices_.push_back(n);
    }
}

bool stream_socket::take_notice(notice& out) {
    settle_lent();
    if (notices_.empty()) return false;
    out = notices_.front();
    notices_.pop_front();
    return true;
}

} // namespace corewire::posix
