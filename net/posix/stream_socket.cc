#include <corewire/net/posix/parts.hh>
#include <corewire/net/posix/stream_socket.hh>

#include <algorithm>
#include <cstring>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <utility>

namespace corewire::posix {

namespace {

constexpr std::uint64_t edges_a_byte = 64; ///< of a connection: room for its state and what else happens once

/// Never left waiting.
struct read_now final : read_operation {};

} // namespace

stream_socket::stream_socket(network_stack& stack, int family, const stream_settings& settings, tcp_tuning base)
    : stack_(stack), family_(family), settings_(settings), base_(std::move(base)) {
    if (family == AF_INET6) bound_ = socket_address(ipv6::any(), 0);
}

stream_socket::stream_socket(network_stack& stack, const stream_socket& listener, const inheritance& from,
                             std::unique_ptr<stack_tcp_socket> made)
    : stack_(stack), family_(listener.family_), settings_(from.settings), base_(listener.base_), repair_(from.repair), kept_(from.kept),
      told_connected_(true), connection_(std::move(made)) {
    settings_.fast_open = settings_.priority = 0; // its listener's
    if (settings_.reflects_service) {
        settings_.type_of_service = connection()->tcb.options().type_of_service;
        settings_.traffic_class = connection()->tcb.options().traffic_class;
    }
    saved_syn_ = stack_.tcp().take_saved_syn(connection_->connection());
    apply_settings();
}

stream_socket::~stream_socket() {
    stop_listening();
    if (repair_.on && connection_ != nullptr) vanish();
}

/// TCP_REPAIR: the peer hears nothing of the end.
void stream_socket::vanish() {
    connection()->tcb.vanish();
    stack_.tcp().mark_dirty(*connection());
}

tcp_tuning stream_socket::tuning(bool opened_here) const {
    return [base = base_, own = settings_, opened_here](tcp::parameters& p) {
        if (base) base(p);
        own.apply(p, opened_here);
    };
}

void stream_socket::apply_settings() {
    if (listener_ != nullptr) {
        using enum tcp_listen_socket::syn_headers;
        listener_->set_tuning(tuning(false));
        listener_->defer_handshakes(host_times().like_linux() ? settings_.deferred_time_outs() : std::uint8_t{0});
        listener_->save_syns(settings_.save_syn == 0 ? none : settings_.save_syn == 2 && settings_.has_link_headers ? from_link : from_ip);
    }
    tcp_connection* const c = connection();
    if (c == nullptr) return;
    tcp_options_set options = settings_.for_backend();
    const tcp_options_set before = connection_->options();
    options.hops = before.hops; // these are below, for either family
    options.traffic_class = before.traffic_class;
    connection_->set_options(options);
    c->tcb.set_marking(static_cast<std::uint8_t>(settings_.type_of_service), static_cast<std::uint8_t>(settings_.traffic_class),
                       settings_.time_to_live_or_host(), settings_.hop_limit_or_host());
    c->tcb.set_least_hops(static_cast<std::uint8_t>(settings_.least_time_to_live), static_cast<std::uint8_t>(settings_.least_hop_limit));
    c->tcb.heed_path_reports(settings_.heeds_reports_v4(), settings_.heeds_reports(settings_.path_mtu_discovery6),
                             settings_.path_mtu_discovery == 0);
    stack_.tcp().on_marking_changed(*c);
    if (settings_.has_own_times()) {
        tcp::parameters times = host_times();
        settings_.apply_times(times);
        c->tcb.set_times(times);
    }
    // FreeBSD's don't grow, and hold the whole segments that the handshake has made of them.
    if (!settings_.like_freebsd) c->tcb.fix_buffers(settings_.receive_buffer_set, settings_.send_buffer_set);
    c->tcb.set_receive_memory(settings_.receive_buffer);
}

// ---- opening ----

outcome stream_socket::bind(const socket_address& at) {
    if (is_bound_ || connection_ != nullptr || listener_ != nullptr) return -EINVAL;
    if (settings_.ipv6_only && at.is_v4()) return -EINVAL;
    if (!may_be_local(at.net())) return -EADDRNOTAVAIL;
    bound_ = at;
    if (bound_.port == 0) bound_.port = stack_.tcp().choose_listen_port(0);
    is_bound_ = true;
    return 0;
}

bool stream_socket::may_be_local(const net_address& at) const {
    if (at.is_any()) return true;
    if (at.is_v4()) return at.v4() == stack_.address();
    const ipv6_output* const six = stack_.ip().six();
    return six != nullptr && six->addresses().is_claimed(at.v6());
}

net_address stream_socket::source_for(const net_address& remote) const {
    const net_address own = bound_.net();
    if (remote.is_v4()) return settings_.ipv6_only || !(own.is_v4() || own.is_any()) ? net_address() : net_address(stack_.address());
    if (!own.is_any()) return own.is_v4() ? net_address() : own;
    const ipv6_output* const six = stack_.ip().six();
    return six == nullptr ? net_address() : net_address(six->source_for(remote.v6()));
}

outcome stream_socket::connect(const socket_address& to) {
    if (listener_ != nullptr) return settings_.like_freebsd ? -EOPNOTSUPP : -EISCONN;
    if (connection_ != nullptr) {
        if (settings_.like_freebsd && !in_handshake()) {
            if (freebsd_closed()) static_cast<void>(take_error()); // soconnectat()
            return freebsd_closed() ? -ECONNREFUSED : -EISCONN;
        }
        if (told_connected_) return -EISCONN;
        return in_handshake() ? -EALREADY : handshake_result();
    }
    if (repair_.on) return -EOPNOTSUPP;
    pending_error_ = {};
    const bool fast = settings_.fast_open_connect && settings_.may_open_fast();
    const outcome r = begin_to_connect(to, fast);
    if (r != -EINPROGRESS || !deferred()) return r;
    told_connected_ = true; // the first write opens it
    return 0;
}

outcome stream_socket::dissolve() {
    const bool listened = listener_ != nullptr;
    if (listened) stop_listening();
    if (connection_ != nullptr) {
        const tcp::tcp_state s = connection()->tcb.state();
        // In CLOSING and LAST-ACK only what has not left is lost (tcp_disconnect()).
        const bool all_said = (s == tcp::tcp_state::closing || s == tcp::tcp_state::last_ack) && !connection()->tcb.fin_unsent();
        const bool over = s == tcp::tcp_state::closed || s == tcp::tcp_state::time_wait || (all_said && !settings_.like_freebsd);
        if (repair_.on) vanish();
        else connection_->abort();
        if (!over) pending_error_ = std::errc::connection_reset;
    }
    if (repair_.on && !listened) pending_error_ = std::errc::connection_aborted;
    forget_connection();
    return 0;
}

/// With all that the next one of this socket is not to take for its own.
void stream_socket::forget_connection() {
    settings_.interactive = false;
    if (!settings_.like_freebsd) { // tcp_disconnect()
        settings_.max_segment = settings_.window_clamp = 0;
        settings_.rto_min_us = settings_.delayed_ack_most_us = 0;
    }
    if (connection_ != nullptr && connection()->tcb.options().like_linux()) past_segment_ = segment_of(*connection());
    gather_notices(); // it is over: what it had borrowed comes home
    past_edges_ += edges_a_byte * (connection_ == nullptr ? 1 : connection()->tcb.info().bytes_received + 1);
    connection_.reset();
    told_connected_ = error_told_ = reading_shut_ = writing_shut_ = held_ = no_space_ = fin_waits_ = false;
    lent_.clear();
    stamped_.clear();
    buffers_.clear();
    saved_syn_.clear();
    written_ = turned_away_at_ = last_buffer_ = urgent_taken_ = 0;
    more_until_ = ~std::uint64_t{0};
    grown_send_ = known_path_mtu_ = 0;
}

outcome stream_socket::connect_and_send(const socket_address& to, std::span<const iovec> from, int flags, bool waits) {
    if (!settings_.may_open_fast()) return -EOPNOTSUPP;
    if (listener_ != nullptr) return -EISCONN;
    if (connection_ != nullptr && !deferred()) return told_connected_ ? -EISCONN : connect(to);
    if (connection_ == nullptr) {
        const outcome r = begin_to_connect(to, true);
        if (r != -EINPROGRESS || !deferred()) return r;
    }
    return send_with_syn(from, flags, waits);
}

outcome stream_socket::handshake_result() {
    if (in_handshake()) return -EAGAIN;
    if (peek_error() == std::errc{} && connection_ != nullptr && connection()->tcb.state() != tcp::tcp_state::closed) {
        told_connected_ = true;
        return 0;
    }
    const std::errc why = take_error();
    if (!settings_.like_freebsd) forget_connection(); // there a socket opens once
    return failed(why != std::errc{} ? why : std::errc::connection_aborted);
}

bool stream_socket::deferred() const {
    const tcp_connection* const c = connection();
    return c != nullptr && c->tcb.waits_for_data();
}

outcome stream_socket::begin_to_connect(const socket_address& to, bool fast) {
    tcp_options_set options = settings_.for_backend();
    options.fast_open = fast;
    const net_address from = source_for(to.net());
    if (from.is_any()) return -ENETUNREACH;
    try {
        tcp_connection& c = stack_.tcp().open({from, to.net(), is_bound_ ? bound_.port : std::uint16_t{0}, to.port}, options, tuning(true));
        connection_ = std::make_unique<stack_tcp_socket>(c);
        asked_segment_ = settings_.max_segment;
        if (awaits_writer()) c.tcb.expect_writer();
    } catch (const std::system_error& e) {
        return -e.code().value();
    }
    return -EINPROGRESS;
}

bool stream_socket::in_handshake() const {
    const tcp_connection* const c = connection();
    if (c == nullptr || c->tcb.serving_early()) return false;
    return c->tcb.state() == tcp::tcp_state::syn_sent || c->tcb.state() == tcp::tcp_state::syn_received;
}

// ---- errors ----

bool stream_socket::hears_soft_errors() const {
    const tcp_connection* const c = connection();
    return c != nullptr && (c->six == nullptr ? settings_.receive_errors : settings_.receive_errors6);
}

std::errc stream_socket::peek_error() const {
    if (pending_error_ != std::errc{}) return pending_error_;
    const tcp_connection* const c = connection();
    if (c == nullptr || error_told_) return {};
    if (c->tcb.error() != std::errc{} || !hears_soft_errors()) return c->tcb.error();
    return c->tcb.soft_error();
}

std::errc stream_socket::take_error() {
    const std::errc why = peek_error();
    pending_error_ = {};
    if (why == std::errc{}) return why;
    tcp_connection* const c = connection();
    if (c == nullptr) return why;
    if (c->tcb.error() == std::errc{}) c->tcb.take_soft_error();
    else error_told_ = true;
    return why;
}

// ---- data ----

outcome stream_socket::receive(std::span<const iovec> into, int flags) {
    if ((flags & MSG_ERRQUEUE) != 0) return -EAGAIN; // see take_notice()
    tcp_connection* const c = connection();
    if ((flags & MSG_OOB) != 0 && listener_ == nullptr) {
        if (c == nullptr || in_handshake()) return -EINVAL;
        return freebsd_closed() ? -ECONNRESET : take_urgent(*c, into, flags);
    }
    if (const std::optional<outcome> r = look_into_repaired(into, flags); r) return *r;
    if (c == nullptr) {
        if (const std::errc why = take_error(); why != std::errc{}) return failed(why);
        return reading_shut_ ? 0 : -ENOTCONN;
    }
    if (in_handshake()) {
        if (deferred() && !c->tcb.options().like_linux()) c->tcb.hurry_syn(), stack_.tcp().mark_dirty(*c); // Linux waits for a write
        return reading_shut_ && !settings_.like_freebsd ? 0 : -EAGAIN;
    }
    const bool peeks = (flags & MSG_PEEK) != 0;
    const std::uint32_t before_mark = before_next_mark(*c);
    const std::uint32_t from = peeks ? std::min(static_cast<std::uint32_t>(std::max(settings_.peek_offset, 0)), before_mark) : 0;
    const std::uint64_t wanted = total_size(into), there = std::min<std::uint64_t>(wanted, before_mark - from);
    const bool discards = (flags & MSG_TRUNC) != 0; // tcp(7)
    if (!discards && there > reachable_size(into)) return -EFAULT;
    std::uint64_t taken = 0;
    if (peeks) {
        taken = discards ? there : look_ahead(*c, from, into);
    } else {
        for (const iovec& v : into) {
            auto* at = static_cast<std::byte*>(v.iov_base);
            for (std::size_t left = v.iov_len; left != 0 && c->tcb.readable() != 0;) {
                read_now op;
                op.max_size = static_cast<std::uint32_t>(std::min<std::size_t>(left, UINT32_MAX));
                // A read does not cross the mark, which is the last urgent byte (tcp(7)).
                if (const std::uint32_t urgent = c->tcb.urgent_ahead(); urgent == 1 && taken != 0) break;
                else if (urgent > 1) op.max_size = std::min(op.max_size, urgent - 1);
                const bool skip = skips_mark(*c);
                if (skip) op.max_size = 1;
                if (!connection_->start_read(op)) {
                    connection_->cancel(op);
                    break;
                }
                if (skip) continue;
                if (!discards) std::memcpy(std::exchange(at, at + op.data.size()), op.data.data(), op.data.size());
                left -= op.data.size();
                taken += op.data.size();
            }
        }
    }
    move_peek_offset(peeks ? static_cast<std::int64_t>(taken) : -static_cast<std::int64_t>(taken));
    if (taken != 0 && !peeks) {
        c->tcb.acknowledge_read(stack_.tcp().now());
        stack_.tcp().mark_dirty(*c);
    }
    if (taken != 0 || (wanted == 0 && (c->tcb.readable() != 0 || settings_.like_freebsd))) return static_cast<outcome>(taken);
    const bool looked_at_all = from != 0 && from == c->tcb.readable();
    const bool mark_alone = c->tcb.readable() == 1 && skips_mark(*c);
    if (settings_.like_freebsd && peek_error() != std::errc{}) return failed(take_error()); // before the end, though a FIN had come
    if (c->tcb.at_end() || (tcp::at_or_after_fin(c->tcb.state()) && (looked_at_all || mark_alone))) return 0;
    if (const std::errc why = take_error(); why != std::errc{}) return failed(why);
    if (reading_shut_ || c->tcb.state() == tcp::tcp_state::closed) return 0;
    return -EAGAIN;
}

std::uint32_t stream_socket::before_next_mark(const tcp_connection& c) const {
    const std::uint32_t ahead = c.tcb.urgent_ahead(), end = ahead > 1 ? ahead - 1 : c.tcb.readable();
    return end - std::min<std::uint32_t>(end, skips_mark(c) ? 1 : 0);
}

void stream_socket::move_peek_offset(std::int64_t by) noexcept {
    int& offset = settings_.peek_offset;
    if (offset >= 0) offset = static_cast<int>(std::clamp<std::int64_t>(offset + by, 0, INT32_MAX));
}

std::uint32_t stream_socket::look_ahead(const tcp_connection& c, std::uint32_t from, std::span<const iovec> into) const {
    const std::uint32_t skipped = skips_mark(c) ? 1 : 0, start = skipped + from, end = skipped + before_next_mark(c);
    std::uint32_t at = start;
    for (const iovec& v : into) {
        if (at >= end) break;
        at += c.tcb.peek(at, {static_cast<std::byte*>(v.iov_base), std::min<std::size_t>(v.iov_len, end - at)});
    }
    return at - start;
}

std::uint32_t stream_socket::before_mark(const tcp_connection& c) const {
    const std::uint32_t here = c.tcb.readable(), ahead = c.tcb.urgent_ahead();
    return settings_.inline_urgent || ahead == 0 || ahead > here ? here : ahead - 1;
}

bool stream_socket::at_mark(const tcp_connection& c) const { return c.tcb.urgent_ahead() == 1; }

bool stream_socket::is_before_mark(std::uint64_t ahead) const {
    const tcp_connection* const c = connection();
    return c != nullptr && c->tcb.urgent_ahead() == ahead + 1;
}

outcome stream_socket::take_urgent(tcp_connection& c, std::span<const iovec> into, int flags) {
    const std::uint32_t ahead = c.tcb.urgent_ahead();
    if (settings_.inline_urgent || ahead == 0) return -EINVAL;
    const std::uint32_t here = c.tcb.readable();
    const std::uint64_t mark = c.tcb.info().bytes_received - here + ahead;
    if (mark == urgent_taken_) return -EINVAL;
    if (here < ahead) {
        const bool over = reading_shut_ || tcp::at_or_after_fin(c.tcb.state()) || c.tcb.state() == tcp::tcp_state::closed;
        return over && !settings_.like_freebsd ? 0 : -EAGAIN;
    }
    if ((flags & MSG_PEEK) == 0) urgent_taken_ = mark; // also if it cannot be copied, as there
    for (const iovec& v : into) {
        if (v.iov_len == 0) continue;
        if ((flags & MSG_TRUNC) != 0) return 1;
        return is_reachable(v) ? static_cast<outcome>(c.tcb.peek(ahead - 1, {static_cast<std::byte*>(v.iov_base), 1})) : -EFAULT;
    }
    return 0;
}

outcome stream_socket::shutdown(int how) {
    if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) return -EINVAL;
    if (listener_ != nullptr && settings_.like_freebsd) {
        if (how != SHUT_WR) pending_error_ = std::errc::connection_aborted; // for who accepts
        return -ENOTCONN;
    }
    if (listener_ != nullptr) {
        if (how == SHUT_WR) return 0;
        stop_listening();
        forget_connection(); // inet_shutdown(): tcp_disconnect()
        return 0;
    }
    tcp_connection* const c = connection();
    if (c == nullptr && !settings_.like_freebsd) { // ENOTCONN, and yet it holds for what is connected later (inet_shutdown())
        reading_shut_ |= how != SHUT_WR;
        writing_shut_ |= how != SHUT_RD;
    }
    if (c == nullptr || c->tcb.state() == tcp::tcp_state::closed) return -ENOTCONN;
    const bool over = settings_.like_freebsd && reading_shut_ && c->tcb.state() == tcp::tcp_state::fin_wait_2; // soisdisconnected()
    if (over || c->tcb.state() == tcp::tcp_state::time_wait) return -ENOTCONN;
    if (c->tcb.state() == tcp::tcp_state::syn_sent && !settings_.like_freebsd && !c->tcb.holds_early_data()) {
        connection_->abort();
        forget_connection();
        pending_error_ = std::errc::connection_reset;
        return 0;
    }
    if (how != SHUT_WR) {
        reading_shut_ = true;
        c->tcb.shutdown_receive();
    }
    if (how != SHUT_RD && (!writing_shut_ || !settings_.like_freebsd)) { // it may have been shut before there was anybody to tell
        writing_shut_ = true;
        fin_waits_ = c->tcb.serving_early() && c->tcb.options().like_linux();
        if (!fin_waits_) connection_->shutdown();
    }
    return 0;
}

bool stream_socket::unsent_at_close() const {
    const tcp_connection* const c = connection();
    if (c == nullptr || !settings_.linger || settings_.linger_time == 0 || repair_.on) return false;
    // Unread data makes the close a reset at once (RFC 2525 2.17), which has nothing to wait for; but not FreeBSD's.
    if (c->tcb.readable() != 0 && !settings_.like_freebsd) return false;
    const tcp::tcp_state s = c->tcb.state(); // our FIN has still to go, or to be acknowledged
    const bool nothing_yet = s == tcp::tcp_state::syn_sent && !c->tcb.holds_early_data();
    return s != tcp::tcp_state::closed && !nothing_yet && s != tcp::tcp_state::fin_wait_2 && s != tcp::tcp_state::time_wait;
}

bool stream_socket::may_send() const {
    const tcp_connection* const c = connection();
    return c != nullptr && (tcp::may_send(c->tcb.state()) || c->tcb.serving_early()) && !writing_shut_;
}

// ---- what holds now ----

bool stream_socket::urgent_is_untaken(const tcp::tcb& t) const {
    return urgent_taken_ == 0 || t.info().bytes_received - t.readable() + t.urgent_ahead() != urgent_taken_;
}

unsigned stream_socket::events() const {
    if (listener_ != nullptr) {
        const std::size_t waiting = acceptable(); // first: it parks what is ready
        return waiting != 0 || (!parks() && listener_->ready() != 0) ? POLLIN | POLLRDNORM : 0u;
    }
    const tcp_connection* const c = connection();
    if (settings_.like_freebsd) return freebsd_events();
    gather_notices();
    const unsigned error = peek_error() != std::errc{} || !notices_.empty() ? POLLERR : 0u;
    const unsigned shut = (reading_shut_ ? POLLIN | POLLRDNORM | POLLRDHUP : 0u) | (reading_shut_ && writing_shut_ ? POLLHUP : 0u);
    if (c == nullptr) return POLLOUT | POLLWRNORM | POLLHUP | shut | error;
    if (deferred()) return POLLOUT | POLLWRNORM | shut | error;
    if (in_handshake()) return shut | error;
    const tcp::tcb& t = c->tcb;
    const bool dead = t.state() == tcp::tcp_state::closed;
    const bool reading_over = dead || reading_shut_ || tcp::at_or_after_fin(t.state());
    const bool writing_over = dead || writing_shut_;
    unsigned e = error;
    if (reading_over && writing_over) e |= POLLHUP;
    if (reading_over) e |= POLLIN | POLLRDNORM | POLLRDHUP;
    if (t.readable() >= settings_.receive_low_water + skips_mark(*c)) e |= POLLIN | POLLRDNORM;
    // When the marked byte has come.
    if (const std::uint32_t ahead = t.urgent_ahead(); ahead != 0 && ahead <= t.readable() && urgent_is_untaken(t)) e |= POLLPRI;
    if (writing_over || may_write()) e |= POLLOUT | POLLWRNORM;
    if ((e & POLLOUT) != 0 && no_space_) {
        no_space_ = false;
        connection()->tcb.note_no_space(false);
        ++space_edges_;
    }
    return e;
}

void stream_socket::tell_writers() {
    if (settings_.like_freebsd || connection() == nullptr || (events() & POLLOUT) == 0) return;
    ++space_edges_;
}

std::uint64_t stream_socket::edges() const {
    static_cast<void>(events()); // notices that there is room again
    const std::uint64_t others = past_edges_ + space_edges_ * 1024 + notice_edges_ * (std::uint64_t{1} << 40);
    if (listener_ != nullptr) {
        const std::size_t waiting = acceptable();
        return others + listener_->arrivals() - (parks() ? listener_->ready() : 0) - (parked_.size() - waiting);
    }
    const tcp_connection* const c = connection();
    if (c == nullptr) return others + (reading_shut_ ? 16u : 0u);
    const tcp::connection_info i = c->tcb.info();
    return others + i.bytes_received * edges_a_byte + static_cast<std::uint64_t>(i.state) +
           (c->tcb.error() != std::errc{} ? 32u : 0u) + (reading_shut_ ? 16u : 0u);
}

socket_address stream_socket::local_address() const {
    if (connection_ != nullptr) return connection_->local_address();
    return bound_;
}

bool stream_socket::keeps_port() const noexcept {
    return is_bound_ || connection_ == nullptr || connection()->tcb.state() != tcp::tcp_state::closed;
}

int stream_socket::inquire() const {
    const tcp_connection* const c = connection();
    if (c == nullptr || in_handshake()) return 0;
    // A FIN counts, so that the reader comes for it.
    const bool reset = c->tcb.error() != std::errc{};
    return static_cast<int>(c->tcb.readable()) + (tcp::at_or_after_fin(c->tcb.state()) && !reset ? 1 : 0);
}

outcome stream_socket::ioctl(unsigned long request, int* value) {
    const tcp_connection* const c = connection();
    const bool of_queues = request == SIOCINQ || request == SIOCOUTQ || request == SIOCOUTQNSD;
    if (listener_ != nullptr && of_queues) return -EINVAL;
    // Linux says nothing until the handshake is done, though data may flow before (RFC 7413).
    const bool early = c != nullptr && c->tcb.serving_early() && c->tcb.options().like_linux();
    const bool silent = c == nullptr || in_handshake() || early;
    switch (request) {
    case SIOCINQ:
        *value = 0;
        if (!silent) *value = static_cast<int>(before_mark(*c));
        return 0;
    case SIOCOUTQ: *value = silent ? 0 : static_cast<int>(c->tcb.queued_numbers()); return 0;
    case SIOCATMARK: *value = c != nullptr && !in_handshake() && at_mark(*c) ? 1 : 0; return 0;
    case SIOCGSTAMP: // no time is kept for these
    case SIOCGSTAMPNS: return -ENOENT;
    case SIOCOUTQNSD: *value = silent ? 0 : static_cast<int>(unsent() + c->tcb.fin_unsent()); return 0;
    default: return -ENOTTY;
    }
}

} // namespace corewire::posix
